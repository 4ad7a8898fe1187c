"""A small store of runs with made-up curves, to be drawn."""

from types import SimpleNamespace

import numpy as np

from dual2.bench.case import Case
from dual2.bench.store import Store, StoredRun
from dual2.paper.verdicts import Claim

TRICK = '<img src=x onerror="alert(1)"> & </script>'
"""Text that would do harm if it were not escaped."""

FACTS = {
    "n": 4,
    "p": 3,
    "edges": [[0, 1], [1, 2], [2, 3]],
    "kappa_C": 5.83,
    "data": "sha256 0a1b",
}

ABOUT = {
    "exp1": SimpleNamespace(
        title="Experiment I: a test",
        words=f"Four agents.\n\nThe second paragraph says {TRICK}.",
        formula="minimise Σ_i f_i(x_i)",
        constants=(SimpleNamespace(name="κ_C", paper="6", fact="kappa_C", remark="a path"),),
    )
}

CLAIMS = [
    Claim(f"Claim {i} {TRICK}", "Section I", f"{i} rounds", verdict, f"because {i}", "exp1")
    for i, verdict in enumerate(("reproduced", "not reproduced", "cannot be decided"))
]


def trace(last, rows=1000):
    """Costs up to ``last`` rounds, a gap that falls to 1e-9."""
    rounds = np.unique(np.geomspace(1, last, rows).round()).astype(int)
    done = np.log(rounds) / np.log(last)
    costs = {
        name: k * rounds for k, name in enumerate(("grad_f", "prox_g", "A", "AT", "prox_h"), 1)
    }
    return {
        "rounds": rounds,
        "agree_rounds": rounds // 10,
        "seconds": 1e-5 * rounds,
        "gap": 10 ** (-9 * done),
        "kkt": 1 - done,
    } | costs


def stored(label, last, group="exp1", status="CONVERGED", notes=None, seed=0, **solve):
    case = Case(group, label, group, {}, solve, seed, notes or {})
    details = {
        "parameters": {"rho": [0.5, f"theorem {label}"]},
        "counts": {"rounds": int(last)},
        "versions": {"dual2": "1.2.3"},
        "facts": FACTS,
        "machine": {"workers": 2},
    }
    return StoredRun(case, status, trace=trace(last), **details)


def fill(folder):
    """A store of two groups: five curves and a skipped run, two seeds of one method."""
    runs = [
        stored("iD2A, ρ = ρ*", 2e3, method="iD2A"),
        stored("iD2A, ρ = 0", 4e3, method="iD2A", rho=0.0),
        stored("DCPA", 3e6, status="MAX_ROUNDS", method="NPGA-P2D2",
            notes={"aliases": ["NPGA-I"], "reconstructed": True}),
        stored("Tracking-ADMM", 9e3, method="Tracking-ADMM", notes={"tune": {"budget": 9}}),
        stored("defaults", 1e3, notes={"ours": True}),
        StoredRun(Case("exp1", "APAPC", "exp1", {}, {"method": "APAPC"}), "SKIPPED",
                  reason=f"g is not zero {TRICK}", facts=FACTS),
        stored("iD2A", 5e3, group="mine: a/b", method="iD2A"),
        stored("iD2A", 6e3, group="mine: a/b", method="iD2A", seed=1),
    ]  # fmt: skip
    store = Store(folder)
    for one in runs:
        store.save(one)
    store.plan([one.case for one in runs])
    return store
