"""What double precision can promise: tolerances that follow from the data, not from one machine.

A sum of m products a_k b_k, added in any order, is off by at most m·ε·Σ|a_k b_k| (Higham,
*Accuracy and Stability of Numerical Algorithms*, 2002, section 3.1). Where terms cancel, that is
much more than ε times the result, and how much of it shows depends on the processor's BLAS.
"""

import numpy as np

import dual2 as d2

EPS = float(np.finfo(float).eps)


def product_rounding(A: np.ndarray, B: np.ndarray) -> float:
    """What the order of summation may change in AB: (m + 1)·ε·max |A||B| for m terms."""
    return float((A.shape[1] + 1) * EPS * (np.abs(A) @ np.abs(B)).max())


def eigenvalue_rounding(C: np.ndarray) -> float:
    """What LAPACK promises of an eigenvalue of a symmetric matrix: a small multiple of n·ε·‖C‖₂."""
    return float(4 * len(C) * EPS * np.linalg.norm(C, 2))


def kkt_rounding(problem: d2.Problem, x: list[np.ndarray], lam: np.ndarray) -> float:
    """The relative KKT residual that rounding alone may leave at an exact solution (x, λ).

    x and λ are rounded to double, A_iᵀλ and Σ A_i x_i are sums of p and of D products.
    """
    forces, errors, loads = [], [], []
    for agent, part in zip(problem.agents, x, strict=True):
        A, gradient = np.asarray(agent.A), agent.f.grad(part)
        forces += [np.linalg.norm(gradient), np.linalg.norm(A.T @ lam)]
        errors.append(np.linalg.norm(np.abs(gradient) + np.abs(A).T @ np.abs(lam)))
        loads.append(np.abs(A) @ np.abs(part))
    s, load = problem.coupling(x), sum(loads)
    stationarity = (problem.p + 4) * EPS * max(errors) / max(forces)
    coupling = (sum(problem.dims) + 4) * EPS * np.linalg.norm(load + np.abs(s))
    return float(max(stationarity, coupling / np.linalg.norm(s)))
