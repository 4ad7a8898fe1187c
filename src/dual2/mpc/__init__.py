"""Distributed model predictive control: linear subsystems that share resources.

State each :class:`Subsystem`, bring them together in a :class:`Controller`, then
:meth:`Controller.plan` from measured states or :meth:`Controller.simulate` the closed loop.
"""

from dual2.mpc.buildings import Buildings, heated_buildings
from dual2.mpc.condensed import Infeasible
from dual2.mpc.controller import Controller, ControlPlan
from dual2.mpc.simulation import Simulation, simulate
from dual2.mpc.simulation_figure import plot_simulation
from dual2.mpc.subsystem import Subsystem

__all__ = [
    "Buildings",
    "ControlPlan",
    "Controller",
    "Infeasible",
    "Simulation",
    "Subsystem",
    "heated_buildings",
    "plot_simulation",
    "simulate",
]
