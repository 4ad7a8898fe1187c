"""Gaussian elimination with row pivots, compiled: small systems inside the agents' solvers."""

from dual2.compiled import compiled


@compiled
def solve_general(matrix, right, size):
    """Solve the leading size × size system in place by elimination with row pivots.

    False if the matrix is singular to working precision.
    """
    for j in range(size):
        pivot = j
        for k in range(j + 1, size):
            if abs(matrix[k, j]) > abs(matrix[pivot, j]):
                pivot = k
        if not abs(matrix[pivot, j]) > 1e-300:
            return False
        if pivot != j:
            right[j], right[pivot] = right[pivot], right[j]
            for m in range(j, size):
                matrix[j, m], matrix[pivot, m] = matrix[pivot, m], matrix[j, m]
        for k in range(j + 1, size):
            factor = matrix[k, j] / matrix[j, j]
            if factor != 0.0:
                right[k] -= factor * right[j]
                for m in range(j + 1, size):
                    matrix[k, m] -= factor * matrix[j, m]
    for j in range(size - 1, -1, -1):
        for k in range(j + 1, size):
            right[j] -= matrix[j, k] * right[k]
        right[j] /= matrix[j, j]
    return True


@compiled
def solve_many(matrix, right, size):
    """Solve the leading size × size system for all columns of ``right``, in place."""
    width = right.shape[1]
    for j in range(size):
        pivot = j
        for k in range(j + 1, size):
            if abs(matrix[k, j]) > abs(matrix[pivot, j]):
                pivot = k
        if not abs(matrix[pivot, j]) > 1e-300:
            return False
        if pivot != j:
            for m in range(size):
                matrix[j, m], matrix[pivot, m] = matrix[pivot, m], matrix[j, m]
            for m in range(width):
                right[j, m], right[pivot, m] = right[pivot, m], right[j, m]
        for k in range(j + 1, size):
            factor = matrix[k, j] / matrix[j, j]
            if factor != 0.0:
                for m in range(j + 1, size):
                    matrix[k, m] -= factor * matrix[j, m]
                for m in range(width):
                    right[k, m] -= factor * right[j, m]
    for j in range(size - 1, -1, -1):
        for m in range(width):
            total = right[j, m]
            for k in range(j + 1, size):
                total -= matrix[j, k] * right[k, m]
            right[j, m] = total / matrix[j, j]
    return True
