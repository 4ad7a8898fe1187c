"""The paper's theory as code: cases, constants, schedules, bounds, tables, selection."""

from dual2.theory.bounds import (
    chebyshev_bound,
    complexity_factor,
    convex_bound,
    linear_bound,
    outer_iterations,
    primal_bound,
)
from dual2.theory.complexity import Comparison, Complexity, compare, complexities, table
from dual2.theory.condition_numbers import ConditionNumbers, condition_numbers
from dual2.theory.conditions import Acceptance, accepts, require_strong_convexity
from dual2.theory.constants import (
    Constants,
    Facts,
    PaperCase,
    analyse,
    constants_for,
    find_case,
    full_row_rank,
    gather_facts,
    momentum,
    optimal_rho,
)
from dual2.theory.saddle_table import SaddleComplexity, SaddleNumbers, saddle_complexities
from dual2.theory.schedule import (
    LinearSchedule,
    convex_error,
    initial_value_gap,
    linear_schedule,
    saddle_errors,
    subproblem_errors,
)

__all__ = [
    "Acceptance",
    "Comparison",
    "Complexity",
    "ConditionNumbers",
    "Constants",
    "Facts",
    "LinearSchedule",
    "PaperCase",
    "SaddleComplexity",
    "SaddleNumbers",
    "accepts",
    "analyse",
    "chebyshev_bound",
    "compare",
    "complexities",
    "complexity_factor",
    "condition_numbers",
    "constants_for",
    "convex_bound",
    "convex_error",
    "find_case",
    "full_row_rank",
    "gather_facts",
    "initial_value_gap",
    "linear_bound",
    "linear_schedule",
    "momentum",
    "optimal_rho",
    "outer_iterations",
    "primal_bound",
    "require_strong_convexity",
    "saddle_complexities",
    "saddle_errors",
    "subproblem_errors",
    "table",
]
