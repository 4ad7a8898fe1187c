"""A day of the IEEE 118-bus system: 54 generators meet the demand at least cost.

Every generator is an agent with a private cost, limits and ramps; they talk along the lines of
the grid and agree on 24 hourly prices. Needs the extras power and plot; run it with

    python examples/dispatch.py
"""

import numpy as np
import pandapower.networks

from dual2.applications import dispatch

FIGURE = "dispatch.png"


def main() -> None:
    hours = np.arange(24)
    profile = 1.1 + 0.35 * np.sin((hours - 9) * np.pi / 12) + 0.1 * np.sin((hours - 6) * np.pi / 6)

    net = pandapower.networks.case118()
    case = dispatch.from_pandapower(net, profile=profile, ramp=0.08)
    answer = case.solve()
    print(answer)

    sent = answer.communication
    print(
        f"\n{len(case.units)} generators on {len(case.network.edges)} links agreed on 24 prices by "
        f"{sent['sums']} sums along a tree, {sent['latency']} exchanges one after the other."
    )
    cheapest, dearest = int(answer.price.argmin()), int(answer.price.argmax())
    print(f"An hour costs least at {cheapest}:00 and most at {dearest}:00.")
    answer.plot(FIGURE)


if __name__ == "__main__":
    main()
