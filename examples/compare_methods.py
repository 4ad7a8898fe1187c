"""
Methods side by side
====================

One problem, five methods, the same counters: how far each is from the solution after so many calls and exchanges. This is what the
researcher does all day; ``dual2 bench`` does it for many problems, networks and seeds at once.
"""

# %%
# Resource allocation between eight agents on a path: box constraints and two shared resources.

import networkx as nx
import numpy as np

import dual2 as d2
from dual2.solving.plotting import plot_trace

rng = np.random.default_rng(3)
agents = [
    d2.Agent(
        A=rng.uniform(0.2, 1.0, (2, 4)),
        f=d2.Quadratic(rng.uniform(1.0, 20.0, 4), -rng.uniform(1.0, 10.0, 4)),
        g=d2.IndicatorBox(0.0, 3.0),
    )
    for _ in range(8)
]
problem = d2.Problem(agents, h=d2.IndicatorPoint([6.0, 5.0]))
network = d2.Network(nx.path_graph(8))
best = d2.solve(problem, network, tol=1e-10)
print(best.status, "prices", best.dual.round(4))

# %%
# The reference makes each trace record the true distance.

reference = np.concatenate(best.x)
runs = {
    name: d2.solve(problem, network, method=name, tol=1e-8, reference=reference)
    for name in ("Newton", "iD2A", "MiD2A", "NPGA-ED", "Tracking-ADMM")
}
for name, run in runs.items():
    print(
        f"{name:14} {run.status}  {run.counts.latency:7} exchanges, {run.counts.floats:9} numbers"
    )
figure = plot_trace(runs)
