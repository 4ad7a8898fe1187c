"""Exponents are recovered; summaries tell what did not converge."""

import csv
import math

import numpy as np
import pytest

from dual2.bench.case import Case
from dual2.bench.config import Study, parse_config
from dual2.bench.harness import run_cases
from dual2.bench.store import Store, StoredRun
from dual2.bench.study import exponents_csv, fit_power, growth, study_figure
from dual2.bench.summary import summarise, summary_csv, summary_figure

COUNTS = ("rounds", "agree_rounds", "grad_f", "prox_g", "A", "AT", "prox_h", "floats")


def run(q, cost, status="CONVERGED", label="iD2A", seed=0, **more):
    case = Case(f"f (kappa_f = {q})", label, "random", seed=seed, notes={"entry": "f"})
    counts = dict.fromkeys(COUNTS, round(cost)) | {"prox_g": round(2 * cost)}
    return StoredRun(case, status, seconds=cost, counts=counts, facts={"kappa_f": q}, **more)


def test_exponents_and_their_errors_are_those_of_least_squares():
    rng = np.random.default_rng(0)
    q = np.logspace(0, 3, 40)
    costs = 7 * q**0.6 * np.exp(0.1 * rng.standard_normal(40))
    power = fit_power(q.tolist(), costs.tolist())
    exact, covariance = np.polyfit(np.log(q), np.log(costs), 1, cov=True)
    assert power.exponent == pytest.approx(exact[0])
    assert math.log(power.factor) == pytest.approx(exact[1])
    assert power.error == pytest.approx(math.sqrt(covariance[0, 0]))
    assert abs(power.exponent - 0.6) < 3 * power.error


def test_nothing_is_fitted_through_less_than_two_points():
    assert fit_power([1.0], [2.0]) is None
    assert fit_power([2.0, 2.0], [1.0, 3.0]) is None
    assert fit_power([1.0, 2.0, 3.0], [1.0, math.nan, math.inf]) is None
    assert math.isnan(fit_power([1.0, 2.0], [1.0, 2.0]).error)


def test_a_study_without_a_fit_is_drawn_without_a_legend():
    """As after an interrupt; a warning would be an error here."""
    found = growth([Study("kappa_f", ("f",))], [run(4, 10)])
    assert found and not any(one.measured for one in found)
    assert study_figure(found, "title").axes[0].get_legend() is None


def test_a_study_uses_medians_of_converged_runs_and_the_prediction_of_the_same_problems():
    study = Study("kappa_f", ("f",))
    runs = [
        run(q, cost * 10 * q**0.5, seed=seed, predicted={"rounds": q**0.25, "oracle_a": math.inf})
        for q in (4.0, 16.0, 64.0)
        for seed, cost in enumerate((1.0, 100.0, 0.5))
    ]
    found = {one.kind: one for one in growth([study], [*runs, run(1e6, 1.0, "MAX_ROUNDS")])}
    assert found["rounds"].measured.exponent == pytest.approx(0.5, abs=1e-12)
    assert found["rounds"].measured.factor == pytest.approx(10)
    assert found["rounds"].theory.exponent == pytest.approx(0.25)
    assert found["oracle_a"].costs[:3] == (40, 80, 160) and found["oracle_a"].theory is None
    assert math.isnan(found["rounds"].costs[3]), "what did not converge is not fitted"


def test_a_small_real_study(tmp_path):
    """κ_f does not change iD2A's rounds and costs √κ_f calls of ∇f, as the table says."""
    config = parse_config(
        """
        [[problems]]
        name = "f"
        build = "random"
        n = 4
        kappa_f = [8, 64, 512]
        [[networks]]
        build = "ring"
        [[methods]]
        method = "iD2A"
        subsolver = "iDAPG"
        [[studies]]
        over = "kappa_f"
        """,
        "small",
    )
    store = Store(tmp_path)
    assert run_cases(config.cases, store, workers=1).ran == 3
    found = {one.kind: one for one in growth(config.studies, store.runs())}
    assert found["rounds"].theory.exponent == pytest.approx(0, abs=1e-6)
    assert found["oracle_a"].theory.exponent == pytest.approx(0.5, abs=1e-6)
    assert abs(found["rounds"].measured.exponent) < 0.1
    assert 0.4 < found["oracle_a"].measured.exponent < 0.7
    rows = list(csv.DictReader(exponents_csv(list(found.values())).splitlines()))
    assert [row["q"] for row in rows] == ["8 64 512"] * 3
    figure = study_figure(list(found.values()), "small")
    assert figure.axes[0].get_legend_handles_labels()[1][0].startswith("iD2A-iDAPG: ")
    assert figure.axes[0].get_xlabel() == "$κ_{f}$"


def test_the_summary_takes_medians_and_shows_what_failed():
    runs = [run(4, 10), run(4, 30, seed=1), run(4, 1, "MAX_ROUNDS", seed=2)]
    runs += [run(4, 9, "MAX_ROUNDS", label="NPGA", seed=seed) for seed in range(2)]
    runs.append(StoredRun(Case("g", "DCDA", "random"), "SKIPPED", "because"))
    lines = summarise(runs)
    assert [line.costs["rounds"] for line in lines] == [30, math.inf, math.inf]
    assert lines[0].statuses == {"CONVERGED": 2, "MAX_ROUNDS": 1}
    assert lines[0].costs["local"] == 90 and lines[0].costs["seconds"] == 30
    rows = list(csv.DictReader(summary_csv(lines).splitlines()))
    assert [row["rounds"] for row in rows] == ["30.0", "", ""]
    assert rows[1]["statuses"] == "2 MAX_ROUNDS" and rows[0]["converged"] == "2"
    panel = summary_figure(lines, "title").axes[0]
    drawn = {line.get_label(): list(line.get_xdata()) for line in panel.lines}
    assert drawn == {"iD2A": [30], "NPGA (did not converge)": [], "DCDA (did not converge)": []}
