"""Words about the experiments: headings, problems, and the constants of the paper's captions."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Constant:
    """A number that a caption prints.

    Attributes
    ----------
    name : str
        Its symbol.
    paper : float
        Its value there.
    fact : str
        The fact of the stored runs that it is compared with.
    remark : str
        What to know about it.
    chosen : bool
        Whether data or network were chosen to meet it, so that meeting it proves nothing.
    """

    name: str
    paper: float
    fact: str
    remark: str = ""
    chosen: bool = False


@dataclass(frozen=True)
class About:
    """Words about one group of runs.

    Attributes
    ----------
    title, words, formula : str
        Heading; paragraphs, parted by blank lines; the problem.
    constants : tuple of Constant
        The caption's numbers.
    """

    title: str
    words: str
    formula: str
    constants: tuple[Constant, ...]


_NOISE = (
    "Printed from double-precision eigenvalues, where it is rounding noise: testing vectors 1⊗u "
    "shows that it is at least the number here for every ρ and every network."
)
_PATH = (
    "The paper does not tell the edges of its random graph; the path of 8 agents, which meets it, "
    "was chosen here."
)
_REDUCED = (
    "APAPC-Chebyshev needs g = 0 and h = indicator of a point, so that it is listed but has no "
    "curve. "
)


def _sizes(**sizes: int) -> tuple[Constant, ...]:
    return tuple(Constant(name, value, name) for name, value in sizes.items())


_CAPTION1 = (
    *_sizes(n=8, p=20, d=9),
    Constant("κ_C", 25, "kappa_C", _PATH, chosen=True),
    Constant("κ_f", 1, "kappa_f"),
    Constant("κ_pd", 98603, "kappa_pd", "Met by the raw, unscaled rows of the data."),
)
_CAPTION2 = (
    *_sizes(n=8, p=9, d=9),
    Constant("κ_C", 25, "kappa_C", _PATH, chosen=True),
    Constant("κ_f", 1, "kappa_f"),
    Constant("κ_Aρ", 8.24e15, "kappa_A_rho_at_least", _NOISE),
    Constant("κ_A'ρ", 4.89e16, "kappa_A_rho_at_least", _NOISE),
)
_CAPTION3 = (
    *_sizes(n=20, p=10, d=40),
    Constant(
        "κ_C", 99, "kappa_C", "The seed of the random graph was chosen to meet it.", chosen=True
    ),
    Constant(
        "κ_f", 1000, "kappa_f",
        "40 uniform draws would give about 100: the smallest and the largest were set to 1 and "
        "1000 to meet it.", chosen=True,
    ),
    Constant(
        "κ_A", 8, "kappa_A_joint", "The seed of the data was chosen to meet it.", chosen=True
    ),
)  # fmt: skip

_WORDS1 = (
    "Elastic net regression on the first 20 rows of the California housing data, raw features; "
    "each of 8 agents on a path owns one feature, the last one two. Case 1 of the theory: h* is "
    "strongly convex and smooth. At the solution only two of the nine coefficients are not zero "
    "(Population and Longitude).\n\n"
    "DCPA and NPGA-I are one iteration here and share a curve. Every baseline has the parameters "
    "of its own rule; curves that were cut say where. The paper leaves c of its accuracy schedule "
    "open; here c = 1.5, the best of nine values. Runs end when the KKT residual is small, which "
    "takes the prices as well: x, and with it the gap, can be settled long before, and its curve "
    f"then runs flat. {_REDUCED}"
)
_WORDS2 = (
    "Ridge regression with non-negative predictions on the first 9 rows of the California housing "
    "data, raw features, 8 agents on a path. Case 3 of the theory: g = 0 and A has full row rank, "
    "if only just. μ_H, on which the paper's accuracy schedule for this case rests, is rounding "
    "noise in double precision, so that its schedule for the general convex case is used, with "
    "δ = 4, the best of eight values."
)
_INACTIVE2 = (
    f"\n\nAs printed no prediction is near zero at the solution and the constraint does nothing. "
    f"Curves that were cut say where. {_REDUCED}"
)
_ACTIVE2 = (
    "\n\nThis is the active variant, which is not in the paper: 3.5 is subtracted from every "
    "target, so that the constraint binds in two rows. Curves that were cut say where."
)
_WORDS3 = (
    "Resource allocation between 20 agents on a random graph: quadratic costs, bounds, and ten "
    "resources that all share. The data follow the paper's recipe (seeds in the source). "
    "Tracking-ADMM and NECPD solve the form with slack variables; their local problems are solved "
    "exactly. δ = 6 of the accuracy schedule is the best of eight values."
)
_INACTIVE3 = (
    "\n\nAs printed no row of the coupling binds at the solution (with most seeds): every agent "
    "could find its part on its own, and the price is zero. The penalties of Tracking-ADMM and "
    f"NECPD were tuned by the gap, over a grid. {_REDUCED}"
)
_ACTIVE3 = (
    "\n\nThis is the active variant, which is not in the paper: b is divided by ten until at least "
    "one row of the coupling binds. The penalties of Tracking-ADMM and NECPD were tuned by a "
    "search that is stored with the runs. Runs are cut at 1 million rounds."
)
_FORMULA1 = "minimise Σ_i (45 |x_i|² + 10 |x_i|₁) + |Σ_i X_i x_i − y|² / 40"
_FORMULA2 = "minimise Σ_i 50 |x_i|² + |Σ_i X_i x_i − y|² / 18   subject to   Σ_i X_i x_i ≥ 0"
_FORMULA3 = "minimise Σ_i ½ x_iᵀP_i x_i + q_iᵀx_i   subject to   0 ≤ x_i ≤ u_i,  Σ_i B_i x_i ≤ b"

SOURCE = (
    "Jingwang Li and Vincent Lau, “Accelerated Decentralized Constraint-Coupled Optimization: A "
    "Dual² Approach”"
)
"""The paper."""

WORDS = {
    "gap": "|x − x*| / |x⁰ − x*| with x⁰ = 0: how far the answer still is from the solution x*, "
    "which was computed centrally by another method.",
    "KKT residual": "by how much the optimality conditions are violated, prices included, relative "
    "to the size of their terms. Unlike the gap it needs no solution to compare with.",
    "round": "every agent sends one vector of length p to each of its neighbours.",
    "calls": "how often an agent evaluates ∇f_i and prox g_i, or multiplies by A_i or its "
    "transpose and evaluates prox h*.",
    "iD2A, MiD2A": "the paper's methods. They solve a chain of subproblems with accelerated "
    "gradient steps between them; MiD2A replaces every product with the gossip matrix by several "
    "rounds of Chebyshev acceleration. The name behind the hyphen (iDAPG, PDPG, LPD) is the solver "
    "of the subproblems.",
    "ρ, ρ*": "weight of the augmentation, and the paper's choice of it. With ρ = 0 subproblems "
    "are solved without communication.",
    "our defaults": "what dual2 does unless told otherwise: sharper constants, subproblems solved "
    "to a relative accuracy.",
    "reconstructed": "rebuilt from the family that the method belongs to, with steps by a derived "
    "rule; the published listing may differ.",
    "tuned": "parameters were searched for on this very problem.",
    "cut": "the run ended at its limit of rounds, not at its goal.",
    "met for good": "from then on the gap stays below the target; accelerated methods overshoot.",
    "κ": "condition numbers: κ_f of the costs f_i, κ_C of the network, κ_pd, κ_A, κ_Aρ of the "
    "coupling, as the paper defines them. The larger, the harder.",
    "Case 1, 2, 3": "of the paper's table of complexities: 1, h* is strongly convex; 2, g = 0 and "
    "every A_i has full row rank; 3, g = 0 and A = [A_1 … A_n] has full row rank.",
    "Theorem 1717 and the like": "theorems go by their labels in the paper's source.",
}
"""What words on the report's page mean."""

ABOUT = {
    "exp1": About("Experiment I: elastic net regression", _WORDS1, _FORMULA1, _CAPTION1),
    "exp2": About(
        "Experiment II: constrained linear regression", _WORDS2 + _INACTIVE2, _FORMULA2, _CAPTION2
    ),
    "exp2-active": About(
        "Experiment II, active: some predictions held at zero", _WORDS2 + _ACTIVE2, _FORMULA2,
        _CAPTION2,
    ),
    "exp3": About(
        "Experiment III: resource allocation", _WORDS3 + _INACTIVE3, _FORMULA3, _CAPTION3
    ),
    "exp3-active": About(
        "Experiment III, active: resources that are scarce", _WORDS3 + _ACTIVE3, _FORMULA3,
        _CAPTION3,
    ),
}  # fmt: skip
"""By group of runs."""
