"""Rows of the table of methods for the NPGA family."""

from dual2.algorithms.method import Method, Needs
from dual2.algorithms.needs import point_h, prox_h, zero_g
from dual2.algorithms.npga import plan_npga
from dual2.theory.conditions import strong

_STRONG = "strongly convex, smooth"
_ANY = Needs(_STRONG, "prox-friendly", "prox-friendly", test_f=strong, test_h=prox_h)
_POINT = Needs(_STRONG, "prox-friendly", "a point", test_f=strong, test_h=point_h)
_PLAIN = Needs(_STRONG, "zero", "a point", test_f=strong, test_g=zero_g, test_h=point_h)
_STEPS = {"alpha": "1/L_f (derived)", "beta": "μ_f/σ̄² (derived)"}
_NESTED = _STEPS | {"gamma": "1 (derived)", "theta": "0 (default)"}
_FAMILY = _NESTED | {"scale": "W = I - scale·C ⪰ 0"}


def _npga(name: str, messages: str, summary: str, **more: object) -> Method:
    fields = {"sources": _FAMILY} | more
    return Method(
        name, plan_npga, summary, _ANY, rounds=messages, vectors=messages, reconstructed=True,
        **fields,  # pyright: ignore[reportArgumentType]
    )  # fmt: skip


NPGA_METHODS = [
    _npga("NPGA-EXTRA", "1", "B² = C = (I-W)/2, D = I"),
    _npga("NPGA-ED", "1", "exact diffusion: B² = (I-W)/2, C = 0, D = (I+W)/2"),
    _npga(
        "NPGA-NIDS", "1", "B² = c(I-W), C = 0, D = I-c(I-W)",
        sources=_FAMILY | {"c": "1/2, which is ED"},
    ),
    _npga(
        "NPGA-DLM", "1", "B² = C = cβL, D = I, L the graph Laplacian",
        sources=_NESTED | {"c": "cβ·max(d_i + d_j) = 1/2 (derived)"},
    ),
    _npga("NPGA-DIGing", "2", "tracking: B² = (I-W)², C = I-W², D = I"),
    _npga("NPGA-ATC", "2", "tracking: B² = (I-W)², C = I-W, D = W"),
    _npga("NPGA-AugDGM", "2", "tracking: B² = (I-W)², C = 0, D = W²"),
    _npga("NPGA-P2D2", "1", "B² = I-W, C = 0, D = W", aliases=("NPGA-I", "DCPA")),
    _npga("NPGA-II", "2", "B² = C = I-W, D = W (assumed)"),
    Method(
        "NPGA", plan_npga, "NPGA with network matrices of your own", _ANY,
        rounds="1-4", vectors="1-4", reconstructed=True,
        sources=_FAMILY | {"B2": "to be given", "C": "0", "D": "I"},
    ),
    Method(
        "DCDA", plan_npga, "dual coupled diffusion: NPGA-P2D2 with θ = 0 for h = point", _POINT,
        sources=_STEPS | {"scale": _FAMILY["scale"]},
    ),
    Method(
        "iD2GT", plan_npga, "dual gradient tracking: NPGA-DIGing with θ = 0, γ = 1", _PLAIN,
        rounds="1", vectors="2", reconstructed=True,
        sources={
            "alpha": "1/L_f (derived)", "beta": "0.2 μ_f/σ̄² (derived)", "scale": _FAMILY["scale"],
        },
        reveals="λ_i, and W λ of the step before",
    ),
]  # fmt: skip
"""NPGA, its tabulated choices of matrices, and the methods that are special cases."""
