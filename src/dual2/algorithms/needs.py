"""Tests of a problem's parts for the table of methods: what is lacking, empty if nothing."""

import numpy as np
import scipy.sparse as sp

from dual2.functions import Function, Zero
from dual2.problem import Agent
from dual2.theory.conditions import is_point


def zero_g(agent: Agent) -> str:
    """Whether g = 0.

    Examples
    --------
    >>> import dual2 as d2
    >>> zero_g(d2.Agent([[1.0]], d2.SquaredNorm(1.0), d2.L1Norm(2.0)))
    'g must be zero; found L1Norm(weight=2)'
    """
    return "" if isinstance(agent.g, Zero) else f"g must be zero; found {agent.g!r}"


def identity_A(agent: Agent) -> str:
    """Whether A is known to be the identity."""
    A = agent.A
    rows, columns = A.shape
    if rows != columns:
        return f"A must be the identity; its shape is {rows} × {columns}"
    if sp.issparse(A):
        same = (sp.csr_array(A) != sp.eye_array(rows, format="csr")).nnz == 0
    else:
        same = isinstance(A, np.ndarray) and np.array_equal(A, np.eye(rows))
    return "" if same else "A must be the identity, as an array or sparse matrix"


def point_h(h: Function) -> str:
    """Whether h is the indicator of a point."""
    return "" if is_point(h) else f"h must be the indicator of a point; found {h!r}"


def prox_h(h: Function) -> str:
    """Whether the prox of h* can be computed."""
    able = h.proximable or h.conjugate.proximable
    return "" if able else f"h must have a prox; {h!r} has none"


def dual_h(h: Function) -> str:
    """Whether h* has a prox or a gradient."""
    able = not prox_h(h) or h.conjugate.smooth
    return "" if able else f"h must have a prox or a smooth conjugate; {h!r} has neither"
