"""
Dispatch with prices at every bus
=================================

A line that is full parts the grid: what a megawatt costs then depends on where it is used. Five buses, five generators, six lines, each
generator an agent that keeps its cost to itself. Needs the extras power and plot.
"""

# %%
# A five-bus net with one narrow line.

import matplotlib.pyplot as plt
import pandapower.networks

from dual2 import power

net = pandapower.networks.case5()
case = power.from_pandapower(net)
answer = case.solve()
print(answer)

# %%
# The price of a bus is an energy part that is the same everywhere, and what congestion adds.

prices = {bus: float(price[0]) for bus, price in answer.bus_prices().items()}
free = power.from_pandapower(net, line_limits=False).solve()
print("with limits   ", {bus: round(price, 2) for bus, price in prices.items()})
print("without limits", round(float(free.price[0]), 2), f"cost {free.cost:.0f}, {answer.cost:.0f}")

# %%
# Which lines are full, and what one more megawatt on them would save.

full = {line["line"]: round(line["price"][0], 2) for line in answer.lines if line["price"][0] > 0}
print("full lines", full)
figure, panel = plt.subplots(figsize=(6, 3), layout="constrained")
panel.bar([str(bus) for bus in prices], list(prices.values()), label="price of the bus")
panel.axhline(float(free.price[0]), color="k", linestyle="--", label="without limits")
panel.set(xlabel="bus", ylabel="price per MWh")
_ = panel.legend()
