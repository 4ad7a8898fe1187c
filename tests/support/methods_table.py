"""The table of methods and the problems that each is tested on: a new method is one row.

A row inherits ``check_algorithm`` on every pair (g, h) that its method takes (solution, relabelling
of the agents, resume bit for bit, counts, conservation; ``algorithms/test_methods.py``) and a
comparison of thousand iterations in several processes with one (``runtime/test_mpi.py``).
"""

from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import networkx as nx
import numpy as np

import dual2 as d2
import howto
from dual2.methods import Method, find_method
from dual2.testing import PAIRS, known_problem

# -- problems for several processes --------------------------------------------------------------
N, P = 7, 3
GRAPH = nx.Graph([*nx.path_graph(N).edges, (1, 3), (4, 6)])
NETWORK, COMPLETE = d2.Network(GRAPH), d2.Network(nx.complete_graph(N))
_ZERO, _L1, _BOX = d2.Zero(), d2.L1Norm(0.1), d2.IndicatorBox(-0.4, 0.3)
_TARGET = np.array([1.0, -2.0, 0.5])


def _problem(h, g, size=2, identity=False):
    rng = np.random.default_rng(5)
    agents = []
    for i in range(N):
        A = np.eye(P) if identity else rng.standard_normal((P, size + i % 2))
        M = rng.standard_normal((4, A.shape[1]))
        f = d2.LeastSquares(M, rng.standard_normal(4), ridge=0.5 + i)
        agents.append(d2.Agent(A, d2.SquaredNorm(1.0 + i) if i % 3 == 0 else f, g))
    return d2.Problem(agents, h)


LASSO = _problem(d2.SquaredLoss(_TARGET, scale=0.5), _L1)
LOGISTIC = _problem(d2.LogisticLoss([1.0, -1.0, 1.0]), _L1)
BOXED = _problem(d2.IndicatorPoint(0.1 * _TARGET), _BOX)
AT_MOST = _problem(d2.IndicatorAtMost(0.1 * _TARGET), _BOX)
EQUATION = _problem(d2.IndicatorPoint(_TARGET), _ZERO)
FULL = _problem(d2.IndicatorPoint(_TARGET), _ZERO, size=4)
SMOOTH = _problem(d2.SquaredLoss(_TARGET), _ZERO, size=4)
RESOURCE = _problem(d2.IndicatorPoint(_TARGET), _ZERO, identity=True)
FLAT = d2.Problem(
    [d2.Agent(a.A, a.f.tilt(0.1) if i % 2 else d2.Quadratic(np.zeros(a.dim), 0.1 * i), _BOX)
     for i, a in enumerate(AT_MOST.agents)],
    AT_MOST.h,
)  # fmt: skip


def _warm(problem, price):
    """A start that is zero for the first agents and not for the last."""
    x = [np.full(d, 0.1 * (i > 4)) for i, d in enumerate(problem.dims)]
    return {"start": (x, price * np.ones(P))}


def _own_matrices():
    """For NPGA: no two of them polynomials of one another."""
    L = nx.laplacian_matrix(GRAPH, nodelist=range(N)).toarray() / 10.0
    tree = np.array(nx.laplacian_matrix(nx.star_graph(N - 1)).toarray())
    own = (np.where(np.eye(N), 0, -L) > 0) * 0.05 + 0.01 * np.where(tree < 0, 1, 0) * (L < 0)
    return {"B2": L, "C": 0.5 * L, "D": np.eye(N) - np.diag(own.sum(axis=1)) + own}


# -- rows ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One method with its problems.

    ``pairs`` and ``checks`` are for ``check_algorithm``, ``runs`` for several processes: more
    cases (problem, arguments of solve) by their labels, or another one under the method's name.
    """

    method: Method
    pairs: tuple
    checks: dict[str, Any]
    runs: dict[str, tuple] = field(default_factory=dict)
    discrete: bool = True

    @property
    def name(self) -> str:
        return self.method.name

    def cases(self) -> dict[str, tuple]:
        """Runs in several processes: on the first problem that the method takes, and its own."""
        able = [p for p in (LASSO, BOXED, EQUATION, RESOURCE, SMOOTH) if not self.method.lack(p)]
        own = {self.name: (able[0], {})} | self.runs if self.discrete else {}
        return {label: (self.method, *case) for label, case in own.items()}


@cache
def _known_problems(identity):
    return [known_problem(*pair, identity)[0] for pair in PAIRS]


def row(method, pairs=None, runs=None, discrete=True, **checks):
    """A row; by default with all ``PAIRS`` that the method takes."""
    method, identity = find_method(method), checks.get("identity", False)
    if pairs is None:
        known = zip(PAIRS, _known_problems(identity), strict=True)
        pairs = [pair for pair, problem in known if not method.lack(problem)]
    return Row(method, tuple(pairs), checks, runs or {}, discrete)


def _subproblems(name):
    """iD2A and MiD2A with every rule and subsolver."""
    runs = {
        "logistic": (LOGISTIC, {}),
        "at most": (AT_MOST, {}),
        "printed": (LASSO, {"accuracy": "paper", "constants": "paper"}),
    }
    runs |= {s: (LASSO, {"subsolver": s}) for s in ("PDPG", "LPD", "ABPD-PGS")}
    alone = ("iDAPG", "LPD", "exact")
    runs |= {f"{s} alone": (LASSO, {"subsolver": s, "rho": 0.0}) for s in alone}
    runs |= {"APDG": (SMOOTH, {"subsolver": "APDG"})}
    runs |= {"Salim": (FULL, {"subsolver": "Salim", "rho": 0.0})}
    return {f"{name} {label}": run for label, run in runs.items()}


FEW = (PAIRS[1], PAIRS[3])
POINT = d2.IndicatorPoint(0.0)
ON_POINT = [
    (g, POINT)
    for g in (
        d2.Zero(),
        d2.IndicatorBox(-0.5, 0.5),
        d2.ElasticNet(0.2, 0.1),
        d2.L2Norm(0.5),
        d2.IndicatorSimplex(4.0),
        d2.IndicatorBall(0.8),
        d2.IndicatorHalfspace([1.0, -1.0, 0.5, 2.0], -0.5),
        d2.IndicatorAffine([[1.0, 1.0, 1.0, 1.0]], [0.5]),
        d2.Stacked([d2.IndicatorSimplex(2.0), d2.L2Norm(0.4)], [2, 2]),
    )
]
CONES = [
    (d2.L1Norm(0.3), h)
    for h in (
        d2.IndicatorAtMost(0.0),
        d2.IndicatorBox(0.0, np.inf),
        d2.Stacked([POINT, d2.IndicatorAtMost(0.0)], [1, 2]),
    )
]
IN_A_SET = [(d2.Zero(), POINT), (d2.IndicatorBox(-0.5, 0.5), POINT)]
PRIMAL = replace(find_method("Newton")(mode="primal"), name="Newton primal")

ROWS = [
    row("iD2A", runs=_subproblems("iD2A")),
    row("MiD2A", runs=_subproblems("MiD2A")),
    row("NPGA-EXTRA"),
    row("NPGA-ED"),
    row("NPGA-NIDS", FEW),
    row("NPGA-DLM", FEW),
    row("NPGA-DIGing", FEW),
    row("NPGA-ATC", FEW),
    row("NPGA-AugDGM", FEW),
    row("NPGA-P2D2", FEW),
    row("NPGA-II"),
    row("NPGA", (), {"NPGA": (LASSO, _own_matrices())}),
    row("DCDA", runs={"DCDA warm": (BOXED, _warm(BOXED, 0.1))}),
    row("iD2GT"),
    row("APAPC", long=20_000, fixed=False),  # no start from (x, λ) can set its rows y
    row("APAPC-Chebyshev", None, {"APAPC-Chebyshev": (RESOURCE, {"network": COMPLETE})}, long=2000,
        fixed=False),
    row("Nedic", identity=True),
    row("Tracking-ADMM", ON_POINT, {"Tracking-ADMM lifted": (LASSO, {}),
                                    "Tracking-ADMM warm": (LASSO, _warm(LASSO, 1.0))}),
    row("NECPD", ON_POINT, {"NECPD with slack": (AT_MOST, {})}),
    row("DC-ADMM", ON_POINT),
    row("IDC-ADMM", ON_POINT),
    row("DPMM", [*ON_POINT, *CONES], {"DPMM at most": (AT_MOST, {})}),
    row("IDEA", IN_A_SET[:1], discrete=False, long=20_000),
    row("Proj-IDEA", IN_A_SET, discrete=False, long=20_000),
    row("CoLA"),
    row("CoCoA+", long=1200),
    row("Sharing-ADMM", long=800),
    row("Sharing-ADMM-AA", runs={"Sharing-ADMM-AA warm": (BOXED, _warm(BOXED, 0.1))}, long=200),
    row("FISTA", runs={"FISTA logistic": (LOGISTIC, {})}, long=500),
    row("VF-L-BFGS", runs={"VF-L-BFGS": (SMOOTH, {})}, long=100),
    row("Newton",
        runs={"Newton logistic": (LOGISTIC, {}), "Newton warm": (BOXED, _warm(BOXED, 0.1))}),
    row(PRIMAL, [*PAIRS[:4], PAIRS[6], (d2.Zero(), d2.HingeLoss(1.0))],
        {"Newton primal smooth": (SMOOTH, {}), "Newton primal boxed": (BOXED, {})}),
    row("interior-point",
        runs={"interior-point flat": (FLAT, {}), "interior-point logistic": (LOGISTIC, {}),
              "interior-point warm": (BOXED, _warm(BOXED, 0.1))}),
    row("L-BFGS", runs={"L-BFGS flat": (FLAT, {}), "L-BFGS logistic": (LOGISTIC, {})}),
    row(howto.load("howto_algorithm.md").DUAL_EXTRA, fixed=False),
]  # fmt: skip
"""The last one is what the guide prints."""
