"""Sums in fixed point: equal to exact arithmetic, in any order, in one process and in several."""

import json
import math
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import dual2 as d2
from dual2.engine.accumulators import LIMBS, accumulate_rows, round_words
from dual2.engine.fixed_point import add_words, decode_words, encode_rows, subtract_words
from dual2.errors import CapabilityError, PeerError
from dual2.network import Network
from dual2.paper import experiment1
from dual2.runtime import Transport
from dual2.runtime.comm_mode import ITERATING
from dual2.runtime.exact import ExactSums
from dual2.runtime.transport import find_transport
from mpi_runs import run_script

PATH = Network(nx.path_graph(8))
doubles = st.floats(allow_nan=False, allow_infinity=False)


def whole(words: np.ndarray) -> list[int]:
    """The numbers in words, as Python's."""
    values = [int(low) + (int(high) << 64) for low, high in words]
    return [v - (1 << 128) if v >> 127 else v for v in values]


def table(places: int, limit: int = 2000) -> np.ndarray:
    return np.array([[places, 1, limit]])


@settings(max_examples=300, deadline=None)
@given(st.lists(doubles, min_size=1, max_size=8), st.integers(-900, 1100))
def test_encoding_rounds_the_exact_product_once(values, places):
    limit = 123 - places  # what 126 - log2(8) leaves
    rows, words = np.array(values)[:, None], np.zeros((1, 2), np.uint64)
    fits = encode_rows(rows, table(places, limit), 1, words)
    assert fits == all(math.frexp(v)[1] <= limit for v in values if v)
    if fits:
        assert whole(words) == [sum(round(Fraction(v) * Fraction(2) ** places) for v in values)]


def near_halves(a: int, shift: int, more: int, sign: int) -> int:
    """Half way between two doubles, or one beside it."""
    return sign * (((2 * a + 1) << shift) + more)


halves = st.builds(
    near_halves,
    st.integers(2**52, 2**53 - 1),
    st.integers(0, 72),
    st.sampled_from([-1, 0, 1]),
    st.sampled_from([-1, 1]),
)


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.integers(-(2**127), 2**127 - 1), halves), st.integers(-800, 900))
def test_decoding_rounds_once_to_the_nearest_double(number, places):
    word = number % 2**128
    words, out = np.array([[word % 2**64, word >> 64]], np.uint64), np.empty(1)
    decode_words(words, table(places), 1, out, 0)
    exact = Fraction(number) / Fraction(2) ** places
    assert out[0] == exact.numerator / exact.denominator  # true division of ints rounds correctly


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 5), st.lists(st.integers(0, 2**320 - 1), min_size=2, max_size=2))
@example(3, [2**192 - 1, 1])
@example(3, [2**64, 2**128 - 1])
def test_addition_and_subtraction_carry(limbs, numbers):
    first, second = (words_of(v, limbs) for v in numbers)
    total = first.copy()
    add_words(total, second)
    assert (total == words_of(sum(numbers), limbs)).all()
    subtract_words(total, second)
    assert (total == first).all()
    subtract_words(total, second)
    assert (total == words_of(numbers[0] - numbers[1], limbs)).all()


def words_of(number: int, limbs: int) -> np.ndarray:
    """A number modulo 2^(64·limbs), its lowest word first."""
    return np.array([[(number >> (64 * k)) % 2**64 for k in range(limbs)]], np.uint64)


@settings(max_examples=300, deadline=None)
@given(st.lists(doubles, min_size=1, max_size=12))
@example([5e-324, -5e-324, 1.7976931348623157e308])
@example([1.0, 2.0**-53, 5e-324])
@example([-1.0, -(2.0**-53)])
@example([2.0**-1022, -5e-324])
def test_sums_of_any_doubles_are_rounded_once(values):
    words, out = np.zeros((1, LIMBS), np.uint64), np.empty(1)
    assert accumulate_rows(np.array(values)[:, None], words)
    exact = sum(map(Fraction, values))
    assert (words == words_of(int(exact * 2**1074), LIMBS)).all()
    round_words(words, out)
    try:
        assert out[0] == exact.numerator / exact.denominator
    except OverflowError:
        assert out[0] == (math.inf if exact > 0 else -math.inf)


def test_what_is_not_finite_has_no_words():
    for value in (np.inf, -np.inf, np.nan):
        assert not accumulate_rows(np.array([[1.0, value]]), np.zeros((2, LIMBS), np.uint64))


@pytest.mark.parametrize("cancelling", [False, True])
def test_sums_equal_fsum_over_19_decades_in_any_order(cancelling):
    draw = np.random.default_rng(3)
    rows = draw.choice([-1.0, 1.0], (8, 3000)) * 10.0 ** draw.uniform(-9.5, 9.4, (8, 3000))
    if cancelling:
        rows[4:] = -rows[:4]
        rows[0] *= 1 + 1e-12
    sums = ExactSums(Transport())
    expected = [math.fsum(column) for column in rows.T]
    assert sums.sum(rows, PATH).tolist() == expected
    assert sums.sum(draw.permutation(rows), PATH).tolist() == expected


@pytest.mark.parametrize("block", [1, 3, 7])
def test_parts_of_a_message_are_decoded_as_the_whole(block):
    draw, width = np.random.default_rng(block), 50
    words = draw.integers(0, 2**63, (width, 2)).astype(np.uint64)
    places = np.array([[k % 90, 1, 0] for k in range(-(-width // block))], np.int64)
    whole, parts = np.empty(width), np.empty(width)
    decode_words(words, places, block, whole, 0)
    for first in range(0, width, 8):
        end = min(width, first + 8)
        decode_words(words[first:end], places, block, parts[first:end], first)
    assert parts.tolist() == whole.tolist()


def test_a_tight_range_is_exact_over_21_decades():
    draw = np.random.default_rng(4)
    rows = draw.choice([-1.0, 1.0], (8, 3000)) * 2.0 ** draw.uniform(-69, 0, (8, 3000))
    words, out, places = np.zeros((3000, 2), np.uint64), np.empty(3000), table(123, 0)
    assert encode_rows(rows, places, 3000, words)
    decode_words(words, places, 3000, out, 0)
    assert out.tolist() == [math.fsum(column) for column in rows.T]


class Counting(Transport):
    """Counts how often sizes are agreed on."""

    exact, agreed = True, 0

    def max_levels(self, levels, network):
        self.agreed += 1
        return super().max_levels(levels, network)


@pytest.mark.parametrize(("width", "agreed"), [(3, [0, 0, 0, 0, 1, 1]), (8193, [1, 1, 1, 2, 3, 3])])
def test_sizes_are_agreed_on_where_something_does_not_fit(width, agreed):
    """In short messages when it happens for the second time, in long ones from the beginning."""
    transport, rows = Counting(), np.ones((8, width))
    for factor, often in zip((1.0, 1e-9, 1e5, 1e9, 1e20, 1.0), agreed, strict=True):
        assert transport.sum(factor * rows, PATH, ITERATING).tolist() == [8.0 * factor] * width
        assert transport.agreed == often
    transport.sum(rows, PATH)
    assert transport.agreed == agreed[-1] + agreed[0]


def test_a_message_that_grows_keeps_its_sizes():
    """... as long as what is added is about as large as what was last in it, and not too long."""
    transport, draw = Counting(), np.random.default_rng(6)
    for width, factor, often in (
        (9000, 1.0, 1),
        (9002, 1e-4, 1),
        (9064, 1e4, 1),
        (9065, 1.0, 2),  # more than 64 numbers longer than any whose sizes are known
        (9067, 1e9, 3),  # does not fit
        (9067, 1e9, 3),
        (20_000, 1.0, 4),
    ):
        rows = factor * draw.uniform(1.0, 2.0, (8, width))
        assert transport.sum(rows, PATH, ITERATING).tolist() == [
            math.fsum(column) for column in rows.T
        ]
        assert transport.agreed == often


def test_parts_that_cancel_are_taken_to_be_as_large_as_those_around():
    transport, rows = Counting(), np.ones((8, 40))
    rows[::2, ::3] = -1.0
    for factor in (1.0, 3e4):
        assert (
            transport.sum(factor * rows, PATH, ITERATING).tolist()
            == (factor * rows.sum(axis=0)).tolist()
        )
    assert transport.agreed == 0


def test_what_is_not_finite_stays_what_it_is():
    rows = np.zeros((8, 5))
    rows[2] = [np.inf, np.nan, -np.inf, 1.5, 0.0]
    transport = find_transport("stacked", "exact")
    assert repr(transport.sum(rows, PATH).tolist()) == "[inf, nan, nan, 1.5, 0.0]"
    # a diverging run ends everywhere, NaN travels as infinity
    assert transport.sum(rows, PATH, ITERATING).tolist() == [np.inf, np.inf, np.inf, 1.5, 0.0]
    assert transport.sum(np.ones((8, 5)), PATH, ITERATING).tolist() == [8.0] * 5


def test_wide_messages_share_ranges_between_columns():
    rows = np.random.default_rng(5).standard_normal((8, 10_001))
    expected = [math.fsum(column) for column in rows.T]
    assert ExactSums(Transport()).sum(rows, PATH).tolist() == expected


class Liar(Transport):
    """One whose numbers do not fit whatever was agreed."""

    exact = True

    def add_words(self, words, fits, network):
        return words, False


def test_numbers_outside_the_agreed_range_are_an_error():
    with pytest.raises(PeerError, match="do not fit into the range"):
        Liar().sum(np.ones((8, 1)), PATH)


def test_unknown_sums_are_refused():
    problem, network, _ = experiment1()
    with pytest.raises(CapabilityError, match="sums='best' is unknown"):
        d2.solve(problem, network, sums="best")


def test_answers_have_the_same_bits_in_one_process_and_in_three():
    script = """
        import json, sys
        import dual2 as d2
        from dual2.paper import experiment1
        problem, network, _ = experiment1()
        found = {}
        for method in ("Newton", "iD2A"):
            result = d2.solve(problem, network, method=method, tol=1e-6, runtime="mpi",
                              sums="exact", record=False)
            found[method] = [result.counts.latency, result.dual.tolist(), result.objective]
        print(json.dumps(found), flush=True)
    """
    done = run_script(3, script)
    assert done.returncode == 0, done.stderr
    problem, network, _ = experiment1()
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(found) == 3
    for method in ("Newton", "iD2A"):
        here = d2.solve(problem, network, method=method, tol=1e-6, sums="exact", record=False)
        expected = [here.counts.latency, here.dual.tolist(), here.objective]
        assert all(other[method] == expected for other in found)
