"""Step sizes and network matrices of the NPGA family, and its rows in the table of methods."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dual2.errors import CapabilityError
from dual2.methods.gossip.mixing import (
    SHAPES,
    Matrices,
    consensus_radius,
    dense,
    from_arrays,
    from_laplacian,
    from_shape,
    mixing_scale,
    nids,
)
from dual2.methods.gossip.npga import NPGA
from dual2.methods.gossip.single_loop import single_loop_method
from dual2.methods.method import Method
from dual2.methods.parameters import Parameter, Sourced, Values, number
from dual2.runtime import Runtime
from dual2.theory.conditions import POINT_H, PROX_G, PROX_H, STRONG_F, ZERO_G, Needs

# -- step sizes --------------------------------------------------------------------------------


def _alpha(v: Values) -> float:
    L = v.facts.L_f
    return 1.0 / L if v.theta == 0 else Sourced(0.5 / L, "1/(2L_f) (derived)")


def _beta(v: Values, share: float = 1.0) -> float:
    facts, sigma2 = v.facts, v.facts.sigma2_max or 1.0
    if v.theta == 0:
        return share * facts.mu_f / sigma2
    beta = min(facts.L_f, 2.5 * facts.mu_f) / sigma2
    return Sourced(beta, "min(L_f, 2.5μ_f)/σ̄² (derived)")


def _laplacian_penalty(v: Values) -> float:
    i, j = v.network.edges.T
    degree = np.bincount(v.network.edges.ravel(), minlength=v.network.n)
    return 0.5 / (v.beta * float((degree[i] + degree[j]).max(initial=1)))


_STEPS = (
    Parameter("alpha", "1/L_f (derived)", _alpha),
    Parameter("beta", "μ_f/σ̄² (derived)", _beta),
    Parameter("gamma", "1 (derived)", 1.0),
    Parameter("theta", "0 (default)", 0.0, number("0 or 1", lambda theta: theta in (0, 1))),
)
_SCALE = Parameter("mixing_scale", "W = I - mixing_scale·C ⪰ 0", lambda v: mixing_scale(v.network))
_FAMILY = (*_STEPS, _SCALE)
_FIXED = (*_STEPS[:2], *(replace(step, free=False) for step in _STEPS[2:]), _SCALE)
_TRACKING = Parameter("beta", "0.2 μ_f/σ̄² (derived)", lambda v: _beta(v, 0.2))


# -- matrices ----------------------------------------------------------------------------------


def _given(v: Values) -> Matrices:
    """Matrices of the user's own."""
    if v.B2 is None:
        raise CapabilityError(
            "NPGA needs its network matrices: B2 (n × n), and C and D unless they are 0 and "
            "I. Tabulated choices have names of their own, for instance NPGA-ED."
        )
    return from_arrays(v.network, v.B2, v.C, v.D, v.mixing_scale)


def _diging(v: Values) -> Matrices:
    """With a linear h* the W(Wλ) of the last iteration travels with λ of this one."""
    rounds = v.network.rounds
    found = from_shape(v.network, SHAPES["NPGA-DIGing"], v.mixing_scale)
    return replace(found, rounds=rounds, vectors=2 * rounds, answers=1)


def _make(matrices: Callable[[Values], Matrices]) -> Callable[[Runtime, Values], NPGA]:
    """The iteration with these matrices, unless with given ones the agents would never agree."""

    def make(runtime: Runtime, v: Values) -> NPGA:
        found = matrices(v)
        if v.given.keys() & {"B2", "C", "D", "gamma", "mixing_scale", "c"}:
            radius = consensus_radius(v.network, found, v.gamma)
            if radius >= 1 - 1e-13:
                raise CapabilityError(
                    f"With these matrices and gamma = {v.gamma:g} the agents of {v.method} do not "
                    f"agree: a mode of disagreement is multiplied by {radius:.6g} in every "
                    "iteration. B2 must vanish on constants only; reduce gamma, mixing_scale or c."
                )
        return NPGA(runtime, v, found)

    return make


# -- the table ---------------------------------------------------------------------------------
_ANY = Needs(STRONG_F, PROX_G, PROX_H)


def _npga(
    name: str,
    messages: str,
    summary: str,
    matrices: Callable[[Values], Matrices] | None = None,
    declared: tuple[Parameter, ...] = _FAMILY,
    needs: Needs = _ANY,
    **more: Any,
) -> Method:
    """A row: the matrices are those of ``SHAPES`` unless given."""
    by_shape = lambda v: from_shape(v.network, SHAPES[name], v.mixing_scale)  # noqa: E731
    fields = {"rounds": messages, "vectors": messages, "reconstructed": True} | more
    return single_loop_method(name, _make(matrices or by_shape), summary, needs, declared, **fields)


NPGA_METHODS = [
    _npga("NPGA-EXTRA", "1", "B² = C = (I-W)/2, D = I"),
    _npga("NPGA-ED", "1", "exact diffusion: B² = (I-W)/2, C = 0, D = (I+W)/2"),
    _npga(
        "NPGA-NIDS", "1", "B² = c(I-W), C = 0, D = I-c(I-W)",
        lambda v: from_shape(v.network, nids(v.c), v.mixing_scale),
        (*_FAMILY, Parameter("c", "1/2, which is ED", 0.5)),
    ),
    _npga(
        "NPGA-DLM", "1", "B² = C = cβL, D = I, L the graph Laplacian",
        lambda v: from_laplacian(v.network, v.c * v.beta),
        (*_STEPS, Parameter("c", "cβ·max(d_i + d_j) = 1/2 (derived)", _laplacian_penalty)),
    ),
    _npga("NPGA-DIGing", "2", "tracking: B² = (I-W)², C = I-W², D = I"),
    _npga("NPGA-ATC", "2", "tracking: B² = (I-W)², C = I-W, D = W"),
    _npga("NPGA-AugDGM", "2", "tracking: B² = (I-W)², C = 0, D = W²"),
    _npga("NPGA-P2D2", "1", "B² = I-W, C = 0, D = W", aliases=("NPGA-I", "DCPA")),
    _npga("NPGA-II", "2", "B² = C = I-W, D = W (assumed)"),
    _npga(
        "NPGA", "1-4", "NPGA with network matrices of your own", _given,
        (
            *_FAMILY, Parameter("B2", "to be given", None, dense),
            Parameter("C", "0", None, dense), Parameter("D", "I", None, dense),
        ),
    ),
    _npga(
        "DCDA", "1", "dual coupled diffusion: NPGA-P2D2 with θ = 0 for h = point",
        declared=_FIXED, needs=Needs(STRONG_F, PROX_G, POINT_H), reconstructed=False,
    ),
    _npga(
        "iD2GT", "1", "dual gradient tracking: NPGA-DIGing with θ = 0, γ = 1", _diging,
        (_FIXED[0], _TRACKING, *_FIXED[2:]), Needs(STRONG_F, ZERO_G, POINT_H),
        vectors="2", reveals="λ_i, and W λ of the step before",
    ),
]  # fmt: skip
"""NPGA, its tabulated choices of matrices, and the methods that are special cases."""
