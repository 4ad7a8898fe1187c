"""The slots that the compiled loop and the formulas of the single-loop solvers share.

The subproblem is min_x max_y f(x) + g(x) + yᵀ𝐀x - g₁(y) - g₂(y) with, on the rows of the agents,
g₁(y) = (ρ/2)yᵀ𝐂y + zᵀy (+ h*/n if it enters by its gradient) and g₂ = h*/n (if by its prox). One
iteration of agent i is a fixed sequence of oracles, each fed by a stage of the solver:

    POINTS  → X[XG] = ∇f_i(X[XQ]),  Y[YH] = ∇g₁(Y[YQ]), where Y[CQ] is 𝐂 times Y[YQ]
    PULL    → X[XZ] = A_iᵀ Y[YZ]                 (solvers that ask for it)
    PRIMAL  → X[XP] = prox_{tx·g_i}(X[XA])
    COUPLE  → Y[AX] = A_i X[XB]
    PUSH    → Y[AZ] = A_i X[XW]                  (solvers that ask for it)
    DUAL    → Y[YP] = prox_{ty·g₂}(Y[YA])
    BACK    → X[AY] = A_iᵀ Y[YB]
    FINISH  → the message Y[MSG] is exchanged: Y[CM] = 𝐂Y[MSG]
    SETTLE  → output X[XO], Y[YO], and Y[CO] = 𝐂Y[YO]

A solver is a function ``combine(stage, i, a, b, k, X, Y, S)`` that forms the next operand from the
slots of its rows: X[s, a:b] are the agent's primal vectors, Y[s, i] its dual ones, S[i] its
scalars, k the iteration on the present subproblem. On entry to a subproblem AX = A x, AY = Aᵀy and
CO = 𝐂y.
"""

POINTS, PULL, PRIMAL, COUPLE, PUSH, DUAL, BACK, FINISH, SETTLE = range(9)

XQ, XG, XZ, XA, XP, XB, XW, AY, XO, X1, X2, X3, X_SLOTS = range(13)
"""Slots of primal vectors; X1, X2, X3 are the solver's own."""

MSG, CM, YQ, CQ, YH, YZ, YA, YP, AX, AZ, YB, YO, CO, Y1, Y2, Y3, Y4, Y_SLOTS = range(18)
"""Slots of dual rows; Y1 … Y4 are the solver's own."""

TX, TY, LX, MX, LY, MY, MG, SM, S1, S2, S3, S4, S5, S6, S7, S8, S_SLOTS = range(17)
"""Scalars per row: prox steps, L_x, μ_x, L_y, μ_y, the part of μ_y that sits in g₁, σ̄(A), own."""
