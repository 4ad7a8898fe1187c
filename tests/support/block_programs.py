"""Block forms as cone programs for CLARABEL: an independent reading of the data types."""

from typing import NamedTuple

import clarabel
import numpy as np
import scipy.sparse as sp

from dual2.conic.blocks import BlockForm, Cone
from dual2.conic.curvature import dense_curvature

CONES = {
    Cone.ZERO: clarabel.ZeroConeT,
    Cone.NONNEGATIVE: clarabel.NonnegativeConeT,
    Cone.SECOND_ORDER: clarabel.SecondOrderConeT,
}


class Program(NamedTuple):
    """min ½wᵀPw + qᵀw + constant  s.t.  Gw + s = d, s in cones, for w = (x, pieces, extra)."""

    P: np.ndarray
    q: np.ndarray
    G: sp.csr_array
    d: np.ndarray
    cones: list
    constant: float

    def solve(self, dim: int) -> tuple[float, np.ndarray]:
        """Value and x; inf if there is no feasible point."""
        P, G = sp.csc_array(np.triu(self.P)), sp.csc_array(self.G)
        for tolerance in (1e-11, 1e-9, 1e-8):
            settings = clarabel.DefaultSettings()
            settings.verbose = False
            for name in ("tol_feas", "tol_gap_abs", "tol_gap_rel", "tol_ktratio"):
                setattr(settings, name, tolerance)
            found = clarabel.DefaultSolver(P, self.q, G, self.d, self.cones, settings).solve()
            if "PrimalInfeasible" in str(found.status) or found.r_prim > 1e-4:
                return np.inf, np.full(dim, np.nan)
            if str(found.status) == "Solved":
                return found.obj_val + self.constant, np.array(found.x[:dim])
        raise AssertionError(f"CLARABEL ends with {found.status}")


def outside(b: BlockForm, x: np.ndarray) -> bool:
    """Whether x is outside the open domain of a smooth term."""
    parts = [(x[term.at], term.lower, term.upper) for term in b.smooth]
    low = any(np.any(at <= lower) for at, lower, _ in parts if lower is not None)
    return low or any(np.any(at >= upper) for at, _, upper in parts if upper is not None)


def at_point(b: BlockForm, x: np.ndarray) -> float:
    """The value at x: the best pieces and extra variables for it."""
    if outside(b, x):
        return np.inf
    program = assemble(b, smooth_at=None)
    fixed = sp.hstack([sp.eye_array(b.dim), sp.csr_array((b.dim, len(program.q) - b.dim))])
    G, d = sp.vstack([fixed, program.G]), np.concatenate([x, program.d])
    cones = [clarabel.ZeroConeT(b.dim), *program.cones]
    smooth = sum(term.expand(x[term.at]).value for term in b.smooth)
    return program._replace(G=sp.csr_array(G), d=d, cones=cones).solve(b.dim)[0] + smooth


def prox_at(b: BlockForm, v: np.ndarray, step: float, near: np.ndarray) -> np.ndarray:
    """prox_{step·f}(v), smooth terms by their tangents at ``near``; exact if that is the prox."""
    program = assemble(b, smooth_at=near)
    P, q = program.P.copy(), program.q.copy()
    P[range(b.dim), range(b.dim)] += 1.0 / step
    q[: b.dim] -= v / step
    return program._replace(P=P, q=q).solve(b.dim)[1]


def assemble(b: BlockForm, smooth_at: np.ndarray | None) -> Program:
    """The program without smooth terms, or with their tangents."""
    pieces = 0 if b.pieces is None else len(b.pieces.slope)
    n = b.dim + pieces + b.extra
    P, q = np.zeros((n, n)), np.zeros(n)
    P[: b.dim, : b.dim] = dense_curvature(b.H, b.dim)
    q[: b.dim] = 0.0 if b.q is None else b.q
    q[b.dim + pieces :] = b.cost
    for term in b.smooth if smooth_at is not None else ():
        q[: b.dim][term.at] += term.expand(smooth_at[term.at]).gradient
    G, d, cones = [sp.csr_array((0, n))], [np.zeros(0)], []
    if b.pieces is not None:
        v = slice(b.dim, b.dim + pieces)
        P[v, v], q[v] = np.diag(b.pieces.curvature), b.pieces.slope
        add_pieces(b, G, d, cones)
    for rows in b.rows:
        middle = sp.csr_array((len(rows.rhs), pieces))
        G.append(sp.hstack([rows.on_x, middle, rows.on_extra]))
        d.append(rows.rhs)
        cones.append(CONES[rows.cone](len(rows.rhs)))
    return Program(P, q, sp.csr_array(sp.vstack(G)), np.concatenate(d), cones, b.constant)


def add_pieces(b: BlockForm, G: list, d: list, cones: list) -> None:
    """x - Σ pieces = start, and the bounds of the pieces."""
    m = len(b.pieces.slope)
    member = sp.csr_array((np.ones(m), (b.pieces.coordinate, np.arange(m))), shape=(b.dim, m))
    for at, rhs, kind in (
        (sp.hstack([sp.eye_array(b.dim), -member]), b.pieces.start, clarabel.ZeroConeT),
        (bounds(b, b.pieces.upper, 1.0), finite(b.pieces.upper), clarabel.NonnegativeConeT),
        (bounds(b, b.pieces.lower, -1.0), -finite(b.pieces.lower), clarabel.NonnegativeConeT),
    ):
        G.append(sp.hstack([at, sp.csr_array((at.shape[0], b.extra))]))
        d.append(rhs)
        cones.append(kind(len(rhs)))


def bounds(b: BlockForm, bound: np.ndarray, sign: float) -> sp.csr_array:
    """±v for the pieces with a finite bound."""
    on_pieces = sign * sp.eye_array(len(bound), format="csr")[np.isfinite(bound)]
    return sp.hstack([sp.csr_array((on_pieces.shape[0], b.dim)), on_pieces])


def finite(bound: np.ndarray) -> np.ndarray:
    """The finite ones."""
    return bound[np.isfinite(bound)]
