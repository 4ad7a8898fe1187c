"""What the matrices of successive iterations show: the columns of those who have few of them.

Everybody sees S = Σ A_i K_i⁻¹ A_iᵀ at every iteration. Where K_i is diagonal, two such matrices of
the same columns are a matrix pencil, whose eigenvectors give the columns away.
"""

import numpy as np
import pytest
import scipy.linalg

import dual2 as d2
from dual2.methods.interior_point.exchanges import Exchanges
from dual2.methods.interior_point.schur import SchurFactors

P = 6


def program(dims: tuple[int, ...]) -> d2.Problem:
    """Linear costs and bounds: every K_i is a diagonal."""
    draw, agents = np.random.default_rng(1), []
    for d in dims:
        f = d2.Zero().tilt(draw.uniform(0.1, 1.0, d))
        agents.append(d2.Agent(draw.standard_normal((P, d)), f, d2.IndicatorBox(0.0, 3.0)))
    b = sum(agent.A @ np.full(agent.dim, 0.7) for agent in agents)
    return d2.Problem(agents, d2.IndicatorPoint(b))


def matrices_seen(problem: d2.Problem, monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """S of all but agent 0, as agent 0 knows it: the total less its own part."""
    total, own, found = SchurFactors.solver, Exchanges._write, []
    mine: list[np.ndarray] = []

    def write(self, block, lin, places, out):
        own(self, block, lin, places, out)
        if block is not self.blocks[-1] and 0 in block.places[places]:
            row = list(block.places[places]).index(0)
            mine.append(out[row, self._schema["schur"]].copy())

    def solver(self, values, delta=0.0):
        if len(mine) > len(found):
            lower = np.zeros((P, P))
            lower[self.pattern.rows, self.pattern.columns] = values - mine[-1]
            found.append(lower + np.tril(lower, -1).T)
        return total(self, values, delta)

    monkeypatch.setattr(Exchanges, "_write", write)
    monkeypatch.setattr(SchurFactors, "solver", solver)
    network = d2.Network([(i, i + 1) for i in range(problem.n - 1)])
    result = d2.solve(problem, network, method="interior-point", record=False)
    assert result.status == "CONVERGED"
    return found


def pencil_columns(first: np.ndarray, second: np.ndarray, count: int) -> np.ndarray:
    """Columns a_j from Σ c_j a_j a_jᵀ and Σ d_j a_j a_jᵀ, up to factors."""
    values, vectors = np.linalg.eigh(first)
    range_ = vectors[:, values > 1e-10 * values[-1]][:, -count:]
    left, right = range_.T @ second @ range_, range_.T @ first @ range_
    return range_ @ right @ scipy.linalg.eigh(left, right)[1]


def best_match(found: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """For each true column the largest |cosine| with a candidate."""
    found, columns = (M / np.linalg.norm(M, axis=0) for M in (found, columns))
    return np.abs(columns.T @ found).max(axis=1)


def scaled_columns(problem: d2.Problem, who: slice) -> np.ndarray:
    """The columns in the rows' agreed units, which are public."""
    from dual2.methods.interior_point.algorithm import InteriorPoint
    from dual2.runtime import Runtime

    network = d2.Network([(i, i + 1) for i in range(problem.n - 1)])
    method = InteriorPoint(Runtime(problem, network), 1)
    method.advance(1, 1.0)
    rows = method.current.factors.prod(axis=0)
    return np.hstack([agent.A for agent in problem.agents[who]]) * rows[:, None]


@pytest.mark.parametrize("dims", [(4, 5), (4, 3, 3)])
def test_members_with_few_columns_show_them_to_every_member(dims, monkeypatch):
    """Together they have at most p columns: the attack finds each, whoever it belongs to."""
    problem = program(dims)
    seen = matrices_seen(problem, monkeypatch)
    found = pencil_columns(seen[1], seen[4], sum(dims[1:]))
    assert best_match(found, scaled_columns(problem, slice(1, None))).min() > 0.99999


def test_more_columns_than_rows_are_no_pencil(monkeypatch):
    """The same attack fails, which does not prove that others do."""
    problem = program((4, 6, 6))
    seen = matrices_seen(problem, monkeypatch)
    found = pencil_columns(seen[1], seen[4], P)
    assert np.median(best_match(found, scaled_columns(problem, slice(1, None)))) < 0.98
