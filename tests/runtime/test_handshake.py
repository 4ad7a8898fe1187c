"""Before the first iteration: the processes mean the same run, and resume from the same round."""

import numpy as np
import pytest

from dual2.errors import Dual2Error
from dual2.files import digest
from dual2.processes.handshake import NONE, shake_hands


class Together:
    """Processes of which this one is the last; the others said ``rows`` before."""

    def __init__(self, *rows):
        self.rows = [np.frombuffer(row, "u1") for row in rows]

    def allgather(self, own, kind):
        return np.array([*self.rows, own])


def said(newest, *parts):
    return b"".join(map(digest, parts)) + newest.to_bytes(8, "little", signed=True)


MEANS = {"public part": digest("h"), "partition": digest([0, 1, 2])}


def test_the_oldest_of_the_newest_checkpoints_counts():
    """A process that was killed before it could save is one checkpoint behind."""
    others = said(700, "h", [0, 1, 2]), said(650, "h", [0, 1, 2])
    assert shake_hands(Together(*others), MEANS, 700) == 650
    assert shake_hands(Together(said(700, "h", [0, 1, 2])), MEANS, NONE) == NONE


def test_what_differs_is_named_with_its_ranks():
    same, other = said(NONE, "h", [0, 1, 2]), said(NONE, "another h", [0, 1, 2])
    with pytest.raises(Dual2Error, match=r"^rank 1 has another public part than the others"):
        shake_hands(Together(same, other), MEANS, NONE)
    with pytest.raises(Dual2Error, match=r"^ranks 1, 2 have another public part than the others"):
        shake_hands(Together(same, other, other, same), MEANS, NONE)
    moved = said(NONE, "h", [0, 1, 1])
    with pytest.raises(Dual2Error, match=r"^rank 1 has another partition than the other:"):
        shake_hands(Together(moved), MEANS, NONE)


def test_digests_keep_parts_apart():
    assert digest("ab", "c") != digest("a", "bc")
    assert digest(1.0) != digest(1)
