"""Random problems over every g and every h against polished centralised references."""

import numpy as np
import pytest

import dual2 as d2
from dual2.reference import solve_reference
from dual2.theory import gather_facts
from problems import G, H, pair, random_problem

SEEDS = range(0, 280, 7)


def test_the_seeds_cover_every_g_and_every_h():
    assert {pair(seed)[0] for seed in SEEDS} == set(G)
    assert {pair(seed)[1] for seed in SEEDS} == set(H)


def allows_zero(problem):
    """Whether a case of the theory permits ρ = 0."""
    facts = gather_facts(problem)
    return facts.mu_h > 0 or facts.row_rank > 0


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: "{}-{}-{}".format(seed, *pair(seed)))
def test_answers_match_the_reference(seed):
    problem, network = random_problem(seed)
    reference = solve_reference(problem)
    assert reference.kkt <= 1e-11
    x = np.concatenate(reference.x)
    runs = [{}, {"method": "iD2A"}, {"method": "MiD2A"}]
    if allows_zero(problem):
        runs.append({"rho": 0, "tol": 1e-7})
    for wishes in runs:
        result = d2.solve(problem, network, max_rounds=5_000_000, record=False, **wishes)
        assert result.status == "CONVERGED", wishes
        assert problem.kkt(result.x, result.dual).kkt <= wishes.get("tol", 1e-8)
        error = np.linalg.norm(np.concatenate(result.x) - x)
        assert error <= 1e-5 * (1 + np.linalg.norm(x)), wishes
        if result.certificate.x_error is not None:
            assert error <= result.certificate.x_error + 1e-9 * (1 + np.linalg.norm(x)), wishes


def test_some_of_them_run_without_augmentation():
    assert sum(allows_zero(random_problem(seed)[0]) for seed in SEEDS) >= 4
