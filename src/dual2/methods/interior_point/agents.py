"""All agents of this process and the public block: iterates, units, and one sum over all."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dual2.conic.block import Block, Direction, Point
from dual2.conic.linearisation import Linearisation, Outer, linearise
from dual2.conic.schur_pattern import SchurPattern
from dual2.methods.deadline import Deadline
from dual2.methods.interior_point.assembly import private_blocks, public_block
from dual2.methods.interior_point.messages import header
from dual2.methods.interior_point.report import point_fields
from dual2.methods.interior_point.schema import Fields
from dual2.methods.interior_point.schur import SchurFactors
from dual2.methods.interior_point.units import Units, agree_on_units
from dual2.methods.message import REQUESTS, read_request
from dual2.runtime import Runtime

Array = np.ndarray


@dataclass(frozen=True)
class Snapshot:
    """What an iteration changes, as it was before."""

    points: list[Point]
    steps: list[Direction]
    lin: list[Linearisation]
    base: list[Point]
    sums: int


class Agents:
    """Blocks of the agents here, and that of h, which everybody computes alike.

    Parameters
    ----------
    runtime : Runtime
        Where the agents are.

    Attributes
    ----------
    active : ndarray of int
        Rows of the coupling that h does not leave free.
    blocks : list of Block
        In scaled units; the last is that of h.
    points, steps : list of Point, list of Direction
        Iterates and the next directions, one per block.
    sums : int
        Exchanges so far.
    asked : int
        The largest request of any process in the last exchange.
    deadline : Deadline
        When time ends; looked at between agents.
    """

    def __init__(self, runtime: Runtime) -> None:
        self.runtime, problem = runtime, runtime.problem
        public, self.h_offset, self.active = public_block(problem.h, runtime.p)
        self.plain = [*private_blocks(problem, self.active), public]
        self.where = _find_places(self.plain[:-1], problem.dims)
        self.sums = self.asked = self.request = 0
        self.schur = SchurFactors(SchurPattern.full(0))
        self.deadline = Deadline()
        self.begin()

    @property
    def p(self) -> int:
        """Rows of the replicated system."""
        return len(self.active)

    def begin(self) -> None:
        """The starting point."""
        self.blocks = self.plain
        self.points = [block.start() for block in self.blocks]
        zeros = [{k: np.zeros_like(a) for k, a in vars(point).items()} for point in self.points]
        self.steps = [Direction(**own) for own in zeros]
        self.lin: list[Linearisation] = []
        self.base = self.points

    def x(self, v: Sequence[Array]) -> Array:
        """Flat x in the user's units for the v of each block."""
        x = np.empty(sum(self.runtime.problem.dims))
        for block, own, where in zip(self.blocks, v, self.where, strict=False):
            x[where] = block.x(own)
        return x

    def set_up(self) -> Units:
        """Agree on units, and begin in them."""
        units, self.blocks, self.schur = agree_on_units(self)
        self.points = [block.start() for block in self.blocks]
        return units

    def rescale(self, factors: Array, cost_scale: float, entries: Array) -> None:
        """Use units and entries of S that were agreed on earlier."""
        self.blocks = self.plain
        for one in factors:
            self.blocks = [block.equilibrated(one) for block in self.blocks]
        self.schur = SchurFactors(SchurPattern(self.p, entries))
        self.blocks = [block.final(cost_scale, self.schur.pattern) for block in self.blocks]

    # -- iterates ---------------------------------------------------------------------------------
    def snapshot(self) -> Snapshot:
        """The iterates now, to :meth:`go_back` to where time ends within an iteration."""
        return Snapshot(self.points, self.steps, self.lin, self.base, self.sums)

    def go_back(self, to: Snapshot) -> None:
        """Forget what followed a snapshot."""
        self.points, self.steps, self.lin = to.points, to.steps, to.lin
        self.base, self.sums = to.base, to.sums

    def _linearise(self, length: float, outer_at: Callable[[float], Outer]) -> list[Linearisation]:
        """Newton's equations of all blocks after a step."""
        outer, found = outer_at(length), []
        for block, point, step in zip(self.blocks, self.points, self.steps, strict=True):
            self.deadline.look()
            lin = linearise(block, block.move(point, step, length), outer)
            lin.fields = point_fields(lin)
            found.append(lin)
        return found

    def _present(self, at: Array) -> Iterator[tuple[int, Array, Array]]:
        """Blocks with agents in places ``at``: which, which of their agents, in which rows."""
        row = np.full(self.runtime.n, -1)
        row[at] = np.arange(len(at))
        for k, block in enumerate(self.blocks[:-1]):
            rows = row[block.places]
            own = np.flatnonzero(rows >= 0)
            if own.size:
                yield k, own, rows[own]

    # -- messages ---------------------------------------------------------------------------------
    def _sum(
        self, width: int, fill: Callable[[Array, Array], None], sent: int | None = None
    ) -> Array:
        """One exchange; its header says what others ask for."""
        self.sums += 1
        total = self.runtime.allreduce_filled(width, fill, sent=sent)
        top = Fields(header(), total[: header().width])
        self.asked, self._levels = read_request(top["requests"]), top["levels"]
        return total

    def _requests(self, at: Array) -> Array:
        asked = np.zeros((len(at), REQUESTS))
        if self.request:
            asked[at == 0, self.request - 1] = 1.0
        return asked


def _find_places(blocks: Sequence[Block], dims: Sequence[int]) -> list[Array]:
    """Where the x of each block stand in the flat x."""
    starts = np.concatenate([[0], np.cumsum(dims)])
    lengths = np.asarray(dims)
    found = []
    for block in blocks:
        sizes = lengths[block.places]
        first = np.repeat(
            starts[block.places] - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes
        )
        found.append(first + np.arange(int(sizes.sum())))
    return found
