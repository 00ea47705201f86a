"""Polynomials over GF(65497), many at a time. Products of two elements fit in 32 bits, so uint32 is enough."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from stannary.toploc.proof import PRIME

U32 = npt.NDArray[np.uint32]
P = np.uint32(PRIME)


def reduce_(values: U32) -> U32:
    """values mod p, in place."""
    # Division by a constant is vectorised in numpy, remainder is not.
    values -= (values // P) * P
    return values


@cache
def inverses() -> U32:
    """Multiplicative inverse of every element (0 at 0). Shapes: [65497]."""
    inverse = [0, 1]
    for n in range(2, PRIME):
        inverse.append((PRIME - PRIME // n) * inverse[PRIME % n] % PRIME)
    return np.array(inverse, dtype=np.uint32)


def interpolate(x: U32, y: U32) -> U32:
    """Coefficients, lowest degree first, of the polynomials through the points of each row.

    Shapes: x, y [C, K] below p, the x of a row distinct; result [C, K].
    """
    count = x.shape[1]
    inverse = inverses()
    divided = y.copy()  # Newton's divided differences, in place
    for j in range(1, count):
        rise = reduce_(divided[:, j:] + (P - divided[:, j - 1 : -1]))
        run = reduce_(x[:, j:] + (P - x[:, :-j]))
        divided[:, j:] = reduce_(rise * inverse[run])
    minus_x = P - x  # 1 … p
    coefficients = np.zeros_like(divided)
    coefficients[:, 0] = divided[:, -1]
    for degree, j in enumerate(range(count - 2, -1, -1)):
        # multiply by (X − x_j), add the j-th difference: (p − 1)² + p still fits in 32 bits
        shifted = coefficients[:, : degree + 1].copy()
        coefficients[:, : degree + 1] = reduce_(shifted * minus_x[:, j : j + 1])
        coefficients[:, 1 : degree + 2] += shifted
        coefficients[:, 0] += divided[:, j]
        reduce_(coefficients[:, : degree + 2])
    return coefficients


def evaluate(coefficients: U32, x: U32) -> U32:
    """Values of each row's polynomial at each row's points.

    Shapes: coefficients [C, K], x [C, N], all below p; result [C, N].
    """
    result = np.zeros_like(x)
    for j in range(coefficients.shape[1] - 1, -1, -1):
        result *= x
        result += coefficients[:, j : j + 1]
        reduce_(result)
    return result
