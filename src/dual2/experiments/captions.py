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
    """

    name: str
    paper: float
    fact: str
    remark: str = ""


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


_SIZES = "n", "p"
_NOISE = (
    "Printed from double-precision eigenvalues, where it is rounding noise: testing vectors 1⊗u "
    "shows that it is at least the number here for every ρ and every network."
)
_PATH = "The path of 8 agents has 25.27; the paper does not tell the edges of its random graph."
_REDUCED = (
    "APAPC-Chebyshev needs g = 0 and h = indicator of a point, so that it is listed but has no "
    "curve. "
)


def _sizes(n: int, p: int) -> tuple[Constant, ...]:
    return tuple(Constant(name, value, name) for name, value in zip(_SIZES, (n, p), strict=True))


_CAPTION1 = (
    *_sizes(8, 20),
    Constant("κ_C", 25, "kappa_C", _PATH),
    Constant("κ_f", 1, "kappa_f"),
    Constant("κ_pd", 98603, "kappa_pd", "Met by the raw, unscaled rows of the data."),
)
_CAPTION2 = (
    *_sizes(8, 9),
    Constant("κ_C", 25, "kappa_C", _PATH),
    Constant("κ_f", 1, "kappa_f"),
    Constant("κ_Aρ", 8.24e15, "kappa_A_rho_at_least", _NOISE),
    Constant("κ_A'ρ", 4.89e16, "kappa_A_rho_at_least", _NOISE),
)
_CAPTION3 = (
    *_sizes(20, 10),
    Constant("κ_C", 99, "kappa_C", "The seed of the random graph was chosen to meet it."),
    Constant(
        "κ_f", 1000, "kappa_f",
        "40 uniform draws would give about 100: the smallest and the largest were set to 1 and "
        "1000 to meet it.",
    ),
    Constant("κ_A", 8, "kappa_A_joint", "The seed of the data was chosen to meet it."),
)  # fmt: skip

_WORDS1 = (
    "Elastic net regression on the first 20 rows of the California housing data, raw features; "
    "each of 8 agents on a path owns one feature, the last one two. Case 1 of the theory: h* is "
    "strongly convex and smooth.\n\n"
    "DCPA and NPGA-I are one iteration here and share a curve. Every baseline has the parameters "
    "of its own rule; curves that were cut say where. The paper leaves c of its accuracy schedule "
    f"open; here c = 1.5, the best of nine values. {_REDUCED}"
)
_WORDS2 = (
    "Ridge regression with non-negative predictions on the first 9 rows of the California housing "
    "data, raw features, 8 agents on a path. Case 3 of the theory: g = 0 and A has full row rank, "
    "if only just. μ_H, on which the paper's schedule for this case rests, is rounding noise in "
    "double precision, so that the schedule of Theorem 1717 is used, with δ = 4, the best "
    "of eight values."
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
