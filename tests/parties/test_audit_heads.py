"""Audit logs that cannot be rewritten later, and certificates that are revoked."""

import json
import threading
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

import dual2 as d2
from dual2.cli import main
from dual2.errors import Dual2Error, PeerError
from dual2.learn.vertical.party_file import read_learn_party
from dual2.parties.party import read_party
from dual2.parties.revocation import read_revoked
from dual2.parties.session import run_party
from dual2.runtime.peers.audit import Audit, verify
from dual2.runtime.peers.frames import Kind
from dual2.runtime.peers.identity import fingerprint, make_trial, read_certificate
from dual2.runtime.peers.parties import Parties
from learning_offices import Offices as LearningOffices
from learning_offices import make_world
from party_offices import Offices, lasso

N = 3


def make_offices(folder: Path) -> Offices:
    network = d2.Network(nx.path_graph(N))
    return Offices(folder, lasso(N), network, {"method": "Newton", "tol": 1e-8}, extra=QUICK)


QUICK = "dead = 3.0\npatience = 10.0\n"


def run_all(offices: Offices) -> list[Any]:
    """What each party ends with, in threads."""
    found: list[Any] = [None] * N

    def live(i: int) -> None:
        try:
            found[i] = run_party(read_party(offices.file(i)), report=lambda text: None)
        except Exception as error:
            found[i] = error

    threads = [threading.Thread(target=live, args=(i,)) for i in range(N)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120.0)
    return found


def state(offices: Offices, i: int) -> Path:
    return offices.folder / offices.names[i] / "state"


def peer_heads(offices: Offices, i: int) -> dict[str, str]:
    """The heads that others have signed, in the log of a party."""
    lines = (state(offices, i) / "audit.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    return {one["peer"]: one["head"] for one in events if one["event"] == "peer_head"}


def rewrite(file: Path) -> None:
    """Leave an event out, and make a chain that is whole."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    file.unlink()
    audit = Audit(file, "test")
    for line in lines[1:]:
        audit(line["event"])
    audit.close()


def test_every_party_has_the_signed_heads_of_all_others_and_a_rewritten_log_shows(tmp_path, capsys):
    offices = make_offices(tmp_path)
    assert run_all(offices) == [d2.Status.CONVERGED] * N
    heads = peer_heads(offices, 0)
    assert (
        heads.keys() == {"party1", "party2"} and peer_heads(offices, 1)["party2"] == heads["party2"]
    )
    log = state(offices, 2) / "audit.jsonl"
    verify(log, heads["party2"])
    assert not (state(offices, 2) / "audit.head").exists()
    rewrite(log)
    verify(log)  # its chain is whole
    with pytest.raises(Dual2Error):
        verify(log, heads["party2"])
    for i, code in ((1, 0), (2, 2)):
        with pytest.raises(SystemExit) as ended:
            main(["party", "audit", str(state(offices, i)), "--head", heads[f"party{i}"]])
        assert ended.value.code == code
    assert heads["party1"] in capsys.readouterr().out


def test_a_relay_that_replaces_the_head_of_another_party_is_found(tmp_path, monkeypatch):
    """The party in the middle, changed: it passes on another signature of party 2."""
    right_send, right_send_all = Parties._send, Parties._send_all

    def forged(party: Parties, kind: Kind, values: Any, tag: int) -> Any:
        if party.rank == 1 and kind is Kind.KEYS and tag == 1:
            values = bytes(values)
            return values[:-1] + bytes([values[-1] ^ 1])
        return values

    def send(party: Parties, peer: int, kind: Kind, values: Any, tag: int) -> Any:
        return right_send(party, peer, kind, forged(party, kind, values, tag), tag)

    def send_all(party: Parties, peers: Any, kind: Kind, values: Any, tag: int) -> Any:
        return right_send_all(party, peers, kind, forged(party, kind, values, tag), tag)

    monkeypatch.setattr(Parties, "_send", send)
    monkeypatch.setattr(Parties, "_send_all", send_all)
    offices = make_offices(tmp_path)
    found = run_all(offices)
    assert isinstance(found[0], PeerError)
    assert not (state(offices, 0) / "answer.json").exists()
    assert (state(offices, 0) / "journal").exists()


def revoke(offices: Any, name: str, *fingerprints: str) -> Path:
    """Let a party revoke certificates; its file."""
    own = offices.folder / name
    (own / "revoked.txt").write_text("\n".join(["# stolen", *fingerprints]))
    text = (own / "party.toml").read_text()
    (own / "party.toml").write_text('revoked = "revoked.txt"\n' + text)
    return own / "party.toml"


def test_a_revoked_certificate_is_refused_before_anything_runs(tmp_path):
    offices = make_offices(tmp_path)
    der = read_certificate(tmp_path / "keys" / "party2.pem")
    file = revoke(offices, "party0", fingerprint(der))
    with pytest.raises(Dual2Error, match="party2"):
        read_party(file)
    (file.parent / "revoked.txt").write_text("party2")
    with pytest.raises(Dual2Error, match="line 1"):
        read_party(file)


def test_the_next_certificate_of_a_party_still_counts(tmp_path):
    offices = make_offices(tmp_path)
    found = make_trial(tmp_path / "next", ["party2"])["party2"]
    own = tmp_path / "party0"
    (own / "party2-next.pem").write_bytes((tmp_path / "next" / "party2.pem").read_bytes())
    entry = 'certificate = "party2.pem"\n'
    more = f'next_certificate = "party2-next.pem"\nnext_fingerprint = "{found}"\n'
    study = (own / "study.toml").read_text()
    (own / "study.toml").write_text(study.replace(entry, entry + more))
    der = read_certificate(tmp_path / "keys" / "party2.pem")
    party = read_party(revoke(offices, "party0", fingerprint(der)))
    assert party.study.members[2].fingerprints == (found,)


def test_a_study_of_tables_refuses_revoked_certificates_in_all_its_runs(tmp_path):
    offices = LearningOffices(tmp_path, make_world())
    der = read_certificate(tmp_path / "keys" / "lab.pem")
    with pytest.raises(Dual2Error, match="lab"):
        read_learn_party(revoke(offices, "hospital", fingerprint(der)))


def test_fingerprints_are_read_however_they_are_written(tmp_path):
    file = tmp_path / "revoked.txt"
    file.write_text(":".join(["AB"] * 32) + "  # the lab's\n\n")
    assert read_revoked(file) == {"ab" * 32}
