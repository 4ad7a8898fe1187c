"""Economic dispatch: generators and storage meet a demand at least cost, each keeping its data.

State the units and the demand (:class:`Dispatch`), or read a case (:func:`from_pandapower`,
:func:`from_matpower`), then :meth:`Dispatch.solve`: the :class:`Answer` has tables of
units, lines and buses with their prices. Cases that are read keep the limits of their lines in
the linear (DC) model of power flow.
"""

import warnings
from typing import Any

from dual2.power.answer import Answer
from dual2.power.commitment import Commitment
from dual2.power.cost_curves import PiecewiseLinearCost
from dual2.power.dc_lines import DCLine
from dual2.power.dispatch import Dispatch
from dual2.power.figure import plot_dispatch
from dual2.power.flows import Grid, Line
from dual2.power.generators import Generator
from dual2.power.grid import Interface, agent_graph
from dual2.power.matpower import from_matpower
from dual2.power.net_results import write_results
from dual2.power.outages import Security
from dual2.power.pandapower import from_pandapower
from dual2.power.rolling import RollingAnswer, roll
from dual2.power.storage import Storage

__all__ = [
    "Answer",
    "Commitment",
    "DCLine",
    "Dispatch",
    "Generator",
    "Grid",
    "Interface",
    "Line",
    "PiecewiseLinearCost",
    "RollingAnswer",
    "Security",
    "Storage",
    "agent_graph",
    "from_matpower",
    "from_pandapower",
    "plot_dispatch",
    "roll",
    "write_results",
]


def __getattr__(name: str) -> Any:
    """The old name of a cost curve, for one release."""
    if name != "PiecewiseLinear":
        raise AttributeError(f"module 'dual2.power' has no attribute {name!r}")
    message = (
        "dual2.power.PiecewiseLinear is PiecewiseLinearCost now; the old name goes with the next "
        "release."
    )
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return PiecewiseLinearCost
