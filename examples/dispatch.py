"""
A day of the IEEE 118-bus system
================================

54 generators meet the demand of 24 hours at least cost. Every generator is an agent with a private cost, limits and ramps; they talk
along the lines of the grid and agree on 24 hourly prices. Needs the extras power and plot.
"""

# %%
# The demand follows a profile; each generator may move by 8 % of its range in an hour.

import numpy as np
import pandapower.networks

from dual2 import power

hours = np.arange(24)
profile = 1.1 + 0.35 * np.sin((hours - 9) * np.pi / 12) + 0.1 * np.sin((hours - 6) * np.pi / 6)

net = pandapower.networks.case118()
case = power.from_pandapower(net, profile=profile, ramp=0.08)
answer = case.solve()
print(answer)

# %%
# What it took, and what an hour costs.

sent = answer.communication
print(
    f"{len(case.units)} generators on {len(case.network.edges)} links waited for {sent['latency']}"
)
print(f"exchanges one after the other, in {sent['sums']} sums.")
cheapest, dearest = int(answer.price.argmin()), int(answer.price.argmax())
print(f"An hour costs least at {cheapest}:00 and most at {dearest}:00.")
figure = answer.plot()
