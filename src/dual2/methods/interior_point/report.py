"""What agents put into the first exchange: vectors, and numbers for the termination test.

Squares are summed where a maximum would do, so that one sum carries everything.
"""

import numpy as np

from dual2.conic.block import SIGNS, Block, dot, dot2
from dual2.conic.linearisation import Linearisation, fold

Array = np.ndarray


def point_fields(lin: Linearisation) -> dict[str, Array]:
    """All fields but the Schur complement, a row or a number per agent."""
    block = lin.block
    fields = _objective_fields(lin) | _residual_fields(lin)
    fields |= {"product": block.A.apply(lin.point.v), "load": block.A.load(lin.point.v)}
    fields["AM_affine"] = block.product(lin.affine.M)
    if lin.outer.embedded:
        fields["first"] = lin.first
        fields["AMu"] = block.product(lin.Mu)
        fields["AMt"] = block.product(lin.system.solve(lin.weights))
        fields["scalar_affine"] = lin.scalar(lin.affine)
    return fields


def _objective_fields(lin: Linearisation) -> dict[str, Array]:
    """Terms of both objectives, and their sizes."""
    block, v, y = lin.block, lin.point.v, lin.point.y
    d = _rhs(block, lin)
    return {
        "vHv": dot(v, lin.Hv),
        "qv": dot(block.q, v),
        "gz": dot2(block.g, lin.point.z) + dot(d, y),
        "sz": dot2(lin.point.s, lin.point.z) + dot(lin.point.t, y),
        "magnitude_quadratic": dot(np.abs(v), _forces(lin)),
        "magnitude_linear": dot(np.abs(block.q), np.abs(v))
        + dot2(np.abs(block.g), lin.point.z)
        + dot(np.abs(d), np.abs(y)),
        "v_rd": dot(np.abs(v), np.abs(lin.rd)) + dot(np.abs(y), np.abs(lin.rt)),
    }


def _residual_fields(lin: Linearisation) -> dict[str, Array]:
    """Squares of residuals and of what they are judged by; rays and separators."""
    block, point, tau, d = lin.block, lin.point, lin.outer.tau, _rhs(lin.block, lin)
    ray = lin.rd - lin.Hv - block.q * tau - fold(point.z)
    side = np.where(ray > 0, -block.g[0], block.g[1])
    ends = np.where(ray > 0, block.bounded[0], block.bounded[1])
    inward, outward = np.where(ends, ray, 0.0), np.where(ends, 0.0, ray)
    pull = block.A.size.adjoint(np.abs(lin.outer.dual))
    force = np.maximum(_forces(lin), np.abs(block.q) * tau)
    force = np.maximum(np.maximum(force, pull), point.z.sum(axis=0))
    crossed = np.where(block.bounded, np.maximum(SIGNS * point.v, 0.0), 0.0)
    missed = lin.rt + d * tau
    if lin.rows is not None:
        missed = np.where(lin.rows.rows.equation, missed, np.maximum(missed - point.t, 0.0))
    return {
        "support": dot(inward, side) - dot(d, point.y),
        "outward2": dot(outward, outward),
        "rd2": dot(lin.rd, lin.rd),
        "force2": dot(force, force),
        "rd2_user": dot(lin.rd / block.columns, lin.rd / block.columns),
        "force2_user": dot(force / block.columns, force / block.columns),
        "rs2": dot2(lin.rs, lin.rs) + dot(lin.rt, lin.rt),
        "size2": dot(point.v, point.v) + tau**2 * (dot2(block.g, block.g) + dot(d, d)),
        "Hv2": dot(lin.Hv, lin.Hv),
        "ray2": dot2(crossed, crossed) + dot(missed, missed),
        "v2": dot(point.v, point.v),
        "z2": dot2(point.z, point.z) + dot(point.y, point.y),
    }


def _forces(lin: Linearisation) -> Array:
    """|H||v|, or the gradient where smooth terms make it larger."""
    curved = lin.block.absolute_curve(lin.point.v)
    return np.maximum(curved, np.abs(lin.Hv)) if lin.block.smooth else curved


def _rhs(block: Block, lin: Linearisation) -> Array:
    """d of the private rows, (m, r)."""
    return np.zeros_like(lin.point.t) if block.rows is None else block.rows.rhs[None]
