"""From a problem and a network to iD2A with every parameter chosen."""

import math
from dataclasses import fields
from typing import Any

from dual2.errors import CapabilityError, counted
from dual2.methods.id2a import ID2A
from dual2.methods.method import Plan
from dual2.methods.outer import Options
from dual2.methods.parameters import Settings, unknown_parameter
from dual2.methods.subsolvers import SUBSOLVERS, Subsolver, find_subsolver, select_subsolver
from dual2.methods.subsolvers.records import Maker, maker_name, require_subsolver
from dual2.network import ChebyshevNetwork, Network
from dual2.problem import Problem
from dual2.runtime import Runtime
from dual2.theory import Constants, Facts, analyse, gather_facts

DEFAULT_ACCURACY = "relative"
_NETWORK_PARAMETERS = ("degree", "spectrum")


def plan_id2a(problem: Problem, network: Network | ChebyshevNetwork, settings: Settings) -> Plan:
    """Choose ρ, constants, subsolver and accuracy rule for iD2A or MiD2A."""
    extra = dict(settings.parameters or {})
    cost = extra.pop("cost", "communication")
    network = _network(network, settings.method, extra)
    options = _options(settings, extra)
    facts = gather_facts(problem)
    asked = find_subsolver(settings.subsolver)
    record = SUBSOLVERS.get(asked) if isinstance(asked, str) else None
    rho, mapping = settings.rho, options.mapping
    if record is not None and record.local and rho == "auto":
        rho = 0.0
    if record is not None and record.mapping and mapping == "auto":
        mapping = record.mapping
    constants = analyse(problem, network, rho, settings.constants, mapping, facts)
    runtime = Runtime(problem, network)
    name, reason = _choose(asked, runtime, facts, constants, cost, options.mapping)
    chosen = SUBSOLVERS.get(name)
    if record is None and chosen is not None and chosen.mapping and options.mapping == "auto":
        constants = analyse(problem, network, constants.rho, constants.kind, chosen.mapping, facts)
    own, maker = {}, asked
    if not callable(maker):
        maker, by_dual = SUBSOLVERS[name].make, SUBSOLVERS[name].by_dual
        own = {"slack": options.slack, "restart": options.restart} if by_dual else {}
    solver = maker(runtime, facts, constants, **own)
    if not isinstance(solver, Subsolver):
        made = type(solver).__name__
        raise CapabilityError(f"subsolver = {name} made a {made}; expected a Subsolver.")
    algorithm = ID2A(runtime, facts, constants, options, solver)
    parameters = _describe(settings, options, constants, network, (name, reason), solver)
    return Plan(
        algorithm, runtime, parameters, _explain(settings, constants, network, name, reason)
    )


def _network(
    network: Network | ChebyshevNetwork, method: str, extra: dict[str, Any]
) -> Network | ChebyshevNetwork:
    """The network, for MiD2A its Chebyshev polynomial."""
    wishes = {k: extra.pop(k) for k in _NETWORK_PARAMETERS if k in extra}
    if method == "MiD2A" and isinstance(network, Network):
        return network.chebyshev(**wishes)
    if wishes:
        raise CapabilityError(
            f"{' and '.join(wishes)} found, which only MiD2A's polynomial has. Leave it out of "
            f"{method}, or use MiD2A."
        )
    return network


def _choose(
    asked: str | Maker, runtime: Runtime, facts: Facts, constants: Constants, cost: Any,
    mapping: str,
) -> tuple[str, str]:  # fmt: skip
    """The solver asked for, if it is admissible; for ``"auto"`` the one of least predicted cost.

    Returns its name and the sentence that says why it was taken.
    """
    if callable(asked):
        return maker_name(asked), "given"
    if asked == "auto":
        closed = runtime.problem.first(runtime.block.easy == 0) is None
        return select_subsolver(constants, facts, cost, runtime.network.rounds, closed)
    reason = require_subsolver(asked, facts, constants.rho, mapping)
    return asked, f"asked for; {reason}" if reason else "asked for"


def _options(settings: Settings, extra: dict[str, Any]) -> Options:
    known = [f.name for f in fields(Options) if f.name != "accuracy"]
    for name in extra:
        if name not in known:
            more = _NETWORK_PARAMETERS if settings.method == "MiD2A" else ()
            raise unknown_parameter(settings.method, name, [*known, "cost", *more])
    rule = DEFAULT_ACCURACY if settings.accuracy == "auto" else settings.accuracy
    return Options(accuracy=rule, **extra)


def _describe(
    settings: Settings, options: Options, c: Constants, network: Network | ChebyshevNetwork,
    choice: tuple[str, str], solver: Subsolver,
) -> dict[str, tuple[Any, str]]:  # fmt: skip
    """Every parameter with where it came from."""
    given = settings.parameters or {}
    origin = lambda name, rule: "given" if name in given else rule  # noqa: E731
    local = "the subsolver needs 0" if c.rho == 0 else "ρ* = L'/λ_max, Remark 10 (choice of ρ)"
    chosen = local if settings.rho == "auto" else "given"
    momentum = lambda beta, k: (  # noqa: E731
        ("variable", "k/(k+3) with restart") if beta is None else (beta, f"(√{k}-1)/(√{k}+1)")
    )
    return {
        "method": (settings.method, "given or default"),
        "subsolver": choice,
        "rho": (c.rho, "n = 1 needs none" if network.n == 1 else chosen),
        "lambda_max": (float(network.lambda_max), "spectrum of the gossip matrix"),
        "lambda_min": (float(network.lambda_min), "spectrum of the gossip matrix"),
        "rounds_per_mix": (int(network.rounds), "degree of the Chebyshev polynomial, 1 for C"),
        "constants": (c.kind, "given or default"),
        "L_F": (c.L_F, c.sources["L_F"]),
        "mu_F": (c.mu_F, c.sources["mu_F"]),
        "L_phi": (c.L_phi, c.sources["L_phi"]),
        "mu_phi": (c.mu_phi, c.sources["mu_phi"]),
        "outer_momentum": momentum(c.outer_momentum, "κ_F"),
        "inner_momentum": momentum(solver.momentum, "κ_φ"),
        "mapping": (c.mapping, "prox where prox_{h*} exists, else the gradient of h*"),
        "accuracy": (options.accuracy, "given" if settings.accuracy != "auto" else "default"),
        "eta": (options.eta, origin("eta", "default")),
        "c": (options.c, origin("c", "Theorem 3, default 2")),
        "delta": (options.delta, origin("delta", "Theorem 1, default 1")),
        "slack": (options.slack, origin("slack", "default")),
        "check": (options.check, origin("check", "default")),
    }


def _explain(
    settings: Settings, c: Constants, network: Network | ChebyshevNetwork, name: str, reason: str
) -> str:
    exchange = (
        f"{counted(network.rounds, 'round')} of communication per product with the gossip matrix"
    )
    rate = (
        f"F_ρ is strongly convex with κ_F = {c.kappa_F:.4g}, so the outer loop converges linearly"
        if math.isfinite(c.kappa_F)
        else "F_ρ is convex and smooth; the outer loop uses k/(k+3) with adaptive restart"
    )
    inner = (
        f"the subproblem is strongly convex in λ (μ = {c.mu_phi:.4g})"
        if c.inner_momentum is not None
        else "the subproblem's strong convexity is zero or unknown, so its momentum restarts"
    )
    where = (
        "ρ = 0: the subproblems need no communication"
        if c.rho == 0
        else f"ρ = {c.rho:.6g} (ρ* = {c.rho_star:.6g}): the subproblems are solved together"
    )
    return (
        f"{settings.method} with {name}. Case {c.case.name}: {c.case.reason}.\n"
        f"{where}; {exchange}, κ_C = {network.kappa:.4g}.\n"
        f"{rate}; {inner}. h* enters by its {'prox' if c.mapping == 'prox' else 'gradient'}.\n"
        f"Subproblem solver {name}: {reason}."
    )
