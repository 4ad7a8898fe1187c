"""Standard errors against statsmodels; what is told about a fit."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes

import dual2 as d2
import dual2.learn as dl

sm = pytest.importorskip("statsmodels.api")
X, Y = load_diabetes(return_X_y=True)
RNG = np.random.default_rng(5)
WEIGHT = RNG.integers(0, 4, len(Y)).astype(float)
COUNTS = RNG.poisson(np.exp(0.3 + 4.0 * X[:, 2]))
BASE = sm.add_constant(X)


def compare(found, reference, tolerance=1e-6):
    """Intercepts are last here and first there."""
    order = np.r_[1 : len(found.coef), 0]
    pairs = [
        (found.coef, reference.params),
        (found.std_err, reference.bse),
        (found.statistic, reference.tvalues),
    ]
    for own, theirs in pairs:
        expected = np.asarray(theirs)[order]
        assert np.allclose(own, expected, rtol=tolerance, atol=tolerance * np.abs(expected).min())
    assert np.allclose(found.p_value, np.asarray(reference.pvalues)[order], atol=1e-6)
    bounds = np.asarray(reference.conf_int())[order]
    assert np.allclose(np.column_stack([found.lower, found.upper]), bounds, rtol=1e-5)


@pytest.mark.parametrize("kind", [dl.VerticalRidge, dl.VerticalElasticNet])
@pytest.mark.parametrize("standardize", [False, True])
def test_least_squares(kind, standardize):
    found = kind(0.0, parties=3, standardize=standardize).fit(X, Y).summary()
    compare(found, sm.OLS(Y, BASE).fit())
    assert found.kind == "t" and found.freedom == 442 - 11


def test_weights_are_precisions():
    found = dl.VerticalRidge(0.0).fit(X, Y, WEIGHT + 1.0).summary()
    compare(found, sm.WLS(Y, BASE, weights=WEIGHT + 1.0).fit())


def test_logistic():
    labels = (Y > 150).astype(int)
    found = dl.VerticalLogisticRegression(C=np.inf, parties=4).fit(X, labels).summary()
    compare(found, sm.Logit(labels, BASE).fit(disp=0, tol=1e-13), 1e-5)
    assert found.kind == "z" and found.communication["sums"] == 1
    weighted = dl.VerticalLogisticRegression(C=np.inf).fit(X, labels, WEIGHT).summary()
    family = sm.families.Binomial()
    compare(weighted, sm.GLM(labels, BASE, family, freq_weights=WEIGHT).fit(tol=1e-13), 1e-5)


def test_poisson():
    found = dl.VerticalPoissonRegressor(0.0).fit(X, COUNTS).summary()
    compare(found, sm.GLM(COUNTS, BASE, sm.families.Poisson()).fit(tol=1e-13), 1e-5)


def test_multinomial_contrasts():
    """Differences from the first class, which statsmodels takes as its parameters."""
    classes = np.digitize(Y, [100, 180])
    columns = X[:, [2, 3, 8]]
    model = dl.VerticalLogisticRegression(C=np.inf).fit(columns, classes)
    found = model.summary()
    reference = sm.MNLogit(classes, sm.add_constant(columns)).fit(disp=0, tol=1e-12)
    for k in (1, 2):
        contrast = np.zeros((4, 12))
        contrast[:, 4 * k : 4 * k + 4], contrast[:, :4] = np.eye(4), -np.eye(4)
        values, spread = contrast @ found.coef, contrast @ found.covariance @ contrast.T
        order = np.r_[1:4, 0]
        assert np.allclose(values, reference.params[order, k - 1], rtol=1e-5)
        assert np.allclose(np.sqrt(np.diag(spread)), reference.bse[order, k - 1], rtol=1e-5)
    assert found.names[:4] == ["0: x0", "0: x1", "0: x2", "0: intercept"]


def test_what_is_printed():
    frame = pd.DataFrame(X[:, :2], columns=["age", "sex"])
    model = dl.VerticalRidge(0.0, fit_intercept=False).fit(frame, Y)
    text = str(model.summary())
    assert text.splitlines()[0].split() == ["coef", "std", "err", "t", "P>|t|", "[0.025", "0.975]"]
    assert [line.split()[0] for line in text.splitlines()[1:]] == ["age", "sex"]
    assert "Communication: " in model.explain() and "times the 884 of the table" in model.explain()
    counts = model.communication_
    assert counts["latency"] == counts["rounds"] + counts["agree_rounds"]


def test_refusals():
    with pytest.raises(d2.ProblemError, match=r"VerticalRidge: a penalty biases .* alpha=0"):
        dl.VerticalRidge(1.0).fit(X, Y).summary()
    with pytest.raises(d2.ProblemError, match="VerticalHuberRegressor: its loss is no likelihood"):
        dl.VerticalHuberRegressor().fit(X, Y).summary()
    with pytest.raises(d2.ProblemError, match="linearly dependent"):
        dl.VerticalRidge(0.0).fit(np.c_[X, X[:, 0]], Y).summary()
    with pytest.raises(d2.ProblemError, match="11 samples and 11 coefficients found"):
        dl.VerticalRidge(0.0).fit(X[:11], Y[:11]).summary()
    again = pickle.loads(pickle.dumps(dl.VerticalRidge(0.0).fit(X, Y)))
    with pytest.raises(d2.ProblemError, match="Call fit again before summary"):
        again.summary()


def test_coefficients_are_drawn_with_their_intervals(tmp_path):
    pytest.importorskip("matplotlib", reason="figures need matplotlib")
    summary = (
        dl.VerticalRidge(0.0).fit(pd.DataFrame(X[:, :3], columns=["a", "b", "c"]), Y).summary()
    )
    panel = summary.plot(tmp_path / "coefficients.png").axes[0]
    drawn = {round(float(x), 9) for line in panel.lines[:2] for x in line.get_xdata()}
    assert drawn == {round(float(v), 9) for v in summary.coef[:3]}
    ends = np.array([part[:, 0] for lines in panel.collections for part in lines.get_segments()])
    np.testing.assert_allclose(np.sort(ends[:, 0]), np.sort(summary.lower[:3]))
    assert [label.get_text() for label in panel.get_yticklabels()] == ["a", "b", "c"]
    assert (tmp_path / "coefficients.png").exists()


def test_calibration_is_drawn_against_the_diagonal(tmp_path):
    pytest.importorskip("matplotlib", reason="figures need matplotlib")
    rows = [
        {"predicted": 0.2, "observed": 0.3, "rows": 25.0},
        {"predicted": 0.9, "observed": 0.8, "rows": 4.0},
    ]
    panel = dl.plot_calibration(rows, tmp_path / "calibration.png").axes[0]
    diagonal, points = panel.lines[0], panel.lines[1]
    assert list(diagonal.get_xdata()) == list(diagonal.get_ydata()) == [0, 1]
    assert list(points.get_xdata()) == [0.2, 0.9] and list(points.get_ydata()) == [0.3, 0.8]
    with pytest.raises(d2.ProblemError, match="no calibration to draw"):
        dl.plot_calibration([])
