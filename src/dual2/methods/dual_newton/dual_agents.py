"""All agents of this process: what they put into a sum."""

import hashlib
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse.linalg import LinearOperator

from dual2.engine.local import OPERATOR_A, SIMPLE_F
from dual2.engine.sparsity import sparsified
from dual2.functions.base import Indicator
from dual2.functions.domains import to_barrier
from dual2.methods.deadline import Deadline
from dual2.methods.dual_newton.trial_scalars import trial_scalars
from dual2.methods.local.accelerated_gradient import make_local
from dual2.methods.local.closed_form import (
    CONE_RTOL,
    SCALAR_TERMS,
    TrialTask,
    closed_form_trials,
    mark_triangle_entries,
    support_rows,
)
from dual2.methods.local.polyhedra import make_polyhedra, polyhedron_trials, support_polyhedra
from dual2.methods.local.semismooth_numpy import LinearTerm
from dual2.methods.local.semismooth_trials import make_workspace, semismooth_trials
from dual2.methods.local.solver_kind import ProxKind, SolverKind, choose_for_trials, prox_kinds
from dual2.methods.message import (
    BARRIER_DISTANCE,
    DIRECTION_SCALARS,
    OUTSIDE_BARRIER,
    SUPPORT,
    SUPPORT_MAGNITUDE,
    Layout,
    lower_triangle,
    triangle_size,
)
from dual2.methods.strong_convexity import is_weak, moduli
from dual2.runtime import Runtime

Array = np.ndarray
NO_DEADLINE = Deadline()


NOISE_ULPS = 16.0 * float(np.finfo(np.float64).eps)
"""Errors of an answer relative to the terms of its optimality condition."""


@dataclass(frozen=True)
class Query:
    """What a sum asks: multipliers, directions, and what stands in the message."""

    layout: Layout
    trials: Array
    directions: Array
    y: Array
    request: int = 0


@dataclass(frozen=True)
class ProximalTerms:
    """Proximal terms (r_i/2)|x_i - x̄_i|² of the agents; a weight of 0 is none."""

    weight: Array
    center: Array

    @classmethod
    def none(cls, runtime: Runtime) -> "ProximalTerms":
        """No terms, for agents whose f_i + g_i is strongly convex."""
        return cls(np.zeros(runtime.n), np.zeros(runtime.packed.size))


class DualAgents:
    """The agents of a runtime, those in closed form compiled, the others one by one."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime, self.problem = runtime, runtime.problem
        self.block = block = sparsified(runtime.block)
        n, self.p = runtime.n, runtime.p
        matrix, kinds = block.akind != OPERATOR_A, prox_kinds(block)
        simple, dims = matrix & (block.fkind == SIMPLE_F), np.diff(block.xptr)
        self.separable = ((kinds == ProxKind.SEPARABLE) & matrix).astype(np.int64)
        sets = [agent.g for agent in self.problem.agents]
        threads, width = runtime.team.threads, max(int(dims.max()), self.p, SCALAR_TERMS)
        self.polyhedra = make_polyhedra(sets, simple, dims, threads, max(self.p, SCALAR_TERMS))
        self.solver_kind = choose_for_trials(block, kinds, self.polyhedra.kind > 0)
        # What has no kernel of its own for supports or bounds is also known as NumPy sees it.
        bounded = (self.solver_kind == SolverKind.POLYHEDRON) & (self.polyhedra.bounded > 0)
        numpy = (self.solver_kind != SolverKind.CLOSED_FORM) & ~bounded
        self.locals = {
            i: make_local(self.problem.agents[i]) for i in np.flatnonzero(numpy).tolist()
        }
        self._workspace = np.zeros((threads, 4, width + 1))
        curve = np.empty(n)
        for group in self.problem.groups:
            curve[group.at] = np.minimum(group.g.mu, 1e300)
        widest = int(dims[self.solver_kind == SolverKind.SEMISMOOTH].max(initial=1))
        inside = np.array([isinstance(g, Indicator) for g in sets], np.int64)
        self._semismooth = make_workspace(curve, inside, threads, widest, self.p)
        self._singly = (self.solver_kind != SolverKind.CLOSED_FORM) & ~(self.polyhedra.bounded > 0)
        self._entries, self._slot = self._find_entries()
        self._argmins: dict[int, list[Array]] = {}
        self.tried = np.zeros(n, dtype=np.int64)
        self.queries = 0
        self._moduli, largest = moduli(self.problem)
        self.weak = is_weak(self._moduli, largest)

    def _find_entries(self) -> tuple[Array, Array]:
        """Which entries of the triangles of A_i J_i A_iᵀ some agent fills, and their places.

        All, where sums are in fixed point, whose ranges are told by all entries, and where the
        processes do not find the same.
        """
        marks = np.zeros(triangle_size(self.p), np.int64)
        mark_triangle_entries(self.block, self.solver_kind, marks)
        digest = hashlib.blake2b(np.packbits(marks > 0).tobytes(), digest_size=6).digest()
        key = float(int.from_bytes(digest, "big"))
        exact = self.runtime.comm.exact
        most, least = (1, 0) if exact else self.runtime.most(np.array([key, -key]))
        if most + least != 0:
            marks[:] = 1
        return np.flatnonzero(marks), np.cumsum(marks) - 1

    def _any(self, kind: SolverKind) -> bool:
        """Whether some agent is solved in this way."""
        return bool(np.any(self.solver_kind == kind))

    def resume(self, tried: Array, queries: int) -> None:
        """Take up the counts of a saved run."""
        self.tried[:], self.queries = tried, queries

    # -- a sum ------------------------------------------------------------------------------------
    def reduce(
        self,
        query: Query,
        prox: ProximalTerms,
        x: Array,
        tol: float,
        deadline: Deadline = NO_DEADLINE,
    ) -> Array:
        """The message of all agents, summed; OutOfTime at the ``deadline``.

        Iterations of the local argmins begin at ``x``.
        """
        whole = query.layout
        layout = replace(whole, stored=len(self._entries))
        query = replace(query, layout=layout)
        task = self._task(query.trials, prox, x, query.y, tol, layout)
        direction_task = task._replace(
            trials=query.directions, jacobian_offset=layout.start("directions")
        )
        self.queries += len(query.trials)

        def fill(rows: Array, out: Array) -> None:
            rows = np.ascontiguousarray(rows)
            run, block = self.runtime.run, self.block
            self._run_solvers(task, rows, out, deadline)
            if layout.directions:
                run(support_rows, block, self.separable, direction_task, rows, out)
            if layout.directions and self._any(SolverKind.POLYHEDRON):
                run(support_polyhedra, block, self.polyhedra, direction_task, rows, out)
            self._fill_others(rows, out, query, prox, x, tol, deadline)
            if layout.rows:
                self._fill_rows(rows, out[:, layout.schema["bound"]], prox.weight)
            if layout.setup:
                out[:, layout.start("variables")] = np.diff(block.xptr)[rows]
                out[:, layout.start("weak_agents")] = self.weak[rows]

        total = np.zeros(whole.width)
        columns = whole.columns(self._entries)
        total[columns] = self.runtime.allreduce_filled(layout.width, fill, whole.width)
        return total

    def _run_solvers(
        self, task: TrialTask, rows: Array, out: Array, deadline: Deadline = NO_DEADLINE
    ) -> None:
        """The compiled argmins of all agents but those that NumPy solves."""
        run, block, kind = self.runtime.run, self.block, self.solver_kind
        run(closed_form_trials, block, kind, task, rows, out)
        semismooth, polyhedra = map(self._any, (SolverKind.SEMISMOOTH, SolverKind.POLYHEDRON))
        if not (semismooth or polyhedra):
            return
        for some, message in deadline.pieces(rows, out, self.runtime.team.threads):
            if semismooth:
                own = self._semismooth, some, message, self.tried
                run(semismooth_trials, block, kind, task, *own)
            if polyhedra:
                run(polyhedron_trials, block, self.polyhedra, task, some, message)

    def _task(
        self,
        trials: Array,
        prox: ProximalTerms,
        x: Array,
        y: Array,
        tol: float,
        layout: Layout | None = None,
    ) -> TrialTask:
        """What the kernels are asked; without a layout only for the answers."""
        jacobians = 0 if layout is None else layout.jacobians
        bound = layout.start("bound") if layout is not None and layout.bound else -1
        return TrialTask(
            np.ascontiguousarray(trials),
            prox.weight,
            prox.center,
            x,
            y,
            self._workspace,
            float(tol),
            layout.trial if layout else 0,
            jacobians,
            layout.start("jacobians") if layout else 0,
            bound,
            self._slot,
            len(self._entries),
        )

    def _fill_others(
        self,
        rows: Array,
        out: Array,
        query: Query,
        prox: ProximalTerms,
        x: Array,
        tol: float,
        deadline: Deadline,
    ) -> None:
        """The request of this process, and what NumPy computes agent by agent."""
        layout, xptr = query.layout, self.runtime.block.xptr
        first = np.flatnonzero(rows == 0)
        if query.request and first.size:
            out[first[0], layout.start("requests") + query.request - 1] = 1.0
        for e in np.flatnonzero(self._singly[rows]):
            i = int(rows[e])
            deadline.look()
            own = slice(xptr[i], xptr[i + 1])
            if not (self.separable[i] or self.polyhedra.bounded[i]):
                self._fill_supports(i, x[own], query, out[e])
            if i in self.locals and self.solver_kind[i] != SolverKind.POLYHEDRON:
                own_terms = ProximalTerms(prox.weight, prox.center[own])
                self._fill_local(i, query, own_terms, x[own], tol, out[e])

    def _fill_rows(self, rows: Array, out: Array, r: Array) -> None:
        """|A_i,j|²/m_i and σ̄²(A_i)/m_i, m_i = modulus of f_i + g_i with its proximal term."""
        for e, i in enumerate(rows):
            agent, strong = self.problem.agents[i], min(self._moduli[i], 1e300) + float(r[i])
            out[e, :-1], out[e, -1] = agent.row_norms**2 / strong, agent.sigma_max2 / strong

    def _fill_local(
        self, i: int, query: Query, prox: ProximalTerms, x: Array, tol: float, out: Array
    ) -> None:
        """Trials, Jacobians and M of one agent; ``x`` and the centre are its own part."""
        part, layout, p = self.locals[i], query.layout, self.p
        matrices, half, answers = layout.jacobians or layout.bound, triangle_size(p), []
        triangle = lower_triangle(p if matrices else 0)
        for t, multiplier in enumerate(
            query.trials if self.solver_kind[i] == SolverKind.NUMPY else ()
        ):
            linear_term = LinearTerm(part.A.T @ multiplier, float(prox.weight[i]), prox.center)
            point, tried = part.solve(linear_term, x)
            self.tried[i] += tried
            answers.append(point.z)
            at = t * layout.trial
            out[at : at + p] = part.A @ point.z
            out[at + p : at + 2 * p] = part.sizes @ np.abs(point.z)
            out[at + 2 * p : at + layout.trial] = trial_scalars(part, linear_term, point, tol)
            if t < layout.jacobians:
                at = layout.start("jacobians") + t * half
                out[at : at + half] = part.jacobian(linear_term, point)[triangle]
        if layout.bound:
            at = layout.start("bound")
            out[at : at + half] = part.bound(float(prox.weight[i]))[triangle]
        self._argmins[i] = answers

    def _fill_supports(self, i: int, x: Array, query: Query, out: Array) -> None:
        """Numbers of each direction for an agent whose g does not split by coordinate."""
        agent, part = self.problem.agents[i], self.locals[i]
        for t, u in enumerate(query.directions):
            at = query.layout.start("directions") + t * DIRECTION_SCALARS
            w = -(part.A.T @ u)
            v = to_barrier(agent.g, w)
            support, missed = float(agent.g.domain_support(v)), float(np.linalg.norm(w - v))
            reach = float(np.linalg.norm(part.sizes.T @ np.abs(u)))
            ratios = np.abs(query.y)[part.rows > 0] / part.rows[part.rows > 0]
            extent = max(float(np.linalg.norm(x)), float(ratios.max(initial=0.0)))
            outside = missed > CONE_RTOL * reach or not np.isfinite(support)
            support = support if np.isfinite(support) else 0.0
            out[at + SUPPORT], out[at + SUPPORT_MAGNITUDE] = support, abs(support)
            out[at + BARRIER_DISTANCE], out[at + OUTSIDE_BARRIER] = missed * extent, float(outside)

    # -- after a sum ------------------------------------------------------------------------------
    def adopt_trial(self, multiplier: Array, trial: int, prox: ProximalTerms, x: Array) -> None:
        """Write the answers to the multiplier of a trial into ``x``."""
        xptr, rows, none = self.runtime.block.xptr, np.arange(self.runtime.n), np.zeros((0, 1))
        self._run_solvers(self._task(multiplier[None], prox, x, multiplier, 0.0), rows, none)
        for i in np.flatnonzero(self.solver_kind == SolverKind.NUMPY).tolist():
            x[xptr[i] : xptr[i + 1]] = self._argmins[i][trial]

    def zero_rounding_entries(self, multiplier: Array, x: Array) -> None:
        """Set entries of x that are nothing but rounding to 0.

        The answer to a multiplier solves ∇f_i(x_i) + A_iᵀλ + ∂g_i ∋ 0: with strong convexity μ_i,
        errors of some units in the last place of these terms, over μ_i, are what it has anyway.
        """
        for i, agent in enumerate(self.problem.agents):
            strong = float(agent.f.mu + agent.g.mu)
            if strong > 0 and not isinstance(agent.A, LinearOperator):
                own = x[self.runtime.block.xptr[i] : self.runtime.block.xptr[i + 1]]
                terms = np.abs(agent.f.grad(own)) + abs(agent.A).T @ np.abs(multiplier)
                own[np.abs(own) <= NOISE_ULPS * terms / strong] = 0.0
