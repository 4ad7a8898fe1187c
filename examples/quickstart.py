"""
Elastic net on a ring of agents
===============================

Every agent owns three columns of the feature matrix and its own coefficients. The agents agree on the coefficients without showing
their columns to anybody.
"""

# %%
# Everybody knows the target, so the loss is the public function h, and what couples the agents is the prediction Σ A_i x_i.

import networkx as nx
import numpy as np

import dual2 as d2

rng = np.random.default_rng(0)
features = rng.standard_normal((50, 12))
truth = np.where(rng.random(12) < 0.4, rng.standard_normal(12), 0.0)
target = features @ truth + 0.1 * rng.standard_normal(50)

agents = [
    d2.Agent(A=block, f=d2.SquaredNorm(0.02), g=d2.L1Norm(0.02)) for block in np.hsplit(features, 4)
]
problem = d2.Problem(agents, h=d2.SquaredLoss(target, scale=1 / 50))
network = d2.Network(nx.cycle_graph(4))
result = d2.solve(problem, network, tol=1e-8)
print(result.explain())

# %%
# What each agent has found, beside what the data were made with.

for i, (found, true) in enumerate(zip(result.x, np.hsplit(truth, 4), strict=True)):
    pairs = ", ".join(f"{a:+.3f} ({b:+.3f})" for a, b in zip(found, true, strict=True))
    print(f"agent {i}: {pairs}")

# %%
# The same by a method that only ever sends vectors to neighbours, with its way to the solution.

gossip = d2.solve(problem, network, method="MiD2A", tol=1e-8, reference=np.concatenate(result.x))
print(gossip.status, gossip.counts.latency, "exchanges, Newton", result.counts.latency)
figure = gossip.plot()
