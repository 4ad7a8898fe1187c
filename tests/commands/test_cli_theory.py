"""The command ``dual2 theory``."""

import numpy as np
import pytest

import dual2 as d2
from dual2.cli import main
from dual2.solving.storage import save_problem

NETWORK = d2.Network([(0, 1), (1, 2)])
RNG = np.random.default_rng(0)
BLOCKS = [RNG.standard_normal((2, 3)) for _ in range(3)]


def run(*arguments):
    with pytest.raises(SystemExit) as end:
        main(["theory", *map(str, arguments)])
    return end.value.code or 0


@pytest.fixture
def folder(tmp_path):
    def make(h, f=None, **options):
        agents = [d2.Agent(A, f or d2.Quadratic([1.0, 2.0, 9.0])) for A in BLOCKS]
        save_problem(tmp_path / "p", d2.Problem(agents, h), NETWORK, options)
        return tmp_path / "p"

    return make


def test_report(folder, capsys):
    assert run(folder(d2.SquaredLoss([1.0, 2.0]))) == 0
    printed = capsys.readouterr().out
    assert "Case 1: h* is 1-strongly convex" in printed
    assert "Subsolver iDAPG" in printed
    assert "30 of 34 rows" in printed
    assert "MiD2A-APDG" in printed
    assert "Measured" not in printed


def test_options(folder, capsys):
    path = folder(d2.SquaredLoss([1.0, 2.0]))
    assert run(path, "--rho", "0", "--all", "--eps", "1e-4") == 0
    printed = capsys.readouterr().out
    assert "ρ = 0 " in printed
    assert "needs ρ > 0; ρ = 0 was given" in printed
    assert run(path, "--eps", "2") == 2
    assert "eps = 2.0" in capsys.readouterr().err
    assert run(path, "--cost", "money") == 2


def test_run_shows_measured_beside_predicted(folder, capsys):
    path = folder(d2.SquaredLoss([1.0, 2.0]), subsolver="iDAPG", method="MiD2A")
    assert run(path, "--run") == 0
    printed = capsys.readouterr().out
    assert "MiD2A-iDAPG, Case" in printed
    assert "measured   predicted" in printed


def test_run_that_does_not_converge(folder):
    assert run(folder(d2.SquaredLoss([1.0, 2.0]), max_rounds=2), "--run") == 3


@pytest.mark.parametrize(
    "h, f, text",
    [
        (d2.IndicatorAtMost([1.0, 2.0]), None, "no linear rate is known here"),
        (d2.SquaredLoss([1.0, 2.0]), d2.LeastSquares([[1.0, 0.0, 0.0]], [1.0]), "cannot be used"),
    ],
)
def test_problems_outside_the_table(folder, capsys, h, f, text):
    assert run(folder(h, f)) == 0
    printed = capsys.readouterr().out
    assert text in printed
    assert "0 of 34 rows" in printed
