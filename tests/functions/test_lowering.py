"""What each function becomes for the compiled loops, and kernels for large blocks."""

import dataclasses

import numpy as np
import pytest

import dual2.functions as fn
import howto
from dual2.functions.kernels import prox_block
from dual2.functions.lowering import KernelKind, prox_blocks, smooth_form
from dual2.functions.separable import separable_form
from dual2.testing import compiled_prox

Y = np.array([1.0, -2.0, 0.5])
TALL = np.array([[1.0, 0.2, -0.4], [0.3, -1.1, 0.8], [0.0, 0.5, 1.3], [-0.7, 0.1, 0.9]])
DENSE = TALL.T @ TALL
LOWERED = [
    ("l1", [(KernelKind.SEPARABLE, 0)]),
    ("box", [(KernelKind.SEPARABLE, 4)]),
    ("huber", [(KernelKind.SEPARABLE, 5)]),
    ("l2", [(KernelKind.L2, 0)]),
    ("simplex", [(KernelKind.SIMPLEX, 0)]),
    ("ball", [(KernelKind.BALL, 0)]),
    ("halfspace", [(KernelKind.HALFSPACE, 0)]),
    ("affine", [(KernelKind.AFFINE, 0)]),
    ("logistic loss", [(KernelKind.LOGISTIC, 0)]),
    ("poisson loss", [(KernelKind.POISSON, 0)]),
    ("negative log", [(KernelKind.LOG, 0)]),
    ("entropy", [(KernelKind.ENTROPY, 0)]),
    ("max", [(KernelKind.SIMPLEX, 1)]),
    ("quadratic", [(KernelKind.CALLBACK, 0)]),
    ("stacked", [(KernelKind.SEPARABLE, 4), (KernelKind.L2, 0)]),
    ("stacked separable", [(KernelKind.SEPARABLE, 0)]),
]


@pytest.mark.parametrize(("row", "expected"), LOWERED)
def test_blocks(cases, row, expected):
    assert [(b.kind, b.flags) for b in prox_blocks(cases[row], 3)] == expected


DUAL = [
    ("squared loss", (KernelKind.SEPARABLE, 4)),
    ("nonnegative squared loss", (KernelKind.SEPARABLE, 5)),
    ("elastic net", (KernelKind.SEPARABLE, 1)),
    ("huber", (KernelKind.SEPARABLE, 4)),
    ("l2", (KernelKind.BALL, 0)),
    ("ball, centre", (KernelKind.L2, 2)),
    ("simplex", (KernelKind.SIMPLEX, 1)),
    ("logistic loss", (KernelKind.LOGISTIC, 1)),
]


@pytest.mark.parametrize(("row", "expected"), DUAL)
def test_blocks_of_conjugates(cases, row, expected):
    (block,) = prox_blocks(cases[row].conjugate, 3)
    assert (block.kind, block.flags) == expected


def test_affine_changes_keep_their_kernel(cases):
    changed = (2 * cases["logistic loss"]).shift(1.0)
    assert [(b.kind, b.flags) for b in prox_blocks(changed, 3)] == [(KernelKind.LOGISTIC, 2)]
    assert [(b.kind, b.flags) for b in prox_blocks(changed.conjugate, 3)] == [
        (KernelKind.LOGISTIC, 3)
    ]
    assert prox_blocks((2 * cases["huber"]).shift(1.0), 3)[0].flags == 5
    assert prox_blocks(cases["huber"].plus_quadratic(1.0), 3)[0].kind == KernelKind.CALLBACK


def test_one_dtype_and_layout(case):
    for f in (case, case.conjugate, 2 * case.shift(Y)):
        for block in prox_blocks(f, 3):
            assert block.params.dtype == np.float64
            assert block.params.ndim == 1
            assert block.params.flags.c_contiguous
            assert block.params.flags.writeable


def test_separable_form_has_full_length():
    form = separable_form(fn.IndicatorBox(0.0, np.inf).tilt(2.0), 4)
    assert form is not None
    for field in dataclasses.fields(form):
        assert np.shape(getattr(form, field.name)) == (4,)
    assert separable_form(fn.L2Norm(1.0), 4) is None


def test_separable_params_are_in_the_documented_order():
    f = fn.PiecewiseQuadratic(2.0, 0.5, 3.0, 9.0, -1.0, 4.0, 0.25, -5.0, 6.0)
    (block,) = prox_blocks(f, 2)
    expected = [2.0, 3.0 - 2.0 * 0.5, -1.0, 4.0, 0.25, -5.0, 6.0]
    np.testing.assert_array_equal(block.params, np.repeat(expected, 2))


BIG = {
    "simplex": lambda d: fn.IndicatorSimplex(3.0),
    "simplex, conjugate": lambda d: fn.IndicatorSimplex(3.0).conjugate,
    "ball": lambda d: fn.IndicatorBall(2.0, 0.1),
    "affine": lambda d: fn.IndicatorAffine(np.cos(np.outer(np.arange(7), np.arange(d))), 1.0),
    "logistic": lambda d: fn.LogisticLoss(np.resize([1.0, -1.0, -1.0], d)).conjugate,
    "quantile": lambda d: fn.QuantileLoss(np.linspace(-3, 3, d), 0.3),
}


@pytest.mark.parametrize("make", BIG.values(), ids=BIG)
def test_kernels_on_long_vectors(make):
    f = make(400)
    rng = np.random.default_rng(5)
    for v in (rng.standard_normal(400), 1e3 * rng.standard_normal(400), np.ones(400)):
        expected = f.prox(v, 0.3)
        np.testing.assert_allclose(compiled_prox(f, v, 0.3), expected, rtol=1e-12, atol=1e-11)


def test_kernels_do_not_write_to_their_input_or_beyond_the_work(cases):
    for f in (cases["ball"].conjugate, cases["affine"].conjugate, (2 * cases["affine"]).shift(Y)):
        (block,) = prox_blocks(f, 3)
        v, out, work = np.arange(3.0), np.empty(3), np.full(40, 7.0)
        prox_block(int(block.kind), block.flags, 0.5, v, out, block.params, work[:17])
        np.testing.assert_array_equal(v, np.arange(3.0))
        np.testing.assert_array_equal(work[17:], 7.0)


def test_one_specialisation_serves_every_kind(cases):
    before = len(prox_block.signatures)
    for f in cases.values():
        compiled_prox(f, np.ones(3), 1.0)
    assert len(prox_block.signatures) == max(before, 1)


def test_smooth_forms():
    form = smooth_form(fn.Quadratic(DENSE, Y), 3)
    assert form is not None
    assert form.dense is not None
    np.testing.assert_array_equal(form.dense, DENSE)
    labels = np.array([1.0, -1.0, 1.0, -1.0])
    form = smooth_form(fn.LogisticRegression(TALL, labels, ridge=0.5), 3)
    assert form is not None
    np.testing.assert_array_equal(form.M, labels[:, None] * TALL)
    np.testing.assert_array_equal(form.diagonal, 0.5)
    assert smooth_form(fn.Smooth(np.sin, 0.0, 1.0), 3) is None
    assert smooth_form(fn.L1Norm(1.0), 3) is None
    assert smooth_form(fn.HuberLoss(0.0, 1.0), 3) is None


@pytest.mark.parametrize(
    "row",
    [
        "squared norm, centre",
        "quadratic",
        "least squares",
        "logistic regression, ridge",
        "stacked quadratics",
    ],
)
def test_smooth_forms_after_an_affine_change_have_the_same_values(cases, row):
    f = (3.0 * cases[row].shift([0.5, -1.0, 2.0])).tilt(Y).plus_quadratic(0.25)
    form = smooth_form(f, 3)
    assert form is not None
    for x in np.random.default_rng(2).standard_normal((5, 3)):
        value = form.constant + form.linear @ x + 0.5 * form.diagonal @ x**2
        if form.dense is not None:
            value += 0.5 * x @ form.dense @ x
        if form.M is not None:
            value += form.weight @ np.log1p(np.exp(-(form.M @ x + form.offset)))
        assert value == pytest.approx(f.value(x), rel=1e-12)


def test_the_guide_is_short_and_compiled(cases):
    """A function that splits by coordinate is at most 40 lines, and never leaves the kernels."""
    assert len(howto.printed("howto_function.md")[0].splitlines()) <= 40
    (block,) = prox_blocks(cases["tariff of the guide"], 3)
    assert block.kind == KernelKind.SEPARABLE
