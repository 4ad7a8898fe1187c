"""Reader of the MATLAB files of the Maros–Mészáros test set as benchmarks of QP solvers keep it."""

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from dual2.errors import ProblemError
from dual2.models.builder import infinite
from dual2.models.model import Model


def read_mat(path: str | Path) -> Model:
    """Read a .mat file with P, q, r, A, l, u: ½xᵀPx + qᵀx + r subject to l ≤ Ax ≤ u.

    The last n rows of A are the identity: bounds of the variables. If they are not, all rows are
    constraints and the variables are free. Variables are called x0, x1, …, constraints r0, r1, ….

    Parameters
    ----------
    path : str or Path
        The file.

    Raises
    ------
    ProblemError
        If an array is missing or has a shape that does not fit.
    """
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    path = Path(path)
    try:
        found = loadmat(path)
    except (OSError, ValueError, TypeError, NotImplementedError, MatReadError) as error:
        raise ProblemError(f"{path} cannot be read as a MATLAB file: {error}") from error
    missing = [key for key in ("P", "q", "A", "l", "u") if key not in found]
    if missing:
        raise ProblemError(f"{path.name} lacks {', '.join(missing)}; expected P, q, r, A, l, u.")
    A, P = sp.csr_array(found["A"], dtype=float), sp.csc_array(found["P"], dtype=float)
    q, lower, upper = (infinite(np.ravel(found[key]).astype(float)) for key in ("q", "l", "u"))
    n, m = len(q), A.shape[0]
    if A.shape[1] != n or P.shape != (n, n) or len(lower) != m or len(upper) != m:
        raise ProblemError(
            f"{path.name}: P {P.shape}, q ({n},), A {A.shape}, l ({len(lower)},), u "
            f"({len(upper)},) do not fit together."
        )
    rows = m - n
    if rows < 0 or (A[rows:] - sp.eye_array(n, format="csr")).nnz:
        rows, box = m, (np.full(n, -np.inf), np.full(n, np.inf))
    else:
        box = lower[rows:], upper[rows:]
    return Model.from_arrays(
        q, A[:rows], lower[:rows], upper[:rows], Q=_symmetric(P, path), lower=box[0], upper=box[1],
        constant=float(np.ravel(found.get("r", 0.0))[0]), name=path.stem,
    )  # fmt: skip


def _symmetric(P: sp.csc_array, path: Path) -> sp.csc_array:
    """P, or both triangles where the file has the upper one alone."""
    if abs(P - P.T).max() <= 1e-10 * max(abs(P).max(), 1e-300):
        return P
    if sp.tril(P, -1).nnz == 0:
        return sp.csc_array(P + sp.triu(P, 1).T)
    raise ProblemError(f"{path.name}: P is neither symmetric nor an upper triangle.")
