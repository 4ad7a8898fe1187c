"""Oracle complexities of solvers for the general saddle point problem, as the paper lists them.

    min_x max_y  f_1(x) + f_2(x) + yᵀBx - g_1(y) - g_2(y)                                  (SPP)

f_1 is μ_x-strongly convex and L_x-smooth, g_1 convex and L_y-smooth, f_2 and g_2 have a prox.
𝒜 counts ∇f_1 and prox_{f_2}, ℬ counts B, Bᵀ, ∇g_1 and prox_{g_2}. O(·) is read with constant 1.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from dual2.errors import CapabilityError
from dual2.theory.constants import Constants, Facts

Numbers = Mapping[str, float]
Term = Callable[[Numbers], float]
_TOKEN = re.compile(r"\s*(\d+(?:\.\d+)?|[(),√^/·]|[^\s(),√^/·]+)")


@dataclass(frozen=True)
class Formula:
    """A product of powers, roots, maxima and logarithms, as written.

    Factors stand side by side or are joined by ``·`` and ``/``; ``√`` binds the next factor,
    ``^`` takes a number, ``max(a, b)`` and ``log(a)`` are the functions. Symbols are any other
    words.

    Examples
    --------
    >>> bound = Formula("√(κ_f κ_C) max(κ_pd, κ_h*) log(1/ε)")
    >>> sorted(bound.symbols)
    ['ε', 'κ_C', 'κ_f', 'κ_h*', 'κ_pd']
    >>> Formula("√(κ_f κ_C) max(κ_pd, κ_h*)")({"κ_f": 4, "κ_C": 9, "κ_pd": 5, "κ_h*": 7})
    42.0
    """

    text: str  # the formula

    def __str__(self) -> str:
        return self.text

    @cached_property
    def symbols(self) -> frozenset[str]:
        """Names that need a value."""
        words = set(_TOKEN.findall(self.text)) - {"max", "log", *"(),√^/·"}
        return frozenset(word for word in words if not word[0].isdigit())

    @cached_property
    def _term(self) -> Term:
        return _FormulaReader(_TOKEN.findall(self.text)).product()

    def __call__(self, numbers: Numbers) -> float:
        """Value at the given numbers; infinite or NaN where they are, never an error for that."""
        return self._term(numbers)


class _FormulaReader:
    """Recursive descent over the tokens of a formula."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.place = 0

    def product(self) -> Term:
        terms: list[tuple[Term, float]] = [(self.power(), 1.0)]
        while self.peek() not in (")", ",", ""):
            sign = -1.0 if self.peek() == "/" else 1.0
            if self.peek() in ("/", "·"):
                self.take()
            terms.append((self.power(), sign))
        return lambda numbers: math.prod(_power(term(numbers), sign) for term, sign in terms)

    def power(self) -> Term:
        if self.peek() == "√":
            self.take()
            inside = self.power()
            return lambda numbers: _power(inside(numbers), 0.5)
        base = self.atom()
        if self.peek() != "^":
            return base
        self.take()
        exponent = float(self.take())
        return lambda numbers: _power(base(numbers), exponent)

    def atom(self) -> Term:
        word = self.take()
        if word == "(":
            return self.arguments()[0]
        if word in ("max", "log"):
            self.take()
            inside = self.arguments()
            function = _largest if word == "max" else _logarithm
            return lambda numbers: function([term(numbers) for term in inside])
        if word[0].isdigit():
            return lambda numbers: float(word)
        return lambda numbers: float(numbers[word])

    def arguments(self) -> list[Term]:
        """Products up to the closing bracket."""
        terms = [self.product()]
        while self.take() == ",":
            terms.append(self.product())
        return terms

    def peek(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def take(self) -> str:
        self.place += 1
        return self.tokens[self.place - 1]


def _power(base: float, exponent: float) -> float:
    if base == 0 and exponent < 0:
        return math.inf
    return base**exponent


def _largest(values: list[float]) -> float:
    return math.nan if any(map(math.isnan, values)) else max(values)


def _logarithm(values: list[float]) -> float:
    return math.log(values[0])


CASES = {
    "concave": "strongly convex-concave: nothing more is assumed",
    "strongly concave": "strongly convex-strongly concave: g_1 is μ_y-strongly convex",
    "full rank": "strongly convex-full rank: f_2 = 0 and B has full row rank",
    "linear": "strongly convex-linear: f_2 = 0, g_2 = 0 and g_1 is linear",
    "augmented": "f_2 = 0, g_1(y) = g_3(y) + ½yᵀPy + yᵀb with BBᵀ + cP > 0 for every c > 0",
    "dual": "φ(y) = g_1(y) + (f_1+f_2)*(-Bᵀy) is μ_φ-strongly convex",
}
"""The groups of the table."""


@dataclass(frozen=True)
class SaddleNumbers:
    """Constants of one saddle point problem."""

    L_x: float  # smoothness and strong convexity of f_1 and g_1
    mu_x: float
    L_y: float
    mu_y: float
    S: float  # largest and smallest singular value of B, s = 0 unless B has full row rank
    s: float
    s_plus: float | None = None  # smallest nonzero singular value of B; s if not given
    # strong convexity of φ; if not given the larger of μ_y and, for f_2 = 0, λ/L_x
    mu_phi: float | None = None
    lambda_P: float | None = None  # λ = λ_min(BBᵀ + L_x P); s² if not given (P = 0)
    f2_zero: bool = False
    g2_zero: bool = False
    g3_zero: bool = False
    linear: bool = False  # whether g_1 is

    @property
    def symbols(self) -> dict[str, float]:
        """Constants and condition numbers by the names that the formulas use."""
        S2, s2 = self.S**2, self.s**2
        plus2 = s2 if self.s_plus is None else self.s_plus**2
        return {
            "L_x": self.L_x, "μ_x": self.mu_x, "L_y": self.L_y, "S": self.S,
            "κ_x": self.L_x / self.mu_x, "κ_y": _over(self.L_y, self.mu_y),
            "κ_xy": _over(S2, self.mu_x * self.mu_y), "κ_B": _over(S2, s2),
            "κ_B'": _over(S2, plus2), "κ_xy'": _over(self.L_x * self.L_y, s2),
            "κ_xy2": _over(self.L_x * self.L_y, self._lambda),
            "κ_xy3": _over(S2, self._lambda), "μ_φ": self._mu_phi,
        }  # fmt: skip

    @property
    def _lambda(self) -> float:
        return self.s**2 if self.lambda_P is None else self.lambda_P

    @property
    def _mu_phi(self) -> float:
        if self.mu_phi is not None:
            return self.mu_phi
        return max(self.mu_y, self._lambda / self.L_x if self.f2_zero else 0.0)


def saddle_numbers(constants: Constants, facts: Facts, mapping: str | None = None) -> SaddleNumbers:
    """The subproblem (SP) as an instance of (SPP): the paper's two mapping tables.

    f_1 = f, f_2 = g, B = 𝐀 and ζ(λ) = (ρ/2)λᵀ𝐂λ + λᵀz. With ``mapping="prox"``
    g_1 = (μ_{h*}/2n)|·|² + ζ and g_2 is the rest of h*/n; with ``"smooth"`` g_1 = h*/n + ζ and
    g_2 = 0. A linear h* belongs to g_1 under either. The default is the mapping of ``constants``.
    """
    smooth = (mapping or constants.mapping) == "smooth" or facts.h_linear
    mu_h, L_h = facts.mu_h / facts.n, facts.L_h / facts.n
    known = math.isfinite(constants.mu_phi)
    smallest2 = facts.rank2_min if facts.row_rank > 0 else 0.0
    return SaddleNumbers(
        L_x=facts.L_f,
        mu_x=facts.mu_f,
        L_y=_augmentation(constants, facts) + (L_h if smooth else mu_h),
        mu_y=mu_h,
        S=math.sqrt(facts.sigma2_max),
        s=math.sqrt(smallest2),
        mu_phi=constants.mu_phi if known else 0.0,
        f2_zero=facts.g_is_zero,
        g2_zero=smooth,
        g3_zero=facts.h_linear or not smooth,
        linear=facts.h_linear and constants.rho == 0,
    )


def _augmentation(constants: Constants, facts: Facts) -> float:
    """ρλ̄, from ρ* = L'/λ̄."""
    if constants.rho == 0 or constants.rho_star == 0:
        return 0.0
    total = facts.coupling + (facts.L_h / facts.n if math.isfinite(facts.L_h) else 0.0)
    return constants.rho / constants.rho_star * (total if total > 0 else 1.0)


@dataclass(frozen=True)
class SaddleBound:
    """One row of the table."""

    case: str  # key of CASES
    algorithm: str  # solver, or "lower bound"
    # additional assumptions, among "f2_zero", "g2_zero", "g3_zero"
    requires: tuple[str, ...]
    # oracle_a, oracle_b: complexities of 𝒜 and ℬ
    oracle_a: Formula
    oracle_b: Formula

    def objection(self, constants: SaddleNumbers) -> str:
        """What the problem lacks for this row; empty if nothing."""
        c = constants
        holds = {
            "concave": True,
            "strongly concave": c.mu_y > 0,
            "full rank": c.f2_zero and c.s > 0,
            "linear": c.f2_zero and c.g2_zero and c.linear,
            "augmented": c.f2_zero and c.symbols["κ_xy3"] < math.inf,
            "dual": c.symbols["μ_φ"] > 0,
        }[self.case]
        if not holds:
            return f"not {CASES[self.case]}"
        missing = [name for name in self.requires if not getattr(c, name)]
        return f"needs {' and '.join(_REQUIREMENT[name] for name in missing)}" if missing else ""

    def evaluate(self, constants: SaddleNumbers, eps: float) -> tuple[float, float]:
        """Predicted calls to 𝒜 and ℬ until the accuracy ε."""
        values = constants.symbols | {"ε": eps}
        return self.oracle_a(values), self.oracle_b(values)


_REQUIREMENT = {"f2_zero": "f_2 = 0", "g2_zero": "g_2 = 0", "g3_zero": "g_3 = 0"}
_SMOOTH = ("f2_zero", "g2_zero")


def _row(case: str, algorithm: str, requires: tuple[str, ...], a: str, b: str = "") -> SaddleBound:
    """Row of the table; a single complexity holds for 𝒜 and ℬ."""
    log = "" if case == "concave" else " log(1/ε)"
    return SaddleBound(case, algorithm, requires, Formula(a + log), Formula((b or a) + log))


_CONCAVE = "max(√κ_x log(1/ε), S/√(μ_x ε), √(L_y/ε))"
_STRONG = "max(√κ_x, √κ_xy, √κ_y)"

SADDLE_BOUNDS = (
    _row("concave", "LPD", (), "max(√(L_x/ε), S/√(μ_x ε), √(L_y/ε))"),
    _row("concave", "ABPD-PGS", (), _CONCAVE),
    _row("concave", "lower bound", _SMOOTH, _CONCAVE),
    _row("strongly concave", "LPD", (), _STRONG),
    _row("strongly concave", "ABPD-PGS", (), _STRONG),
    _row("strongly concave", "APDG", _SMOOTH, _STRONG),
    _row("strongly concave", "iDAPG", (), "√κ_x max(√κ_xy, √κ_y)", "max(√κ_xy, √κ_y)"),
    _row("strongly concave", "lower bound", _SMOOTH, _STRONG),
    _row("full rank", "APDG", ("g2_zero",), "max(√κ_xy', √(κ_x κ_B), κ_B)"),
    _row("full rank", "iDAPG", (), "√κ_x max(√κ_xy', √(κ_x κ_B))", "max(√κ_xy', √(κ_x κ_B))"),
    _row("linear", "Salim", (), "√κ_x", "√(κ_x κ_B')"),
    _row("linear", "APDG", (), "√(κ_x κ_B')"),
    _row("linear", "iDAPG", (), "κ_x √κ_B'", "√(κ_x κ_B')"),
    _row("linear", "lower bound", (), "√κ_x", "√(κ_x κ_B')"),
    _row("augmented", "PDPG", ("g3_zero",), "max(κ_xy2, κ_x κ_xy3)"),
    _row("augmented", "iDAPG", (), "√κ_x max(√κ_xy2, √(κ_x κ_xy3))", "max(√κ_xy2, √(κ_x κ_xy3))"),
    _row(
        "dual", "iDAPG", (), "√κ_x max(√(L_y/μ_φ), S/√(μ_x μ_φ))", "max(√(L_y/μ_φ), S/√(μ_x μ_φ))"
    ),
)
"""Every row. LPD and ABPD-PGS share one line of the paper in the strongly concave case. APDG's
linear row is as printed; its own bound, and its runs, have κ_B' beside √(κ_x κ_B')."""


@dataclass(frozen=True)
class SaddleComplexity:
    """A row evaluated for one problem: NaN and the reason where it does not apply."""

    case: str
    algorithm: str
    applies: bool
    reason: str
    oracle_a: float
    oracle_b: float


def saddle_complexities(constants: SaddleNumbers, eps: float = 1e-8) -> list[SaddleComplexity]:
    """The whole table for one saddle point problem, in the order of the paper.

    Examples
    --------
    >>> constants = SaddleNumbers(L_x=100.0, mu_x=1.0, L_y=4.0, mu_y=1.0, S=3.0, s=0.0)
    >>> for row in saddle_complexities(constants, eps=0.01):
    ...     if row.applies and row.case == "strongly concave":
    ...         print(f"{row.algorithm:<9} {row.oracle_a:.0f} {row.oracle_b:.0f}")
    LPD       46 46
    ABPD-PGS  46 46
    iDAPG     138 14
    """
    if not constants.mu_x > 0 or not math.isfinite(constants.L_x):
        raise CapabilityError(
            f"mu_x = {constants.mu_x:g}, L_x = {constants.L_x:g} found; every row of the table "
            "needs f_1 strongly convex (mu_x > 0) and smooth (L_x finite)."
        )
    if not 0 < eps < 1:
        raise CapabilityError(f"eps = {eps!r} found; expected a number between 0 and 1.")
    rows = []
    for bound in SADDLE_BOUNDS:
        objection = bound.objection(constants)
        a, b = (math.nan, math.nan) if objection else bound.evaluate(constants, eps)
        rows.append(SaddleComplexity(bound.case, bound.algorithm, not objection, objection, a, b))
    return rows


def _over(a: float, b: float) -> float:
    """a/b, infinite for b = 0."""
    return a / b if b > 0 else math.inf
