"""The iterations of the saddle solvers in plain NumPy, written from their formulas."""

import math

import numpy as np

import dual2 as d2
import saddles

ITERATIONS = 20


def soft(v, t):
    return np.sign(v) * np.maximum(np.abs(v) - t, 0.0)


def clip(v, t):
    return np.clip(v, -1.0, 1.0)


def none(v, t):
    return v


def setting(strong=True, prox=True):
    """Small problem: f₁, g₁ quadratic, f₂ = |·|₁, g₂ = box; gradients and proxes as functions."""
    rng = np.random.default_rng(11)
    P, Q = saddles.positive(rng, 6, 1.0, 30.0), saddles.positive(rng, 4, 0.5, 8.0)
    Q = Q if strong else saddles.positive(rng, 4, 0.5, 8.0, rank=3)
    B, q, r = rng.standard_normal((4, 6)), 3 * rng.standard_normal(6), rng.standard_normal(4)
    functions = (
        d2.Quadratic(P, q),
        d2.L1Norm(1.0) if prox else None,
        B,
        d2.Quadratic(Q, r),
        d2.IndicatorBox(-1.0, 1.0) if prox else None,
    )
    numbers = {"Lx": 30.0, "mx": 1.0, "Ly": 8.0, "my": 0.5 if strong else 0.0}
    numbers |= {"S": np.linalg.norm(B, 2), "s": np.linalg.svd(B)[1][-1]}
    start = rng.standard_normal(6), rng.uniform(-1, 1, 4)
    f, g = (lambda x: P @ x + q), (lambda y: Q @ y + r)
    return functions, f, g, B, start, numbers, ((soft, clip) if prox else (none, none))


def plain_pdpg(f, g, B, x, y, n, proxes):
    al, be = 1 / n["Lx"], 1 / (n["Ly"] + n["S"] ** 2 / n["mx"])
    for _ in range(ITERATIONS):
        x = proxes[0](x - al * (f(x) + B.T @ y), al)
        y = proxes[1](y - be * (g(y) - B @ x), be)
    return x, y


def plain_lpd(f, g, B, x, y, n, proxes):
    mx, my, Lx, Ly, S = (n[key] for key in ("mx", "my", "Lx", "Ly", "S"))
    fh, gh = (lambda u: f(u) - mx * u), (lambda u: g(u) - my * u)
    xo, yo, xb, yb = x, y, x, y
    p = po = fh(x)
    q = qo = gh(y)
    for k in range(ITERATIONS):
        if my > 0:
            ax, ay, c = np.sqrt(Lx / mx - 1), np.sqrt(Ly / my - 1), 2 * S / np.sqrt(mx * my)
            th = 1 / (1 + 1 / (ax + c + ay))
            sx, sy, wx, wy = 1 / (mx * (ax + c)), 1 / (my * (ay + c)), 1 / ax, 1 / ay
        else:
            th = k / (k + 1)
            sx = 1 / (2 * (Lx - mx) / (k + 1) + k * mx / 2)
            sy = (k + 1) / (2 * Ly + 16 * S**2 / mx)
            wx = wy = 2 / k if k else np.inf
        u = x - sx * (B.T @ (y + th * (y - yo)) + p + th * (p - po))
        v = y + sy * (B @ (x + th * (x - xo)) - q - th * (q - qo))
        xo, yo, po, qo = x, y, p, q
        x = proxes[0](u / (1 + sx * mx), sx / (1 + sx * mx))
        y = proxes[1](v / (1 + sy * my), sy / (1 + sy * my))
        xb = (xb + wx * x) / (1 + wx) if np.isfinite(wx) else x
        yb = (yb + wy * y) / (1 + wy) if np.isfinite(wy) else y
        p, q = fh(xb), gh(yb)
    return (x, y) if my > 0 else (xb, yb)


def plain_abpd(f, g, B, x, y, n, proxes):
    mx, my, Lx, Ly, S = (n[key] for key in ("mx", "my", "Lx", "Ly", "S"))
    v, w, wo = x, y, y
    ga, be, ao = mx, my if my > 0 else Ly + S**2 / mx, 0.0
    for _ in range(ITERATIONS):
        a = min(np.sqrt(ga / (2 * Lx)), np.sqrt(be / (2 * Ly)), np.sqrt(ga * be) / (2 * S))
        rho = ao / (a * (1 + ao))
        wh = w + rho * (w - wo)
        xb, t = (x + a * v) / (1 + a), 1 / (mx + ga / a)
        v = proxes[0](t * (mx * xb + ga / a * v - f(xb) - B.T @ wh), t)
        x = (x + a * v) / (1 + a)
        yb, t = (y + a * w) / (1 + a), 1 / (my + be / a)
        wo, w = w, proxes[1](t * (my * yb + be / a * w - g(yb) + B @ v), t)
        y = (y + a * w) / (1 + a)
        ga, be, ao = (ga + a * mx) / (1 + a), (be + a * my) / (1 + a), a
    return x, y


def apdg_numbers(n, kind):
    """(ax, ay, sx, sy, de, rate, which betas are active) of a parameter set."""
    mx, my, Lx, Ly, S, m = (n[key] for key in ("mx", "my", "Lx", "Ly", "S", "s"))
    if kind == "strong":
        sx, sy = np.sqrt(mx / (2 * Lx)), np.sqrt(my / (2 * Ly))
        rate = 4 + 4 * max(np.sqrt(2 * Lx / mx), np.sqrt(2 * Ly / my), 4 * S / np.sqrt(mx * my))
        return mx, my, sx, sy, np.sqrt(my / mx), rate, (0, 0)
    if kind == "square":
        s = min(1, np.sqrt(m**2 / (4 * Lx * Ly)))
        rate = 2 + 8 * max(np.sqrt(Lx * Ly) * S / m**2, S**2 / m**2)
        return 0, 0, s, s, np.sqrt(Ly / Lx), rate, (1, 1)
    sy = min(1, np.sqrt(m**2 / (4 * Lx * Ly))) if Ly > 0 else 1
    rate = 4 + 8 * max(np.sqrt(Lx * Ly) / m, S / m * np.sqrt(Lx / mx), S**2 / m**2)
    return mx, 0, np.sqrt(mx / (2 * Lx)), sy, np.sqrt(m**2 / (2 * mx * Lx)), rate, (0, 1)


def plain_apdg(f, g, B, x, y, n, kind):
    Lx, Ly, S = n["Lx"], n["Ly"], n["S"]
    ax, ay, sx, sy, de, rate, active = apdg_numbers(n, kind)
    th, tx, ty = 1 - 1 / rate, 1 / (1 / sx + 0.5), 1 / (1 / sy + 0.5)
    ex = min(1 / (4 * (ax + Lx * sx)), de / (4 * S))
    ey = min(1 / (4 * (ay + Ly * sy)) if ay + Ly * sy else np.inf, 1 / (4 * S * de))
    bx = min(1 / (2 * Ly) if Ly else np.inf, 1 / (2 * ex * S**2)) * active[0]
    by = min(1 / (2 * Lx), 1 / (2 * ey * S**2)) * active[1]
    xf, yf, yo = x, y, y
    for _ in range(ITERATIONS):
        ym, xg, yg = y + th * (y - yo), tx * x + (1 - tx) * xf, ty * y + (1 - ty) * yf
        G, H = f(xg), g(yg)
        xn = x + ex * (ax * (xg - x) - bx * B.T @ (B @ x - H) - (G + B.T @ ym))
        yn = y + ey * (ay * (yg - y) - by * B @ (B.T @ y + G) - (H - B @ xn))
        xf, yf = xg + sx * (xn - x), yg + sy * (yn - y)
        x, y, yo = xn, yn, y
    return x, y


def plain_salim(f, B, b, x, y, n):
    L, mu, l1, l2 = n["Lx"], n["mx"], n["S"] ** 2, n["s"] ** 2
    N, tau = math.ceil(np.sqrt(l1 / l2)), min(1, np.sqrt(19 / (15 * L / mu)) / 2)
    eta = 1 / (4 * tau * L)
    th, xf = 15 / (19 * eta), x
    rho, nu = (l1 - l2) ** 2 / 16, (l1 + l2) / 2
    for _ in range(ITERATIONS):
        xg = tau * x + (1 - tau) * xf
        xh = (x - eta * (f(xg) - mu * xg + B.T @ y)) / (1 + eta * mu)
        ga, s = -nu / 2, -(B @ xh - b) / nu
        z, total = xh + B.T @ s, s
        for _ in range(N - 1):
            bt = rho / ga
            ga = -(nu + bt)
            s = (B @ z - b + bt * s) / ga
            z, total = z + B.T @ s, total + s
        y = y - th * total
        xn = xh - eta * th * (xh - z) / (1 + eta * mu)
        xf = xg + 2 * tau / (2 - tau) * (xn - x)
        x = xn
    return xf, y
