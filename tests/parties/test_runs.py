"""Whole runs: a process, a folder and a certificate for each party, and what the commands say."""

import configparser
import json
import os
import shutil
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

import dual2 as d2
from dual2.cli import main
from dual2.errors import Dual2Error
from dual2.parties.checking import check_party
from dual2.parties.opening import make_transport, open_manager
from dual2.parties.party import read_party
from dual2.parties.session import run_party
from dual2.parties.study import read_study
from dual2.runtime.peers.identity import make_trial
from dual2.runtime.peers.journal import Journal
from party_offices import Offices, bits, lasso, loopback_hosts


@pytest.fixture
def make(tmp_path):
    made = []

    def build(n: int, method: str = "Newton", where: str = "run", **more) -> Offices:
        network = d2.Network(nx.path_graph(n))
        options = {"method": method, "tol": 1e-8} | more.pop("options", {})
        made.append(Offices(tmp_path / where, lasso(n), network, options, **more))
        return made[-1]

    yield build
    for offices in made:
        offices.close()


def in_process(n: int, method: str = "Newton", tol: float = 1e-8) -> list:
    network = d2.Network(nx.path_graph(n))
    result = d2.solve(lasso(n), network, method=method, sums="exact", record=False, tol=tol)
    public = json.loads(json.dumps(result.as_dict()))
    return bits([public | {"x": x.tolist()} for x in result.x])


def announce_renewal(offices: Offices, i: int) -> None:
    """A next key and certificate of party i, which the study of all parties names."""
    name = offices.names[i]
    found = make_trial(offices.folder / "renewed", [name])[name]
    entry = f'certificate = "{name}.pem"\n'
    more = f'next_certificate = "{name}-next.pem"\nnext_fingerprint = "{found}"\n'
    for other in offices.names:
        own = offices.folder / other
        shutil.copy(offices.folder / "renewed" / f"{name}.pem", own / f"{name}-next.pem")
        study = own / "study.toml"
        study.write_text(study.read_text().replace(entry, entry + more))
    shutil.copy(offices.folder / "renewed" / f"{name}.key", offices.folder / name / "next.key")


def renew(offices: Offices, i: int) -> None:
    """From now on party i uses them."""
    file, name = offices.file(i), offices.names[i]
    text = file.read_text().replace(f'key = "{name}.key"', 'key = "next.key"')
    file.write_text(text.replace(f'"{name}.pem"', f'"{name}-next.pem"'))


def test_three_parties_answer_with_the_bits_of_one_process(make):
    """... although one is killed on the way and another one stopped for a while.

    The one that was killed returns with its next key and certificate.
    """
    offices = make(3)
    announce_renewal(offices, 1)
    for i in range(2):
        offices.start(i)
    offices.start(2, python=(sys.executable,))  # it will be stopped
    journal = offices.folder / "party1" / "state" / "journal"
    while offices.processes[1].poll() is None:  # beside busy programs it may be over unseen
        with suppress(FileNotFoundError):
            if journal.stat().st_size > 5_000:
                break
        time.sleep(0.005)
    offices.processes[2].send_signal(signal.SIGSTOP)
    offices.processes[1].kill()
    offices.processes[1].communicate()
    offices.processes[2].send_signal(signal.SIGCONT)
    renew(offices, 1)
    offices.start(1, "--resume")
    for i in range(3):
        code, said = offices.wait(i)
        assert code == 0, said
    assert bits([offices.answer(i) for i in range(3)]) == in_process(3)
    state = offices.folder / "party0" / "state"
    assert not (state / "journal").exists() and not (state / "mask.key").exists()
    check_what_is_logged(offices)


def check_what_is_logged(offices: Offices) -> None:
    """Kinds and sizes in the log, no private number anywhere; the commands read it."""
    for i, name in enumerate(offices.names):
        agent = lasso(3).agents[i]
        text = (offices.folder / name / "state" / "audit.jsonl").read_text()
        events = [json.loads(line)["event"] for line in text.splitlines()]
        assert events[0] == "start" and "sum" in events and "link_up" in events
        assert not [v for v in np.asarray(agent.A).ravel() if repr(float(v))[:8] in text]
        with pytest.raises(SystemExit) as end:
            main(["party", "audit", str(offices.folder / name / "state")])
        assert end.value.code == 0
        with pytest.raises(SystemExit) as end:
            main(["party", "status", str(offices.file(i))])
        assert end.value.code == 0
    status = run_party(read_party(offices.file(0)), resume=True, report=lambda text: None)
    assert status == d2.Status.CONVERGED
    with pytest.raises(Dual2Error, match="a run that is over"):
        run_party(read_party(offices.file(0)))


def run_in_threads(offices: Offices) -> list[str]:
    """Let all parties take part, as threads of this process; what each said."""
    said: list[list[str]] = [[] for _ in range(offices.n)]
    with ThreadPoolExecutor(offices.n) as pool:
        runs = [
            pool.submit(run_party, read_party(offices.file(i)), report=said[i].append)
            for i in range(offices.n)
        ]
        assert [run.result(300) for run in runs] == [d2.Status.CONVERGED] * offices.n
    return ["\n".join(lines) for lines in said]


def test_five_parties_answer_with_the_bits_of_one_process(make):
    """Each has a folder, an address and a port of its own."""
    offices = make(5, hosts=loopback_hosts(5))
    run_in_threads(offices)
    answers = [offices.answer(i) for i in range(5)]
    assert bits(answers) == in_process(5)
    network = d2.Network(nx.path_graph(5))
    here = d2.solve(lasso(5), network, method="Newton", sums="exact", record=False)
    found = [d2.Counts(**one["counts"]).latency for one in answers]
    assert found == [here.counts.latency] * 5


def test_a_gossip_method_runs_between_parties(make):
    """Two parties, iD2A, no masks: both say what that shows."""
    offices = make(2, "iD2A", sums="{ masked = false }", options={"tol": 1e-2})
    for said in run_in_threads(offices):
        assert "Sums are not masked" in said
        assert "iD2A sends vectors to neighbours, which are not masked" in said
    assert bits([offices.answer(i) for i in range(2)]) == in_process(2, "iD2A", 1e-2)


def test_an_operator_ends_the_run_of_all(make):
    """Ctrl-C at one of two that wait for a third; the other learns who ended it."""
    offices = make(3)
    for i in (0, 1):
        offices.start(i)
    logs = [offices.folder / f"party{i}" / "state" / "audit.jsonl" for i in (0, 1)]
    while not all(log.exists() and '"link_up"' in log.read_text() for log in logs):
        assert all(process.poll() is None for process in offices.processes.values())
        time.sleep(0.01)
    offices.processes[1].send_signal(signal.SIGINT)
    assert offices.wait(1)[0] == 130
    code, said = offices.wait(0)
    assert code == 4 and "party1 was stopped by its operator: the run is over for all" in said


def test_a_party_that_never_comes_is_named(make, capsys):
    offices = make(3, extra="patience = 0.3\n")
    with pytest.raises(SystemExit) as end:
        main(["party", "run", str(offices.file(2))])
    assert end.value.code == 4
    said = capsys.readouterr().err
    assert "party1 (127.0.0.1:" in said and "was unreachable for 0.3 s" in said
    with pytest.raises(SystemExit) as end:
        main(["party", "check", str(offices.file(2)), "--seconds", "1"])
    found = capsys.readouterr().out
    assert end.value.code == 4 and "NO  party1:" in found and "ok  data:" in found


# -- files that are wrong --------------------------------------------------------------------------
CHANGES = {
    "unknown entry": ("party.toml", 'state = "state"', 'stato = "state"', "Unknown entry 'stato'"),
    "missing": ("party.toml", 'state = "state"\n', "", "lacks state"),
    "unknown name": ("party.toml", 'name = "party1"', 'name = "lab"', "Unknown party 'lab'"),
    "address": ("party.toml", 'address = "127.0.0.1:', 'address = "', "expected host:port"),
    "page": ("party.toml", "listen", 'status = "0.0.0.0:1"\nlisten', "for loopback only"),
    "fingerprint": ("study.toml", 'fingerprint = "', 'fingerprint = "00', "the study says 00"),
    "renewal": (
        "study.toml",
        'certificate = "',
        'next_fingerprint = "00"\ncertificate = "',
        "needs both of next_certificate and next_fingerprint",
    ),
    "two": ("study.toml", "masked = true", "masked = 1", "masked is 1; expected bool"),
    "matrices": ("study.toml", "matrices = true", "matrices = false", "sums p × p matrices"),
    "carrier": ("study.toml", 'carrier = "tls"', 'carrier = "http"', "Unknown carrier 'http'"),
    "path": ("study.toml", 'certificate = "', 'certificate = "../', "expected a name beside"),
    "folder": (
        "study.toml",
        'problem = "',
        'problem = "/',
        "problem is '/problem'; expected a name",
    ),
    "sync": (
        "party.toml",
        'state = "state"',
        'state = "state"\nsync = 0',
        "sync is 0; expected bool",
    ),
    "run": ("study.toml", 'run = "test"', 'run = "a b"', "run is 'a b'"),
    "method": ("problem/problem.toml", "Newton", "auto", "names no method"),
    "limit": (
        "problem/problem.toml",
        "[options]",
        "[options]\ntime_limit = 3",
        "options.time_limit",
    ),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Offices:
    network = d2.Network(nx.path_graph(3))
    folder = tmp_path_factory.mktemp("files")
    return Offices(folder / "run", lasso(3), network, {"method": "Newton"})


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_wrong_in_a_file_is_named(files, name):
    file, old, new, words = CHANGES[name]
    path = files.folder / "party1" / file
    text = path.read_text()
    assert old in text
    try:
        path.write_text(text.replace(old, new, 1))
        with pytest.raises(Dual2Error) as found:
            read_party(files.file(1))
    finally:
        path.write_text(text)
    assert words in str(found.value)


def test_a_check_reaches_a_neighbour_and_compares_clocks(files, monkeypatch):
    manager = open_manager(read_party(files.file(0)), lambda event, **details: None, 6)
    manager.start()
    try:
        found = {one.what: one for one in check_party(read_party(files.file(1)), 20)}
        assert found["party0"].fine and found["party0"].words.endswith("same study")
        assert "dials this party" in found["party2"].words
        monkeypatch.setattr("dual2.parties.checking._MAX_CLOCK_SKEW_SECONDS", -1)
        found = {one.what: one for one in check_party(read_party(files.file(1)), 20)}
        assert not found["party0"].fine and "its clock is" in found["party0"].words
        assert not manager.connections and manager.failure is None
    finally:
        manager.stop()


def test_lost_or_damaged_mask_keys_are_named(files, tmp_path):
    """New ones would mask other words under sums that were said already."""
    party = replace(read_party(files.file(1)), state=tmp_path / "state")
    journal = Journal(party.state, {}, resume=False)
    try:
        manager = open_manager(party, lambda event, **details: None, 6)
        make_transport(party, manager, journal)
        (party.state / "mask.key").write_bytes(b"short")
        with pytest.raises(Dual2Error, match=r"mask\.key has 5 bytes and is damaged"):
            make_transport(party, manager, journal)
        journal.append_said(0, b"words")
        (party.state / "mask.key").unlink()
        with pytest.raises(Dual2Error, match=r"mask\.key is missing, but words were said"):
            make_transport(party, manager, journal)
    finally:
        journal.close()


def test_two_parties_are_told_what_masks_are_worth(tmp_path):
    network = d2.Network(nx.path_graph(2))
    offices = Offices(tmp_path / "run", lasso(2), network, {"method": "iD2A"})
    with pytest.raises(Dual2Error, match="two parties: masked sums hide nothing"):
        read_study(offices.folder / "party0" / "study.toml")


def test_a_key_of_somebody_else_or_for_everybody_is_refused(files):
    key = files.folder / "party1" / "party1.key"
    os.chmod(key, 0o644)
    with pytest.raises(Dual2Error, match="chmod 600"):
        read_party(files.file(1))
    mine = key.read_bytes()
    try:
        key.write_bytes((files.folder / "keys" / "party0.key").read_bytes())
        os.chmod(key, 0o600)
        with pytest.raises(Dual2Error, match="is not the key of"):
            read_party(files.file(1))
    finally:
        key.write_bytes(mine)


def test_certificates_are_made_and_shown(tmp_path, capsys):
    def run(*line: object) -> int:
        with pytest.raises(SystemExit) as end:
            main(["certificates", *map(str, line)])
        return int(end.value.code or 0)

    assert run("trial", "--parties", "lab,bank", "--out", tmp_path) == 0
    assert capsys.readouterr().out.count("fingerprint = ") == 2
    assert run("trial", "--parties", "lab,bank", "--out", tmp_path) == 2
    assert run("trial", "--parties", "a b", "--out", tmp_path) == 2
    assert run("request", "lab2", "--out", tmp_path) == 0
    assert (tmp_path / "lab2.csr").read_text().startswith("-----BEGIN CERTIFICATE REQUEST")
    capsys.readouterr()
    assert run("show", tmp_path / "lab.pem") == 0
    assert "CN=dual2 trial authority" in capsys.readouterr().out


EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "parties"


def test_files_of_the_examples_are_those_of_a_party(tmp_path):
    """The study and the lab's file as printed, but for the fingerprints."""
    prints = make_trial(tmp_path, ["hospital", "lab", "insurer"])
    study = (EXAMPLES / "study.toml").read_text()
    for found in prints.values():
        study = study.replace('fingerprint = "…"', f'fingerprint = "{found}"', 1)
    (tmp_path / "study.toml").write_text(study)
    shutil.copy(EXAMPLES / "party.toml", tmp_path)
    network = d2.Network(nx.path_graph(3))
    d2.save_problem(tmp_path / "problem", lasso(3), network, {"method": "Newton"})
    party = read_party(tmp_path / "party.toml")
    assert party.name == "lab" and party.status == ("127.0.0.1", 7480) and party.sync
    addresses = {one.name: one.address for one in party.neighbours}
    assert addresses == {"hospital": ("dual2.hospital.example", 7443), "insurer": None}


def test_the_compose_file_and_the_unit_start_commands_that_exist():
    yaml = pytest.importorskip("yaml")
    services = yaml.safe_load((EXAMPLES / "compose.yaml").read_text())["services"]
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment]
    unit.read(EXAMPLES / "dual2-party.service")
    lines = [services[name]["command"] for name in ("hospital", "lab", "insurer")]
    lines += [services["lab"]["healthcheck"]["test"][1:], unit["Service"]["ExecStart"].split()]
    for program, *line in lines:
        assert Path(program).name == "dual2"
        with pytest.raises(SystemExit) as end:  # the file is not here: bad input, not bad usage
            main(line)
        assert end.value.code == 2
    assert all(one["read_only"] and one["cap_drop"] == ["ALL"] for one in services.values())
    assert unit["Service"]["RestartPreventExitStatus"].split() == ["2", "3", "130"]
    assert unit["Service"]["ProtectSystem"] == "strict" and unit["Service"]["LimitCORE"] == "0"


def test_the_manifest_and_the_image_start_commands_that_exist():
    yaml = pytest.importorskip("yaml")
    manifests = list(yaml.safe_load_all((EXAMPLES / "kubernetes.yaml").read_text()))
    pod = next(one for one in manifests if one["kind"] == "StatefulSet")["spec"]
    assert pod["replicas"] == 1 and not pod["template"]["spec"]["automountServiceAccountToken"]
    container = pod["template"]["spec"]["containers"][0]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    script = container["args"][0].partition("exec dual2 ")[2].split()
    image = (EXAMPLES / "Dockerfile").read_text()
    default = json.loads(image.rpartition("CMD ")[2])
    probe = container["livenessProbe"]["exec"]["command"][1:]
    for line in (script, default, probe):
        with pytest.raises(SystemExit) as end:  # the folder is not here: bad input, not bad usage
            main(line)
        assert end.value.code == 2
    assert "USER 10001" in image
