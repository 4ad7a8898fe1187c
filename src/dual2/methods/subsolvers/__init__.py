"""Solvers for iD2A's subproblem, by the names of the paper."""

from dual2.methods.subsolvers.exact_subproblems import Exact
from dual2.methods.subsolvers.idapg import IDAPG
from dual2.methods.subsolvers.predicted_costs import (
    Costs,
    Prediction,
    predict,
    read_costs,
    select_subsolver,
)
from dual2.methods.subsolvers.records import (
    SUBSOLVERS,
    Record,
    admissible_subsolvers,
    find_subsolver,
)
from dual2.methods.subsolvers.salim import Salim
from dual2.methods.subsolvers.subsolver import RowConstants, Subsolver

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
