"""Newton's method on the dual over exact sums; see :mod:`dual2.methods.newton.algorithm`."""

from dual2.methods.newton.plan import NEWTON

__all__ = ["NEWTON"]
