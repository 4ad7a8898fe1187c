"""Columns of the other parties, mixed at random, for the holder of the labels alone.

Let K be the number of columns of all parties but the holder. Party i draws a private random matrix
Z_i (columns of the party times K) and adds W_i = X_i Z_i and N_i = Z_iᵀZ_i to two masked sums that
only the holder can read. With W = Σ W_i, N = Σ N_i = LLᵀ the holder gets U = W L⁻ᵀ. That is the
table of all other columns in an unknown rotation: an estimator that sees U and the holder's own
columns has the same loss and the same penalty |w|² as on the joined table. Its coefficients v of U
give c = L⁻ᵀv, and party i has w_i = Z_i c. The labels never leave the holder.

Nothing else that is quadratic in the columns is sent. Two quadratic forms of the same columns with
different weights would be a matrix pencil, whose eigenvectors undo the rotation.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from dual2.errors import Refusal
from dual2.learn.vertical.party_file import LearnParty
from dual2.learn.vertical.receiver_sums import sum_for, sum_table_for
from dual2.runtime.peers.parties import Parties

Array = np.ndarray
_MIXING_STREAM = 2**62 + 8
"""Number of the private random words from which the mixing matrix is made."""
_MATRIX_SUM, _WIDE_SUM = 8, 9
"""Numbers of the sums of N and of wide words among the sums for one receiver."""
MAX_MIXED_NUMBERS = 400_000_000
"""Most numbers of W: 3.2 GB at the holder."""


@dataclass(frozen=True)
class MixedColumns:
    """What the holder knows of the others: U, and the matrix that turns v into c."""

    rotated: Array  # U, one row per training row
    back: Array  # L⁻ᵀ: c = back @ v

    def directions(self, v: Array) -> Array:
        """c for the coefficients v of U, (K, outputs)."""
        return self.back @ v


def standard_normal(words: Array) -> Array:
    """Independent standard normal numbers from uniform 64-bit words (Box and Muller, 1958).

    Examples
    --------
    >>> standard_normal(np.array([0, 2**63], dtype=np.uint64)).shape
    (2,)
    """
    uniform = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    half = len(uniform) // 2
    radius, angle = np.sqrt(-2.0 * np.log(uniform[:half])), 2.0 * np.pi * uniform[half : 2 * half]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])


def draw_mixing(transport: Parties, columns: int, count: int) -> Array:
    """Z_i of this party and run; it follows from a key that is deleted when the run is over."""
    words = transport.own.words(_MIXING_STREAM, 2 * -(-columns * count // 2))
    return standard_normal(words)[: columns * count].reshape(columns, count)


def count_mixed(own: LearnParty, transport: Parties, columns: int, rows: int) -> int:
    """K, the number of columns of all parties but the holder; an error if W would be too large."""
    mine = 0.0 if own.holds_labels else float(columns)
    count = round(float(transport.sum(np.array([[mine]]), own.study.network)[0]))
    if rows * count > MAX_MIXED_NUMBERS:
        told = f"{rows} rows times {count} columns exceed {MAX_MIXED_NUMBERS} numbers."
        raise Refusal(
            f"{told} Merge rare categories, train on fewer rows, or choose another learn.method.",
            told,
        )
    return count


def mix_columns(own: LearnParty, transport: Parties, table: Array, Z: Array) -> MixedColumns | None:
    """One sum of tables and one of matrices; what the holder makes of them, None elsewhere.

    ``table`` and ``Z`` are this party's own; the holder brings none. Numbers that are not
    standardised travel in words of 128 bits.
    """
    learning, count = own.study.learning, Z.shape[1]
    lower, part = np.tril_indices(count), table @ Z
    if learning.standardize:
        W = sum_table_for(own, transport, part, learning.holder)
    else:
        numbers = sum_for(own, transport, part.ravel(), learning.holder, _WIDE_SUM)
        W = numbers.reshape(part.shape)
    numbers = sum_for(own, transport, (Z.T @ Z)[lower], learning.holder, _MATRIX_SUM)
    if not own.holds_labels:
        return None
    N = np.zeros((count, count))
    N[lower] = numbers
    factor = np.linalg.cholesky(N + np.tril(N, -1).T)
    back = solve_triangular(factor, np.eye(count), lower=True).T
    return MixedColumns(W @ back, np.ascontiguousarray(back))
