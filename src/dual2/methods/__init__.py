"""The algorithms, by the names of the paper."""

from dual2.methods.gossip.id2a import ID2A
from dual2.methods.gossip.npga import NPGA
from dual2.methods.method import Method, Plan
from dual2.methods.parameters import Settings
from dual2.methods.registry import METHODS, able_methods, find_method, require
from dual2.theory.conditions import Needs

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
