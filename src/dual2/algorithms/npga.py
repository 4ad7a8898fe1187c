"""NPGA: the nested primal-dual gradient algorithms, one text for every choice of matrices.

Problem: min Σ f_i(x_i) + g_i(x_i) + h(Σ A_i x_i). From (x, λ) and s = 0,

    x⁺ = prox_{αg}( x - α (∇f(x) + 𝐀ᵀλ) )
    v  = λ - 𝐂λ - s + β 𝐀( x⁺ + θ (x⁺ - x) )
    s⁺ = s + γ 𝐁²v
    λ⁺ = prox_{(β/n) h*}( 𝐃v )                                         agent by agent

with 𝐀 = diag(A_i) and network matrices with null(𝐁²) = span(1), 𝐂1 = 0, 𝐃1 = 1: for any such
choice the fixed points are exactly the KKT points. θ = 0 takes the new x, θ = 1 extrapolates it.
Assumptions: f_i strongly convex and smooth, h with a computable prox. Reported rates: linear
if h is smooth, or if g = 0 and A has full row rank (Li & Su, arXiv 2205.11119).

Reconstructed from the family of primal-dual consensus methods; the matrices of NPGA-I and NPGA-II
are assumptions. Step sizes are a derived rule: θ = 0: α = 1/L_f, β = μ_f/σ̄², γ = 1.
The compiled loop is :mod:`dual2.algorithms.npga_kernel`.
"""

import hashlib
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dual2.algorithms.method import Plan, Settings
from dual2.algorithms.mixing import (
    SHAPES,
    Matrices,
    consensus_radius,
    from_arrays,
    from_laplacian,
    from_shape,
    mixing_scale,
    nids,
)
from dual2.algorithms.npga_kernel import (
    CL,
    LAM,
    SLOTS,
    STEP_ROWS,
    Mixing,
    Rule,
    S,
    mix_duals,
    npga_steps,
)
from dual2.algorithms.parameters import given_parameters, positive
from dual2.engine.local import DENSE_A, SIMPLE_F
from dual2.engine.pack import Packed
from dual2.errors import CapabilityError, counted
from dual2.network import ChebyshevNetwork, Network
from dual2.problem import Problem
from dual2.runtime import Stacked, place
from dual2.theory import Facts, gather_facts

Array = np.ndarray
STEPS = ("alpha", "beta", "gamma", "theta")
_TUNED_FOR = {"iD2GT": 0.2}
"""β in units of μ_f/σ̄² where it is not 1."""


@dataclass(frozen=True)
class Steps:
    """Step sizes α, β, γ and the extrapolation θ of NPGA."""

    alpha: float
    beta: float
    gamma: float
    theta: float


class NPGA:
    """The iteration on one block of agents; see the module's text.

    Parameters
    ----------
    runtime : Stacked
        The rows, their exchange and agreement.
    matrices : Matrices
        𝐁², 𝐂 and 𝐃 with their messages.
    steps : Steps
        Step sizes.
    """

    def __init__(self, runtime: Stacked, matrices: Matrices, steps: Steps) -> None:
        self.runtime, self.matrices, self.steps = runtime, matrices, steps
        self._powers = matrices.powers * [[steps.gamma], [1.0], [1.0]]
        weights = np.ascontiguousarray(matrices.weights[:, runtime.edges])
        differ = not np.array_equal(matrices.weights[0], matrices.weights[2])
        own = bool(differ and np.any(matrices.powers[2]))
        self._mixing = Mixing(weights, self._powers, own)
        packed, n = runtime.packed, runtime.problem.n
        self._rule = Rule(
            steps.alpha, steps.beta, steps.theta, 1.0 / n, *fold_local_step(packed, steps.alpha),
            packed.clip, fold_clip(packed, steps.beta / n),
        )  # fmt: skip
        self._seconds = 1e-6

    # -- start, save, restore ------------------------------------------------------------------
    def start(self, x: Array, lam: Array) -> None:
        """Begin from x (flat) and λ (n, p), both zero if nothing better is known.

        At the solution s_i = β(A_i x_i - (1/n)Σ_j A_j x_j), so a good x gives a good s.
        """
        rt = self.runtime
        self.iterations, self._rounds, self._vectors = 0, 0, 0
        self._x, self.Y = np.array(x, dtype=float), np.zeros((SLOTS, rt.n, rt.p))
        self.Y[LAM] = lam
        if rt.anywhere(x):
            products = rt.products(self._x)
            self.Y[S] = self.steps.beta * (products - rt.agree_sum(products) / rt.problem.n)
        if rt.anywhere(lam) and self.matrices.first:
            links = rt.links._replace(weights=self._mixing.weights[1])
            rt.run(mix_duals, links, self.Y, *map(float, self._powers[1]))
            self._rounds = self._vectors = self.matrices.first
        self._run(0)

    def state(self) -> dict[str, Any]:
        """Everything needed to continue bit for bit."""
        return {
            "x": self._x, "lam": self.Y[LAM], "s": self.Y[S], "clam": self.Y[CL],
            "iterations": self.iterations, "rounds": self._rounds, "vectors": self._vectors,
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved :meth:`state`."""
        self._x = np.array(state["x"], dtype=float)
        self.Y = np.zeros((SLOTS, self.runtime.n, self.runtime.p))
        self.Y[LAM], self.Y[S], self.Y[CL] = state["lam"], state["s"], state["clam"]
        self.iterations = int(state["iterations"])
        self._rounds, self._vectors = int(state["rounds"]), int(state["vectors"])

    # -- what others read ------------------------------------------------------------------------
    @property
    def x(self) -> Array:
        """Flat primal iterate."""
        return self._x

    @property
    def duals(self) -> Array:
        """λ, one row per agent."""
        return self.Y[LAM]

    @property
    def rounds(self) -> int:
        """Exchanges with the neighbours so far."""
        return self._rounds

    @property
    def vectors(self) -> int:
        """p-vectors sent to each neighbour so far."""
        return self._vectors

    @property
    def stride(self) -> int:
        """Rounds of one iteration."""
        return self.matrices.rounds

    def oracle_calls(self) -> dict[str, int]:
        """Calls so far: one of each per iteration, prox_{h*} also in place of messages."""
        k = self.iterations
        calls = dict.fromkeys(("grad_f", "prox_g", "A", "AT", "iterations"), k)
        return calls | {"prox_h": k * self.matrices.answers}

    # -- the loop --------------------------------------------------------------------------------
    def advance(self, rounds: int, seconds: float) -> None:
        """Continue until ``rounds`` exchanges or for about ``seconds``, whatever comes first."""
        end = time.perf_counter() + seconds
        while self._rounds < rounds and (begun := time.perf_counter()) < end:
            wanted = -(-(rounds - self._rounds) // self.stride)
            steps = min(wanted, max(1, int((end - begun) / self._seconds)))
            self._run(steps)
            self.iterations += steps
            self._rounds += steps * self.matrices.rounds
            self._vectors += steps * self.matrices.vectors
            if steps >= 10:
                self._seconds = max((time.perf_counter() - begun) / steps, 1e-8)

    def _run(self, steps: int) -> None:
        rt = self.runtime
        rt.run(
            npga_steps, rt.block, rt.links, self._x, self.Y, self._rule, self._mixing, steps
        )  # fmt: skip


# -- folding -------------------------------------------------------------------------------------


def fold_local_step(packed: Packed, alpha: float) -> tuple[Array, Array]:
    """Agents with dense A_i, diagonal quadratic f_i and separable g_i: their step, folded.

    Returns a mark per agent and, per coordinate, the rows of ``step_coordinate``.
    """
    block, fcoef, gtab = packed.block, packed.block.fcoef, packed.block.gtab
    quick, fast = np.zeros(packed.n, np.int64), np.zeros((STEP_ROWS, packed.size))
    for i in range(packed.n):
        blocks = gtab[block.gptr[i] : block.gptr[i + 1]]
        part = slice(block.xptr[i], block.xptr[i + 1])
        separable = len(blocks) == 1 and blocks[0, 0] == 0 and blocks[0, 1] in (0, 4)
        if block.akind[i] != DENSE_A or block.fkind[i] != SIMPLE_F or not separable:
            continue
        quick[i] = 1
        g = block.gpar[blocks[0, 4] : blocks[0, 5]].reshape(7, -1)
        weight = 1.0 / (1.0 + alpha * g[0])
        keep = (1.0 - alpha * fcoef[0, part]) * weight
        push = alpha * weight
        fast[:, part] = [
            keep, push * (fcoef[1, part] + g[1]), push, push * g[3], push * g[2], *g[4:7],
        ]  # fmt: skip
    return quick, fast


def fold_clip(packed: Packed, step: float) -> Array:
    """Factor, shift and bounds of prox_{step·h*} where it is a scaled clip; else unused."""
    if not packed.clip:
        return np.zeros((4, 1))
    h = packed.block.hpar.reshape(7, -1)
    factor = 1.0 / (1.0 + step * h[0])
    return np.ascontiguousarray([factor, step * factor * h[1], h[5], h[6]])


# -- planning --------------------------------------------------------------------------------------


def plan_npga(problem: Problem, network: Network | ChebyshevNetwork, settings: Settings) -> Plan:
    """Choose step sizes and matrices by the rule of the family, unless given."""
    name = settings.method
    own = {"NPGA-NIDS": ("scale", "c"), "NPGA-DLM": ("c",), "NPGA": ("scale", "B2", "C", "D")}
    fixed = ("alpha", "beta") if name in ("DCDA", "iD2GT") else STEPS
    given = given_parameters(settings, (*fixed, *own.get(name, ("scale",))))
    facts = gather_facts(problem)
    steps, why = _steps(name, facts, given)
    scale = positive("scale", given.get("scale", mixing_scale(network)))
    matrices, shape = _matrices(name, network, given, steps, scale)
    _check_stability(name, network, matrices, steps, given)
    runtime = place(problem, network)
    parameters: dict[str, tuple[Any, str]] = {
        "method": (name, "given"),
        **{k: (getattr(steps, k), why[k]) for k in STEPS},
        "scale": (scale, "given" if "scale" in given else "W = I - scale·C positive semidefinite"),
        **shape,
        "rounds_per_iteration": (matrices.rounds, "degrees of the network matrices"),
        "vectors_per_iteration": (matrices.vectors, "degrees of the network matrices"),
        "lambda_max": (float(network.lambda_max), "spectrum of the gossip matrix"),
        "lambda_min": (float(network.lambda_min), "spectrum of the gossip matrix"),
    }
    return Plan(NPGA(runtime, matrices, steps), runtime, parameters, _explain(name, parameters))


def _steps(name: str, facts: Facts, given: dict[str, Any]) -> tuple[Steps, dict[str, str]]:
    """θ = 0: α = 1/L_f, β = μ_f/σ̄²; θ = 1: α = 1/(2L_f), β = min(L_f, 2.5μ_f)/σ̄²; γ = 1."""
    theta = given.get("theta", 0)
    if isinstance(theta, bool) or theta not in (0, 1):
        raise CapabilityError(f"theta = {theta!r} found; expected 0 or 1.")
    sigma2 = facts.sigma2_max or 1.0
    if theta == 0:
        share = _TUNED_FOR.get(name, 1.0)
        rule = {"alpha": 1.0 / facts.L_f, "beta": share * facts.mu_f / sigma2}
        said = "μ_f/σ̄²" if share == 1 else f"{share:g} μ_f/σ̄²"
        why = {"alpha": "derived rule 1/L_f", "beta": f"derived rule {said}"}
    else:
        rule = {
            "alpha": 0.5 / facts.L_f,
            "beta": min(facts.L_f, 2.5 * facts.mu_f) / sigma2,
        }
        why = {"alpha": "derived rule 1/(2L_f)", "beta": "derived rule min(L_f, 2.5μ_f)/σ̄²"}
    rule |= {"gamma": 1.0}
    why |= {"gamma": "derived rule 1", "theta": "default: no extrapolation"}
    values = {k: positive(k, given.get(k, rule[k])) for k in rule}
    why |= {k: "given" for k in STEPS if k in given}
    return Steps(**values, theta=float(theta)), why


def _matrices(
    name: str, network: Network | ChebyshevNetwork, given: dict[str, Any], steps: Steps,
    scale: float,
) -> tuple[Matrices, dict[str, tuple[Any, str]]]:  # fmt: skip
    """Network matrices of a method, and what is to be said about them."""
    if name == "NPGA-DLM":
        i, j = network.edges.T
        degree = np.bincount(network.edges.ravel(), minlength=network.n)
        bound = float((degree[i] + degree[j]).max(initial=1))
        c = positive("c", given.get("c", 0.5 / (steps.beta * bound)))
        why = "given" if "c" in given else "derived rule cβ·max(d_i + d_j) = ½"
        return from_laplacian(network, c * steps.beta), {"c": (c, why)}
    if name == "NPGA-NIDS":
        c = positive("c", given.get("c", 0.5))
        why = "given" if "c" in given else "default ½, which is NPGA-ED"
        return from_shape(network, nids(c), scale), {"c": (c, why)}
    if name == "NPGA":
        if given.get("B2") is None:
            raise CapabilityError(
                "NPGA needs its network matrices: B2 (n × n), and C and D unless they are 0 and "
                "I. Tabulated choices have names of their own, for instance NPGA-ED."
            )
        matrices = from_arrays(network, given["B2"], given.get("C"), given.get("D"), scale)
        said = {k: ("matrix", "given") for k in ("B2", "C", "D") if given.get(k) is not None}
        digest = hashlib.blake2b(matrices.weights.tobytes() + matrices.powers.tobytes())
        return matrices, said | {"matrices": (digest.hexdigest()[:16], "hash of their entries")}
    matrices = from_shape(network, SHAPES[name], scale)
    if name == "iD2GT":
        # h* is linear: W(Wλ) of the last iteration travels with λ of this one.
        matrices = replace(matrices, rounds=network.rounds, vectors=2 * network.rounds, answers=1)
    return matrices, {}


def _check_stability(
    name: str, network: Network | ChebyshevNetwork, matrices: Matrices, steps: Steps,
    given: dict[str, Any],
) -> None:  # fmt: skip
    """Refuse given matrices and scales with which the agents would never agree."""
    if not given.keys() & {"B2", "C", "D", "gamma", "scale", "c"}:
        return
    radius = consensus_radius(network, matrices, steps.gamma)
    if radius >= 1 - 1e-13:
        raise CapabilityError(
            f"With these matrices and gamma = {steps.gamma:g} the agents of {name} do not agree: "
            f"a mode of disagreement is multiplied by {radius:.6g} in every iteration. B2 must "
            "vanish on constants only; reduce gamma, scale or c."
        )


def _explain(name: str, parameters: dict[str, tuple[Any, str]]) -> str:
    steps = ", ".join(f"{k} = {parameters[k][0]:.6g} ({parameters[k][1]})" for k in STEPS)
    rounds, vectors = (parameters[f"{k}_per_iteration"][0] for k in ("rounds", "vectors"))
    return (
        f"{name}, a nested primal-dual gradient method. {steps}.\n"
        f"{counted(rounds, 'round')} and {counted(vectors, 'p-vector')} per neighbour in each "
        "iteration."
    )
