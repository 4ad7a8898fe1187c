"""Dense matrices of few entries as sparse ones, for kernels whose work grows with the entries."""

import numpy as np

from dual2.engine.local import DENSE_A, SPARSE_A
from dual2.engine.pack import SPARSE_BELOW, PackedBlock


def sparsified(block: PackedBlock) -> PackedBlock:
    """The same agents; A_i that are kept dense but have few entries are read as sparse.

    Examples
    --------
    >>> import dual2 as d2
    >>> from dual2.engine.pack import pack
    >>> agents = [d2.Agent(np.eye(8), d2.SquaredNorm(1.0)), d2.Agent(np.ones((8, 1)), d2.Zero())]
    >>> sparsified(pack(d2.Problem(agents, d2.Zero())).block).akind.tolist()
    [1, 0]
    """
    if not (block.akind == DENSE_A).any():
        return block
    p, dims = block.cols.shape[1], np.diff(block.xptr)
    owner = np.repeat(np.arange(len(dims)), dims)
    dense = np.flatnonzero(block.akind[owner] == DENSE_A)
    counts = np.count_nonzero(block.cols, axis=1)[block.place[dense, 0]]
    entries = np.bincount(owner[dense], counts, len(dims))
    few = (block.akind == DENSE_A) & (entries < SPARSE_BELOW * p * dims)
    if not few.any():
        return block
    chosen = few[owner[dense]]
    columns, counts = dense[chosen], counts[chosen]
    own = block.cols[block.place[columns, 0]]
    row, index = np.nonzero(own)
    ends = len(block.sval) + np.cumsum(counts)
    place, akind = block.place.copy(), np.where(few, SPARSE_A, block.akind)
    place[columns] = np.column_stack([ends - counts, ends])
    return block._replace(
        akind=akind,
        place=place,
        sval=np.concatenate([block.sval, own[row, index]]),
        sidx=np.concatenate([block.sidx, index.astype(np.int64)]),
    )
