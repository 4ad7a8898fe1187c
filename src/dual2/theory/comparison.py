"""What a run cost, beside what the complexity table predicts."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dual2.theory.complexity import Complexity, at_end, count


@dataclass(frozen=True)
class Comparison:
    """Measured beside predicted.

    Attributes
    ----------
    row : Complexity or None
        The row of the table that was run, None if the table has none.
    measured : dict
        ``rounds``, ``oracle_a`` = max(∇f, prox_g), ``oracle_b`` = max(𝐀, 𝐀ᵀ, prox_{h*}).
    reason : str
        Which row, or why none.
    """

    row: Complexity | None
    measured: dict[str, int]
    reason: str

    def ratio(self, name: str) -> float:
        """Measured over predicted; NaN without a row."""
        return self.measured[name] / getattr(self.row, name) if self.row else math.nan

    def __str__(self) -> str:
        names = {"rounds": "rounds", "oracle_a": "𝒜", "oracle_b": "ℬ"}
        lines = [self.reason, f"{'':<8}{'measured':>12}{'predicted':>12}{'ratio':>10}"]
        for name, shown in names.items():
            wanted = count(getattr(self.row, name)) if self.row else "-"
            ratio = f"{self.ratio(name):.3g}" if self.row else "-"
            lines.append(f"{shown:<8}{self.measured[name]:>12}{wanted:>12}{ratio:>10}")
        return "\n".join(lines)


def compare(rows: Iterable[Complexity], result: Any) -> Comparison:
    """What a run cost beside what the table predicts for the row that was run.

    Parameters
    ----------
    rows : iterable of Complexity
        From :func:`complexities`, with an ε of the accuracy of the run.
    result : Result
        Of ``solve`` on the same problem and network: its ``counts`` and ``parameters``.
    """
    counts = result.counts
    measured = {
        "rounds": counts.rounds,
        "oracle_a": max(counts.grad_f, counts.prox_g),
        "oracle_b": max(counts.A, counts.AT, counts.prox_h),
    }
    used = {k: v for k, (v, _) in result.parameters.items()}
    suited = [row for row in rows if row.applies and _was_run(row, used)]
    if not suited:
        label = "-".join(filter(None, [str(used["method"]), used.get("subsolver", "")]))
        where = f", ρ = {used['rho']:g}," if "rho" in used else ""
        return Comparison(None, measured, f"The paper's table has no row for {label}{where} here.")
    row = min(suited, key=lambda row: at_end(row.rounds))
    return Comparison(row, measured, f"{row.name}, Case {row.case}, {row.assumption}.")


def _was_run(row: Complexity, used: dict[str, Any]) -> bool:
    """Whether a row describes a run with the given parameters."""
    method = str(used["method"])
    if row.rho is None:
        return method == row.method or method.startswith(f"{row.method}-")
    if method != row.method or used.get("subsolver") != row.subsolver:
        return False
    by_gradient = used.get("mapping") == "smooth"
    return (row.rho > 0) == (used["rho"] > 0) and (row.assumption == "③") == by_gradient
