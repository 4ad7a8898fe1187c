"""iD2A and MiD2A: accelerated gradient descent on the dual of the dual.

Problem: min Σ f_i(x_i) + g_i(x_i) + h(Σ A_i x_i). The dual in consensus form, min φ(λ) + h*(λ)
subject to √𝐂λ = 0, has the augmented dual F_ρ(y) = H*(-√𝐂y), which is smooth. Nesterov's method
on F_ρ, in the variables w = √𝐂y, z = √𝐂v, is

    (x⁺, λ⁺) ≈ saddle point of f + g + λᵀ𝐀x - (h*(λ) + (ρ/2)λᵀ𝐂λ + λᵀz)      (subsolver)
    w⁺ = z + 𝐂λ⁺/L_F
    z⁺ = w⁺ + β(w⁺ - w)

MiD2A is the same text over a Chebyshev network P_K(C). Assumptions: Slater's condition, f_i
μ_i-strongly convex and L_i-smooth, C symmetric positive semidefinite with null space span(1).
Guarantees: Theorem 1 (convergence, general convex: O(1/k²)) and Theorem 2 (linear convergence:
√κ_F) of Li & Lau, "Accelerated decentralized constraint-coupled optimization: a dual² approach",
2025.
"""

import math
import time
from dataclasses import fields
from typing import Any

import numpy as np

from dual2.errors import CapabilityError
from dual2.methods.gossip.accuracy import Options
from dual2.methods.gossip.oracles import oracle_of
from dual2.methods.gossip.second_dual import NesterovIterate
from dual2.methods.method import Plan
from dual2.methods.parameters import Settings, Sources, unknown_parameter
from dual2.methods.subsolvers import SUBSOLVERS, Subsolver, find_subsolver, select_subsolver
from dual2.methods.subsolvers.records import Maker, maker_name, require_subsolver
from dual2.network import AnyNetwork, Network
from dual2.problem import Problem
from dual2.runtime import Runtime
from dual2.theory import Constants, Facts, analyse, gather_facts

Array = np.ndarray


class ID2A:
    """iD2A on one block of agents; see the module's text for the iteration."""

    def __init__(self, options: Options, subsolver: Subsolver) -> None:
        self.runtime, self.subsolver = subsolver.runtime, subsolver
        self.oracle = oracle_of(options, subsolver)
        self.nesterov = self.oracle.nesterov
        self.rounds = 0
        self.stride = self.runtime.network.rounds
        # The inner loop ends with 𝐂λ at hand, so this exchange can be spared; the paper makes it.
        together = options.literal and not subsolver.constants.alone
        self.exchange = self.runtime.network.rounds if together else 0

    # -- start, save, restore ----------------------------------------------------------------
    def start(self, x: Array, lam: Array) -> None:
        """Begin from x (flat) and λ (n, p), both zero if nothing better is known.

        At the solution z_i = A_i x_i - (1/n)Σ_j A_j x_j, so a good x gives a good z.
        """
        rt, (warm, priced) = self.runtime, self.runtime.which(x, lam)
        z = np.zeros((rt.n, rt.p))
        if warm:
            products = rt.products(x)
            z = products - rt.allreduce_sum(products) / rt.problem.n
        self.at = self.nesterov.init(z)
        self.rounds = self.oracle.init(x, lam, z, priced)

    def state(self) -> dict[str, Any]:
        """Everything needed to continue bit for bit."""
        outer = {f"outer_{name}": value for name, value in vars(self.at).items()}
        return outer | self.oracle.state() | {"rounds": self.rounds}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved :meth:`state`."""
        part = lambda mark: {  # noqa: E731
            k.removeprefix(mark): _native(v) for k, v in state.items() if k.startswith(mark)
        }
        self.rounds, self.at = int(state["rounds"]), NesterovIterate(**part("outer_"))
        self.oracle.restore(part("oracle_"), part("inner_"))
        self.oracle.aim(self.at.k)

    # -- what others read ---------------------------------------------------------------------
    @property
    def x(self) -> Array:
        """Flat primal iterate."""
        return self.subsolver.state.x

    @property
    def duals(self) -> Array:
        """λ, one row per agent."""
        return self.subsolver.lam

    @property
    def vectors(self) -> int:
        """p-vectors sent to each neighbour so far: one per round."""
        return self.rounds

    def oracle_calls(self) -> dict[str, int]:
        """Calls so far: the maximum over agents for local work, iterations for the rest."""
        return self.subsolver.oracle_calls() | {"outer": self.at.k}

    # -- the loop --------------------------------------------------------------------------------
    def advance(self, rounds: int, seconds: float) -> None:
        """Continue until ``rounds`` exchanges or for about ``seconds``, whatever comes first."""
        end = time.perf_counter() + seconds
        while self.rounds < rounds and time.perf_counter() < end:
            left = max(end - time.perf_counter(), 1e-3)
            self.rounds += self.oracle.advance(self.at, rounds - self.rounds, left)
            answer = self.oracle.measure(self.at)
            if answer is not None:
                self.rounds += self.exchange
                self.at = self.nesterov.step(self.at, answer.mixed, answer.ascent)
                self.oracle.next(self.at)


def _native(value: Any) -> Any:
    """Saved scalars come back as 0-d arrays; make them Python numbers again."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return value.item()
    return value.copy() if isinstance(value, np.ndarray) else value


DEFAULT_ACCURACY = "relative"
_NETWORK_PARAMETERS = ("degree", "spectrum")


def plan_id2a(problem: Problem, network: AnyNetwork, settings: Settings) -> Plan:
    """Choose ρ, constants, subsolver and accuracy rule for iD2A or MiD2A."""
    extra = dict(settings.parameters or {})
    cost = extra.pop("cost", "communication")
    network = _network(network, settings.method, extra)
    options = _options(settings, extra)
    asked = find_subsolver(settings.subsolver)
    facts = gather_facts(problem)
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
        if by_dual:
            own = {"slack": options.slack, "restart": options.restart}
            own["printed"] = options.literal
    solver = maker(runtime, facts, constants, **own)
    if not isinstance(solver, Subsolver):
        made = type(solver).__name__
        raise CapabilityError(f"subsolver = {name} made a {made}; expected a Subsolver.")
    parameters = _describe(settings, options, (name, reason), solver)
    text = _explain(settings, (name, reason), solver)
    return Plan(ID2A(options, solver), runtime, parameters, text)


def _network(network: AnyNetwork, method: str, extra: dict[str, Any]) -> AnyNetwork:
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
    asked: str | Maker,
    runtime: Runtime,
    facts: Facts,
    constants: Constants,
    cost: Any,
    mapping: str,
) -> tuple[str, str]:
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
    """What the caller chose of them; an error for what is not one."""
    known = [f.name for f in fields(Options) if f.name != "accuracy"]
    for name in extra:
        if name not in known:
            more = _NETWORK_PARAMETERS if settings.method == "MiD2A" else ()
            raise unknown_parameter(settings.method, name, [*known, "cost", *more])
    rule = DEFAULT_ACCURACY if settings.accuracy == "auto" else settings.accuracy
    return Options(accuracy=rule, **extra)


def _describe(
    settings: Settings, options: Options, choice: tuple[str, str], solver: Subsolver
) -> Sources:
    """Every parameter with where it came from."""
    c, network = solver.constants, solver.runtime.network
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
        "lambda_max": (float(network.spectral.lambda_max), "spectrum of the gossip matrix"),
        "lambda_min": (float(network.spectral.lambda_min), "spectrum of the gossip matrix"),
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


def _explain(settings: Settings, choice: tuple[str, str], solver: Subsolver) -> str:
    (name, reason), c, network = choice, solver.constants, solver.runtime.network
    exchange = f"{network.duration} of communication per product with the gossip matrix"
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
        f"{where}; {exchange}, κ_C = {network.spectral.kappa:.4g}.\n"
        f"{rate}; {inner}. h* enters by its {'prox' if c.mapping == 'prox' else 'gradient'}.\n"
        f"Subproblem solver {name}: {reason}."
    )
