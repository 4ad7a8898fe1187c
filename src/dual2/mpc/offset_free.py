"""Tracking without offset: an estimated disturbance, and the steady state that suits it.

A model that differs from the plant leaves an offset, however well its plans are solved. The
remedy is that of Pannocchia & Rawlings, "Disturbance models for offset-free model-predictive
control", AIChE Journal, 2003: what the model has mispredicted counts as a disturbance that stays,
and plans lead to the steady state nearest to the reference under that disturbance, with the inputs
that hold it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import null_space, pinv

from dual2.errors import ProblemError, unknown_name
from dual2.functions.arguments import Array
from dual2.mpc.plan_inputs import Target
from dual2.mpc.subsystem import Subsystem

Plant = Callable[[Array, Array, Array, int], Array]
"""The next state of a subsystem from its state, input and disturbance in step t."""
GAIN = 0.5
"""Default share of a prediction error that the estimate takes over: it keeps a third of the
variance of noise, and an offset halves in every step."""


@dataclass(frozen=True, eq=False)
class SteadyState:
    """The steady state of a subsystem nearest to a reference: x = A x + B u + w.

    It minimises (x - ref)ᵀQ(x - ref); of several, the one with inputs nearest to ``u_ref``, by R.

    Examples
    --------
    >>> room = Subsystem("room", A=[[0.5]], B=[[1.0]], Q=1.0, R=0.1)
    >>> x, u = SteadyState(room).of(np.array([0.25]), np.array([2.0]))
    >>> x.round(6).tolist(), u.round(6).tolist()
    ([2.0], [0.75])
    """

    system: Subsystem

    @cached_property
    def _solutions(self) -> tuple[Array, Array]:
        """A right inverse of [I - A, -B], and a basis of what it does not determine."""
        s = self.system
        rows = np.hstack([np.eye(s.n_x) - s.A, -s.B])
        return pinv(rows), null_space(rows)

    @cached_property
    def _steps(self) -> tuple[Array, Array, Array, Array]:
        """Least squares in two stages: distances of the state first, then of the inputs."""
        s = self.system
        _, free = self._solutions
        root = np.linalg.cholesky(s.R).T
        values, vectors = np.linalg.eigh(s.Q)
        distance = (np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T) @ free[: s.n_x]
        first = pinv(distance, rtol=1e-10)
        rest = null_space(distance, rcond=1e-10)
        second = pinv(root @ free[s.n_x :] @ rest) if rest.shape[1] else np.zeros((0, s.n_u))
        weight = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
        return weight, first, rest, second @ root if rest.shape[1] else second

    def of(self, disturbance: Array, reference: Array) -> tuple[Array, Array]:
        """State and input."""
        s = self.system
        particular, free = self._solutions
        weight, first, rest, second = self._steps
        z = particular @ disturbance
        z = z + free @ (first @ (weight @ (reference - z[: s.n_x])))
        z = z + free @ (rest @ (second @ (s.u_ref - z[s.n_x :])))
        return z[: s.n_x], z[s.n_x :]


@dataclass
class OffsetFree:
    """Estimates of constant disturbances of all subsystems, one step after the other."""

    systems: Sequence[Subsystem]
    gain: float
    estimates: list[Array] = field(init=False)

    def __post_init__(self) -> None:
        self.estimates = [np.zeros(s.n_x) for s in self.systems]
        self._steady = [SteadyState(s) for s in self.systems]

    def disturbances(self, known: Sequence[Array]) -> list[Array]:
        """What plans should expect: the forecast, and the estimate in every step."""
        return [w + d for w, d in zip(known, self.estimates, strict=True)]

    def targets(self, expected: Sequence[Array], wanted: Sequence[Target | None]) -> list[Target]:
        """The steady states nearest to the references under the first expected disturbance."""
        made = []
        for steady, w, target in zip(self._steady, expected, wanted, strict=True):
            rows = np.tile(steady.system.x_ref, (len(w) + 1, 1)) if target is None else target.x
            pairs = [steady.of(w[0], row) for row in rows]
            x, u = (np.array(part) for part in zip(*pairs, strict=True))
            made.append(Target(x, u[:-1]))
        return made

    def correct(self, expected: Sequence[Array], measured: Sequence[Array]) -> None:
        """Take over a share of what the models have mispredicted."""
        self.estimates = [
            d + self.gain * (x - predicted)
            for d, x, predicted in zip(self.estimates, measured, expected, strict=True)
        ]


def read_gain(given: bool | float) -> float:
    """Gain of the estimate, 0 if there is to be none."""
    if isinstance(given, bool):
        return GAIN if given else 0.0
    if not isinstance(given, int | float) or not 0.0 <= given <= 1.0:
        raise ProblemError(
            f"simulate: offset_free = {given!r}; expected True, False or a gain from 0 to 1."
        )
    return float(given)


def read_plants(systems: Sequence[Subsystem], given: Any) -> list[Plant]:
    """What each subsystem really does, by its name or place; those not named are as modelled."""
    names = [s.name for s in systems]
    if given is None:
        given = {}
    if not isinstance(given, Mapping):
        if not hasattr(given, "__len__") or len(given) != len(names):
            count = len(given) if hasattr(given, "__len__") else "no"
            raise ProblemError(
                f"simulate: plant has {count} entries for {len(names)} subsystems; expected one "
                "for each, or a dict of their names."
            )
        given = dict(zip(names, given, strict=True))
    for name in given:
        if name not in names:
            raise ProblemError(f"simulate: plant: {unknown_name('subsystem', str(name), names)}")
    return [_plant(s, given.get(s.name)) for s in systems]


def _plant(model: Subsystem, given: Any) -> Plant:
    """A function of (x, u, w, t), made of a Subsystem with other matrices, or checked."""
    if given is None:
        given = model
    if isinstance(given, Subsystem):
        if (given.n_x, given.n_u) != (model.n_x, model.n_u):
            raise ProblemError(
                f"{model!s}: its plant has {given.n_x} states and {given.n_u} inputs; its model "
                f"has {model.n_x} and {model.n_u}. Give a function of (x, u, w, t) that returns "
                "the states of the model."
            )
        own = given
        return lambda x, u, w, t: own.step(x, u, w)
    if not callable(given):
        raise ProblemError(
            f"{model!s}: its plant is {type(given).__name__}; expected a Subsystem, or a function "
            "of (x, u, w, t) that returns the next state."
        )

    def measured(x: Array, u: Array, w: Array, t: int) -> Array:
        found = np.asarray(given(x, u, w, t), dtype=float)
        if found.shape != (model.n_x,) or not np.isfinite(found).all():
            raise ProblemError(
                f"{model!s}: in step {t} its plant returned {found!r}; expected {model.n_x} finite "
                "numbers."
            )
        return found

    return measured
