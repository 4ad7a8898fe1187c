"""A study from nothing: every site makes its key, one of them packs kits of public files."""

import re
import zipfile
from pathlib import Path

import networkx as nx
import pytest

import dual2 as d2
from dual2.cli import main
from dual2.errors import Dual2Error
from dual2.learn.vertical.party_file import read_learn_party
from dual2.learn.vertical.stages import run_stages
from dual2.parties.party import read_party
from dual2.parties.provisioning import add_party, begin_study
from learning_offices import Offices, done, make_world, write_csv
from party_offices import free_ports, lasso

NAMES: list[str] = ["hospital", "lab", "insurer"]


def command(*line: object) -> int:
    """The exit code of a command."""
    with pytest.raises(SystemExit) as ended:
        main([*map(str, line)])
    return int(ended.value.code or 0)


def make_sites(folder: Path, names=NAMES) -> None:
    """A folder for each site, with its own key and certificate."""
    for name in names:
        assert command("certificates", "create", name, "--out", folder / name) == 0


def unpack(folder: Path, name: str) -> Path:
    with zipfile.ZipFile(folder / "study" / "kits" / f"{name}.zip") as archive:
        assert not [one for one in archive.namelist() if one.endswith(".key")]
        archive.extractall(folder / name)
    return folder / name / "party.toml"


def test_three_sites_learn_together_with_the_kits_of_one(tmp_path):
    """Only the first one listens: the others have outbound connections alone."""
    make_sites(tmp_path)
    study, world = tmp_path / "study", make_world()
    assert command("study", "new", study, "--holder", "hospital", "--id", "patient") == 0
    port = free_ports(1)[0]
    for name in NAMES:
        where = ["--address", f"127.0.0.1:{port}"] if name == "hospital" else []
        assert command("study", "add", study, tmp_path / name / f"{name}.pem", *where) == 0
    assert command("study", "pack", study) == 0
    for name in NAMES:
        file = unpack(tmp_path, name)
        text = file.read_text().replace('label = "label"', f'label = "{world.label}"')
        assert ("listen" in text) == (name == "hospital")
        text += "".join(f"{k} = {v}\n" for k, v in world.columns[name].items())
        file.write_text(text)
        write_csv(tmp_path / name / "table.csv", world.tables[name])
    offices = Offices.__new__(Offices)
    offices.folder, offices.names = tmp_path, NAMES
    models = done(offices.everyone(lambda own: run_stages(own, None, "1", lambda text: None)))
    assert {model.about["status"] for model in models.values()} == {"CONVERGED"}


def test_a_kit_says_what_is_missing(tmp_path):
    make_sites(tmp_path)
    study = tmp_path / "study"
    command("study", "new", study, "--holder", "hospital")
    for name in NAMES:
        add_party(study, tmp_path / name / f"{name}.pem", address=f"{name}.example")
    assert command("study", "pack", study) == 0
    with pytest.raises(Dual2Error, match=r"table\.columns is empty"):
        read_learn_party(unpack(tmp_path, "lab"))
    assert 'address = "hospital.example:7443"' in (tmp_path / "lab" / "party.toml").read_text()


def test_a_study_of_a_problem_has_kits_with_its_public_files(tmp_path):
    make_sites(tmp_path)
    network = d2.Network(nx.path_graph(3))
    d2.save_problem(tmp_path / "whole", lasso(3), network, {"method": "Newton"})
    study = tmp_path / "study"
    assert command("study", "new", study, "--problem", tmp_path / "whole", "--matrices") == 0
    for name in NAMES:
        add_party(study, tmp_path / name / f"{name}.pem", address=f"{name}.example:7001")
    assert command("study", "pack", study) == 0
    parties = [read_party(unpack(tmp_path, name)) for name in NAMES]
    assert len({party.study.digest for party in parties}) == 1
    addresses = [{one.name: one.address for one in party.neighbours} for party in parties]
    assert addresses[1] == {"hospital": ("hospital.example", 7001), "insurer": None}
    assert parties[1].listen == ("0.0.0.0", 7001) and parties[2].listen is None
    assert not [one for one in (tmp_path / "lab").rglob("*.npz") if "agents" in one.parts]


def test_a_key_in_the_file_of_a_certificate_is_not_passed_on(tmp_path):
    make_sites(tmp_path, ["lab"])
    file = tmp_path / "lab" / "lab.pem"
    file.write_text((tmp_path / "lab" / "lab.key").read_text() + file.read_text())
    begin_study(tmp_path / "study", 'run = "trial"\n')
    assert add_party(tmp_path / "study", file) == "lab"
    for one in (tmp_path / "study").iterdir():
        assert "PRIVATE" not in one.read_text()


def test_a_party_is_added_once_and_only_to_a_study(tmp_path):
    make_sites(tmp_path, ["lab"])
    pem = tmp_path / "lab" / "lab.pem"
    study = tmp_path / "study"
    assert command("study", "add", study, pem) == 2
    assert command("study", "pack", study) == 2
    assert command("study", "new", study) == 2
    assert command("study", "new", study, "--holder", "lab") == 0
    assert command("study", "new", study, "--holder", "lab") == 2
    before = (study / "study.toml").read_text()
    for refused in ("lab:port", ":7443", "lab:0"):
        assert command("study", "add", study, pem, "--address", refused) == 2
    assert command("study", "add", study, pem, "--name", "../lab") == 2
    assert (study / "study.toml").read_text() == before
    assert command("study", "add", study, pem) == 0
    assert command("study", "add", study, pem) == 2
    assert command("study", "add", study, pem, "--name", "other") == 2


def test_an_own_certificate_is_no_authority(tmp_path, capsys):
    make_sites(tmp_path, ["lab"])
    printed = re.findall(r"[0-9a-f]{64}", capsys.readouterr().out)
    assert command("certificates", "show", tmp_path / "lab" / "lab.pem") == 0
    assert f"fingerprint  {printed[0]}" in capsys.readouterr().out
    from dual2.runtime.peers.identity import parse_certificate, read_certificate

    found = parse_certificate(read_certificate(tmp_path / "lab" / "lab.pem"))
    from cryptography.x509 import BasicConstraints

    assert not found.extensions.get_extension_for_class(BasicConstraints).value.ca
    assert (tmp_path / "lab" / "lab.key").stat().st_mode & 0o077 == 0
