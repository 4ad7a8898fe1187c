"""Tuples packed for kernels: read back as they are, kept alive, typed once."""

import gc
from typing import NamedTuple

import numpy as np
import pytest
from numba.core.errors import TypingError

from dual2.compiled import compiled
from dual2.engine.packed_args import PackedArgs, borrowed
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
    given, member = borrowed((given, member))
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
def test_a_kernel_reads_a_packed_tuple(clipped):
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


def test_kernels_share_the_packed_form_of_one_tuple():
    team, one, other = Team(1), given(), given()
    first, again, new = (team.pack(k, (1.0, x))[1] for k, x in ((1, one), (2, one), (2, other)))
    assert first is again and new.given is other
    assert team.pack(1, (1.0, one))[1] is first


def test_layouts_are_distinguished():
    wide = np.arange(12.0).reshape(2, 6)
    frozen = np.ones((2, 3))
    frozen.setflags(write=False)
    for rows in (wide[:, ::2], wide.reshape(3, 4)[:, :2].T, frozen):
        one = given(rows)
        expected = plainly(one, 2.0)
        assert Team(1).run(gathered, one, 2.0) == expected


def test_packed_arguments_keep_their_arrays_alive():
    args = PackedArgs(given(np.full((50, 3), 2.0)))
    gc.collect()
    filler = [np.full((50, 3), np.nan) for _ in range(100)]
    assert len(filler) == 100 and args.rows.sum() == 300.0
    assert gathered(args, 0.0, PackedArgs(Team(1)._members[0].given)) == 300.0 * -0.5 / 3.0 + 1.0


def test_unsupported_types_are_refused():
    class Odd(NamedTuple):
        small: np.float32

    @compiled
    def first(odd):
        return borrowed(odd).small

    with pytest.raises((TypingError, TypeError), match="float32"):
        first(PackedArgs(Odd(np.float32(1.0))))


def test_the_old_names_for_kernels_give_the_present_ones_and_a_warning():
    from dual2 import compiled as decorators
    from dual2.engine import packed_args

    with pytest.warns(DeprecationWarning, match="borrowed"):
        assert packed_args.unowned is borrowed
    for old, new in (("spliced", "inline"), ("inlined", "forceinline")):
        with pytest.warns(DeprecationWarning, match=new):
            assert getattr(decorators, old) is getattr(decorators, new)
    with pytest.raises(AttributeError):
        decorators.nothing_like_this  # noqa: B018
