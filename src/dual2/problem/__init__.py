"""The constraint-coupled problem: who owns what, what couples them, how good a point is."""

from dual2.problem.agent import Agent
from dual2.problem.error_bounds import ErrorBound
from dual2.problem.problem import Problem
from dual2.problem.residual import KKT

__all__ = ["KKT", "Agent", "ErrorBound", "Problem"]
