"""What a person can repeat: how many exchanges three kinds of methods took, in one sentence."""

from collections.abc import Iterable, Sequence

from dual2.bench.case import Case
from dual2.bench.costs import rows_at_gap
from dual2.bench.store import StoredRun
from dual2.methods import find_method
from dual2.methods.registry import AUTO
from dual2.paper.verdicts import Cost, cost, grouped

PAPER = ("iD2A", "MiD2A")
"""The paper's own methods; what is neither these nor ours is what it compares them with."""

Entry = tuple[Cost, str, str]
"""Latency, label, and words about the numbers sent."""


def headline(title: str, runs: Iterable[StoredRun], target: float) -> str:
    """The least latency of ours, of the paper's methods and of the others, to a gap of ``target``.

    Latency is every exchange that is waited for, of vectors and of agreed scalars; the numbers that
    all agents sent by then stand beside it. Runs that did not come so far are left out; the
    sentence is empty unless one of ours and one other did.

    Examples
    --------
    >>> import numpy as np
    >>> def run(method, rounds, **notes):
    ...     trace = {"rounds": np.array([rounds]), "agree_rounds": np.array([8]),
    ...              "gap": np.array([1e-9]), "floats": np.array([100 * rounds])}
    ...     case = Case("exp1", method, "exp1", solve={"method": method}, notes=notes)
    ...     return StoredRun(case, "CONVERGED", trace=trace)
    >>> print(headline("Experiment I", [run("iD2A", 592), run("Newton", 4, ours=True)], 1e-8))
    Experiment I, relative gap 1e-08: 12 exchanges with Newton (ours, 400 numbers sent), 600 with \
iD2A (paper, 59 200 numbers sent).
    """
    found: dict[str, list[Entry]] = {"ours": [], "paper": [], "best baseline": []}
    for run in runs:
        if "gap" in run.trace and len(run.trace["gap"]):
            entry = cost(run, "latency", target), run.case.label, _numbers(run, target)
            found[_kind(run.case)].append(entry)
    parts = [_least(kind, entries) for kind, entries in found.items()]
    said = [part for part in parts if part]
    if not parts[0] or len(said) < 2:
        return ""
    first, *rest = said
    first = first.replace(" with ", " exchanges with ", 1)
    return f"{title.partition(':')[0]}, relative gap {target:g}: {', '.join([first, *rest])}."


def _kind(case: Case) -> str:
    asked = str(case.solve.get("method", AUTO)).lower()
    if case.notes.get("ours") or asked == AUTO:
        return "ours"
    return "paper" if find_method(asked).name in PAPER else "best baseline"


def _numbers(run: StoredRun, target: float) -> str:
    """How many numbers all agents had sent when the gap met the target for good."""
    settled = rows_at_gap(run.trace, target)[1]
    if settled is None or "floats" not in settled:
        return ""
    return f", {grouped(settled['floats'])} numbers sent"


def _least(kind: str, entries: Sequence[Entry]) -> str:
    reached = [
        (known.low, f"{known!r}", label, numbers)
        for known, label, numbers in entries
        if known.low == known.high
    ]
    if not reached:
        return ""
    _, number, label, numbers = min(reached)
    return f"{number} with {label.partition(',')[0]} ({kind}{numbers})"
