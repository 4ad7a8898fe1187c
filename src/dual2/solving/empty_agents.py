"""Agents without variables: each gets one of its own, which is 0 and enters no row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dual2.errors import ProblemError, counted
from dual2.functions import SquaredNorm
from dual2.functions.calculus import Affined
from dual2.functions.domains import inside_value
from dual2.problem import Agent
from dual2.runtime import LocalProblem
from dual2.solving.result import Result


@dataclass(frozen=True)
class EmptyAgents:
    """Between a problem and the one that is solved instead, where no agent is empty.

    Attributes
    ----------
    places : tuple of int
        The empty agents among those of this process.
    dims : tuple of int
        Numbers of variables of the agents of this process, in the problem.
    owned : tuple of int
        Their numbers among all agents.
    """

    places: tuple[int, ...]
    dims: tuple[int, ...]
    owned: tuple[int, ...]

    @classmethod
    def of(cls, share: LocalProblem) -> EmptyAgents:
        """Those of a problem."""
        places = tuple(k for k, d in enumerate(share.dims) if d == 0)
        return cls(places, tuple(share.dims), tuple(share.owned.tolist()))

    def filled(self, share: LocalProblem) -> LocalProblem:
        """The problem in which each has a variable with the column 0 and a cost of its own."""
        if not self.places:
            return share
        known = [float(a.f.L) for a in share.agents if a.dim and 0 < a.f.L < np.inf]
        f = SquaredNorm(float(np.median(known)) if known else 1.0)
        A, agents = np.zeros((share.p, 1)), list(share.agents)
        for k in self.places:
            cost = agents[k].f, agents[k].g
            constant = sum(inside_value(own, np.zeros(0)) for own in cost)
            agents[k] = Agent(A, Affined(f, constant=constant) if constant else f)
        return share.with_agents(agents, share.h)

    def start(self, start: Any) -> Any:
        """A start of the problem as one of the problem that is solved."""
        if not self.places:
            return start
        if isinstance(start, Result):
            return replace(start, x=self.point(start.x))
        if isinstance(start, tuple | list) and len(start) > 1:
            return (self.point(start[0]), *start[1:])
        return start

    def point(self, x: Any) -> Any:
        """A point with a 0 for each empty agent; what is no point comes back as it is."""
        if not self.places or x is None:
            return x
        if isinstance(x, np.ndarray) and x.ndim == 1 and x.size == sum(self.dims):
            x = np.split(x, np.cumsum(self.dims)[:-1])
        try:
            parts = list(x)
        except TypeError:
            return x
        where = self.owned if len(parts) > len(self.dims) else range(len(self.dims))
        for k in self.places:
            if where[k] < len(parts):
                if (size := np.size(parts[where[k]])) > 0:
                    raise ProblemError(
                        f"Agent {self.owned[k]} has no variables, but its part of the start or the "
                        f"reference holds {counted(size, 'number')}; expected an empty vector."
                    )
                parts[where[k]] = np.zeros(1)
        return parts

    def result(self, result: Result) -> Result:
        """The answer to the problem."""
        return replace(result, x=self.dropped(result.x)) if self.places else result

    def dropped(self, x: list[Any]) -> list[Any]:
        """A point of the problem that is solved as one of the problem."""
        return [np.zeros(0) if k in self.places else part for k, part in enumerate(x)]

    def callback(
        self, callback: Callable[[dict[str, Any]], Any] | None
    ) -> Callable[[dict[str, Any]], Any] | None:
        """A callback that is shown points of the problem."""
        if callback is None or not self.places:
            return callback
        return lambda view: callback(view | ({"x": self.dropped(view["x"])} if "x" in view else {}))
