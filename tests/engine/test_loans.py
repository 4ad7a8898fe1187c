"""Tuples lent to kernels: read back as they are, kept alive, typed once."""

import gc
from typing import NamedTuple

import numpy as np
import pytest
from numba.core.errors import TypingError

from dual2.compiled import compiled
from dual2.engine.unowned import Loan, unowned
from dual2.runtime.rows import Team


class Inner(NamedTuple):
    weights: np.ndarray
    count: int


class Given(NamedTuple):
    rows: np.ndarray
    scale: float
    inner: Inner
    marks: np.ndarray
    clipped: bool


@compiled
def gathered(given, factor, member):
    """Sums of all that is in ``given``, and a mark left in it."""
    given, member = unowned((given, member))
    total = given.scale * factor if given.clipped else 0.0
    for i in range(given.rows.shape[0]):
        for k in range(given.rows.shape[1]):
            total += given.rows[i, k] * given.inner.weights[k]
    for mark in given.marks:
        total += mark
    given.marks[0] += given.inner.count
    return total + member.threads


def given(rows=None, clipped=True):
    rows = np.arange(6.0).reshape(2, 3) if rows is None else rows
    inner = Inner(np.array([1.0, -2.0, 0.5]), 7)
    return Given(rows, -0.25, inner, np.zeros(2, np.int64), clipped)


def plainly(one, factor):
    own = one.scale * factor if one.clipped else 0.0
    return own + float((one.rows @ one.inner.weights).sum()) + float(one.marks.sum()) + 1.0


@pytest.mark.parametrize("clipped", [True, False])
def test_a_kernel_reads_what_was_lent(clipped):
    team, one = Team(1), given(clipped=clipped)
    for _ in range(3):
        expected = plainly(one, 4.0)
        assert team.run(gathered, one, 4.0) == expected
    assert one.marks.tolist() == [21, 0], "what the kernel writes is in the caller's arrays"


def test_another_tuple_is_noticed_and_the_specialisation_is_one():
    team, one = Team(1), given()
    team.run(gathered, one, 1.0)
    before = len(gathered.signatures)
    other = one._replace(rows=one.rows + 1.0, scale=3.0)
    expected = plainly(other, 1.0)
    assert team.run(gathered, other, 1.0) == expected
    assert len(gathered.signatures) == before


def test_kernels_that_are_given_the_same_tuple_share_its_loan():
    team, one, other = Team(1), given(), given()
    first, again, anew = (team.lend(k, (1.0, x))[1] for k, x in ((1, one), (2, one), (2, other)))
    assert first is again and anew.given is other
    assert team.lend(1, (1.0, one))[1] is first


def test_layouts_are_told_apart():
    wide = np.arange(12.0).reshape(2, 6)
    frozen = np.ones((2, 3))
    frozen.setflags(write=False)
    for rows in (wide[:, ::2], wide.reshape(3, 4)[:, :2].T, frozen):
        one = given(rows)
        expected = plainly(one, 2.0)
        assert Team(1).run(gathered, one, 2.0) == expected


def test_a_loan_keeps_its_arrays():
    loan = Loan(given(np.full((50, 3), 2.0)))
    gc.collect()
    filler = [np.full((50, 3), np.nan) for _ in range(100)]
    assert len(filler) == 100 and loan.rows.sum() == 300.0
    assert gathered(loan, 0.0, Loan(Team(1)._members[0].given)) == 300.0 * -0.5 / 3.0 + 1.0


def test_what_cannot_be_lent_is_refused():
    class Odd(NamedTuple):
        small: np.float32

    @compiled
    def first(odd):
        return unowned(odd).small

    with pytest.raises((TypingError, TypeError), match="float32"):
        first(Loan(Odd(np.float32(1.0))))
