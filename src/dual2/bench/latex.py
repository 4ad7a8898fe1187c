"""The summary of a benchmark as a table for LaTeX, with the rules of ``booktabs``."""

import math
from collections.abc import Sequence

from dual2.bench.summary import SummaryLine
from dual2.solving.result import Status

HEAD = (
    r"problem and network & method & rounds & quartiles & agreement & $\mathcal{A}$ "
    r"& $\mathcal{B}$ & numbers sent & solved \\"
)
"""Agreement counts exchanges of scalars, which are waited for as rounds are; 𝒜 counts calls of ∇f
and prox g, ℬ those of A, Aᵀ and prox h*."""

_SPELLED = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "ρ": r"$\rho$",
    "κ": r"$\kappa$",
    "δ": r"$\delta$",
    "λ": r"$\lambda$",
    "η": r"$\eta$",
    "μ": r"$\mu$",
    "²": "$^2$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "×": r"$\times$",
    "–": "--",
}


def escaped(text: str) -> str:
    r"""A text as LaTeX sets it.

    Examples
    --------
    >>> print(escaped("random (kappa_f = 2), ρ = 0 & 5 %"))
    random (kappa\_f = 2), $\rho$ = 0 \& 5 \%
    """
    return "".join(_SPELLED.get(letter, letter) for letter in text)


def latex_table(lines: Sequence[SummaryLine], remark: str) -> str:
    """Medians over the seeds, a group of rows for each problem and network; fewest rounds bold.

    ``lines``: of :func:`dual2.bench.summary.summarise`; ``remark``: a comment on top.
    """
    body, before = [], ""
    for line in lines:
        if line.place != before:
            body += [r"\midrule"]
        least = min(one.costs["rounds"] for one in lines if one.place == line.place)
        body.append(_row(line, escaped(line.place) if line.place != before else "", least))
        before = line.place
    return "\n".join(
        [
            *(f"% {text}" for text in remark.splitlines()),
            r"% needs \usepackage{booktabs}; medians over the seeds",
            r"\begin{tabular}{@{}llrrrrrrr@{}}",
            r"\toprule",
            HEAD,
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )


def _row(line: SummaryLine, place: str, least: float) -> str:
    rounds = _number(line.costs["rounds"])
    if math.isfinite(least) and line.costs["rounds"] == least:
        rounds = rf"\textbf{{{rounds}}}"
    spread = f"{_number(line.rounds[0])}--{_number(line.rounds[2])}"
    if not math.isfinite(line.rounds[0]):
        spread = "--"
    costs = [_number(line.costs[kind]) for kind in ("agree_rounds", "local", "coupling", "floats")]
    solved = f"{line.statuses.get(Status.CONVERGED, 0)}/{sum(line.statuses.values())}"
    return " & ".join([place, escaped(line.method), rounds, spread, *costs, solved]) + r" \\"


def _number(value: float) -> str:
    r"""A whole number, its digits in threes from 10\,000 on."""
    if not math.isfinite(value):
        return r"$\infty$"
    return f"{value:,.0f}".replace(",", r"\,") if value >= 10_000 else f"{value:.0f}"
