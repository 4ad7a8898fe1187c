"""Methods over exact sums: Newton, dual (:mod:`.algorithm`) and primal (:mod:`.primal`); L-BFGS."""

from dual2.methods.newton.plan import LBFGS, NEWTON

__all__ = ["LBFGS", "NEWTON"]
