"""Which local solver computes an agent's argmin: one enum, and the place that chooses.

Two local problems occur, with the same f_i and g_i:

- *trials* of dual methods over sums, argmin f_i + g_i + <A_iᵀλ, x> + (r/2)|x - x̄|² for several λ at
  once, each with its Jacobian (:func:`choose_for_trials`);
- *penalties* of methods of ADMM type, argmin f_i + g_i + Σ_k ψ_k((A_i x)_k) + (w/2)|x - x̄|² with
  quadratic ψ_k (:func:`choose_for_penalties`), see :mod:`dual2.methods.local.argmin`.
"""

from enum import IntEnum
from typing import Any

import numpy as np

from dual2.engine.local import CALLBACK_F, DENSE_A, DENSE_F, OPERATOR_A, SIMPLE_F
from dual2.engine.pack import PackedBlock, is_separable
from dual2.functions.kernels import KINKLESS
from dual2.functions.lowering import KernelKind, prox_blocks
from dual2.runtime import Runtime

Array = np.ndarray
(
    CLOSED_FORM_SOLVER,
    POLYHEDRON_SOLVER,
    SEMISMOOTH_SOLVER,
    NUMPY_SOLVER,
    ACTIVE_SET_SOLVER,
    GRADIENT_SOLVER,
) = range(6)
"""The numbers of :class:`SolverKind`, for kernels."""


class SolverKind(IntEnum):
    """How an agent's argmin is computed."""

    CLOSED_FORM = CLOSED_FORM_SOLVER  # diagonal f_i, separable g_i: coordinate by coordinate
    POLYHEDRON = POLYHEDRON_SOLVER  # diagonal f_i, a polyhedron for g_i: one projection
    SEMISMOOTH = SEMISMOOTH_SOLVER  # a compiled semismooth Newton method
    NUMPY = NUMPY_SOLVER  # the same in NumPy, or a gradient method: functions without kernels
    ACTIVE_SET = ACTIVE_SET_SOLVER  # dense A_i, quadratic f_i, separable g_i: finitely many steps
    GRADIENTS = GRADIENT_SOLVER  # accelerated proximal gradients: functions without kernels


class ProxKind(IntEnum):
    """What is known of the prox of a g_i."""

    SEPARABLE = 0
    COMPILED = 1
    PYTHON = 2


def prox_kinds(block: PackedBlock) -> Array:
    """Whether the prox of each g splits by coordinate, is compiled otherwise, or is Python."""
    counts = np.diff(block.gptr)
    owner = np.repeat(np.arange(len(counts)), counts)
    kinds = np.full(len(counts), ProxKind.COMPILED)
    kinds[owner[block.gtab[:, 0] == KernelKind.CALLBACK]] = ProxKind.PYTHON
    plain = (block.gtab[:, 0] == KernelKind.SEPARABLE) & np.isin(block.gtab[:, 1], (0, KINKLESS))
    kinds[(counts == 1) & (np.bincount(owner[plain], minlength=len(counts)) == 1)] = (
        ProxKind.SEPARABLE
    )
    return kinds


def choose_for_trials(block: PackedBlock, prox: Array, polyhedral: Any) -> Array:
    """The solver of each agent for trials; ``polyhedral``: agents whose g_i is a polyhedron."""
    matrix, chosen = block.akind != OPERATOR_A, np.full(len(prox), SolverKind.NUMPY, np.int64)
    kernels = (prox != ProxKind.PYTHON) & matrix & (block.fkind != CALLBACK_F)
    # From the general to the special: the last that applies is the fastest.
    chosen[kernels] = SolverKind.SEMISMOOTH
    chosen[polyhedral] = SolverKind.POLYHEDRON
    chosen[(prox == ProxKind.SEPARABLE) & matrix & (block.fkind == SIMPLE_F)] = (
        SolverKind.CLOSED_FORM
    )
    return chosen


def choose_for_penalties(runtime: Runtime) -> Array:
    """The solver of each agent for penalties: ACTIVE_SET, SEMISMOOTH or GRADIENTS."""
    akind, fkind = runtime.block.akind, runtime.block.fkind
    chosen = np.full(runtime.n, SolverKind.SEMISMOOTH, dtype=np.int64)
    for i, agent in enumerate(runtime.problem.agents):
        blocks = prox_blocks(agent.g, agent.dim)
        if akind[i] == DENSE_A and fkind[i] in (SIMPLE_F, DENSE_F) and is_separable(blocks):
            chosen[i] = SolverKind.ACTIVE_SET
        python = any(block.kind == KernelKind.CALLBACK for block in blocks)
        if python or akind[i] == OPERATOR_A or fkind[i] & CALLBACK_F:
            chosen[i] = SolverKind.GRADIENTS
    return chosen
