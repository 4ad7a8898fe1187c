"""Solvers for iD2A's subproblem, by the names of the paper."""

from dual2.subsolvers.base import SaddleConstants, Subsolver, saddle_constants
from dual2.subsolvers.exact import Exact
from dual2.subsolvers.idapg import IDAPG
from dual2.subsolvers.primal_dual import PrimalDual
from dual2.subsolvers.salim import Salim

__all__ = [
    "IDAPG",
    "Exact",
    "PrimalDual",
    "SaddleConstants",
    "Salim",
    "Subsolver",
    "saddle_constants",
]
