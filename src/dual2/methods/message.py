"""What one sum carries: named fields, each a slice of one vector."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np

Array = np.ndarray
VALUE, MAGNITUDE, OBJECTIVE, PROX_DISTANCE, STATIONARITY, VIOLATIONS, DUAL_ACTIVE = range(7)
"""Numbers of a trial after S and Σ|A_i||x_i|: Σ min f_i + g_i + <A_iᵀλ, x> + (r_i/2)|x - x̄_i|²,
the magnitudes of its terms, Σ |f_i| + |g_i| + |<∇f_i, x_i>|, Σ r_i|x_i - x̄_i|², the sum of the
agents' stationarity ratios, how many of them exceed the tolerance, and how many agents have a
nonzero A_iᵀλ at all: |A_iᵀλ| above tol·|∇f_i|. The r_i are 0 but in L-BFGS."""
TRIAL_SCALARS = 7
INFINITE_RATIO = 1e16
"""The ratio of what an agent leaves where nothing is there to compare it with; sums stay finite."""
SUPPORT, SUPPORT_MAGNITUDE, BARRIER_DISTANCE, OUTSIDE_BARRIER = range(4)
"""Numbers of a direction u: Σ σ_i(v_i), the magnitudes of its terms, Σ |w_i - v_i|·(size of x_i),
how many agents have w_i = -A_iᵀu outside the barrier cone; v_i is its nearest point there."""
DIRECTION_SCALARS = 4
REQUESTS = 4


class Schema:
    """Named fields of a message, one after the other.

    Parameters
    ----------
    lengths : mapping of str to int
        Length of each field.

    Examples
    --------
    >>> schema = Schema({"product": 2, "value": 1})
    >>> schema.width, schema["value"]
    (3, slice(2, 3, None))
    >>> schema.unpack(np.array([1.0, 2.0, 3.0]))["product"].tolist()
    [1.0, 2.0]
    """

    def __init__(self, lengths: Mapping[str, int]) -> None:
        self._slices: dict[str, slice] = {}
        self.width = 0
        for name, length in lengths.items():
            self._slices[name] = slice(self.width, self.width + length)
            self.width += length

    def __getitem__(self, name: str) -> slice:
        return self._slices[name]

    def pack(self, out: Array, values: Mapping[str, Array]) -> None:
        """Write fields into the rows of ``out``; fields that are not given become 0."""
        for name, place in self._slices.items():
            value = values.get(name)
            if value is None:
                out[:, place] = 0.0
            else:
                out[:, place] = value[:, None] if value.ndim == 1 else value

    def unpack(self, total: Array) -> "Fields":
        """The fields of one message."""
        return Fields(self, total)


class Fields:
    """The fields of one message by their names; those of length 1 also as numbers."""

    def __init__(self, schema: Schema, values: Array) -> None:
        self._schema, self._values = schema, values

    def __getitem__(self, name: str) -> Array:
        return self._values[self._schema[name]]

    def number(self, name: str) -> float:
        """A field of length 1."""
        return float(self[name][0])


def split_at(v: Array, ends: Array) -> list[Array]:
    """The parts of a vector up to these places, and the rest; views of it.

    Examples
    --------
    >>> [part.tolist() for part in split_at(np.arange(4), np.array([1, 3]))]
    [[0], [1, 2], [3]]
    """
    places = [0, *ends.tolist(), len(v)]
    return [v[a:b] for a, b in pairwise(places)]


def triangle_size(p: int) -> int:
    """Numbers of a symmetric p × p matrix."""
    return p * (p + 1) // 2


@lru_cache(maxsize=2)
def lower_triangle(p: int) -> tuple[Array, Array]:
    """Rows and columns of the numbers of a symmetric p × p matrix."""
    rows, columns = np.tril_indices(p)
    return rows, columns


def symmetric(triangle: Array, p: int) -> Array:
    """A symmetric matrix from its lower triangle, row by row.

    Examples
    --------
    >>> symmetric(np.array([1.0, 2.0, 3.0]), 2).tolist()
    [[1.0, 2.0], [2.0, 3.0]]
    """
    matrix = np.empty((p, p))
    rows, columns = lower_triangle(p)
    matrix[rows, columns] = triangle
    matrix[columns, rows] = triangle
    return matrix


def read_request(total: Array) -> int:
    """The largest request of any process, from how many ask for each.

    Examples
    --------
    >>> read_request(np.array([0.0, 2.0, 0.0, 0.0])), read_request(np.zeros(4))
    (2, 0)
    """
    asked = np.flatnonzero(total)
    return int(asked[-1]) + 1 if asked.size else 0


@dataclass(frozen=True)
class Layout:
    """A message with so many trials, of which the first few come with a Jacobian.

    ``bound`` says whether the matrix M of upper bounds travels, ``rows`` whether instead of M its
    diagonal does, and a bound of its largest eigenvalue; ``directions`` how many directions are
    examined, ``setup`` whether the agents say how many variables they have, and how many agents
    are not strongly convex. A matrix is its lower triangle,
    row by row, or the ``stored`` entries of it that some agent has.
    """

    p: int
    trials: int
    jacobians: int
    bound: bool = False
    directions: int = 0
    setup: bool = False
    rows: bool = False
    stored: int | None = None

    @property
    def triangle(self) -> int:
        """Numbers of one matrix."""
        return triangle_size(self.p) if self.stored is None else self.stored

    @property
    def trial(self) -> int:
        """Numbers of one trial without its Jacobian."""
        return 2 * self.p + TRIAL_SCALARS

    @cached_property
    def schema(self) -> Schema:
        """The fields of the message."""
        return Schema(
            {
                "trials": self.trials * self.trial,
                "jacobians": self.jacobians * self.triangle,
                "bound": self.triangle if self.bound else self.p + 1 if self.rows else 0,
                "directions": self.directions * DIRECTION_SCALARS,
                "variables": int(self.setup),
                "weak_agents": int(self.setup),
                "requests": REQUESTS,
            }
        )

    def start(self, name: str) -> int:
        """Where a field begins."""
        return int(self.schema[name].start)

    @property
    def width(self) -> int:
        """Numbers in all."""
        return self.schema.width

    def columns(self, entries: Array) -> Array:
        """Where the numbers of a message stand that has only these entries of every matrix.

        Examples
        --------
        >>> layout = Layout(2, 1, 1)
        >>> layout.width, layout.columns(np.array([0, 2])).tolist()[-7:]
        (18, [10, 11, 13, 14, 15, 16, 17])
        """
        first, end = self.start("jacobians"), self.start("bound" if self.rows else "directions")
        matrices = np.arange(first, end, self.triangle)[:, None] + entries
        return np.concatenate([np.arange(first), matrices.ravel(), np.arange(end, self.width)])

    # -- reading a total --------------------------------------------------------------------------
    def read_trials(self, total: Array) -> tuple[Array, Array, Array]:
        """S, Σ|A_i||x_i| and scalars of every trial."""
        rows = total[self.schema["trials"]].reshape(self.trials, self.trial)
        return rows[:, : self.p], rows[:, self.p : 2 * self.p], rows[:, 2 * self.p :]

    def read_jacobian(self, total: Array, trial: int) -> Array | None:
        """Σ A_i J_i A_iᵀ of a trial, None if it did not travel."""
        if trial >= self.jacobians:
            return None
        triangle = triangle_size(self.p)
        first = self.start("jacobians") + trial * triangle
        return symmetric(total[first : first + triangle], self.p)

    def read_diagonals(self, total: Array) -> Array | None:
        """The diagonal of Σ A_i J_i A_iᵀ of every trial, None unless all have travelled."""
        if self.jacobians < self.trials:
            return None
        halves = total[self.schema["jacobians"]].reshape(self.trials, triangle_size(self.p))
        return halves[:, np.cumsum(np.arange(1, self.p + 1)) - 1]

    def read_bound(self, total: Array) -> Array:
        """M = Σ A_i (H_i + r_i I)⁻¹ A_iᵀ, or what is known of it."""
        bound = total[self.schema["bound"]]
        return bound.copy() if self.rows else symmetric(bound, self.p)

    def read_directions(self, total: Array) -> Array:
        """One row of numbers per direction."""
        return total[self.schema["directions"]].reshape(self.directions, DIRECTION_SCALARS)

    def read_setup(self, total: Array) -> dict[str, float]:
        """How many variables the agents have together, and how many are not strongly convex."""
        message = self.schema.unpack(total)
        return {name: message.number(name) for name in ("variables", "weak_agents")}

    def read_request(self, total: Array) -> int:
        """The largest request of any process."""
        return read_request(total[self.schema["requests"]])
