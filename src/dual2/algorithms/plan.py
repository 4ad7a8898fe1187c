"""From a problem and a network to an algorithm with every parameter chosen."""

import math
from dataclasses import fields
from typing import Any

from dual2.algorithms.choice import (
    Choice,
    choose_subsolver,
    find_subsolver,
    make_subsolver,
    wanted_mapping,
    wanted_rho,
)
from dual2.algorithms.id2a import ID2A
from dual2.algorithms.method import Plan
from dual2.algorithms.outer import Options
from dual2.algorithms.parameters import Settings, unknown_parameter
from dual2.errors import CapabilityError, counted
from dual2.network import ChebyshevNetwork, Network
from dual2.problem import Problem
from dual2.runtime import place
from dual2.subsolvers import Subsolver
from dual2.theory import Constants, analyse, gather_facts, require_strong_convexity

DEFAULT_ACCURACY = "relative"
__all__ = ["Plan", "Settings", "plan_id2a"]
_NETWORK_PARAMETERS = ("degree", "spectrum")


def plan_id2a(problem: Problem, network: Network | ChebyshevNetwork, settings: Settings) -> Plan:
    """Choose ρ, constants, subsolver and accuracy rule for iD2A or MiD2A."""
    require_strong_convexity(problem, settings.method)
    name = find_subsolver(settings.subsolver)
    extra = dict(settings.parameters or {})
    cost = extra.pop("cost", "communication")
    wishes = {k: extra.pop(k) for k in _NETWORK_PARAMETERS if k in extra}
    if settings.method == "MiD2A" and isinstance(network, Network):
        network = network.chebyshev(**wishes)
    elif wishes:
        raise CapabilityError(
            f"{' and '.join(wishes)} found, which only MiD2A's polynomial has. Leave it out of "
            f"{settings.method}, or use MiD2A."
        )
    options = _options(settings, extra)
    facts = gather_facts(problem)
    constants = analyse(
        problem, network, wanted_rho(name, settings.rho), settings.constants,
        wanted_mapping(name, options.mapping), facts,
    )  # fmt: skip
    runtime = place(problem, network)
    choice = choose_subsolver(name, runtime, facts, constants, cost, options.mapping)
    if wanted_mapping(choice.name, options.mapping) not in (options.mapping, constants.mapping):
        constants = analyse(problem, network, constants.rho, constants.kind, "smooth", facts)
    solver = make_subsolver(choice, runtime, facts, constants, options.slack, options.restart)
    algorithm = ID2A(runtime, facts, constants, options, solver)
    parameters = _describe(settings, options, constants, network, choice, solver)
    return Plan(algorithm, runtime, parameters, _explain(settings, constants, network, choice))


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
    choice: Choice, solver: Subsolver,
) -> dict[str, tuple[Any, str]]:  # fmt: skip
    """Every parameter with where it came from."""
    given = settings.parameters or {}
    origin = lambda name, rule: "given" if name in given else rule  # noqa: E731
    local = "the subsolver needs 0" if c.rho == 0 else "ρ* = L'/λ_max, Remark 2138"
    chosen = local if settings.rho == "auto" else "given"
    outer = c.outer_momentum
    inner = solver.momentum
    named = lambda b, k: "k/(k+3) with restart" if b < 0 else f"(√{k}-1)/(√{k}+1)"  # noqa: E731
    return {
        "method": (settings.method, "given or default"),
        "subsolver": (choice.name, choice.reason),
        "rho": (c.rho, "n = 1 needs none" if network.n == 1 else chosen),
        "lambda_max": (float(network.lambda_max), "spectrum of the gossip matrix"),
        "lambda_min": (float(network.lambda_min), "spectrum of the gossip matrix"),
        "rounds_per_mix": (int(network.rounds), "degree of the Chebyshev polynomial, 1 for C"),
        "constants": (c.kind, "given or default"),
        "L_F": (c.L_F, c.sources["L_F"]),
        "mu_F": (c.mu_F, c.sources["mu_F"]),
        "L_phi": (c.L_phi, c.sources["L_phi"]),
        "mu_phi": (c.mu_phi, c.sources["mu_phi"]),
        "outer_momentum": (outer if outer >= 0 else "variable", named(outer, "κ_F")),
        "inner_momentum": (inner if inner >= 0 else "variable", named(inner, "κ_φ")),
        "mapping": (c.mapping, "prox where prox_{h*} exists, else the gradient of h*"),
        "accuracy": (options.accuracy, "given" if settings.accuracy != "auto" else "default"),
        "eta": (options.eta, origin("eta", "default")),
        "c": (options.c, origin("c", "Theorem iD2A_complexity_convex, default 2")),
        "delta": (options.delta, origin("delta", "Theorem 1717, default 1")),
        "slack": (options.slack, origin("slack", "default")),
        "check": (options.check, origin("check", "default")),
    }


def _explain(
    settings: Settings, c: Constants, network: Network | ChebyshevNetwork, choice: Choice
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
        if c.inner_momentum >= 0
        else "the subproblem's strong convexity is zero or unknown, so its momentum restarts"
    )
    where = (
        "ρ = 0: the subproblems need no communication"
        if c.rho == 0
        else f"ρ = {c.rho:.6g} (ρ* = {c.rho_star:.6g}): the subproblems are solved together"
    )
    return (
        f"{settings.method} with {choice.name}. Case {c.case.name}: {c.case.reason}.\n"
        f"{where}; {exchange}, κ_C = {network.kappa:.4g}.\n"
        f"{rate}; {inner}. h* enters by its {'prox' if c.mapping == 'prox' else 'gradient'}.\n"
        f"Subproblem solver {choice.name}: {choice.reason}."
    )
