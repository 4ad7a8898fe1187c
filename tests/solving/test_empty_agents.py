"""Agents without variables: matrices with p rows and no column."""

import numpy as np
import pytest
import scipy.sparse as sp

import dual2 as d2

NETWORK = d2.Network([(0, 1), (1, 2), (2, 3)])
BLOCKS = np.array([[1.0, 0.5], [-0.3, 2.0]]), np.array([[0.7, -1.0, 0.2], [0.4, 1.5, -1.1]])
b = np.array([0.3, -0.2])


def problem(g=None, h=None, sparse=False, empty=True, empty_f=None):
    """Least norm under A x = b, or another h; two of the four agents have no variables."""
    parts = [BLOCKS[0], np.zeros((2, 0)), BLOCKS[1], np.zeros((2, 0))]
    costs = [d2.SquaredNorm(1.0), empty_f or d2.SquaredNorm(3.0)] * 2
    agents = [
        d2.Agent(sp.csc_array(A) if sparse else A, f, g or d2.Zero())
        for A, f in zip(parts, costs, strict=True)
        if empty or A.size
    ]
    return d2.Problem(agents, h or d2.IndicatorPoint(b))


LEAST = np.linalg.lstsq(np.hstack(BLOCKS), b, rcond=None)[0]
KINDS = [{}, {"g": d2.IndicatorBox(-1, 1)}, {"h": d2.SquaredLoss(b)}, {"sparse": True}]


@pytest.mark.parametrize("name", [name for name in d2.METHODS if name != "NPGA"])
def test_every_method_takes_agents_without_variables(name):
    """As far as it takes the problem without those agents."""
    taken = 0
    for kind in KINDS:
        try:
            plain = d2.solve(problem(**kind, empty=False), d2.Network([(0, 1)]), method=name)
        except d2.CapabilityError:
            continue
        taken += 1
        result = d2.solve(problem(**kind), NETWORK, method=name)
        assert result.status == plain.status == "CONVERGED"
        assert [part.size for part in result.x] == [2, 0, 3, 0]
        assert problem(**kind).kkt(result.x, result.dual).kkt <= 1.1e-8
        np.testing.assert_allclose(
            np.concatenate(result.x), np.concatenate(plain.x), rtol=1e-5, atol=1e-7
        )
        if "h" not in kind:
            np.testing.assert_allclose(np.concatenate(result.x), LEAST, rtol=1e-5, atol=1e-7)
    assert taken or name in ("Nedic",)


def test_the_definitions_know_them():
    for sparse in (False, True):
        own = problem(sparse=sparse)
        x = own.split(LEAST)
        assert own.dims == (2, 0, 3, 0)
        assert own.objective(x) == pytest.approx(0.5 * LEAST @ LEAST)
        assert own.sizes.sigma.max2[[1, 3]].tolist() == [0.0, 0.0]


def test_warm_starts_references_and_callbacks_have_the_problem_s_lengths():
    seen = []
    best = d2.solve(problem(), NETWORK)
    for start in (best, (best.x, best.dual), (np.concatenate(best.x), best.dual)):
        again = d2.solve(
            problem(), NETWORK, start=start, reference=best.x, callback=lambda v: seen.append(v)
        )
        assert again.status == "CONVERGED"
    shown = [view["x"] for view in seen if "x" in view]
    assert all([np.size(part) for part in x] == [2, 0, 3, 0] for x in shown)
    with pytest.raises(d2.ProblemError, match=r"Agent 1 has no variables.* 2 numbers"):
        d2.solve(problem(), NETWORK, start=([np.ones(2)] * 4, best.dual))


def test_the_constants_of_their_costs_count():
    constant = d2.Smooth(lambda x: x, 1.0, 1.0, value=lambda x: 2.5 + 0.5 * x @ x)
    own = problem(empty_f=constant)
    assert d2.solve(own, NETWORK).objective == pytest.approx(own.objective(own.split(LEAST)))
    assert own.objective(own.split(LEAST)) == pytest.approx(0.5 * LEAST @ LEAST + 5)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_folder_keeps_them(sparse, tmp_path):
    d2.save_problem(tmp_path / "four", problem(sparse=sparse), NETWORK)
    kept = d2.load_problem(tmp_path / "four").problem
    assert kept.dims == (2, 0, 3, 0)
    result = d2.solve(kept, NETWORK)
    np.testing.assert_allclose(np.concatenate(result.x), LEAST, rtol=1e-5)
    result.save(tmp_path / "answer.json")
    again = d2.Result.load(tmp_path / "answer.json")
    assert [part.size for part in again.x] == [2, 0, 3, 0]


def test_no_agent_has_variables():
    empty = d2.Agent(np.zeros((2, 0)), d2.Zero())
    for rows, status in ((np.zeros(2), "CONVERGED"), (b, "INFEASIBLE")):
        result = d2.solve(d2.Problem([empty] * 2, d2.IndicatorPoint(rows)), d2.Network([(0, 1)]))
        assert result.status == status
