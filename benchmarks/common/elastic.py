"""An elastic net whose columns belong to agents, and a centralised solution of it."""

import numpy as np


def elastic_net_data(
    agents: int, rows: int, dim: int, share: float, seed: int
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """X (rows × agents·dim), y, l1, l2."""
    rng = np.random.default_rng(seed)
    columns = agents * dim
    X = rng.standard_normal((rows, columns))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    truth = np.zeros(columns)
    chosen = rng.choice(columns, min(20, columns // 2 or 1), replace=False)
    truth[chosen] = rng.choice([-1.0, 1.0], len(chosen)) * rng.uniform(0.5, 2.0, len(chosen))
    signal = X @ truth
    y = signal + 0.1 * signal.std() * rng.standard_normal(rows)
    y = (y - y.mean()) / y.std()
    l1 = share * float(np.abs(X.T @ y).max()) / rows
    return X, y, l1, l1


def coordinate_descent(
    X: np.ndarray, y: np.ndarray, l1: float, l2: float, tol: float = 1e-13
) -> np.ndarray:
    """Cyclic coordinate descent for |Xθ-y|²/(2p) + l1|θ|₁ + (l2/2)|θ|², on an active set."""
    p, columns = X.shape
    theta, residual = np.zeros(columns), y.copy()
    X = np.asfortranarray(X)
    curvature = np.einsum("ij,ij->j", X, X) / p
    while True:
        slopes = X.T @ residual / p
        active = np.flatnonzero((theta != 0) | (np.abs(slopes) > l1))
        before = theta[active].copy()
        for _ in range(10_000):
            change = 0.0
            for j in active:
                old, column = theta[j], X[:, j]
                u = column @ residual / p + curvature[j] * old
                theta[j] = np.sign(u) * max(abs(u) - l1, 0.0) / (curvature[j] + l2)
                residual += (old - theta[j]) * column
                change = max(change, abs(theta[j] - old))
            if change <= tol:
                break
        if np.abs(theta[active] - before).max(initial=0.0) <= 10 * tol:
            return theta
