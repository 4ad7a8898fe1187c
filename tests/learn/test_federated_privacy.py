"""What travels in a learning study, and what can be learned from it."""

import math
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from dual2.learn.vertical import fitting, prediction
from dual2.learn.vertical.fitting import align, fit
from dual2.learn.vertical.intersection import Cipher
from dual2.learn.vertical.label_noise import keep_probability, randomise
from dual2.learn.vertical.party_file import read_learn_party
from dual2.learn.vertical.prediction import predict
from dual2.learn.vertical.tables import as_table
from dual2.runtime.peers.masks import Randomness
from dual2.runtime.peers.tls_transport import Connection
from learning_offices import Offices, done, joined, make_world

quiet = {"report": lambda text: None}


def found_in(said: bytes, numbers: Iterable[float]) -> list[float]:
    """Numbers that occur as doubles of either byte order at any place, or as text."""
    values = np.unique(np.array([v for v in numbers if v], dtype=np.float64))
    texts = b" ".join(re.findall(rb"[0-9.e+-]{6,}", said))
    hits = [float(v) for v in values if repr(float(v)).encode() in texts]
    forms = np.concatenate([values, values.byteswap()]).view(np.uint64)
    likely = np.zeros(1 << 16, np.bool_)  # few words have the last bytes of any of them
    likely[forms & np.uint64(0xFFFF)] = True
    for shift in range(8):
        words = np.frombuffer(said[shift : shift + (len(said) - shift) // 8 * 8], np.uint64)
        words = words[likely[words & np.uint64(0xFFFF)]]
        hits += values[np.flatnonzero(np.isin(forms, words)) % len(values)].tolist()
    return hits


@dataclass
class Seen:
    """A whole study, and what was seen of it."""

    offices: Offices
    models: dict[str, Any]
    made: dict[str, Any]
    wire: bytes  # all that any party sent, before it was encrypted
    trained: int  # bytes of it that were sent before anything was predicted
    totals: dict[int, np.ndarray]  # what each party reads of the sum of the scores


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> Iterator[Seen]:
    sent: list[bytes] = []
    totals: dict[int, np.ndarray] = {}
    put, add = Connection.put, prediction.sum_for

    def tapped(self: Connection, *parts: bytes) -> bool:
        sent.append(b"".join(bytes(part) for part in parts))
        return put(self, *parts)

    def spied(own: Any, *rest: Any) -> np.ndarray:
        totals[own.party.me] = found = add(own, *rest)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Connection, "put", tapped)
        patch.setattr(prediction, "sum_for", spied)
        offices = Offices(tmp_path_factory.mktemp("wire") / "all", make_world(40, 8), policy="psi")
        done(offices.everyone(lambda own: align(own, **quiet)))
        models = done(offices.everyone(lambda own: fit(own, **quiet)))
        trained = sum(map(len, sent))
        made = done(offices.everyone(lambda own: predict(own, own.table, **quiet)))
        yield Seen(offices, models, made, b"".join(sent), trained, dict(totals))


def watch_prices(patch: pytest.MonkeyPatch) -> dict[int, np.ndarray]:
    prices: dict[int, np.ndarray] = {}
    original = fitting.train_here

    def spied(place: Any, *rest: Any) -> Any:
        found = original(place, *rest)
        prices[place.me] = found.result.dual
        return found

    patch.setattr(fitting, "train_here", spied)
    return prices


def test_no_id_feature_or_coefficient_is_on_the_wire(study):
    """Nor labels, scores of training rows or scores of predictions."""
    said, world = study.wire, study.offices.world
    assert len(said) > 50_000 and b"incarnation" in said  # the tap works
    ids = {one.encode() for table in world.tables.values() for one in table["patient"]}
    assert len(set(joined(world)[0])) == 40
    assert not ids & set(re.findall(rb"p[0-9]{5}", said))
    private = [v for table in world.tables.values() for column in table.values() for v in column]
    numbers = [v for v in private if isinstance(v, float)]
    numbers += [v for model in study.models.values() for v in model.coefficients.ravel()]
    numbers += [c.mean for model in study.models.values() for c in model.preparation.columns]
    assert not found_in(said, numbers)
    scores = study.made["hospital"].scores.ravel().tolist()
    assert not found_in(said, scores)
    for form in (struct.pack("<d", numbers[7]), repr(numbers[7]).encode()):
        assert found_in(said[:1001] + b" " + form + said[1001:9000], numbers) == [numbers[7]]


LEAKS = {
    "feature": lambda own, index: struct.pack("<d", own.table.column("x3")[int(index[5])]),
    "swapped": lambda own, index: struct.pack(">d", own.table.column("x3")[int(index[5])]),
    "id": lambda own, index: own.table.column("patient")[int(index[5])].encode(),
}


@pytest.mark.parametrize("name", LEAKS)
def test_a_planted_leak_is_found(tmp_path, monkeypatch, name):
    """The search of the wire finds a value that the lab tells while it trains."""
    sent: list[bytes] = []
    put, train = Connection.put, fitting.train_mixed

    def tapped(self: Connection, *parts: bytes) -> bool:
        sent.append(b"".join(bytes(part) for part in parts))
        return put(self, *parts)

    def leaking(own: Any, transport: Any, *rest: Any) -> Any:
        if own.party.name == "lab":
            transport.tell(0, b"abc" + LEAKS[name](own, range(99)))
        if own.party.name == "hospital":
            transport.hear(1, 99)
        return train(own, transport, *rest)

    monkeypatch.setattr(Connection, "put", tapped)
    monkeypatch.setattr(fitting, "train_mixed", leaking)
    offices = Offices(tmp_path / "all", make_world(20, 0, mixed=False))
    own = read_learn_party(offices.file("lab"))
    numbers = own.table.columns
    done(offices.everyone(lambda one: fit(replace(one, read=floats(one)), **quiet)))
    said = b"".join(sent)
    if name == "id":
        assert set(re.findall(rb"p[0-9]{5}", said)) == {numbers["patient"][5].encode()}
    else:
        assert found_in(said, map(float, numbers["x3"])) == [float(numbers["x3"][5])]


def floats(own: Any) -> Any:
    """A reader of the party's table whose numbers are numbers."""
    columns = {
        name: [float(v) for v in column] if name == "x3" else column
        for name, column in own.table.columns.items()
    }
    return lambda: as_table(columns)


def test_only_the_receiver_can_read_a_total(study):
    """Every other party gets words that have nothing to do with the scores."""
    scores, totals = study.made["hospital"].scores, study.totals
    assert np.array_equal(np.sort(totals[0]), np.sort(scores.ravel()))
    assert np.array_equal(totals[1], totals[2])
    assert np.median(np.abs(totals[1])) > 2.0**30 > 1e6 * np.max(np.abs(scores))


# -- labels ----------------------------------------------------------------------------------------
ONE_NORM = {"options": "{ l1_ratio = 0.5 }", "sums": "sums = { matrices = true }"}
"""A study whose penalty is no square: all parties work in every sum, and see dual values."""


def test_dual_values_tell_labels_that_are_not_protected(tmp_path, monkeypatch):
    """The lab guesses every label of the hospital from the sign of λ."""
    offices = Offices(tmp_path / "all", make_world(40, 0, mixed=False), **ONE_NORM)
    prices = watch_prices(monkeypatch)
    done(offices.everyone(lambda own: fit(own, **quiet)))
    true = offices.world.tables["hospital"]["stroke"]
    assert [int(price < 0) for price in prices[1]] == true


def test_no_attack_finds_more_than_randomised_labels(tmp_path, monkeypatch):
    """Of labels that features say nothing about no attack finds more than e^ε/(1 + e^ε)."""
    rows, epsilon = 400, 1.0
    world = make_world(rows, 0, mixed=False)
    true = np.random.default_rng(5).integers(0, 2, rows)
    world.tables["hospital"]["stroke"] = true.tolist()
    world.columns["lab"].pop("ward")
    offices = Offices(tmp_path / "all", world, labels=f"epsilon = {epsilon}", **ONE_NORM)
    prices = watch_prices(monkeypatch)
    models = done(offices.everyone(lambda own: fit(own, **quiet)))
    price = (prices[1] < 0).astype(int)
    scores = sum(m.scores(own.table, np.arange(rows)) for m, own in owned(offices, models))[:, 0]
    kept = keep_probability(epsilon, 2)
    noise = 5.0 * math.sqrt(kept * (1 - kept) / rows)
    sides = scores > 0
    attacks = {"price": price, "score": sides.astype(int), "both": np.where(sides, price, 0)}
    found = {name: float(np.mean(guess == true)) for name, guess in attacks.items()}
    assert max(found.values()) <= kept + noise < 1.0 and found["price"] >= kept - noise
    assert kept == pytest.approx(math.exp(epsilon) / (1.0 + math.exp(epsilon)))
    model = (offices.state("hospital") / "model.json").read_text()
    assert f"{int(np.sum(price != true))} of {rows} labels were changed" in model
    assert "labels were changed" not in (offices.state("lab") / "model.json").read_text()


def owned(offices: Offices, models: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Each party's model and its files."""
    return [(model, read_learn_party(offices.file(name))) for name, model in models.items()]


def test_a_label_is_randomised_once_for_ever():
    """The same row has the same answer, so that further runs tell nothing new."""
    codes, rows = np.arange(3000) % 3, [f"r{k}" for k in range(3000)]
    found = randomise(codes, rows, "abc", 2.0, b"k" * 32)
    back = np.random.default_rng(0).permutation(3000)
    assert np.array_equal(
        randomise(codes[back], [rows[k] for k in back], "abc", 2.0, b"k" * 32), found[back]
    )
    assert not np.array_equal(randomise(codes, rows, "abc", 2.0, b"l" * 32), found)
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
