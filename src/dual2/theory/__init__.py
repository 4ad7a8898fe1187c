"""The paper's theory as code: cases, constants, schedules, bounds."""

from dual2.theory.analysis import analyse, full_row_rank
from dual2.theory.bounds import saddle_errors, subproblem_errors
from dual2.theory.constants import (
    Case,
    Constants,
    constants_for,
    find_case,
    momentum,
    optimal_rho,
)
from dual2.theory.facts import Facts, gather_facts, require_strong_convexity
from dual2.theory.schedule import (
    LinearSchedule,
    convex_error,
    initial_value_gap,
    linear_schedule,
)

__all__ = [
    "Case",
    "Constants",
    "Facts",
    "LinearSchedule",
    "analyse",
    "constants_for",
    "convex_error",
    "find_case",
    "full_row_rank",
    "gather_facts",
    "initial_value_gap",
    "linear_schedule",
    "momentum",
    "optimal_rho",
    "require_strong_convexity",
    "saddle_errors",
    "subproblem_errors",
]
