"""Polynomials over GF(65497), and the largest values of a chunk: compiled, one chunk at a time."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from stannary.compiled import compiled
from stannary.toploc.proof import MODULUS_MIN, PRIME, TOP_K

U16 = npt.NDArray[np.uint16]
U32 = npt.NDArray[np.uint32]
I64 = npt.NDArray[np.int64]

MAGNITUDE = 0x7FFF
NOT_FINITE = 0x7F80  # magnitude of infinity; NaN patterns lie above
BLOCK = 64  # values whose maximum is taken together
FEWEST_BLOCKS = 2 * TOP_K
P = np.uint32(PRIME)


@cache
def inverses() -> U32:
    """Multiplicative inverse of every element (0 at 0). Shapes: [65497]."""
    inverse = np.zeros(PRIME, np.uint32)
    _fill_inverses(inverse)
    return inverse


@compiled
def _fill_inverses(inverse: U32) -> None:
    inverse[1] = 1
    for n in range(2, PRIME):
        inverse[n] = (PRIME - PRIME // n) * np.int64(inverse[PRIME % n]) % PRIME


@compiled
def largest(values: U16, index: I64) -> None:
    """Write the indices, ascending, of the 128 largest magnitudes; ties go to the lowest index.

    Shapes: values [N] bf16 bits, N ≥ 128; index [128].
    """
    size = values.size
    blocks = size // BLOCK
    candidates = np.empty(size, np.int64)
    found = 0
    if blocks < FEWEST_BLOCKS:
        for i in range(size):
            candidates[i] = i
        found = size
    else:
        # The 128th largest of the maxima of disjoint blocks bounds the 128th largest value from below.
        maxima = np.empty(blocks, np.uint16)
        for b in range(blocks):
            most = np.uint16(0)
            for i in range(b * BLOCK, b * BLOCK + BLOCK):
                most = max(most, values[i] & np.uint16(MAGNITUDE))
            maxima[b] = most
        bound = np.partition(maxima, blocks - TOP_K)[blocks - TOP_K]
        for b in range(blocks):
            if maxima[b] >= bound:
                for i in range(b * BLOCK, b * BLOCK + BLOCK):
                    candidates[found] = i
                    found += values[i] & np.uint16(MAGNITUDE) >= bound
        for i in range(blocks * BLOCK, size):
            candidates[found] = i
            found += values[i] & np.uint16(MAGNITUDE) >= bound
    magnitudes = np.empty(found, np.uint16)
    for i in range(found):
        magnitudes[i] = values[candidates[i]] & np.uint16(MAGNITUDE)
    least = np.partition(magnitudes, found - TOP_K)[found - TOP_K]
    equal = TOP_K
    for i in range(found):
        equal -= magnitudes[i] > least
    filled = 0
    for i in range(found):
        if magnitudes[i] > least:
            index[filled] = candidates[i]
            filled += 1
        elif magnitudes[i] == least and equal > 0:
            index[filled] = candidates[i]
            filled += 1
            equal -= 1


@compiled
def injective_modulus(index: I64) -> int:
    """Return the largest modulus up to the field's order under which the indices stay distinct, 0 if there is none."""
    if index.max() < PRIME:
        return PRIME
    seen = np.zeros(PRIME, np.int32)
    for modulus in range(PRIME, MODULUS_MIN - 1, -1):
        is_injective = True
        for i in range(index.size):
            at = index[i] % modulus
            if seen[at] == modulus:
                is_injective = False
                break
            seen[at] = modulus
        if is_injective:
            return modulus
    return 0


@compiled
def interpolate(x: U32, y: U32, inverse: U32, coefficients: U32) -> None:
    """Write the coefficients, lowest degree first, of the polynomial through points.

    Shapes: x, y, coefficients [K] below p, x distinct; inverse as `inverses`.
    """
    count = x.size
    divided = y.copy()  # Newton's divided differences, in place
    for j in range(1, count):
        for i in range(count - 1, j - 1, -1):
            rise = (divided[i] + P - divided[i - 1]) % P
            run = (x[i] + P - x[i - j]) % P
            divided[i] = rise * inverse[run] % P
    coefficients[:] = np.uint32(0)
    coefficients[0] = divided[count - 1]
    for j in range(count - 2, -1, -1):
        # times (X − x_j), plus the j-th difference: (p − 1)·p + p fits in 32 bits
        minus_x = P - x[j]
        for k in range(count - 1 - j, 0, -1):
            coefficients[k] = (coefficients[k] * minus_x + coefficients[k - 1]) % P
        coefficients[0] = (coefficients[0] * minus_x + divided[j]) % P


@compiled
def evaluate(coefficients: U32, x: U32, value: U32) -> None:
    """Write the values of a polynomial at points. Shapes: coefficients [K], x and value [N], all below p."""
    value[:] = np.uint32(0)
    for j in range(coefficients.size - 1, -1, -1):
        for i in range(x.size):
            value[i] = (value[i] * x[i] + coefficients[j]) % P
