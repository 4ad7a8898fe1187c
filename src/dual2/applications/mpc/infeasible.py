"""What is said when no plan meets the limits."""

from dual2.errors import ProblemError


class Infeasible(ProblemError):
    """No plan meets the limits.

    Attributes
    ----------
    subsystem : str or None
        Whose limits contradict each other; None for the shared ones.
    limits : list of (str, int)
        Names of the limits, ``"x_max[2]"`` or ``"resource[0]"``, with their step in the horizon.
    """

    def __init__(self, subsystem: str | None, limits: list[tuple[str, int]]) -> None:
        self.subsystem, self.limits = subsystem, limits
        shown = ", ".join(f"{name} at step {k}" for name, k in limits[:6])
        shown += ", …" if len(limits) > 6 else ""
        if subsystem is None:
            text = (
                f"No plan meets the shared limits: {shown} cannot hold within the subsystems' own "
                "limits. Raise the limit, or make it soft with price_cap."
            )
        else:
            verb = "contradict each other" if len(limits) > 1 else "cannot be met"
            text = (
                f"Subsystem {subsystem!r} has no plan from its present state: {shown} {verb}. "
                "Widen these limits, or make those of the state soft."
            )
        super().__init__(text)
