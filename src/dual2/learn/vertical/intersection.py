"""Private set intersection: which rows of the labels' holder every other party has as well.

Commutative encryption (Meadows 1986; Huberman, Franklin & Hogg 1999) on the curve P-256, by the
package ``openmined_psi``. With E_a(E_b(x)) = E_b(E_a(x)) for the keys a of the holder and b of
another party:

1. the holder sends E_a of its ids in an order that only it knows, the other party E_b of its own;
2. the holder returns E_a(E_b(…)) sorted; the other party encrypts what it has got once more and
   finds out which *places* of the holder's order it has, though not which ids they are;
3. all parties add up, masked, a random word for each place that they lack, and zero otherwise: a
   total of zero says that all have it, any other that somebody lacks it, though not how many do;
4. the holder tells keyed hashes of the ids in the common places, in which the others find theirs.

So everybody learns the common rows, each other party how many rows it shares with the holder and
how many of those others lack, and both how many rows the other has. The holder, which alone knows
which ids the places are, does not learn who of several others lacks one. That is so of parties that
follow the protocol (honest but curious) and do not collude: n - 1 of them learn which of the
holder's places the last one has; if the holder is among them, which of its ids.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from dual2.errors import CapabilityError, PeerError
from dual2.learn.vertical.ids import cut, tokens_of
from dual2.network import Network
from dual2.runtime.peers.parties import Parties

Array = np.ndarray
CheckSet = Callable[[int, int], None]
"""Given a party and the number of elements of its set; an error if there are too many."""
MAX_MESSAGE_BYTES = 2**31
"""Most bytes of one message."""
KEY, ORDER, ABSENT, SALT = (2**62 + k for k in range(4))
"""Numbers of this party's own random words, apart from those of sums."""
_PART = 500
"""Ids that a thread encrypts at a time, some tenth of a second."""
_GROUP = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Number of points of the curve P-256."""


def load_psi() -> Any:
    """The package ``openmined_psi``, or an error that says how to get it."""
    try:
        import private_set_intersection.python as psi
    except ImportError as error:
        raise CapabilityError(
            'rows.policy = "psi" needs the package openmined_psi: pip install "dual2[psi]".'
        ) from error
    return psi


class Cipher:
    """Encryption by one party's key, which is the same after a restart and erased with the run."""

    def __init__(self, transport: Parties) -> None:
        self._psi = load_psi()
        words = transport.own.words(KEY, 5).tobytes()
        self._key = (int.from_bytes(words, "big") % (_GROUP - 1) + 1).to_bytes(32, "big")

    def encrypt(self, ids: Sequence[str]) -> bytes:
        """E of ids, in their order."""

        def work(some: Sequence[str]) -> list[bytes]:
            client = self._psi.client.CreateFromKey(self._key, True)
            return list(client.CreateRequest(list(some)).encrypted_elements)

        return self._request(_in_parts(work, ids), True).SerializeToString()

    def again(
        self,
        data: bytes,
        ordered: bool,
        name: str = "Another party",
        check: Callable[[int], None] = lambda count: None,
    ) -> list[bytes]:
        """E of what somebody else, ``name``, has encrypted, in its order or sorted.

        ``check`` is given the number of its elements before any is used.
        """

        def work(some: Sequence[bytes]) -> list[bytes]:
            server = self._psi.server.CreateFromKey(self._key, True)
            return list(server.ProcessRequest(self._request(some, True)).encrypted_elements)

        try:
            request = self._psi.Request()
            request.ParseFromString(data)
            elements = list(request.encrypted_elements)
        except Exception as error:  # protobuf's own kinds
            raise PeerError(f"{name} sent a set of ids that cannot be read.") from error
        check(len(elements))
        if len(set(elements)) < len(elements):
            raise PeerError(f"{name} sent some ids more than once; expected a set.")
        try:
            found = _in_parts(work, elements)
        except Exception as error:  # protobuf's and the package's own kinds
            raise PeerError(f"{name} sent ids that are no points of the curve P-256.") from error
        return found if ordered else sorted(found)

    def _request(self, elements: Sequence[bytes], ordered: bool) -> Any:
        request = self._psi.Request()
        request.reveal_intersection = ordered
        request.encrypted_elements.extend(elements)
        return request


def _in_parts(work: Callable[[Sequence[Any]], list[bytes]], items: Sequence[Any]) -> list[bytes]:
    """Work on all items in their order, by as many threads as there are cores."""
    parts = [items[at : at + _PART] for at in range(0, len(items), _PART)]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return [one for part in pool.map(work, parts) for one in part]


def intersect_as_holder(
    transport: Parties,
    network: Network,
    others: Sequence[int],
    ids: Sequence[str],
    check: CheckSet,
) -> tuple[list[int], list[bytes]]:
    """Rows of the holder that are common, and their tokens, both in the order of all parties."""
    cipher = Cipher(transport)
    order = _shuffled(transport, len(ids))
    sent = cipher.encrypt([ids[k] for k in order])
    for peer in others:
        transport.tell(peer, sent)
    for peer in others:
        said = transport.hear(peer, MAX_MESSAGE_BYTES)
        twice = cipher.again(said, False, transport.names[peer], partial(check, peer))
        transport.tell(peer, b"".join(twice))
    common = _common_places(transport, network, np.zeros(len(ids), np.bool_))
    rows = [order[j] for j in np.flatnonzero(common)]
    salt = transport.own.words(SALT, 4).tobytes()
    tokens = tokens_of(salt, (ids[k] for k in rows))
    for peer in others:
        transport.tell(peer, salt + b"".join(tokens))
    return rows, tokens


def intersect(
    transport: Parties, network: Network, holder: int, ids: Sequence[str], check: CheckSet
) -> tuple[list[int], list[bytes]]:
    """Rows of another party that are common, and their tokens, in the order of all parties."""
    cipher = Cipher(transport)
    order = _shuffled(transport, len(ids))
    transport.tell(holder, cipher.encrypt([ids[k] for k in order]))
    name = transport.names[holder]
    theirs = cipher.again(
        transport.hear(holder, MAX_MESSAGE_BYTES), True, name, partial(check, holder)
    )
    size = len(theirs[0]) if theirs else 1
    mine = set(cut(transport.hear(holder, MAX_MESSAGE_BYTES), size))
    common = _common_places(transport, network, np.array([one not in mine for one in theirs], bool))
    told = transport.hear(holder, MAX_MESSAGE_BYTES)
    tokens = cut(told[32:])
    found = {token: k for k, token in enumerate(tokens_of(told[:32], ids))}
    wrong = len(tokens) != common.sum() or len(set(tokens)) < len(tokens)
    if wrong or any(token not in found for token in tokens):
        raise PeerError(f"{name} told common rows that this party does not have.")
    return [found[token] for token in tokens], tokens


def _shuffled(transport: Parties, count: int) -> list[int]:
    """An order that only this party knows, the same after a restart."""
    return [int(k) for k in np.argsort(transport.own.words(ORDER, count), kind="stable")]


def _common_places(transport: Parties, network: Network, lacking: Array) -> Array:
    """Which places nobody lacks."""
    words = np.zeros((len(lacking), 2), np.uint64)
    words[:] = transport.own.words(ABSENT, words.size).reshape(words.shape)
    words[~lacking] = 0
    total, _ = transport.add_words(words, True, network)
    return np.logical_not(total.any(axis=1))
