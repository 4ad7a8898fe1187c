"""Members of a learning study that change their own program, or repeat what they may do once."""

import json
from types import SimpleNamespace

import pytest

from dual2.errors import PeerError, PeerRefused, Refusal
from dual2.learn.vertical import alignment, row_limits
from dual2.learn.vertical.fitting import align, fit
from dual2.learn.vertical.ids import cut
from dual2.learn.vertical.intersection import MAX_MESSAGE_BYTES, Cipher
from dual2.runtime.peers.aborts import Failure, Reason
from dual2.runtime.peers.masks import Randomness
from dual2.runtime.peers.parties import Parties
from learning_offices import Offices, done, make_world

HOSPITAL, LAB, BITS = 0, 1, 8


def quietly(text: str) -> None:
    """Progress that nobody reads."""


@pytest.mark.parametrize("reason", [Reason.REFUSED, Reason.FAILED])
def test_words_of_a_peer_delete_no_state(tmp_path, monkeypatch, reason):
    """The lab ends the run in its fourth sum and says what refusals say; the others can resume."""
    offices, right, honest = Offices(tmp_path, make_world(30, 0, mixed=False)), Parties._blank, []

    def deviate(party: Parties, shape: tuple[int, ...]):
        if party.rank == LAB and party._index == 3 and not honest:
            text = "lab had to stop: its table cannot be read."
            party.manager.end(Failure("lab", text, reason))
            raise PeerError("the attack is over")
        return right(party, shape)

    monkeypatch.setattr(Parties, "_blank", deviate)
    found = offices.everyone(lambda own: fit(own, report=quietly))
    for name in ("hospital", "insurer"):
        assert type(found[name]) is PeerError
        assert f'ended the run ({reason}). It says: "lab had to stop' in str(found["hospital"])
        for file in ("journal", "said", "mask.key"):
            assert (offices.state(name) / "fit" / file).exists()
    honest.append(True)
    assert len(done(offices.everyone(lambda own: fit(own, resume=True, report=quietly)))) == 3


def test_a_refusal_before_the_first_total_is_believed(tmp_path, monkeypatch):
    """Then nothing is lost by a new start, and the same command works again."""
    offices = Offices(tmp_path, make_world(30, 0, mixed=False))
    offices.change("lab", "party.toml", 'x3 = "number"', 'x33 = "number"')
    found = offices.everyone(lambda own: fit(own, report=quietly))
    for name in ("hospital", "insurer"):
        assert type(found[name]) is PeerRefused
        assert not (offices.state(name) / "fit" / "journal").exists()


class Dictionary:
    """The lab's program, changed: a set of guesses, one exponent for each bit of a guess's number.

    What the holder returns tells for each of its places under which exponents it is in the set.
    """

    def __init__(self, patch: pytest.MonkeyPatch, guesses: list[str]) -> None:
        assert len(guesses) < 2**BITS
        self.guesses, self.found = guesses, set[str]()
        right = alignment.intersect

        def intersect(transport: Parties, *args):
            if transport.rank != LAB:
                return right(transport, *args)
            self._run(transport)
            raise PeerError("the attack is over")

        patch.setattr(alignment, "intersect", intersect)

    def _run(self, transport: Parties) -> None:
        ciphers = [Cipher(SimpleNamespace(own=Randomness(bytes([k]) * 32))) for k in range(BITS)]  # type: ignore[arg-type]
        request = ciphers[0]._psi.Request()
        request.reveal_intersection = True
        for k, cipher in enumerate(ciphers):
            part = ciphers[0]._psi.Request()
            some = [one for number, one in enumerate(self.guesses, 1) if number >> k & 1]
            part.ParseFromString(cipher.encrypt(some))
            request.encrypted_elements.extend(part.encrypted_elements)
        transport.tell(HOSPITAL, request.SerializeToString())
        places = transport.hear(HOSPITAL, MAX_MESSAGE_BYTES)
        each = [cipher.again(places, True) for cipher in ciphers]
        mine = set(cut(transport.hear(HOSPITAL, MAX_MESSAGE_BYTES), len(each[0][0])))
        numbers = [sum((one in mine) << k for k, one in enumerate(ones)) for ones in zip(*each)]  # noqa: B905
        self.found = {self.guesses[number - 1] for number in numbers if number}


def hospital_ids(offices: Offices) -> list[str]:
    return offices.world.tables["hospital"]["patient"]


def dictionary(offices: Offices, size: int) -> list[str]:
    """Ids of the hospital among guesses that are none."""
    ids = hospital_ids(offices)
    return [*ids, *(f"q{k}" for k in range(size - len(ids)))]


def test_a_long_dictionary_is_refused_before_anything_is_answered(tmp_path, monkeypatch):
    """255 guesses by 8 exponents against 60 ids: 1024 elements, more than ten times as many."""
    offices = Offices(tmp_path, make_world(45, 15, mixed=False), policy="psi")
    attacker = Dictionary(monkeypatch, dictionary(offices, 255))
    found = offices.everyone(lambda own: align(own, report=quietly))
    assert "lab sent 1024 ids; hospital has 60 and accepts 600" in str(found["hospital"])
    assert all(isinstance(one, PeerError) for one in found.values()) and not attacker.found
    log = (offices.state("hospital") / "align" / "audit.jsonl").read_text()
    sizes = [line for line in map(json.loads, log.splitlines()) if line["event"] == "rows"]
    assert {"peer": "lab", "own_rows": 60, "their_rows": 1024}.items() <= sizes[0].items()


def test_a_short_dictionary_is_what_remains(tmp_path, monkeypatch):
    """Within the bounds the attack works, as docs/privacy.md says: here on 120 guesses."""
    offices = Offices(tmp_path, make_world(45, 15, mixed=False), policy="psi")
    attacker = Dictionary(monkeypatch, dictionary(offices, 120))
    offices.everyone(lambda own: align(own, report=quietly))
    assert attacker.found == set(hospital_ids(offices))


def test_repeated_alignments_are_counted(tmp_path):
    """A third alignment of the same ids is refused; one that is only resumed counts once."""
    world = make_world(30, 5, mixed=False)
    offices = Offices(tmp_path, world, policy="psi", rows="attempts = 2")
    for _ in range(2):
        done(offices.everyone(lambda own: align(own, force=True, report=quietly)))
    found = offices.everyone(lambda own: align(own, force=True, report=quietly))
    assert any(isinstance(one, Refusal) for one in found.values())
    assert "matched 2 times already" in "".join(map(str, found.values()))
    known = json.loads((offices.state("hospital") / row_limits.ATTEMPTS).read_text())
    assert [len(attempts) for attempts in known.values()] == [2]


def test_a_set_with_an_element_twice_is_refused():
    cipher = Cipher(SimpleNamespace(own=Randomness(bytes(32))))  # type: ignore[arg-type]
    request = cipher._psi.Request()
    request.ParseFromString(cipher.encrypt(["a", "b"]))
    request.encrypted_elements.append(request.encrypted_elements[0])
    with pytest.raises(PeerError, match="more than once"):
        cipher.again(request.SerializeToString(), True)
