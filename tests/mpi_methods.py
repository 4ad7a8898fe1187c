"""Every method in discrete time for a thousand iterations, here or in the processes of an MPI job.

As a script, ``mpi_methods.py FOLDER`` writes what its process knows to ``FOLDER/<rank>.npz``; with
more than two processes one case of each method is enough.
"""

import sys
from dataclasses import asdict
from pathlib import Path

import networkx as nx
import numpy as np

import dual2 as d2

N, P = 7, 3
GRAPH = nx.Graph([*nx.path_graph(N).edges, (1, 3), (4, 6)])
NETWORK = d2.Network(GRAPH)
ITERATIONS = 1000
_NEVER = {"tol": 0.0, "atol": 1e-300}
_ZERO, _L1, _BOX = d2.Zero(), d2.L1Norm(0.1), d2.IndicatorBox(-0.4, 0.3)


def _problem(h, g, size=2, identity=False):
    rng = np.random.default_rng(5)
    agents = []
    for i in range(N):
        A = np.eye(P) if identity else rng.standard_normal((P, size + i % 2))
        M = rng.standard_normal((4, A.shape[1]))
        f = d2.LeastSquares(M, rng.standard_normal(4), ridge=0.5 + i)
        agents.append(d2.Agent(A, d2.SquaredNorm(1.0 + i) if i % 3 == 0 else f, g))
    return d2.Problem(agents, h)


_TARGET = np.array([1.0, -2.0, 0.5])
LASSO = _problem(d2.SquaredLoss(_TARGET, scale=0.5), _L1)
LOGISTIC = _problem(d2.LogisticLoss([1.0, -1.0, 1.0]), _L1)
BOXED = _problem(d2.IndicatorPoint(0.1 * _TARGET), _BOX)
AT_MOST = _problem(d2.IndicatorAtMost(0.1 * _TARGET), _BOX)
EQUATION = _problem(d2.IndicatorPoint(_TARGET), _ZERO)
FULL = _problem(d2.IndicatorPoint(_TARGET), _ZERO, size=4)
SMOOTH = _problem(d2.SquaredLoss(_TARGET), _ZERO, size=4)
RESOURCE = _problem(d2.IndicatorPoint(_TARGET), _ZERO, identity=True)
COMPLETE = d2.Network(nx.complete_graph(N))


def _cases():
    for method in ("iD2A", "MiD2A"):
        yield method, method, LASSO, {}
        yield f"{method} logistic", method, LOGISTIC, {}
        yield f"{method} at most", method, AT_MOST, {}
        yield f"{method} printed", method, LASSO, {"accuracy": "paper", "constants": "paper"}
        for subsolver in ("PDPG", "LPD", "ABPD-PGS"):
            yield f"{method} {subsolver}", method, LASSO, {"subsolver": subsolver}
        for subsolver in ("iDAPG", "LPD", "exact"):
            wishes = {"subsolver": subsolver, "rho": 0.0}
            yield f"{method} {subsolver} alone", method, LASSO, wishes
        yield f"{method} APDG", method, SMOOTH, {"subsolver": "APDG"}
        yield f"{method} Salim", method, FULL, {"subsolver": "Salim", "rho": 0.0}
    for method in d2.METHODS:
        if method.startswith("NPGA-"):
            yield method, method, LASSO, {}
    L = nx.laplacian_matrix(GRAPH, nodelist=range(N)).toarray() / 10.0
    tree = np.array(nx.laplacian_matrix(nx.star_graph(N - 1)).toarray())
    own = (np.where(np.eye(N), 0, -L) > 0) * 0.05 + 0.01 * np.where(tree < 0, 1, 0) * (L < 0)
    own = np.diag(own.sum(axis=1)) - own
    yield "NPGA", "NPGA", LASSO, {"B2": L, "C": 0.5 * L, "D": np.eye(N) - own}
    yield "DCDA", "DCDA", BOXED, {}
    yield "iD2GT", "iD2GT", EQUATION, {}
    for method in ("Tracking-ADMM", "NECPD", "DC-ADMM", "IDC-ADMM", "DPMM"):
        yield method, method, BOXED, {}
    yield "DPMM at most", "DPMM", AT_MOST, {}
    yield "Tracking-ADMM lifted", "Tracking-ADMM", LASSO, {}
    yield "NECPD with slack", "NECPD", AT_MOST, {}
    yield "DCDA warm", "DCDA", BOXED, {"start": (_warm(BOXED), 0.1 * np.ones(P))}
    yield "Tracking-ADMM warm", "Tracking-ADMM", LASSO, {"start": (_warm(LASSO), np.ones(P))}
    yield "APAPC", "APAPC", EQUATION, {}
    yield "APAPC-Chebyshev", "APAPC-Chebyshev", RESOURCE, {"network": COMPLETE}
    yield "Nedic", "Nedic", RESOURCE, {}


def _warm(problem):
    """A start that is zero for the first agents and not for the last."""
    return [np.full(d, 0.1 * (i > 4)) for i, d in enumerate(problem.dims)]


CASES = {name: rest for name, *rest in _cases()}
ONE_OF_EACH = [name for name, (method, *_) in CASES.items() if name == method]


def run(name, runtime, rounds):
    """The result of a case after that many rounds."""
    method, problem, wishes = CASES[name]
    wishes = {"network": NETWORK, "record": name in ("iD2A", "MiD2A", "DPMM")} | wishes
    return d2.solve(
        problem, method=method, **wishes, **_NEVER, max_rounds=rounds, runtime=runtime
    )  # fmt: skip


def rounds_of(name):
    """Rounds of a thousand iterations."""
    known = run(name, "stacked", 1).parameters
    return ITERATIONS * known.get("rounds_per_iteration", known.get("rounds_per_mix"))[0]


def arrays(name, runtime):
    """What the processes' runs are compared by."""
    result = run(name, runtime, rounds_of(name))
    counts = np.array(list(asdict(result.counts).values()))
    rows = {f"{name}/x{i}": x for i, x in zip(result.owned, result.x, strict=True)}
    rows |= {f"{name}/dual{i}": row for i, row in zip(result.owned, result.duals, strict=True)}
    found = result.certificate
    sums = np.array([*result.y, result.objective, found.kkt, found.consensus])
    trace = result.trace.get("kkt", np.zeros(0))
    same = {"counts": counts, "trace": trace, "sums": sums}
    return rows | {f"{name}/{key}": value for key, value in same.items()}


def main(folder):
    """Run every case in this process of the job and write what it knows."""
    from dual2.runtime.mpi import Mpi

    mpi = Mpi(timeout=100.0)
    found = {}
    for name in CASES if mpi.size == 2 else ONE_OF_EACH:
        found |= arrays(name, mpi)
    np.savez(Path(folder) / f"{mpi.rank}.npz", **found)


if __name__ == "__main__":
    main(sys.argv[1])
