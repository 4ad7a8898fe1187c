"""What travels in a learning study, and what can be learned from it."""

import math
import struct

import numpy as np
import pytest

from dual2.learn.federated import fitting
from dual2.learn.federated.fitting import align, fit
from dual2.learn.federated.intersection import Cipher
from dual2.learn.federated.labels import keep_probability, randomise
from dual2.learn.federated.prediction import predict
from dual2.runtime.peers.carrier_tls import Connection
from dual2.runtime.peers.masks import Randomness
from learning_offices import Offices, World, done, joined, make_world

quiet = {"say": lambda text: None}


@pytest.fixture
def wire(monkeypatch):
    """All that any party sends, before it is encrypted."""
    sent: list[bytes] = []
    original = Connection.send

    async def tapped(self, *parts: bytes) -> None:
        sent.append(b"".join(bytes(part) for part in parts))
        await original(self, *parts)

    monkeypatch.setattr(Connection, "send", tapped)
    return sent


def forms(number: float) -> list[bytes]:
    """A number as a double, and as the text of a file."""
    return [struct.pack("<d", number), struct.pack(">d", number), repr(float(number)).encode()]


def test_no_id_feature_or_coefficient_is_on_the_wire(tmp_path, wire):
    """Not even in predictions; labels are, which is why a study must accept it."""
    world = make_world(40, 8)
    offices = Offices(tmp_path / "all", world, policy="psi")
    done(offices.everyone(lambda own: align(own, **quiet)))
    models = done(offices.everyone(lambda own: fit(own, **quiet)))
    made = done(offices.everyone(lambda own: predict(own, own.table, **quiet)))
    said = b"".join(wire)
    assert len(said) > 50_000 and b"incarnation" in said  # the tap works
    ids = {one for table in world.tables.values() for one in table["patient"]}
    common = set(joined(world)[0])
    assert len(common) == 40 and not [one for one in ids if one.encode() in said]
    private = [v for t in world.tables.values() for c in t.values() for v in c]
    numbers = [v for v in private if isinstance(v, float)]
    numbers += [v for model in models.values() for v in model.coefficients.ravel()]
    numbers += [
        v for model in models.values() for c in model.preparation.columns for v in (c.mean,)
    ]
    assert not [v for v in numbers if v and any(form in said for form in forms(v))]
    scores = made["hospital"].scores
    assert scores is not None
    assert not [v for v in scores.ravel() if any(form in said for form in forms(v))]


def test_only_the_receiver_can_read_a_total(tmp_path, monkeypatch):
    """Every other party gets words that have nothing to do with the scores."""
    world = make_world(40, 0, mixed=False)
    offices = Offices(tmp_path / "all", world)
    done(offices.everyone(lambda own: fit(own, **quiet)))
    seen: dict[int, np.ndarray] = {}
    from dual2.learn.federated import prediction

    original = prediction.sum_for

    def spied(own, transport, part, receiver, number):
        found = original(own, transport, part, receiver, number)
        seen[own.party.me] = found
        return found

    monkeypatch.setattr(prediction, "sum_for", spied)
    made = done(offices.everyone(lambda own: predict(own, own.table, **quiet)))
    scores = made["hospital"].scores
    assert scores is not None and np.array_equal(seen[0], scores.ravel())
    assert np.array_equal(seen[1], seen[2])
    assert np.median(np.abs(seen[1])) > 2.0**30 > 1e6 * np.max(np.abs(scores))


# -- labels ----------------------------------------------------------------------------------------
def guesses(offices: Offices, monkeypatch) -> tuple[np.ndarray, np.ndarray]:
    """What the lab guesses from the price, and the labels of the hospital's table."""
    prices: dict[int, np.ndarray] = {}
    original = fitting.train_here

    def spied(place, *rest):
        found = original(place, *rest)
        prices[place.me] = found.result.dual
        return found

    monkeypatch.setattr(fitting, "train_here", spied)
    done(offices.everyone(lambda own: fit(own, **quiet)))
    return (prices[1] < 0).astype(int), np.array(offices.world.tables["hospital"]["stroke"])


def plain(rows: int) -> World:
    return make_world(rows, 0, mixed=False)


def test_the_price_tells_labels_that_are_not_protected(tmp_path, monkeypatch):
    guess, true = guesses(Offices(tmp_path / "all", plain(300)), monkeypatch)
    assert np.array_equal(guess, true)


def test_the_price_tells_randomised_labels_only(tmp_path, monkeypatch):
    """An attack on λ is right as often as ε allows, e^ε/(1 + e^ε), and no more."""
    rows, epsilon = 300, 1.0
    offices = Offices(tmp_path / "all", plain(rows), labels=f"epsilon = {epsilon}")
    guess, true = guesses(offices, monkeypatch)
    kept = keep_probability(epsilon, 2)
    allowed = kept + 5.0 * math.sqrt(kept * (1 - kept) / rows)
    assert np.mean(guess == true) <= allowed < 1.0
    assert kept == pytest.approx(math.exp(epsilon) / (1.0 + math.exp(epsilon)))
    model = (offices.state("hospital") / "model.json").read_text()
    changed = int(np.sum(guess != true))
    assert f"{changed} of {rows} labels were changed" in model
    assert "labels were changed" not in (offices.state("lab") / "model.json").read_text()


def test_a_label_is_randomised_once_for_ever():
    """The same row has the same answer, so that further runs tell nothing new."""
    codes, rows = np.arange(3000) % 3, [f"r{k}" for k in range(3000)]
    found = randomise(codes, rows, 3, 2.0, b"k" * 32)
    back = np.random.default_rng(0).permutation(3000)
    assert np.array_equal(
        randomise(codes[back], [rows[k] for k in back], 3, 2.0, b"k" * 32), found[back]
    )
    assert not np.array_equal(randomise(codes, rows, 3, 2.0, b"l" * 32), found)
    kept = keep_probability(2.0, 3)
    assert abs(np.mean(found == codes) - kept) < 5.0 * math.sqrt(kept * (1 - kept) / 3000)
    wrong = found[found != codes]
    assert np.all(np.bincount(wrong, minlength=3) > 0.2 * len(wrong))
    ratio = kept / ((1.0 - kept) / 2.0)  # likelihoods of any answer differ by at most e^ε
    assert ratio == pytest.approx(math.exp(2.0))


# -- rows ------------------------------------------------------------------------------------------
class Alone:
    """As much of a transport as a cipher asks for."""

    def __init__(self, key: bytes) -> None:
        self.own = Randomness(key)


def test_encryption_commutes_and_hides_the_order():
    """What the intersection rests on: E_a E_b = E_b E_a, and a sorted answer says no places."""
    first, second = Cipher(Alone(b"a" * 32)), Cipher(Alone(b"b" * 32))
    ids = [f"p{k}" for k in range(20)]
    here = second.again(first.encrypt(ids), ordered=True)
    there = first.again(second.encrypt(ids), ordered=True)
    assert here == there and len(set(here)) == 20
    hidden = first.again(second.encrypt(ids), ordered=False)
    assert hidden == sorted(there) != there
    assert first.encrypt(ids) == Cipher(Alone(b"a" * 32)).encrypt(ids)  # the same after a restart
    assert first.encrypt(ids) != second.encrypt(ids)
