"""What a reader asks about a method: its formulas, what is guaranteed, when to take it.

``dual2 methods NAME`` and the documentation's page of each method are made from the registry and
from these lines; the formulas themselves stand in the docstring of the module that runs them.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Guide:
    """Words about one method.

    Attributes
    ----------
    module : str
        Module of ``dual2.methods`` whose docstring has the problem and the update.
    guarantee : str
        What is proved, and under which conditions; for reconstructed methods what was reported.
    when : str
        When to take it, and when not.
    sources : tuple of str
        Keys of the documentation's bibliography.
    """

    module: str
    guarantee: str
    when: str
    sources: tuple[str, ...] = ()


_ID2A = Guide(
    "gossip.id2a",
    "With accuracy='paper' or 'literal': converges for every convex h with Slater's condition, the "
    "outer error like O(1/k²) (Theorem 1); linearly, with √κ_F outer iterations per digit (Theorem "
    "2), if h* is strongly convex, or g = 0 and every A_i or A = [A_1 … A_n] has full row rank; "
    "Theorem 3 counts rounds and calls. The default accuracy='relative' stops a subproblem at η "
    "times the last outer step. The paper has no theorem for that rule: it is a heuristic that "
    "usually saves rounds, and the certificate judges the answer.",
    "When agents may exchange vectors with neighbours only and no sum over the whole network, or "
    "when the paper is to be reproduced. Where sums are allowed, Newton needs far fewer exchanges.",
    ("li2025dual2", "li2025minimax"),
)
_NPGA = Guide(
    "gossip.npga",
    "Reported: linear if h is smooth; for matrices with C ≠ 0 (EXTRA, DLM, DIGing, ATC, II) also "
    "if g = 0 and A has full row rank. Rounds grow with κ_f, κ_pd and κ_C themselves, not with "
    "their roots.",
    "As a baseline. One gradient, one prox and one exchange per iteration make it the simplest "
    "method that takes every f, g and h here; it is the slower the worse the conditioning.",
    ("li2024npga",),
)
_TRACKING = replace(
    _NPGA,
    when="As a baseline. Tracking applies I-W twice: on badly connected networks it is several "
    "times slower than NPGA-ED or NPGA-P2D2.",
)
_ADMM = Guide(
    "gossip.admm_kernel",
    "Converges for convex f_i; no rate is claimed here.",
    "As a baseline where f_i is not strongly convex. The penalty decides: tune() searches it.",
)
_FLOW = Guide(
    "gossip.idea",
    "The flow converges without strong convexity; what is computed is its numerical integration.",
    "To study the flow. Every evaluation of the right-hand side is a round: it is the slowest "
    "method here.",
    ("li2022implicit",),
)

_BLOCKS = Guide(
    "allreduce.cocoa",
    "Converges with γ = 1 and σ' = γn for every split of the data; linearly where f_i is strongly "
    "convex. The safe σ' makes steps the shorter the more agents there are.",
    "As a baseline of learning from columns with a smooth loss.",
)
_SHARING = Guide(
    "allreduce.sharing",
    "Converges for convex f_i, g_i and h and every ρ > 0; ρ decides how fast.",
    "As a baseline where sums are allowed and local problems are cheap; tune() searches ρ.",
    ("boyd2011",),
)

GUIDES: dict[str, Guide] = {
    "iD2A": _ID2A,
    "MiD2A": replace(
        _ID2A,
        guarantee=_ID2A.guarantee + " K = ⌊√κ_C⌋ rounds per iteration make the condition of the "
        "network a constant, so that κ_C enters the rounds by its root only.",
        when="On badly connected networks (long paths, large κ_C) where only neighbours talk and "
        "local work is dearer than rounds; otherwise as iD2A.",
        sources=("li2025dual2", "scaman2017"),
    ),
    "NPGA-EXTRA": _NPGA,
    "NPGA-ED": _NPGA,
    "NPGA-NIDS": _NPGA,
    "NPGA-DLM": _NPGA,
    "NPGA-DIGing": _TRACKING,
    "NPGA-ATC": _TRACKING,
    "NPGA-AugDGM": _TRACKING,
    "NPGA-P2D2": replace(_NPGA, sources=("li2024npga", "alghunaim2021")),
    "NPGA-II": _NPGA,
    "NPGA": replace(
        _NPGA,
        guarantee="Fixed points are exactly the KKT points for any B², C, D with null(B²) = "
        "span(1), C1 = 0, D1 = 1; whether the iteration is stable depends on the choice.",
        when="To try network matrices of your own.",
    ),
    "DCDA": Guide(
        "gossip.npga",
        "Asymptotic for every g; linear if g = 0 and every A_i has full row rank.",
        "As a baseline for h = indicator of a point.",
        ("alghunaim2020",),
    ),
    "iD2GT": Guide(
        "gossip.npga",
        "Reported: linear without a rank condition on A, for g = 0 and h = indicator of a point.",
        "As a baseline; two vectors per neighbour and round.",
    ),
    "APAPC": Guide(
        "gossip.apapc",
        "Linear, whatever the rank of A; the conditions of f, A and the network multiply.",
        "As a step on the way to APAPC-Chebyshev, which is much faster.",
        ("yarmoshik2025",),
    ),
    "APAPC-Chebyshev": Guide(
        "gossip.apapc",
        "Linear with O(√κ_f) gradients, O(√(κ_f κ_A)) products and O(√(κ_f κ_A κ_C)) rounds per "
        "digit, which is optimal for its class; no rank condition.",
        "For smooth strongly convex f_i without g_i and h = indicator of a point, where gradients "
        "are dear and no sum over the network is allowed.",
        ("yarmoshik2025",),
    ),
    "Nedic": Guide(
        "gossip.nedic",
        "The error falls like (1 - 1/√(κ_f κ_C))^k, and every iterate meets the coupling.",
        "For Σ x_i = b, if every iterate must be feasible and gradients may be shown.",
        ("nedic2018",),
    ),
    "Tracking-ADMM": replace(
        _ADMM,
        guarantee="Converges for convex f_i and g_i with compact domains; no rate is proved.",
        sources=("falsone2020",),
    ),
    "NECPD": replace(
        _ADMM, guarantee="Reported: O(1/k) for 0 < η ≤ ρ, with strongly convex local problems."
    ),
    "DC-ADMM": replace(
        _ADMM,
        guarantee="Converges for convex f_i; reported: linear if g = 0 and every A_i has full row "
        "rank.",
        sources=("chang2015",),
    ),
    "IDC-ADMM": replace(
        _ADMM,
        guarantee="Reported: as DC-ADMM, with one proximal gradient step in place of a solution.",
        sources=("chang2015",),
    ),
    "DPMM": replace(
        _ADMM,
        guarantee="Converges for convex f_i, 0 < θ < 2 and β < 1/(γ λ_max(C)).",
        when="As a baseline for equations and inequalities without slack variables.",
        sources=("gong2023",),
    ),
    "IDEA": _FLOW,
    "Proj-IDEA": _FLOW,
    "CoLA": replace(_BLOCKS, sources=("he2018",)),
    "CoCoA+": replace(_BLOCKS, sources=("ma2015",)),
    "Sharing-ADMM": _SHARING,
    "Sharing-ADMM-AA": replace(
        _SHARING,
        guarantee="As Sharing-ADMM: a step that is not a descent of |q⁺ - q| falls back to the "
        "plain one.",
        sources=("boyd2011", "fu2020"),
    ),
    "FISTA": Guide(
        "allreduce.fista",
        "Objective like O(1/k²); linear with √(L/μ) sums per digit where f_i is strongly convex.",
        "As a baseline where h is smooth and sums are allowed: no local problem is solved.",
        ("beck2009", "chambolle2016"),
    ),
    "VF-L-BFGS": Guide(
        "allreduce.vector_free",
        "Descent with every sum; for smooth problems without g_i.",
        "As a baseline for smooth models with very many columns, where Newton's matrices are dear.",
        ("chen2014",),
    ),
    "Newton": Guide(
        "dual_newton.newton_loop",
        "The dual mode needs every f_i + g_i strongly convex, the primal mode does not. CONVERGED "
        "and INFEASIBLE are each proved by the certificate of the answer; the number of sums is "
        "measured, not bounded by a theorem.",
        "For strongly convex problems where sums over the network are allowed: tens of exchanges "
        "instead of thousands. Not where functions have no derivatives, or where curvature sums of "
        "p(p+1)/2 numbers are too many and the primal mode does not apply.",
    ),
    "interior-point": Guide(
        "interior_point.algorithm",
        "CONVERGED and INFEASIBLE are each proved by the certificate of the answer; iterations are "
        "some 10 to 40 whatever the conditioning, as measured, not by a theorem.",
        "For linear and quadratic programs and other problems without strong convexity, where "
        "sums over the network are allowed and sums of p(p+1)/2 numbers are not too many.",
        ("mehrotra1992", "andersen1999"),
    ),
    "L-BFGS": Guide(
        "panoc",
        "The envelope falls with every sum that is taken; the answer is judged as every other.",
        "For your own Python functions and operators, where sums over the network are allowed but "
        "second derivatives are not known.",
        ("stella2017",),
    ),
}
"""By the names of the registry."""
