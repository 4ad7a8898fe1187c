"""All agents of this process: what they put into a sum."""

import hashlib
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.sparse.linalg import LinearOperator

from dual2.engine.local import CALLBACK_F, OPERATOR_A, SIMPLE_F
from dual2.engine.pack import Block
from dual2.engine.sparsity import sparsified
from dual2.functions.base import Indicator
from dual2.functions.domains import inside_value, to_barrier
from dual2.functions.kernels import KINKLESS
from dual2.functions.lowering import Kind
from dual2.methods.newton.by_gradients import make_local
from dual2.methods.newton.closed_form import (
    CONE,
    ROUNDING,
    TERMS,
    Task,
    find_curvatures,
    mark_squares,
    respond,
    support_rows,
)
from dual2.methods.newton.local import Force, Local, Look
from dual2.methods.newton.message import (
    BEYOND,
    DIRECTION,
    FAILS,
    MAGNITUDE,
    MISSED,
    MOVED,
    OBJECTIVE,
    OUTSIDE,
    PRICED,
    RATIO,
    SCALARS,
    SUPPORT,
    SUPPORT_SIZE,
    VALUE,
    VARIABLES,
    Layout,
    half_size,
    lower,
)
from dual2.methods.newton.polyhedra import make_faces, respond_faces, support_faces
from dual2.methods.newton.rays import own_ray, told_of_ray
from dual2.methods.newton.semismooth import make_desk, respond_others
from dual2.runtime import Runtime

Array = np.ndarray
_SPLIT, _COMPILED, _PYTHON = range(3)
NOISE = 16.0 * float(np.finfo(np.float64).eps)
"""Errors of an answer relative to the terms of its optimality condition."""
STRONG = 1e-10
"""Modulus of strong convexity, relative to the curvature, from which no proximal term is needed."""


@dataclass(frozen=True)
class Question:
    """What a sum asks: prices, directions, and what stands in the message."""

    layout: Layout
    trials: Array
    directions: Array
    y: Array
    request: int = 0


@dataclass
class Springs:
    """Proximal terms (r_i/2)|x_i - x̄_i|² of the agents, and their present answers x."""

    r: Array
    anchor: Array
    x: Array
    ray: Array = field(default_factory=lambda: np.zeros(0))


class Agents:
    """The agents of a runtime, those in closed form compiled, the others one by one."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime, self.problem = runtime, runtime.problem
        self.block = block = sparsified(runtime.block)
        n, self.p = runtime.n, runtime.p
        matrix, kinds = block.akind != OPERATOR_A, _prox_kinds(block)
        self.split = ((kinds == _SPLIT) & matrix).astype(np.int64)
        self.easy = (self.split.astype(bool) & (block.fkind == SIMPLE_F)).astype(np.int64)
        plain, dims = matrix & (block.fkind == SIMPLE_F), np.diff(block.xptr)
        sets = [agent.g for agent in self.problem.agents]
        self.faces = make_faces(sets, plain, dims, runtime.team.threads, max(self.p, TERMS))
        self.faced = self.faces.kind > 0
        known = (kinds != _PYTHON) & matrix & (block.fkind != CALLBACK_F)
        self.others = (known & (self.easy == 0)).astype(np.int64)
        alone = (self.easy == 0) & ~(self.faced & (self.faces.bounded > 0))
        alone = np.flatnonzero(alone).tolist()
        self.locals = {i: make_local(self.problem.agents[i]) for i in alone}
        self.alone = [i for i in self.locals if not (self.others[i] or self.faced[i])]
        threads, width = runtime.team.threads, max(int(np.diff(block.xptr).max()), self.p, TERMS)
        self._room = np.zeros((threads, 4, width + 1))
        curve = np.empty(n)
        for group in self.problem.groups:
            curve[group.at] = np.minimum(group.g.mu, 1e300)
        widest = int(np.diff(block.xptr)[self.others > 0].max(initial=1))
        inside = np.array([isinstance(g, Indicator) for g in sets], np.int64)
        self._desk = make_desk(curve, inside, threads, widest, self.p)
        self._some_others, self._some_faced = bool(self.others.any()), bool(self.faced.any())
        self._singly = (self.easy == 0) & ~(self.faces.bounded > 0)
        self._entries, self._slot = self._find_entries()
        self._found: dict[int, list[Array]] = {}
        self.tried = np.zeros(n, dtype=np.int64)
        self.survey: dict[int, Array] = {}
        self.asked = 0
        self.strength = np.zeros(n)

    def _find_entries(self) -> tuple[Array, Array]:
        """Which entries of the triangles of A_i J_i A_iᵀ some agent fills, and their places.

        All, where sums are in fixed point, whose ranges are told by all entries, and where the
        processes do not find the same.
        """
        marks = np.zeros(half_size(self.p), np.int64)
        mark_squares(self.block, self.easy, marks)
        digest = hashlib.blake2b(np.packbits(marks > 0).tobytes(), digest_size=6).digest()
        key = float(int.from_bytes(digest, "big"))
        exact = self.runtime.agreement.transport.exact
        most, least = (1, 0) if exact else self.runtime.most(np.array([key, -key]))
        if most + least != 0:
            marks[:] = 1
        return np.flatnonzero(marks), np.cumsum(marks) - 1

    # -- strong convexity -------------------------------------------------------------------------
    def flat(self) -> Array:
        """Which agents lack strong convexity: f_i + g_i needs a proximal term."""
        block, (mu, top) = self.runtime.block, np.empty((2, self.runtime.n))
        find_curvatures(block, mu, top)
        plain = np.minimum.reduceat(block.fcoef[0], block.xptr[:-1])
        mu, top = np.where(self.faced, plain, mu), np.where(self.faced, block.lip, top)
        for i, part in self.locals.items():
            mu[i], top[i] = part.strength
        self.strength = mu
        return ~(mu > STRONG * top)

    # -- a sum ------------------------------------------------------------------------------------
    def total(self, question: Question, springs: Springs, tol: float) -> Array:
        """The message of all agents, summed; entries that nobody fills are not added."""
        whole = question.layout
        layout = replace(whole, filled=len(self._entries))
        question = replace(question, layout=layout)
        task = self._task(question.trials, springs, question.y, tol, layout)
        looks = task._replace(trials=question.directions, squares=layout.starts[2])
        self.asked += len(question.trials)

        def fill(rows: Array, out: Array) -> None:
            rows = np.ascontiguousarray(rows)
            run, block = self.runtime.run, self.block
            run(respond, block, self.easy, task, rows, out)
            if self._some_others:
                run(respond_others, block, self.others, task, self._desk, rows, out, self.tried)
            if self._some_faced:
                run(respond_faces, block, self.faces, task, rows, out)
            if layout.directions:
                run(support_rows, block, self.split, looks, rows, out)
            if layout.directions and self._some_faced:
                run(support_faces, block, self.faces, looks, rows, out)
            self._fill_others(rows, out, question, springs, tol)
            if layout.rows:
                self._fill_rows(rows, out[:, layout.starts[1] : layout.starts[2]], springs.r)
            if layout.survey:
                self._fill_survey(rows, out[:, layout.starts[4] : layout.starts[5]])

        total = np.zeros(whole.width)
        columns = whole.columns(self._entries)
        total[columns] = self.runtime.total_of(layout.width, fill, whole.width)
        return total

    def _task(
        self, trials: Array, springs: Springs, y: Array, tol: float, layout: Layout | None = None
    ) -> Task:
        jacobians = 0 if layout is None else layout.jacobians
        bound = layout.starts[1] if layout is not None and layout.bound else -1
        return Task(
            np.ascontiguousarray(trials),
            springs.r,
            springs.anchor,
            springs.x,
            y,
            self._room,
            float(tol),
            layout.trial if layout else 0,
            jacobians,
            layout.starts[0] if layout else 0,
            bound,
            self._slot,
            len(self._entries),
        )

    def _fill_others(
        self, rows: Array, out: Array, question: Question, springs: Springs, tol: float
    ) -> None:
        layout, xptr = question.layout, self.runtime.block.xptr
        first = np.flatnonzero(rows == 0)
        if question.request and first.size:
            out[first[0], layout.starts[5] + question.request - 1] = 1.0
        busy = self._singly[rows]
        if layout.ray and springs.ray.size:
            busy |= springs.r[rows] > 0
        for e in np.flatnonzero(busy):
            i = int(rows[e])
            own = slice(xptr[i], xptr[i + 1])
            if not (self.split[i] or self.faces.bounded[i]):
                self._fill_supports(i, springs.x[own], question, out[e])
            if layout.ray and springs.ray.size:
                told = told_of_ray(self.problem.agents[i], springs.ray[own])
                out[e, layout.starts[3] : layout.starts[4]] = told
            if i in self.locals and not self.faced[i]:
                mine = Springs(springs.r, springs.anchor[own], springs.x[own])
                self._fill_local(i, question, mine, tol, out[e])

    def _fill_rows(self, rows: Array, out: Array, r: Array) -> None:
        """|A_i,j|²/m_i and σ̄²(A_i)/m_i, m_i the strong convexity of f_i + g_i with its spring."""
        for e, i in enumerate(rows):
            agent, strong = self.problem.agents[i], min(self.strength[i], 1e300) + float(r[i])
            out[e, :-1], out[e, -1] = agent.row_norms**2 / strong, agent.sigma_max2 / strong

    def _fill_survey(self, rows: Array, out: Array) -> None:
        """The agents' numbers of variables, and what those without strong convexity tell."""
        xptr = self.runtime.block.xptr
        out[:, self.p + VARIABLES] = xptr[rows + 1] - xptr[rows]
        for e in range(len(rows)) if self.survey else ():
            if rows[e] in self.survey:
                out[e, : self.p + VARIABLES] = self.survey[rows[e]]

    def _fill_local(
        self, i: int, question: Question, springs: Springs, tol: float, out: Array
    ) -> None:
        """Trials, Jacobians and M of one agent, whose own part of x is in ``springs``."""
        part, layout, p = self.locals[i], question.layout, self.p
        matrices, half, answers = layout.jacobians or layout.bound, half_size(p), []
        triangle = lower(p if matrices else 0)
        for t, price in enumerate(question.trials if not self.others[i] else ()):
            force = Force(part.A.T @ price, float(springs.r[i]), springs.anchor)
            look, tried = part.solve(force, springs.x)
            self.tried[i] += tried
            answers.append(look.z)
            at = t * layout.trial
            out[at : at + p] = part.A @ look.z
            out[at + p : at + 2 * p] = part.sizes @ np.abs(look.z)
            out[at + 2 * p : at + layout.trial] = measure(part, force, look, tol)
            if t < layout.jacobians:
                at = layout.starts[0] + t * half
                out[at : at + half] = part.jacobian(force, look)[triangle]
        if layout.bound:
            at = layout.starts[1]
            out[at : at + half] = part.bound(float(springs.r[i]))[triangle]
        self._found[i] = answers

    def _fill_supports(self, i: int, x: Array, question: Question, out: Array) -> None:
        """Numbers of each direction for an agent whose g does not split by coordinate."""
        agent, part = self.problem.agents[i], self.locals[i]
        for t, u in enumerate(question.directions):
            at = question.layout.starts[2] + t * DIRECTION
            w = -(part.A.T @ u)
            v = to_barrier(agent.g, w)
            support, missed = float(agent.g.domain_support(v)), float(np.linalg.norm(w - v))
            reach = float(np.linalg.norm(part.sizes.T @ np.abs(u)))
            ratios = np.abs(question.y)[part.rows > 0] / part.rows[part.rows > 0]
            extent = max(float(np.linalg.norm(x)), float(ratios.max(initial=0.0)))
            outside = missed > CONE * reach or not np.isfinite(support)
            support = support if np.isfinite(support) else 0.0
            out[at + SUPPORT], out[at + SUPPORT_SIZE] = support, abs(support)
            out[at + MISSED], out[at + OUTSIDE] = missed * extent, float(outside)

    # -- after a sum ------------------------------------------------------------------------------
    def settle(self, price: Array, trial: int, springs: Springs) -> None:
        """Take the answers to the price of a trial."""
        xptr, rows, none = self.runtime.block.xptr, np.arange(self.runtime.n), np.zeros((0, 1))
        run, block = self.runtime.run, self.block
        task = self._task(price[None], springs, price, 0.0)
        run(respond, block, self.easy, task, rows, none)
        if self._some_others:
            run(respond_others, block, self.others, task, self._desk, rows, none, self.tried)
        if self._some_faced:
            run(respond_faces, block, self.faces, task, rows, none)
        for i in self.alone:
            springs.x[xptr[i] : xptr[i + 1]] = self._found[i][trial]

    def round_off(self, price: Array, x: Array) -> None:
        """Set entries of x that are nothing but rounding to 0.

        The answer to a price solves ∇f_i(x_i) + A_iᵀλ + ∂g_i ∋ 0: with strong convexity μ_i, errors
        of some units in the last place of these terms, over μ_i, are what it has anyway.
        """
        for i, agent in enumerate(self.problem.agents):
            strong = float(agent.f.mu + agent.g.mu)
            if strong > 0 and not isinstance(agent.A, LinearOperator):
                own = x[self.runtime.block.xptr[i] : self.runtime.block.xptr[i + 1]]
                terms = np.abs(agent.f.grad(own)) + abs(agent.A).T @ np.abs(price)
                own[np.abs(own) <= NOISE * terms / strong] = 0.0

    def find_ray(self, springs: Springs, D: Array, spare: float, fall: float) -> Array:
        """x - x̄ of each agent, as far as f_i + g_i may fall along it for ever.

        Left out are those who matter neither to the rows, up to ``spare``, nor to the ``fall`` of
        the objective; see :func:`.rays.own_ray`.
        """
        ray, xptr = np.zeros_like(springs.x), self.runtime.block.xptr
        for i in np.flatnonzero(springs.r > 0).tolist():
            own = slice(xptr[i], xptr[i + 1])
            x, anchor = springs.x[own], springs.anchor[own]
            ray[own] = own_ray(self.problem.agents[i], x, anchor, D, spare, fall)
        return ray


def _prox_kinds(block: Block) -> Array:
    """Whether the prox of each g splits by coordinate, is compiled otherwise, or is Python."""
    counts = np.diff(block.gptr)
    owner = np.repeat(np.arange(len(counts)), counts)
    kinds = np.full(len(counts), _COMPILED)
    kinds[owner[block.gtab[:, 0] == Kind.CALLBACK]] = _PYTHON
    plain = (block.gtab[:, 0] == Kind.SEPARABLE) & np.isin(block.gtab[:, 1], (0, KINKLESS))
    kinds[(counts == 1) & (np.bincount(owner[plain], minlength=len(counts)) == 1)] = _SPLIT
    return kinds


def measure(part: Local, force: Force, look: Look, tol: float) -> Array:
    """The numbers of a trial for an agent, see :mod:`.message`; as in ``closed_form.measure``."""
    x, away, out = look.z, look.z - force.anchor, np.empty(SCALARS)
    gradient = part.f.grad(x)
    smooth, kinks = float(part.f.value(x)), inside_value(part.g, x)
    pulled, far = float(force.c @ x), float(away @ away)
    out[VALUE] = smooth + kinks + pulled + 0.5 * force.r * far
    out[MAGNITUDE] = abs(smooth) + abs(kinks) + abs(pulled) + 0.5 * force.r * far
    out[OBJECTIVE] = abs(smooth) + abs(kinks) + abs(float(gradient @ x))
    out[MOVED] = force.r * far
    size = float(np.linalg.norm(x))
    pressure = max(float(np.linalg.norm(gradient)), float(np.linalg.norm(force.c)))
    left = force.r * np.sqrt(far) + (part.L + force.r) * look.moved
    if left <= ROUNDING * ((part.L + force.r) * size + pressure):
        left = 0.0
    scale = max(pressure, part.mu * size)
    out[RATIO] = 0.0 if left == 0.0 else left / scale if scale > 0 else BEYOND
    out[FAILS] = float(left > tol * scale)
    out[PRICED] = float(np.linalg.norm(force.c) > tol * np.linalg.norm(gradient))
    return out
