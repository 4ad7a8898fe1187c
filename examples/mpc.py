"""
Heating eight buildings with too little heat
============================================

Eight buildings heat up on a cold morning, with too little heat for all of them at once. Every building plans its own heating 15 steps
ahead; a price for each step keeps the sum within the shared supply. Nobody tells the others its temperatures, its model or its limits.
Needs the extra plot.
"""

# %%
# One plan: every building answers the prices of 15 steps.

import networkx as nx

from dual2 import mpc

subsystems, states, weather = mpc.heated_buildings(8)
controller = mpc.Controller(subsystems, horizon=15, limit=85.0, graph=nx.cycle_graph(8))

plan = controller.plan(states, weather)
print(f"First plan: {plan.result.status} after {plan.result.counts.rounds} rounds")
print("prices:", ", ".join(f"{price:.2f}" for price in plan.price[:, 0]))

# %%
# Receding horizon: after each step all plan anew, from the plan before, shifted by a step.

warm, cold = (
    controller.simulate(states, 24, warm=warm, forecast=lambda t: weather) for warm in (True, False)
)
print(f"warm starts: {warm}\ncold starts: {cold}")
print(f"{cold.rounds.sum() / warm.rounds.sum():.1f} times fewer rounds with warm starts")
figure = warm.plot()
