"""
A problem that has no solution
==============================

Four suppliers cannot meet the demand. The answer is not an error message but a proof, which anybody can check; and then the price of
what is missing.
"""

# %%
# Each supplier can make at most 2 of each of three goods; 9 of the first are asked for.

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

import dual2 as d2

agents = [
    d2.Agent(np.eye(3), d2.Quadratic(np.full(3, k + 1.0)), d2.IndicatorBox(0.0, 2.0))
    for k in range(4)
]
demand = np.array([9.0, 5.0, 4.0])
network = d2.Network(nx.star_graph(3))
result = d2.solve(d2.Problem(agents, d2.IndicatorPoint(demand)), network)
print(result.status, "-", result.advice)

# %%
# The proof is a direction: along it, the demand asks for more than all suppliers together can give.

direction = np.array(result.certificate.separator)
most = sum(np.maximum(direction, 0.0) * 2.0 for _ in agents).sum()
least = sum(np.minimum(direction, 0.0) * 2.0 for _ in agents).sum()
asked = direction @ demand
print("direction", direction.round(3), f"asked {asked:.3f}, possible {least:.3f} to {most:.3f}")
assert not least <= asked <= most

# %%
# Let one more agent buy what is missing, at 20 a unit: then there is a solution, and 20 is the price of the first good.

import_ = d2.Agent(
    np.eye(3), d2.Quadratic(np.zeros(3), np.full(3, 20.0)), d2.IndicatorNonnegative()
)
problem = d2.Problem([*agents, import_], d2.IndicatorPoint(demand))
answer = d2.solve(problem, d2.Network(nx.star_graph(4)))
print(answer.status, "bought", answer.x[-1].round(6), "prices", -answer.dual.round(4))
figure, panel = plt.subplots(figsize=(6, 3), layout="constrained")
for k, (name, x) in enumerate(zip(["1", "2", "3", "4", "import"], answer.x, strict=True)):
    panel.bar(range(3), x, bottom=sum(answer.x[:k], np.zeros(3)), label=name)
panel.hlines(demand, np.arange(3) - 0.5, np.arange(3) + 0.5, "k", "--", label="demand")
panel.set(xlabel="good", ylabel="amount", xticks=range(3))
_ = panel.legend(ncols=2)
