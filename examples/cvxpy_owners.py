"""
A cvxpy model whose variables have owners
=========================================

Three plants share water and power. Each knows its own costs; together they must not use more than there is. The model is written once,
in cvxpy, and then solved without anybody collecting it. Needs the extras reference and plot.
"""

# %%
# The model as one would write it for a central solver. A plant's part is what mentions its variable alone.

import cvxpy as cp
import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

import dual2 as d2

rng = np.random.default_rng(1)
plants = [cp.Variable(3, name=name) for name in ("north", "east", "south")]
use = [rng.uniform(0.5, 2.0, (2, 3)) for _ in plants]  # water and power per unit of product
worth = [rng.uniform(2.0, 5.0, 3) for _ in plants]
cost = sum(cp.sum_squares(x) / 2 - value @ x for x, value in zip(plants, worth, strict=True))
shared = sum(matrix @ x for matrix, x in zip(use, plants, strict=True)) <= np.array([12.0, 10.0])
model = cp.Problem(cp.Minimize(cost), [shared, *(x >= 0 for x in plants)])

# %%
# Who owns what, and who talks to whom.

problem = d2.from_cvxpy(model, {x.name(): x for x in plants})
result = d2.solve(problem, d2.Network(nx.path_graph(3)))
print(*problem.summary, sep="\n")
print(result.status, f"{result.objective:.6f}", "prices of water and power", result.dual.round(4))

# %%
# A central solver finds the same.

problem.assign(result)
apart = [np.array(x.value) for x in plants]
model.solve(solver=cp.CLARABEL)
differ = max(np.abs(a - x.value).max() for a, x in zip(apart, plants, strict=True))
print(f"largest difference {differ:.1e}")
figure, panel = plt.subplots(figsize=(6, 3), layout="constrained")
for k, (x, mine) in enumerate(zip(plants, apart, strict=True)):
    panel.bar(np.arange(3) + 0.25 * k, mine, width=0.22, label=x.name())
panel.set(xlabel="product", ylabel="amount", xticks=range(3))
_ = panel.legend()
