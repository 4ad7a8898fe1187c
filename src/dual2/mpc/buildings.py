"""A ready-made control problem: buildings that share a supply of heat."""

from typing import Any, NamedTuple

import numpy as np

from dual2.functions.arguments import Array
from dual2.mpc.subsystem import Subsystem

ZONES = 6
OUTSIDE = 8.0
"""Outside temperature, °C."""


class Buildings(NamedTuple):
    """Subsystems, their measured states, and the weather as a known disturbance of each."""

    subsystems: list[Subsystem]
    states: list[Array]
    weather: list[Array]


def heated_buildings(
    count: int = 20, seed: int = 0, soft: tuple[float, float] | None = None
) -> Buildings:
    """Buildings of six zones in a row with heaters in two of them, on a cold morning.

    Zone temperatures follow T⁺ = T - (exchange with the next zones) - loss·(T - outside) + heat.
    Each building should reach the temperatures that some heating between 0.3 and 0.4 of its
    maximum keeps for ever; it starts 3 to 6 °C below. One heater at full power takes between 8
    and 12 units from the shared supply.

    Parameters
    ----------
    count, seed : int
        Number of buildings, and of the random numbers behind them.
    soft : (float, float), optional
        Makes the limits of the temperatures soft, see :class:`Subsystem`.

    Examples
    --------
    >>> subsystems, states, weather = heated_buildings(3)
    >>> subsystems[0].n_x, subsystems[0].n_u, round(subsystems[0].radius, 3)
    (6, 2, 0.972)
    """
    rng = np.random.default_rng(seed)
    made = [_building(f"building {i}", rng, soft) for i in range(count)]
    states = [s.x_ref - rng.uniform(3.0, 6.0) for s, _ in made]
    return Buildings([s for s, _ in made], states, [w for _, w in made])


def _building(
    name: str, rng: np.random.Generator, soft: tuple[float, float] | None
) -> tuple[Subsystem, Array]:
    steps = np.eye(ZONES)[1:] - np.eye(ZONES)[:-1]
    loss = rng.uniform(0.02, 0.04, ZONES)
    A = np.eye(ZONES) - rng.uniform(0.08, 0.15) * steps.T @ steps - np.diag(loss)
    B = np.zeros((ZONES, 2))
    B[1, 0] = B[4, 1] = rng.uniform(2.0, 3.0)
    heating, weather = np.full(2, rng.uniform(0.3, 0.4)), loss * OUTSIDE
    target = np.linalg.solve(np.eye(ZONES) - A, B @ heating + weather)
    steady: dict[str, Any] = {"x_ref": target, "u_ref": heating}
    limits = {"x_min": OUTSIDE, "x_max": target + 2.0, "u_min": 0.0, "u_max": 1.0, "soft": soft}
    resource = np.full((1, 2), rng.uniform(8.0, 12.0))
    return Subsystem(name, A, B, Q=1.0, R=5.0, **steady, **limits, resource=resource), weather
