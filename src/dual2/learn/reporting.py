"""What is told about a fit: what was communicated, how it ended, what would help."""

from collections.abc import Sequence

from dual2.learn.design import Design
from dual2.learn.training import TrainingState
from dual2.solving.result import Status

MANY_ROUNDS, WIDE = 10_000, 3.0
"""Rounds of a model, and largest spread of its columns, beyond which fit advises to scale."""


def communicated(models: Sequence[TrainingState], design: Design) -> dict[str, int]:
    """Counts of all problems together, and the size of the table."""
    names = ("sums", "rounds", "vectors", "agree_rounds", "floats", "solves")
    found = {name: sum(model.counts[name] for model in models) for name in names}
    return found | {"latency": found["rounds"] + found["agree_rounds"], "table": design.size}


def warning(models: Sequence[TrainingState], design: Design, tol: float) -> tuple[str, bool]:
    """What to warn of, empty if nothing, and whether a model is not there yet."""
    late = [m for m in models if not m.converged and m.result is not None]
    rounds = max(model.counts["rounds"] for model in models)
    advice = "" if design.spread < WIDE else _advice(design.spread)
    if late:
        return _shortfall(late[0], tol) + advice, True
    long = advice and rounds > MANY_ROUNDS
    return f"Training took {rounds} rounds.{advice}" if long else "", False


def explanation(name: str, models: Sequence[TrainingState], counts: dict[str, int]) -> str:
    """The whole fit in words: each model, what was sent, and the last problem's own account."""
    share = counts["floats"] / max(counts["table"], 1)
    lines = [
        f"{name}: {counts['solves']} problem{'s' if counts['solves'] > 1 else ''} solved for "
        f"{len(models)} target{'s' if len(models) > 1 else ''}.",
        f"Communication: {counts['sums']} sums, {counts['rounds']} rounds and "
        f"{counts['agree_rounds']} of agreement; {counts['floats']} numbers sent by anybody, "
        f"{share:.3g} times the {counts['table']} of the table.",
    ]
    for k, model in enumerate(models):
        ended = "without work" if model.result is None else str(model.result.status)
        kkt = "" if model.result is None else f", KKT residual {model.result.certificate.kkt:.1e}"
        rest = f", ridge effect {model.remaining:.1e}" if model.remaining > 0 else ""
        lines.append(f"Target {k}: {ended} after {model.counts['solves']} solved{kkt}{rest}.")
        if model.dependent:
            lines.append(
                f"The columns are linearly dependent: {model.dependent} of their combinations "
                "predict nothing. The coefficients are those of minimum norm."
            )
    last = models[-1].result
    return "\n".join(lines if last is None else [*lines, "The last problem:", last.explain()])


def _advice(spread: float) -> str:
    """What to do about large columns, against which the penalty is weak."""
    return (
        f" The spread of the columns is large (up to {spread:.2g}): scale them (standardize=True, "
        "or a StandardScaler) to need fewer rounds. The penalty then applies to the scaled columns."
    )


def _shortfall(model: TrainingState, tol: float) -> str:
    """How far a model is that has not converged, and what to do."""
    assert model.result is not None
    rest = f", coefficients still to move by about {model.remaining:.1e} of their length"
    where = (
        f"after {model.counts['rounds']} rounds: KKT residual {model.result.certificate.kkt:.1e}"
        f"{rest if model.remaining > 0 else ''}, tol = {tol:g}."
    )
    if model.result.status == Status.CONVERGED:
        return (
            f"Training still moves {where} There may be no finite solution (classes that can be "
            "separated, or counts that are all 0, without a penalty): penalise more, or loosen tol."
        )
    return (
        f"Training ended with {model.result.status} {where} Increase max_iter, loosen tol, or "
        "penalise more."
    )
