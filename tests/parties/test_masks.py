"""Masks follow from a key, the chain of totals and the number of a sum alone, and cancel."""

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from dual2.engine.fixed_point import add_words
from dual2.runtime.peers.masks import Masks, Randomness, Secret

RUN, STUDY, CHAIN = bytes(16), bytes(32), bytes(range(32))
SHAPES = [(22, 2), (22, 2), (22, 2), (7,), (7,), (22, 2), (3, 33), (3, 33), (5000, 2), (5000, 2)]


@pytest.fixture
def masks(tmp_path):
    """Those of three parties; each call makes them anew, as a restart does."""
    for i in range(3):
        (tmp_path / str(i)).mkdir()
    secrets = [Secret(tmp_path / str(i), b"", lambda text: b"signature") for i in range(3)]
    publics = {i: one.entry[:32] for i, one in enumerate(secrets)}

    def make(me: int) -> Masks:
        others = {i: public for i, public in publics.items() if i != me}
        return Masks(secrets[me], me, others, RUN, STUDY)

    return make


@pytest.mark.parametrize("index, count", [(0, 1), (5, 7), (2**40, 44), (9, 4001)])
def test_words_are_those_of_counter_mode(index, count):
    key = bytes(range(32))
    stream = Cipher(AES(key), CTR(index.to_bytes(8, "big") + bytes(8))).encryptor()
    expected = np.frombuffer(stream.update(bytes(8 * count)), "<u8")
    assert (Randomness(key).words(index, count) == expected).all()


def test_masks_cancel(masks):
    parties = [masks(me) for me in range(3)]
    for index, shape in enumerate(SHAPES):
        first, *others = (one.draw(index, CHAIN, shape) for one in parties)
        assert len(np.unique(first)) == first.size
        for other in others:
            if len(shape) == 1:
                first += other
            else:
                add_words(first, other)
        if len(shape) == 2:  # there the parties have counted themselves
            assert first[-2].tolist() == [3] + [0] * (shape[1] - 1)
            first[-2] = 0
        assert not first.any()


def test_masks_are_the_same_after_a_restart_and_never_used_twice(masks):
    """Whatever was drawn before, and whatever became of it."""
    running, seen = masks(1), set()
    for index, shape in enumerate(SHAPES):
        alone = masks(1).draw(index, CHAIN, shape)
        found = running.draw(index, CHAIN, shape)
        assert found.shape == shape and (found == alone).all()
        found[:] = 0  # whoever asked may change them
        assert not seen & {word.tobytes() for word in alone.ravel()}
        seen |= {word.tobytes() for word in alone.ravel()}


@pytest.mark.parametrize("shape", [(7,), (22, 2)])
def test_masks_of_other_totals_share_nothing(masks, shape):
    """One bit of the chain changes every word, and the words do not cancel any more."""
    other = bytes([CHAIN[0] ^ 1]) + CHAIN[1:]
    one, two = (masks(1).draw(5, chain, shape) for chain in (CHAIN, other))
    assert not np.isin(one, two).any()
    assert not np.isin(masks(0).draw(5, CHAIN, shape) + two, [0]).any()
