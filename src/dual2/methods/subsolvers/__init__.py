"""Solvers for iD2A's subproblem, by the names of the paper."""

from dual2.methods.subsolvers.base import RowConstants, Subsolver
from dual2.methods.subsolvers.exact import Exact
from dual2.methods.subsolvers.idapg import IDAPG
from dual2.methods.subsolvers.records import (
    SUBSOLVERS,
    Costs,
    Prediction,
    Record,
    admissible_subsolvers,
    find_subsolver,
    predict,
    read_costs,
    select_subsolver,
)
from dual2.methods.subsolvers.salim import Salim

__all__ = [
    "IDAPG",
    "SUBSOLVERS",
    "Costs",
    "Exact",
    "Prediction",
    "Record",
    "RowConstants",
    "Salim",
    "Subsolver",
    "admissible_subsolvers",
    "find_subsolver",
    "predict",
    "read_costs",
    "select_subsolver",
]
