"""Checks that a new function or algorithm has to pass: it inherits all of them by one call.

>>> from dual2 import functions as fn
>>> check_function(fn.L1Norm(2.0), dim=3)
"""

from dual2.testing.algorithms import PAIRS, check_algorithm, known_problem
from dual2.testing.functions import check_function, compiled_prox

__all__ = ["PAIRS", "check_algorithm", "check_function", "compiled_prox", "known_problem"]
