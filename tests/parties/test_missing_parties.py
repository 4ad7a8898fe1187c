"""Parties that are lost for good: the others finish as the problem without them, or all say why."""

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dual2 as d2
from dropouts import (
    GRAPH,
    LIMIT,
    THRESHOLD,
    Deaths,
    N,
    demand_answers,
    make_offices,
    run_all,
)
from dual2.errors import PeerError
from dual2.parties import session
from dual2.parties.absence import ABSENT, Absences, verify_claim
from dual2.parties.party import read_party
from dual2.runtime.peers import crash_points
from dual2.runtime.peers.aborts import Failure, Reason
from dual2.runtime.peers.claims import Claim, make_claim
from dual2.runtime.peers.hello import GoesOnWithout, SessionIdentity
from dual2.runtime.peers.identity import load_key
from party_offices import Offices


@pytest.fixture(autouse=True)
def no_deaths_afterwards():
    yield
    crash_points.listen(None)


PHASES = {
    "keys": ("before send KEYS", 1),
    "first words": ("before write said", 1),
    "words on disk, not sent": ("after sync said", 2),
    "a sum in the middle": ("before send UP", 12),
    "between sums": ("before write said", 25),
    "the last sum": ("after sync said", 31),
}


@pytest.mark.parametrize("phase", PHASES)
def test_six_of_eight_finish_whenever_two_are_lost(tmp_path, monkeypatch, phase):
    offices, lost = make_offices(tmp_path), (2, 6)
    Deaths(offices, dict.fromkeys(lost, PHASES[phase]), monkeypatch)
    found = run_all(offices, range(N))
    assert all(not isinstance(found[i], d2.Status) for i in lost)
    demand_answers(offices, found, lost)


def test_six_of_eight_finish_if_two_were_never_started(tmp_path):
    offices, lost = make_offices(tmp_path), (0, 5)
    demand_answers(offices, run_all(offices, [i for i in range(N) if i not in lost]), lost)


def test_two_that_are_lost_one_after_the_other_in_the_second_attempt(tmp_path, monkeypatch):
    offices = make_offices(tmp_path)
    Deaths(offices, {1: ("before write said", 4), 4: ("before write said", 9)}, monkeypatch)
    demand_answers(offices, run_all(offices, range(N)), (1, 4))


def test_three_lost_of_eight_are_one_error_everywhere_and_the_state_is_kept(tmp_path, monkeypatch):
    offices, lost = make_offices(tmp_path), (1, 4, 6)
    Deaths(offices, dict.fromkeys(lost, ("before write said", 3)), monkeypatch)
    found = run_all(offices, range(N))
    for i in set(range(N)) - set(lost):
        assert isinstance(found[i], PeerError) and "are needed (threshold)" in str(found[i])
        assert not (offices.folder / offices.names[i] / "state" / "answer.json").exists()
    crash_points.listen(None)
    claimed = claimed_by(offices)
    again = run_all(offices, range(N), resume=True)
    if len(claimed) <= N - THRESHOLD:
        demand_answers(offices, again, claimed)


def claimed_by(offices: Offices) -> list[int]:
    """The parties that anybody counts as missing."""
    files = [offices.folder / name / "state" / ABSENT for name in offices.names]
    names = {claim[0] for file in files if file.exists() for claim in json.loads(file.read_text())}
    return sorted(offices.names.index(name) for name in names)


def test_the_root_and_a_leaf_are_lost_while_a_total_comes_down(tmp_path, monkeypatch):
    offices, tree = make_offices(tmp_path), d2.Network(GRAPH).tree
    leaf = next(i for i in reversed(range(N)) if i not in tree.parent)
    where = {tree.root: ("before send DOWN", 9), leaf: ("before send UP", 4)}
    Deaths(offices, where, monkeypatch)
    demand_answers(offices, run_all(offices, range(N)), sorted(where))


def test_without_a_threshold_nobody_goes_on(tmp_path, monkeypatch):
    offices = make_offices(tmp_path, None)
    Deaths(offices, {3: ("before write said", 3)}, monkeypatch)
    found = run_all(offices, range(N))
    for i in set(range(N)) - {3}:
        assert isinstance(found[i], PeerError) and "was unreachable for 6 s" in str(found[i])


def test_one_that_is_lost_while_totals_are_compared_is_an_error_everywhere(tmp_path, monkeypatch):
    """Some may have the answer of all by then: nobody begins another one."""
    offices = make_offices(tmp_path)
    children = np.sum(np.asarray(d2.Network(GRAPH).tree.parent) == 3)
    Deaths(offices, {3: ("before send KEYS", 2 + children)}, monkeypatch)
    found = run_all(offices, range(N))
    for i in set(range(N)) - {3}:
        assert isinstance(found[i], PeerError) or offices.answer(i).get("missing") is None
        assert not (offices.folder / offices.names[i] / "state" / ABSENT).exists()


def test_a_party_that_comes_back_too_late_is_told_so_and_its_old_words_stay(tmp_path, monkeypatch):
    offices = make_offices(tmp_path)
    Deaths(offices, {7: ("before write said", 4)}, monkeypatch)
    late: dict[int, Any] = {}
    slow = threading.Event()
    confirm = session.Parties.confirm

    def wait_before(self) -> None:
        if self.size < N:
            slow.wait(LIMIT)
        confirm(self)

    monkeypatch.setattr(session.Parties, "confirm", wait_before)

    def come_back() -> None:
        while not (offices.folder / offices.names[0] / "state" / ABSENT).exists():
            slow.wait(0.1)
        crash_points.listen(None)
        late.update(run_all(offices, [7], resume=True))
        slow.set()

    thread = threading.Thread(target=come_back, daemon=True)
    thread.start()
    found = run_all(offices, range(N))
    thread.join(LIMIT)
    assert isinstance(late[7], PeerError) and "go on without party7" in str(late[7])
    demand_answers(offices, found, (7,))


# -- attackers -------------------------------------------------------------------------------------
def signer(offices: Offices, i: int) -> Callable[[bytes], bytes]:
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
    from cryptography.hazmat.primitives.hashes import SHA256

    key = load_key(offices.folder / offices.names[i] / f"{offices.names[i]}.key")
    return lambda text: key.sign(text, ECDSA(SHA256()))


@pytest.fixture(scope="module")
def quiet_offices(tmp_path_factory) -> Offices:
    return make_offices(tmp_path_factory.mktemp("quiet"))


def test_claims_count_only_if_a_neighbour_signed_them_for_this_run(quiet_offices):
    study, names = read_party(quiet_offices.file(0)).study, quiet_offices.names
    good = make_claim(signer(quiet_offices, 1), study.run, names[1], names[3])
    verify_claim(study, good)
    far = make_claim(signer(quiet_offices, 0), study.run, names[0], names[4])  # no neighbour
    other_run = make_claim(signer(quiet_offices, 1), bytes(16), names[1], names[3])
    for bad in (
        far,
        other_run,
        replace(good, absent=names[2]),
        replace(good, claimer=names[2]),
        Claim("nobody", names[1], good.signature),
        replace(good, signature=b""),
    ):
        with pytest.raises(PeerError, match="not signed by one of its neighbours"):
            verify_claim(study, bad)


def test_a_member_that_is_no_neighbour_cannot_throw_a_party_out(tmp_path, monkeypatch):
    """Party 0 says in the middle of the run that party 4 is missing; their links do not meet."""
    offices = make_offices(tmp_path)
    meanwhile = session.Parties._meanwhile

    def lie(self, index: int, shape: tuple[int, ...]) -> None:
        meanwhile(self, index, shape)
        if self.rank == 0 and index == 3 and self.size == N:
            run = self.manager.session.run
            claim = make_claim(signer(offices, 0), run, offices.names[0], offices.names[4])
            self.manager.end(Failure("party0", "it is gone", Reason.MISSING, claims=(claim,)))

    monkeypatch.setattr(session.Parties, "_meanwhile", lie)
    found = run_all(offices, range(N))
    for i in range(1, N):
        assert isinstance(found[i], PeerError) and "made it up" in str(found[i])
        assert not (offices.folder / offices.names[i] / "state" / ABSENT).exists()


def test_a_party_keeps_the_claims_that_it_has_accepted(quiet_offices):
    party = read_party(quiet_offices.file(5))
    names = quiet_offices.names
    claim = make_claim(signer(quiet_offices, 1), party.study.run, names[1], names[2])
    Absences(party).accept([claim], "")
    assert Absences(party).names == [names[2]]
    now = Absences(party).present()
    assert now.study.names == [name for name in names if name != names[2]]
    assert now.study.run != party.study.run and now.me == 4 and now.home == party.state
    own = make_claim(signer(quiet_offices, 3), party.study.run, names[3], names[5])
    with pytest.raises(PeerError, match="go on without party5"):
        Absences(party).accept([own], "")
    (party.state / ABSENT).write_text(json.dumps([["a", "b"]]))
    with pytest.raises(d2.Dual2Error, match="damaged"):
        Absences(party)


def test_parties_that_count_differently_go_on_without_the_same(quiet_offices):
    """Without others they have other numbers: that is no sign of a wrong certificate."""
    study = read_party(quiet_offices.file(0)).study
    claim = make_claim(signer(quiet_offices, 3), study.run, quiet_offices.names[3], "party1")
    names = [name for name in quiet_offices.names if name != "party1"]
    gone = study.without(["party1"], (claim,))
    peer = SessionIdentity(gone.run, study.digest, "", gone.claims)
    own = SessionIdentity(study.run, study.digest, "")
    with pytest.raises(GoesOnWithout):
        own.demand_same(peer.hello(names.index("party6"), 1, 1), 6, "party6")


@pytest.mark.parametrize("threshold", [2, 4, 9])
def test_a_threshold_that_two_groups_could_meet_is_refused(tmp_path, threshold):
    offices = make_offices(tmp_path, threshold)
    with pytest.raises(d2.Dual2Error, match="threshold"):
        read_party(offices.file(0))
