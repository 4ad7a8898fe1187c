"""The network matrices of the NPGA family, and what they cost in messages.

With M = I - W, W = I - scale·C the mixing matrix of the network, every tabulated 𝐁² and 𝐂 is a
polynomial m₁M + m₂M², and 𝐃 = I - m₁M - m₂M². Matrices of the user's own are either such
polynomials or have the sparsity of the graph.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dual2.errors import CapabilityError
from dual2.network import AnyNetwork, Network

Array = np.ndarray
Powers = tuple[float, float]
_LARGEST = 300
"""Agents up to which the stability of given matrices is checked by their eigenvalues."""
_SAME = 1e-10


Shape = tuple[Powers, Powers, Powers]
"""Coefficients (m₁, m₂) of 𝐁², 𝐂 and I - 𝐃 as polynomials of M = I - W."""
_NONE = (0.0, 0.0)
SHAPES: dict[str, Shape] = {
    "NPGA-EXTRA": ((0.5, 0.0), (0.5, 0.0), _NONE),
    "NPGA-ED": ((0.5, 0.0), _NONE, (0.5, 0.0)),
    "NPGA-DIGing": ((0.0, 1.0), (2.0, -1.0), _NONE),
    "NPGA-ATC": ((0.0, 1.0), (1.0, 0.0), (1.0, 0.0)),
    "NPGA-AugDGM": ((0.0, 1.0), _NONE, (2.0, -1.0)),
    "NPGA-P2D2": ((1.0, 0.0), _NONE, (1.0, 0.0)),
    "NPGA-II": ((1.0, 0.0), (1.0, 0.0), (1.0, 0.0)),
    "DCDA": ((1.0, 0.0), _NONE, (1.0, 0.0)),
}
"""Matrices of the methods that depend on W alone."""


def nids(c: float) -> Shape:
    """NIDS: 𝐁² = c(I - W), 𝐂 = 0, 𝐃 = I - c(I - W); c = ½ is ED."""
    return (c, 0.0), _NONE, (c, 0.0)


@dataclass(frozen=True)
class Matrices:
    """𝐁², 𝐂 and I - 𝐃 as p₁L + p₂L², L a Laplacian with its own edge weights.

    ``weights`` (3, links) are in the order of ``network.neighbours``, ``powers`` (3, 2) the p₁, p₂;
    ``rounds`` and ``vectors`` count the messages of one iteration, ``answers`` the prox_{h*} of the
    busiest agent (its own, and one per neighbour where that replaces a message), ``first`` the
    rounds that a start from λ ≠ 0 costs, as neighbours need λ for 𝐂λ.
    """

    weights: Array
    powers: Array
    rounds: int
    vectors: int
    answers: int
    first: int


def mixing_scale(network: AnyNetwork) -> float:
    """The scale with W = I - scale·C positive semidefinite: 2, as in C = (I - W)/2, if it is.

    Examples
    --------
    >>> mixing_scale(Network([(0, 1), (1, 2)]))
    2.0
    """
    top = float(network.lambda_max)
    return 2.0 if top <= 0.5 * (1 + _SAME) else 1.0 / top


def from_shape(network: AnyNetwork, shape: Shape, scale: float) -> Matrices:
    """Polynomials of M = scale·C."""
    data = network.neighbours[2]
    powers = np.array(shape) * [scale, scale**2]
    return _count(network, np.tile(data, (3, 1)), powers)


def from_laplacian(network: AnyNetwork, factor: float) -> Matrices:
    """DLM: 𝐁² = 𝐂 = factor·L, 𝐃 = I, with L the plain graph Laplacian."""
    if not isinstance(network, Network):
        raise CapabilityError(
            "NPGA-DLM uses the graph itself; give it a Network, not a polynomial."
        )
    powers = np.array([(factor, 0.0), (factor, 0.0), _NONE])
    return _count(network, np.ones((3, network.neighbours[1].size)), powers)


def from_arrays(
    network: AnyNetwork, B2: Array, C: Array | None, D: Array | None, scale: float
) -> Matrices:
    """Matrices of the user's own: n × n, symmetric, with 𝐁²1 = 𝐂1 = 0 and 𝐃1 = 1.

    Raises
    ------
    CapabilityError
        If one is neither m₁M + m₂M² nor of the graph's sparsity.
    """
    n = network.n
    found = {
        "B2": B2,
        "C": np.zeros((n, n)) if C is None else C,
        "D": np.eye(n) if D is None else D,
    }
    for name, matrix in found.items():
        _check(n, name, matrix)
    found["D"] = np.eye(n) - found["D"]
    read = [_read(network, name, matrix, scale) for name, matrix in found.items()]
    weights, powers = zip(*read, strict=True)
    if powers[2][1] and not np.array_equal(weights[0], weights[2]):
        raise CapabilityError(
            "D is of degree two in W but B2 is no polynomial of W. Give both as polynomials, or D "
            "with the graph's sparsity."
        )
    return _count(network, np.array(weights), np.array(powers))


def dense(name: str, matrix: Any) -> Array | None:
    """A given matrix as an array; None stays."""
    if matrix is None:
        return None
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix, dtype=float)


def _check(n: int, name: str, array: Array) -> None:
    """Refuse what is not n × n and symmetric with the right row sums."""
    if array.shape != (n, n) or not np.all(np.isfinite(array)):
        raise CapabilityError(f"{name} has shape {array.shape}; expected ({n}, {n}), finite.")
    size = max(1.0, float(np.abs(array).max()))
    if np.abs(array - array.T).max() > _SAME * size:
        raise CapabilityError(f"{name} is not symmetric.")
    total = 1.0 if name == "D" else 0.0
    wrong = np.abs(array.sum(axis=1) - total)
    if wrong.max() > _SAME * size * n:
        row = int(wrong.argmax())
        raise CapabilityError(
            f"Row {row} of {name} sums to {array[row].sum():g}; expected {total:g}."
        )


def _read(network: AnyNetwork, name: str, matrix: Array, scale: float) -> tuple[Array, Powers]:
    """Edge weights and coefficients of one matrix whose rows sum to zero."""
    indptr, indices, data = network.neighbours
    if not np.any(matrix):
        return data, _NONE
    step = scale * network.mix(np.eye(network.n))
    basis = np.column_stack([step.ravel(), (step @ step).ravel()])
    fit = np.linalg.lstsq(basis, matrix.ravel(), rcond=None)[0]
    size = np.abs(matrix).max()
    if np.abs(basis @ fit - matrix.ravel()).max() <= _SAME * size:
        fit[np.abs(fit) <= _SAME * size] = 0.0
        return data, (float(fit[0]) * scale, float(fit[1]) * scale**2)
    rows = np.repeat(np.arange(network.n), np.diff(indptr))
    outside = matrix - np.diag(np.diag(matrix))
    outside[rows, indices] = 0.0
    i, j = np.unravel_index(int(np.abs(outside).argmax()), outside.shape)
    if outside[i, j] != 0 or not isinstance(network, Network):
        raise CapabilityError(
            f"{name} is no polynomial m₁M + m₂M² of M = I - W, and its entry ({i}, {j}) = "
            f"{matrix[i, j]:g} does not belong to an edge. Give it the graph's sparsity, or build "
            "it from W = I - scale·C."
        )
    return np.ascontiguousarray(-matrix[rows, indices]), (1.0, 0.0)


def _count(network: AnyNetwork, weights: Array, powers: Array) -> Matrices:
    """Messages of one iteration.

    v and its products M v, … up to the degree of 𝐁² and 𝐃 are sent. For 𝐂λ nothing more is sent
    where the neighbours can compute λ_j = prox((𝐃v)_j) themselves: h is public, so v_j suffices
    if 𝐃 = I, and v_j with (Mv)_j if 𝐃 has degree one. With 𝐃 = I a second power of M in 𝐂 travels
    with the one of 𝐁²: (I - 𝐂)(λ - λ_prev) - γ𝐁²v is one vector.
    """
    b, c, d = ((2 if row[1] else 1 if row[0] else 0) for row in powers)
    sent = max(b, d)
    same = not d or np.array_equal(weights[0], weights[2])
    informed = sent > d and same and network.rounds == 1
    if c == 0:
        vectors = sent
    elif informed:
        vectors = max(sent, c) if d == 0 else sent + c - 1
    else:
        vectors = sent + c
    degree = int(np.diff(network.neighbours[0]).max(initial=0))
    answers = 1 + degree if c and informed else 1
    total = vectors * network.rounds
    weights, powers = np.ascontiguousarray(weights), np.ascontiguousarray(powers)
    return Matrices(weights, powers, total, total, answers, c * network.rounds)


def consensus_radius(network: AnyNetwork, matrices: Matrices, gamma: float) -> float:
    """Largest modulus of the modes of (v, s) that disagree, coupling aside; below 1 is stable.

    v⁺ = (I - 𝐂)𝐃v - s, s⁺ = s + γ𝐁²v⁺ on the complement of span(1). NaN for large networks.

    Examples
    --------
    >>> network = Network([(0, 1), (1, 2)])
    >>> matrices = from_shape(network, SHAPES["NPGA-ED"], 2.0)
    >>> consensus_radius(network, matrices, 1.0) < 1 < consensus_radius(network, matrices, 20.0)
    True
    """
    n = network.n
    if n > _LARGEST or n == 1:
        return 0.0 if n == 1 else float("nan")
    pairs = zip(matrices.weights, matrices.powers, strict=True)
    B, C, rest = (_entries(network, *pair) for pair in pairs)
    basis = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0][:, 1:]
    inside = lambda matrix: basis.T @ matrix @ basis  # noqa: E731
    eye = np.eye(n - 1)
    carry, gain = inside((np.eye(n) - C) @ (np.eye(n) - rest)), gamma * inside(B)
    block = np.block([[carry, -eye], [gain @ carry, eye - gain]])
    return float(np.abs(np.linalg.eigvals(block)).max())


def _entries(network: AnyNetwork, weights: Array, powers: Array) -> Array:
    """p₁L + p₂L² as an array."""
    n = network.n
    indptr, indices, data = network.neighbours
    if network.rounds > 1 or np.array_equal(weights, data):
        L = network.mix(np.eye(n))
    else:
        L = np.zeros((n, n))
        L[np.repeat(np.arange(n), np.diff(indptr)), indices] = -weights
        L -= np.diag(L.sum(axis=1))
    return powers[0] * L + powers[1] * L @ L
