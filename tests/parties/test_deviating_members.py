"""Members of a study that change their own program: what they gain, and who stops them."""

from hashlib import sha256
from typing import Any

import numpy as np
import pytest

from dual2.engine.fixed_point import add_words
from dual2.errors import PeerError
from dual2.runtime.peers.frames import Kind, chain_of
from dual2.runtime.peers.parties import Parties
from party_circle import QUICK, Circle

STAR = [(0, 1), (0, 2), (0, 3)]
ROOT, VICTIM, ROWS, COLUMNS = 0, 3, 6, 3
SUMS = ROWS + 1


def columns(rank: int) -> np.ndarray:
    return np.random.default_rng([7, rank]).standard_normal((ROWS, COLUMNS))


def respond(party: Parties) -> list[np.ndarray]:
    """A dual method with quadratic costs: each sum has A_i A_iᵀ λ, and its total is the next λ."""
    gram, price, found = columns(party.rank) @ columns(party.rank).T, np.zeros(ROWS), []
    for _ in range(SUMS):
        total = party.sum((gram @ price)[None], party.test_network)  # type: ignore[attr-defined]
        price = total / (1.0 + np.linalg.norm(total))
        found.append(total)
    return found


class SplittingRoot:
    """The root's program, changed: one child gets totals of the root's choice, the others zeros.

    It keeps a chain of hashes for each child, so that every header is right, removes its own masks,
    and ignores every check of its own.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.words: list[np.ndarray] = []
        self.asked: list[np.ndarray] = []
        self._chains: dict[int, bytes] = {}
        self._index = 0
        right_send, right_numbers, right_add = (
            Parties._send_all,
            Parties._numbers,
            Parties.add_encoded,
        )
        right_demand = Parties._demand_all

        def send(party: Parties, peers: Any, kind: Kind, values: Any, tag: int) -> Any:
            if party.rank != ROOT or kind is not Kind.DOWN:
                return right_send(party, peers, kind, values, tag)
            true, sent = party._chain, None
            for peer in peers:
                party._chain = self._chains.get(peer, true)
                sent = right_send(party, [peer], kind, self._forged(peer, values), tag)
                self._chains[peer] = _after(party._chain, self._forged(peer, values))
            party._chain = true
            self._index += 1
            return sent

        def take(party: Parties, peer: int, kind: Kind, tag: int, like: Any) -> Any:
            if party.rank != ROOT or kind is not Kind.UP:
                return right_numbers(party, peer, kind, tag, like)
            true = party._chain
            party._chain = self._chains.get(peer, true)
            try:
                frame, old = right_numbers(party, peer, kind, tag, like)
            finally:
                party._chain = true
            self._add(party, peer, frame.array(), tag)
            return frame, old

        def demand(party: Parties, count: float) -> None:
            if party.rank != ROOT:
                right_demand(party, count)

        def add(party: Parties, *args: Any) -> Any:
            total, fits = right_add(party, *args)
            return (total, fits) if party.rank != ROOT else (np.zeros_like(total), True)

        patch.setattr(Parties, "add_encoded", add)
        patch.setattr(Parties, "_send_all", send)
        patch.setattr(Parties, "_numbers", take)
        patch.setattr(Parties, "_demand_all", demand)

    def _forged(self, peer: int, values: np.ndarray) -> np.ndarray:
        """What a child is told: the victim a unit vector, the others zeros; all have spoken."""
        false = np.zeros_like(values)
        if peer == VICTIM:
            false[self._index % ROWS] = 1.0
        false[-2] = len(STAR) + 1.0
        return false

    def _add(self, party: Parties, peer: int, words: np.ndarray, tag: int) -> None:
        """Collect the words of a sum, less the masks that the root shares with their sender."""
        if len(self.words) <= tag:
            self.words.append(np.zeros_like(words))
        own = own_mask(party, peer, tag, self._chains.get(peer, party._chain), words.shape)
        add_words(self.words[tag], words)
        add_words(self.words[tag], own)

    def gram(self) -> np.ndarray:
        """Best estimate of the victim's A Aᵀ but for a factor: the sum after unit vector k."""
        whole = [signed(self.words[k + 1][:ROWS]) for k in range(ROWS)]
        top = max(abs(number).bit_length() for row in whole for number in row)
        return np.array([[number / 2**top for number in row] for row in whole])


def _after(chain: bytes, total: np.ndarray) -> bytes:
    return chain_of(chain, sha256(total.data).digest())


def own_mask(
    party: Parties, peer: int, index: int, chain: bytes, shape: tuple[int, ...]
) -> np.ndarray:
    """The root's half of the mask that it shares with one party."""
    masks = party.masks
    assert masks is not None
    keys = masks._pair_keys
    masks._pair_keys = {peer: keys[peer]}
    try:
        mask = masks.draw(index, chain, shape)
    finally:
        masks._pair_keys = keys
    mask[-2, 0] -= np.uint64(1)
    return mask


def signed(words: np.ndarray) -> list[int]:
    """Whole numbers in two's complement of several words."""
    rows = [row.astype("<u8").tobytes() for row in words]
    return [int.from_bytes(row, "little", signed=True) for row in rows]


def test_a_root_that_shows_one_child_other_totals_learns_nothing(tmp_path, monkeypatch):
    """Its best estimate of the victim's Gram matrix has nothing to do with it."""
    attacker = SplittingRoot(monkeypatch)
    circle = Circle(tmp_path, STAR, QUICK)
    monkeypatch.setattr(Parties, "test_network", circle.network, raising=False)
    found = circle.run(respond)
    assert all(isinstance(one, PeerError) for one in found[1:])  # no honest party has an answer
    true, guess = columns(VICTIM) @ columns(VICTIM).T, attacker.gram()
    scale = np.vdot(guess, true) / np.vdot(guess, guess)  # the best one, as if it were known
    error = np.linalg.norm(scale * guess - true) / np.linalg.norm(true)
    print(f"relative error of the best estimate: {error:.2g}")
    assert error > 0.5
