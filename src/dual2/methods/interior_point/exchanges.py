"""The exchanges of an iteration: residuals, Schur complements, corrections, merits, faces."""

from collections.abc import Callable, Sequence

import numpy as np

from dual2.conic.block import Block, dot, dot2
from dual2.conic.face import FaceStep
from dual2.conic.linearisation import Linearisation, Outer, local_residuals
from dual2.methods.interior_point.agents import Agents
from dual2.methods.interior_point.embedding import DualStep
from dual2.methods.interior_point.messages import (
    corrections,
    header,
    linearised,
    mark_levels,
    shortest,
)
from dual2.methods.interior_point.schema import Fields, Schema

Array = np.ndarray
MOST_NUMBERS = 250_000
"""Numbers of the first exchange up to which it tries several step lengths."""


class Exchanges(Agents):
    """What agents send to one another; see :class:`.agents.Agents`."""

    # -- exchange 1 -------------------------------------------------------------------------------
    def exchange_point(
        self, lengths: Sequence[float], outer_at: Callable[[float], Outer], damping: float
    ) -> tuple[float, Fields]:
        """Move by the first of ``lengths`` that all agents can take, and linearise there.

        If there is none, the agents' shortest limit takes another exchange.
        """
        limits = self._limits(damping)
        if len(lengths) == 1:
            return self._point_at(self._agree_on(lengths[0], limits), outer_at, limits)
        width = header().width + len(lengths) * self._schema.width
        if self.runtime.comm.size == 1:
            return self._point_alone(lengths, outer_at, limits, width)
        return self._point_apart(lengths, outer_at, limits, width)

    @property
    def _schema(self) -> Schema:
        """One candidate of the first exchange."""
        return linearised(self.p, self.schur.pattern.size)

    @property
    def tries(self) -> int:
        """How many step lengths fit into one message."""
        return MOST_NUMBERS // self._schema.width

    def _agree_on(self, most: float, limits: Array) -> float:
        """The longest step up to ``most`` that all can take: one short exchange."""
        if most <= 0:
            return most
        marks, head = mark_levels(limits), header()

        def fill(at: Array, out: Array) -> None:
            head.pack(out, {"levels": marks[at], "requests": self._requests(at)})

        self._sum(head.width, fill)
        return min(most, shortest(self._levels))

    def _point_at(
        self, length: float, outer_at: Callable[[float], Outer], limits: Array
    ) -> tuple[float, Fields]:
        """Linearise after a step that all can take."""
        lin = self._linearise(length, outer_at)
        width = header().width + self._schema.width
        told = self._sum_linearised([lin], limits, [limits >= 0], width)
        return self._move(length, lin), told[0]

    def _limits(self, damping: float) -> Array:
        """Of each agent here the longest step that it can take."""
        limits = np.full(self.runtime.n, np.inf)
        for block, point, step in zip(self.blocks[:-1], self.points, self.steps, strict=False):
            limits[block.places] = damping * block.longest(point, step)
        return limits

    def public_limit(self, damping: float) -> float:
        """That of h."""
        return damping * float(self.blocks[-1].longest(self.points[-1], self.steps[-1])[0])

    def _point_alone(
        self,
        lengths: Sequence[float],
        outer_at: Callable[[float], Outer],
        limits: Array,
        width: int,
    ) -> tuple[float, Fields]:
        """All agents are here: only the step that is taken needs to be computed."""
        longest = float(limits.min(initial=np.inf))
        fitting = [a for a in lengths if a <= longest]
        if not fitting:
            levels = self._sum_levels(limits, width)
            return self._point_at(min(lengths[0], shortest(levels)), outer_at, limits)
        lin = self._linearise(fitting[0], outer_at)
        told = self._sum_linearised([lin], limits, [limits >= 0], width)
        return self._move(fitting[0], lin), told[0]

    def _point_apart(
        self,
        lengths: Sequence[float],
        outer_at: Callable[[float], Outer],
        limits: Array,
        width: int,
    ) -> tuple[float, Fields]:
        """Every process computes what its own agents allow."""
        own = float(limits.min(initial=np.inf))
        lins = [self._linearise(a, outer_at) if a <= own else None for a in lengths]
        told = self._sum_linearised(lins, limits, [limits >= a for a in lengths], width)
        for a, lin, fields in zip(lengths, lins, told, strict=True):
            if lin is not None and fields.number("refused") == 0:
                return self._move(a, lin), fields
        return self._point_at(min(lengths[0], shortest(self._levels)), outer_at, limits)

    def _move(self, length: float, lin: list[Linearisation]) -> float:
        self.lin, self.base = lin, self.points
        self.points = [one.point for one in lin]
        return length

    def _sum_levels(self, limits: Array, width: int) -> Array:
        """Counts of the agents' limits alone; the rest of the message is refused by somebody."""
        marks = mark_levels(limits)

        def fill(at: Array, out: Array) -> None:
            out[:] = marks[at]

        self.sums += 1
        return self.runtime.allreduce_filled(marks.shape[1], fill, sent=width)

    def _sum_linearised(
        self,
        lins: Sequence[list[Linearisation] | None],
        limits: Array,
        marks: Sequence[Array],
        sent: int,
    ) -> list[Fields]:
        """One message with a part per step length."""
        head, schema, levels = header(), self._schema, mark_levels(limits)

        def fill(at: Array, out: Array) -> None:
            head.pack(out[:, : head.width], {"levels": levels[at], "requests": self._requests(at)})
            for k, (lin, mark) in enumerate(zip(lins, marks, strict=True)):
                part = out[:, head.width + k * schema.width :][:, : schema.width]
                part[:] = 0.0
                part[:, schema["refused"]] = ~mark[at][:, None]
                if lin is not None:
                    self._fill_linearised(lin[:-1], at, part)

        total = self._sum(head.width + len(lins) * schema.width, fill, sent)
        told = []
        for k, lin in enumerate(lins):
            part = total[head.width + k * schema.width :][: schema.width].copy()
            if lin is not None:
                own = np.zeros((1, schema.width))
                self._write(self.blocks[-1], lin[-1], np.zeros(1, np.int64), own)
                part += own[0]
            told.append(Fields(schema, part))
        return told

    def _fill_linearised(self, lin: Sequence[Linearisation], at: Array, out: Array) -> None:
        for k, own, rows in self._present(at):
            part = np.zeros((len(rows), out.shape[1]))
            self._write(self.blocks[k], lin[k], own, part)
            out[rows, 1:] = part[:, 1:]

    def _write(self, block: Block, lin: Linearisation, own: Array, out: Array) -> None:
        """What some agents of a block put into the first exchange."""
        fields = {name: value[own] for name, value in lin.fields.items()}
        fields["schur"] = lin.system.schur(block.A, own)
        self._schema.pack(out, fields)

    # -- exchange 2 -------------------------------------------------------------------------------
    def exchange_corrections(
        self, predictor: DualStep, around: Array, mu: float, second: float = 1.0
    ) -> tuple[float, Fields]:
        """The predictor's longest step; right-hand sides of the corrector, the divisor of Δτ."""
        schema, head, limits = corrections(self.p), header(), np.full(self.runtime.n, np.inf)
        rows = np.zeros((self.runtime.n + 1, schema.width))
        own_limit = np.inf
        for block, lin in zip(self.blocks, self.lin, strict=True):
            self.deadline.look()
            fields = {"divisor": lin.divisor(around)} if lin.outer.embedded else {}
            step = lin.direction(lin.affine, predictor.dual, predictor.ratio)
            lin.correct(step, mu, second)
            for name, rhs in (("target", lin.target), ("centre", lin.centre)):
                fields[f"AM_{name}"] = block.product(rhs.M)
                if lin.outer.embedded:
                    fields[f"scalar_{name}"] = lin.scalar(rhs)
            part = np.zeros((len(block.q), schema.width))
            schema.pack(part, fields)
            public = block is self.blocks[-1]
            rows[[-1] if public else block.places] = part
            longest = block.longest(lin.point, step)
            if public:
                own_limit = float(longest[0])
            else:
                limits[block.places] = longest
        levels = mark_levels(limits)

        def fill(at: Array, out: Array) -> None:
            head.pack(out[:, : head.width], {"levels": levels[at], "requests": self._requests(at)})
            out[:, head.width :] = rows[at]

        total = self._sum(head.width + schema.width, fill)
        return min(shortest(self._levels), own_limit), Fields(
            schema, total[head.width :] + rows[-1]
        )

    def combine(self, final: DualStep, sigma: float) -> None:
        """The corrector's directions."""
        self.steps = [
            lin.direction(lin.target.plus(sigma, lin.centre), final.dual, final.ratio)
            for lin in self.lin
        ]

    # -- line search ------------------------------------------------------------------------------
    def exchange_merits(
        self, lengths: Sequence[float], outer_at: Callable[[float], Outer]
    ) -> tuple[Array, Array, Array]:
        """Σ A v, Σ squared residuals and Σ sᵀz for steps from the point before the last one."""
        p, k = self.p, len(lengths)
        rows = np.zeros((self.runtime.n + 1, k, p + 2))
        for block, point, step in zip(self.blocks, self.base, self.steps, strict=True):
            self.deadline.look()
            at = [-1] if block is self.blocks[-1] else block.places
            for j, length in enumerate(lengths):
                new = block.move(point, step, length)
                rows[at, j, :p] = block.A.apply(new.v)
                rows[at, j, p] = local_residuals(block, new, outer_at(length)).squares
                rows[at, j, p + 1] = dot2(new.s, new.z) + dot(new.t, new.y)
        flat, head = rows.reshape(len(rows), -1), header()

        def fill(at: Array, out: Array) -> None:
            head.pack(out[:, : head.width], {"requests": self._requests(at)})
            out[:, head.width :] = flat[at]

        total = self._sum(head.width + flat.shape[1], fill)[head.width :] + flat[-1]
        told = total.reshape(k, p + 2)
        return told[:, :p], told[:, p], told[:, p + 1]

    def step_back(self, length: float, outer_at: Callable[[float], Outer]) -> tuple[float, Fields]:
        """Take another step from the point before the last one."""
        self.points = self.base
        return self._point_at(length, outer_at, np.full(self.runtime.n, np.inf))

    # -- polishing --------------------------------------------------------------------------------
    def exchange_face(self, steps: Sequence[FaceStep]) -> tuple[Array, Array]:
        """Entries of Σ A K⁻¹ Aᵀ on the faces, and Σ A (v − K⁻¹ r)."""
        p = self.p
        schema = Schema({"schur": self.schur.pattern.size, "left": p})

        def part(k: int, own: Array) -> Array:
            block, step = self.blocks[k], steps[k]
            out = np.empty((len(own), schema.width))
            left = block.product(step.point.v) - block.product(step.M)
            schur = step.system.schur(block.A, own)
            schema.pack(out, {"schur": schur, "left": left[own]})
            return out

        def fill(at: Array, out: Array) -> None:
            head = header()
            head.pack(out[:, : head.width], {"requests": self._requests(at)})
            for k, own, place in self._present(at):
                out[place, head.width :] = part(k, own)

        total = self._sum(header().width + schema.width, fill)[header().width :]
        told = Fields(schema, total + part(len(self.blocks) - 1, np.zeros(1, np.int64))[0])
        return told["schur"].copy(), told["left"].copy()
