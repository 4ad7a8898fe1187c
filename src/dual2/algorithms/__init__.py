"""The algorithms, by the names of the paper."""

from dual2.algorithms.id2a import ID2A
from dual2.algorithms.method import Method, Plan
from dual2.algorithms.needs import Needs
from dual2.algorithms.npga import NPGA
from dual2.algorithms.parameters import Settings
from dual2.algorithms.registry import METHODS, able_methods, find_method, require

__all__ = [
    "ID2A",
    "METHODS",
    "NPGA",
    "Method",
    "Needs",
    "Plan",
    "Settings",
    "able_methods",
    "find_method",
    "require",
]
