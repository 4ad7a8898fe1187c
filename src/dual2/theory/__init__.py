"""The paper's theory as code: cases, constants, schedules, bounds, tables, selection."""

from dual2.theory.analysis import analyse, full_row_rank
from dual2.theory.bounds import saddle_errors, subproblem_errors
from dual2.theory.comparison import Comparison, compare
from dual2.theory.complexity import Complexity, complexities, table
from dual2.theory.condition_numbers import ConditionNumbers, condition_numbers
from dual2.theory.conditions import Acceptance, accepts
from dual2.theory.constants import (
    Constants,
    PaperCase,
    constants_for,
    find_case,
    momentum,
    optimal_rho,
)
from dual2.theory.facts import Facts, gather_facts, require_strong_convexity
from dual2.theory.prediction import Prediction, predict, saddle_numbers
from dual2.theory.saddle_table import SaddleComplexity, SaddleNumbers, saddle_complexities
from dual2.theory.schedule import (
    LinearSchedule,
    convex_error,
    initial_value_gap,
    linear_schedule,
)
from dual2.theory.selection import Costs, admissible_subsolvers, select_subsolver

__all__ = [
    "Acceptance",
    "Comparison",
    "Complexity",
    "ConditionNumbers",
    "Constants",
    "Costs",
    "Facts",
    "LinearSchedule",
    "PaperCase",
    "Prediction",
    "SaddleComplexity",
    "SaddleNumbers",
    "accepts",
    "admissible_subsolvers",
    "analyse",
    "compare",
    "complexities",
    "condition_numbers",
    "constants_for",
    "convex_error",
    "find_case",
    "full_row_rank",
    "gather_facts",
    "initial_value_gap",
    "linear_schedule",
    "momentum",
    "optimal_rho",
    "predict",
    "require_strong_convexity",
    "saddle_complexities",
    "saddle_errors",
    "saddle_numbers",
    "select_subsolver",
    "subproblem_errors",
    "table",
]
