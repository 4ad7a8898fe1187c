"""What the theory says about a problem, as text."""

import math

from dual2.errors import CapabilityError
from dual2.methods.subsolvers import Costs, admissible_subsolvers, select_subsolver
from dual2.network import AnyNetwork, ChebyshevNetwork
from dual2.problem import Problem
from dual2.theory.complexity import Complexity, table
from dual2.theory.condition_numbers import SYMBOLS, ConditionNumbers
from dual2.theory.conditions import accepts, require_strong_convexity
from dual2.theory.constants import analyse, gather_facts

LEGEND = """\
𝒜: ∇f and prox_g; ℬ: 𝐀, 𝐀ᵀ and prox or gradient of h*. ①: prox_{h*} can be computed; ②: h is the
indicator of a point; ③: h* enters by its gradient. Every constant inside O(·) and every hidden
logarithm is taken as 1: compare rows with each other, not with a clock. Table I says what
converges at all; under the assumptions of a case other methods have a rate, too (NPGA in Case 1).
"""
"""What the columns of the table of predictions mean."""


def report(
    problem: Problem,
    network: AnyNetwork,
    rows: list[Complexity],
    numbers: ConditionNumbers,
    cost: Costs | str = "communication",
    every: bool = False,
) -> str:
    """Case, condition numbers, methods that converge, predictions and the subsolver, as text.

    ``problem``, ``network``: the problem and its network; ``rows``: from
    :func:`~dual2.theory.complexity.complexities`; ``numbers``: from
    :func:`~dual2.theory.condition_numbers.condition_numbers`; ``cost``: for the choice of the
    subsolver; ``every``: whether to show the rows that do not apply, too.
    """
    verdicts = [_verdict(14, name, *verdict) for name, verdict in accepts(problem).items()]
    applying = sum(row.applies for row in rows)
    parts = [
        _case(problem, network, numbers, cost),
        "Condition numbers\n" + _numbers(numbers),
        "\n".join(["Proved to converge (Table I)", *verdicts]),
        f"Predicted cost: {applying} of {len(rows)} rows of the paper's table apply\n"
        + (table(rows, every) if applying or every else "  none: no linear rate is known here."),
        LEGEND.rstrip(),
    ]
    return "\n\n".join(parts)


def _verdict(width: int, name: str, accepted: bool, reason: str) -> str:
    return f"  {name:<{width}} {'yes' if accepted else 'no':<4} {reason}"


def _case(
    problem: Problem, network: AnyNetwork, numbers: ConditionNumbers, cost: Costs | str
) -> str:
    """The case, ρ and the subsolver of iD2A, or why iD2A is not for this problem."""
    facts = gather_facts(problem)
    rho = numbers.rho_prime if isinstance(network, ChebyshevNetwork) else numbers.rho
    try:
        require_strong_convexity(problem, "iD2A")
        constants = analyse(problem, network, rho, facts=facts)
    except CapabilityError as error:
        return f"iD2A cannot be used so: {error}"
    name, why = select_subsolver(constants, facts, cost, network.rounds)
    usable = admissible_subsolvers(facts, constants.rho).items()
    lines = [
        f"Case {constants.case.name}: {constants.case.reason}.",
        f"ρ = {constants.rho:.6g} (ρ* = {constants.rho_star:.6g}), κ_F = {constants.kappa_F:.4g}.",
        f"Subsolver {name}: {why}.",
        *(_verdict(9, solver, *verdict) for solver, verdict in usable),
    ]
    return "\n".join(lines)


def _numbers(numbers: ConditionNumbers) -> str:
    lines = []
    for symbol, field in SYMBOLS.items():
        value, note = getattr(numbers, field), numbers.notes.get(field, "")
        shown = "-" if math.isnan(value) else f"{value:.6g}"
        lines.append(f"  {symbol:<6} {shown:<12} {note}".rstrip())
    return "\n".join(lines)
