"""Members of a learning study that change their own program, or repeat what they may do once."""

import pytest

from dual2.errors import PeerError, PeerRefused
from dual2.learn.federated.fitting import fit
from dual2.runtime.peers.aborts import Failure, Reason
from dual2.runtime.peers.parties import Parties
from learning_offices import Offices, done, make_world

LAB = 1


def quietly(text: str) -> None:
    """Progress that nobody reads."""


@pytest.mark.parametrize("reason", [Reason.REFUSED, Reason.FAILED])
def test_words_of_a_peer_delete_no_state(tmp_path, monkeypatch, reason):
    """The lab ends the run in its fourth sum and says what refusals say; the others can resume."""
    offices, right, honest = Offices(tmp_path, make_world(30, 0, mixed=False)), Parties._blank, []

    def deviate(party: Parties, shape: tuple[int, ...]):
        if party.rank == LAB and party._index == 3 and not honest:
            text = "lab had to stop: its table cannot be read."
            party.hub.end(Failure("lab", text, reason))
            raise PeerError("the attack is over")
        return right(party, shape)

    monkeypatch.setattr(Parties, "_blank", deviate)
    found = offices.everyone(lambda own: fit(own, say=quietly))
    for name in ("hospital", "insurer"):
        assert type(found[name]) is PeerError
        assert f'ended the run ({reason}). It says: "lab had to stop' in str(found["hospital"])
        for file in ("journal", "said", "mask.key"):
            assert (offices.state(name) / "fit" / file).exists()
    honest.append(True)
    assert len(done(offices.everyone(lambda own: fit(own, resume=True, say=quietly)))) == 3


def test_a_refusal_before_the_first_total_is_believed(tmp_path, monkeypatch):
    """Then nothing is lost by a new start, and the same command works again."""
    offices = Offices(tmp_path, make_world(30, 0, mixed=False))
    offices.change("lab", "party.toml", 'x3 = "number"', 'x33 = "number"')
    found = offices.everyone(lambda own: fit(own, say=quietly))
    for name in ("hospital", "insurer"):
        assert type(found[name]) is PeerRefused
        assert not (offices.state(name) / "fit" / "journal").exists()
