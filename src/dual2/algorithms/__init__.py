"""The algorithms, by the names of the paper."""

from dual2.algorithms.id2a import ID2A
from dual2.algorithms.registry import METHODS, Method, find_method

__all__ = ["ID2A", "METHODS", "Method", "find_method"]
