"""Polynomials over GF(65497), and the largest values of a chunk, as compiled code.

Interpolation is Lagrange's formula without a division of polynomials: with M = Π (X − x_i) and w_i = y_i / M'(x_i), the
coefficient of X^j is Σ_k m_(j+k+1) s_k, where s_k = Σ_i w_i x_i^k are sums over all points. Powers are made of a few
small and a few large steps. So nearly everything is a sum of products that need no reduction until the end, which
vector instructions do eight at a time. The field's order is 2^16 − 39, so a reduction is a few shifts and products.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from stannary.compiled import compiled
from stannary.toploc.proof import MODULUS_MIN, PRIME, TOP_K

U16 = npt.NDArray[np.uint16]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

MAGNITUDE = 0x7FFF
NOT_FINITE = 0x7F80  # magnitude of infinity; NaN patterns lie above
MAGNITUDE16 = np.uint16(MAGNITUDE)
SMALL, LARGE, MANY = 16, 64, 1 << 16
"""Values whose maximum is taken together: small blocks pass fewer candidates on, large ones are fewer."""
P = np.uint32(PRIME)
STEP = 16
"""Powers of a point are made up to this one, and those of this one after that."""
FOLD, LOW, EXCESS = np.uint64(16), np.uint64(0xFFFF), np.uint64(65536 - PRIME)
FOLD32, LOW32, EXCESS32 = np.uint32(16), np.uint32(0xFFFF), np.uint32(65536 - PRIME)
MANTISSA, EXPONENT = 0x7F, 0x7F80
"""Bits of a bf16 value; its sign is the one above them."""


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
def _fill_small_maxima(values: U16, maxima: U16) -> None:
    """Write the largest magnitude of every SMALL values. The compiler needs that number as a constant."""
    for block in range(values.size // SMALL):
        most = np.uint16(0)
        for i in range(block * SMALL, block * SMALL + SMALL):
            most = max(most, values[i] & MAGNITUDE16)
        maxima[block] = most


@compiled
def _fill_large_maxima(values: U16, maxima: U16) -> None:
    """Write the largest magnitude of every LARGE values."""
    for block in range(values.size // LARGE):
        most = np.uint16(0)
        for i in range(block * LARGE, block * LARGE + LARGE):
            most = max(most, values[i] & MAGNITUDE16)
        maxima[block] = most


@compiled
def _bound_of(magnitudes: U16) -> np.uint16:
    """The largest number that at least 128 of some magnitudes reach, bit by bit: counting is a vector instruction."""
    bound = 0
    for bit in range(14, -1, -1):
        raised = np.uint16(bound | (1 << bit))
        reached = np.uint32(0)
        for i in range(magnitudes.size):
            reached = np.uint32(reached + np.uint32(magnitudes[i] >= raised))
        if reached >= TOP_K:
            bound |= 1 << bit
    return np.uint16(bound)


@compiled
def largest(values: U16, index: I64) -> None:
    """Write the indices, ascending, of the 128 largest magnitudes; ties go to the lowest index.

    Shapes: values [N] bf16 bits, N ≥ 128; index [128].
    """
    size = values.size
    block = SMALL if size < MANY else LARGE
    blocks = size // block
    candidates, magnitudes = np.empty(size, np.int64), np.empty(size, np.uint16)
    found = first = 0
    bound = np.uint16(0)
    if blocks >= TOP_K:
        # What 128 of the maxima of disjoint blocks reach, 128 of the values reach.
        maxima = np.empty(blocks, np.uint16)
        if block == SMALL:
            _fill_small_maxima(values, maxima)
        else:
            _fill_large_maxima(values, maxima)
        bound = _bound_of(maxima)
        for b in range(blocks):
            if maxima[b] >= bound:
                for i in range(b * block, (b + 1) * block):
                    magnitude = values[i] & MAGNITUDE16
                    candidates[found], magnitudes[found] = i, magnitude
                    found += magnitude >= bound
        first = blocks * block
    for i in range(first, size):
        magnitude = values[i] & MAGNITUDE16
        candidates[found], magnitudes[found] = i, magnitude
        found += magnitude >= bound
    least = _bound_of(magnitudes[:found])
    equal = TOP_K
    for i in range(found):
        equal -= magnitudes[i] > least
    filled = 0
    for i in range(found):
        if magnitudes[i] > least or (magnitudes[i] == least and equal > 0):
            equal -= magnitudes[i] == least
            index[filled] = candidates[i]
            filled += 1


@compiled
def largest_of_chunks(values: U16, size: int, indices: I64, found: U32) -> None:
    """Write each chunk's largest magnitudes as `largest`, and their bits.

    Shapes: values [N] bf16 bits, cut in chunks of `size` values, the last may be shorter; indices, found [chunks, 128].
    """
    for chunk in range(len(indices)):
        part = values[chunk * size : (chunk + 1) * size]
        largest(part, indices[chunk])
        for i in range(TOP_K):
            found[chunk, i] = part[indices[chunk, i]]


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
def _reduced(value: np.uint64) -> np.uint32:
    """A sum of up to 2^8 products, modulo the field's order: 2^16 is 39 there."""
    value = (value >> FOLD) * EXCESS + (value & LOW)
    value = (value >> FOLD) * EXCESS + (value & LOW)
    small = np.uint32((value >> FOLD) * EXCESS + (value & LOW))
    return min(small, np.uint32(small - P))


@compiled
def _product_sum(a: np.uint32, b: np.uint32, c: np.uint32) -> np.uint32:
    """a·b + c modulo the field's order, for elements of the field: below 2^32 before it is reduced."""
    value = np.uint32(a * b + c)
    value = np.uint32((value >> FOLD32) * EXCESS32 + (value & LOW32))
    value = np.uint32((value >> FOLD32) * EXCESS32 + (value & LOW32))
    return min(value, np.uint32(value - P))


@compiled
def _fill_powers(x: U32, powers: U32) -> None:
    """Write x^0 … x^STEP. Shapes: x [N], powers [STEP + 1, N]."""
    count = x.size
    for i in range(count):
        powers[0, i] = np.uint32(1)
    for k in range(STEP):
        for i in range(count):
            powers[k + 1, i] = _product_sum(powers[k, i], x[i], np.uint32(0))


@compiled
def _evaluate(coefficients: U32, powers: U32, total: U64, value: U32) -> None:
    """Write the values of a polynomial. Shapes: coefficients [K], K a multiple of STEP; total, value [N]."""
    count = value.size
    for i in range(count):
        value[i] = np.uint32(0)
    for start in range(coefficients.size - STEP, -1, -STEP):
        for i in range(count):
            total[i] = np.uint64(0)
        for k in range(0, STEP, 4):
            c0, c1 = np.uint64(coefficients[start + k]), np.uint64(coefficients[start + k + 1])
            c2, c3 = np.uint64(coefficients[start + k + 2]), np.uint64(coefficients[start + k + 3])
            for i in range(count):
                total[i] += (
                    c0 * np.uint64(powers[k, i])
                    + c1 * np.uint64(powers[k + 1, i])
                    + c2 * np.uint64(powers[k + 2, i])
                    + c3 * np.uint64(powers[k + 3, i])
                )
        for i in range(count):
            value[i] = _product_sum(value[i], powers[STEP, i], _reduced(total[i]))


@compiled
def _multiply_out(x: U32, product: U32, other: U32) -> None:
    """Write the coefficients of Π (X − x_i), lowest degree first. Shapes: x [N]; product, other [at least N + 1]."""
    product[:] = np.uint32(0)
    product[0] = np.uint32(1)
    for n in range(x.size):
        minus_x = np.uint32(P - x[n]) if x[n] else np.uint32(0)
        other[0] = _product_sum(product[0], minus_x, np.uint32(0))
        for k in range(1, n + 2):
            other[k] = _product_sum(product[k], minus_x, product[k - 1])
        for k in range(n + 2):
            product[k] = other[k]


@compiled
def interpolate(x: U32, y: U32, inverse: U32, coefficients: U32) -> None:
    """Write the coefficients, lowest degree first, of the polynomial through points.

    Shapes: x, y, coefficients [N] below the field's order, x distinct; inverse as `inverses`.
    """
    count = x.size
    padded = (count + STEP - 1) // STEP * STEP
    product, derivative = np.empty(padded + 1, np.uint32), np.zeros(padded, np.uint32)
    powers = np.empty((STEP + 1, count), np.uint32)
    weight, total = np.empty(count, np.uint32), np.empty(max(count, padded), np.uint64)
    sums = np.zeros(padded, np.uint32)
    _multiply_out(x, product, np.empty(padded + 1, np.uint32))
    for k in range(count):
        derivative[k] = _product_sum(product[k + 1], np.uint32(k + 1), np.uint32(0))
    _fill_powers(x, powers)
    _evaluate(derivative, powers, total, weight)
    for i in range(count):
        weight[i] = _product_sum(y[i], inverse[weight[i]], np.uint32(0))
    for start in range(0, padded, STEP):
        for k in range(STEP):
            found = np.uint64(0)
            for i in range(count):
                found += np.uint64(weight[i]) * np.uint64(powers[k, i])
            sums[start + k] = _reduced(found)
        for i in range(count):
            weight[i] = _product_sum(weight[i], powers[STEP, i], np.uint32(0))
    total[:] = np.uint64(0)
    for k in range(count):
        factor = np.uint64(sums[k])
        for j in range(count - k):
            total[j] += factor * np.uint64(product[j + k + 1])
    for j in range(count):
        coefficients[j] = _reduced(total[j])


@compiled
def evaluate(coefficients: U32, x: U32, value: U32) -> None:
    """Write the values of a polynomial at points.

    Shapes: coefficients [K], K a multiple of 16, x and value [N], all below the field's order.
    """
    powers = np.empty((STEP + 1, x.size), np.uint32)
    _fill_powers(x, powers)
    _evaluate(coefficients, powers, np.empty(x.size, np.uint64), value)


@compiled
def prove(indices: I64, values: U32, inverse: U32, moduli: I64, coefficients: U32) -> None:
    """Write the modulus (0 if there is none) and the coefficients of each chunk's points.

    Shapes: indices, values, coefficients [chunks, 128]; moduli [chunks].
    """
    x = np.empty(indices.shape[1], np.uint32)
    for chunk in range(len(indices)):
        modulus = injective_modulus(indices[chunk])
        moduli[chunk] = modulus
        if modulus == 0:
            continue
        for i in range(x.size):
            x[i] = indices[chunk, i] % modulus
        interpolate(x, values[chunk], inverse, coefficients[chunk])


@compiled
def measure(
    indices: I64, values: U32, moduli: I64, coefficients: U32, mismatches: I64, means: F64, medians: F64
) -> None:
    """Write how far each chunk's points lie from what its proof says of them.

    Shapes: indices, values, coefficients [chunks, 128]; moduli, mismatches, means, medians [chunks].
    """
    count = indices.shape[1]
    x, claimed = np.empty(count, np.uint32), np.empty(count, np.uint32)
    for chunk in range(len(indices)):
        for i in range(count):
            x[i] = indices[chunk, i] % moduli[chunk]
        evaluate(coefficients[chunk], x, claimed)
        counts = np.zeros(MANTISSA + 1, np.int64)  # of mantissa differences, where the exponents agree
        agreeing = total = 0
        for i in range(count):
            own = values[chunk, i]
            if (own ^ claimed[i]) & EXPONENT == 0:
                difference = abs(int(own & MANTISSA) - int(claimed[i] & MANTISSA))
                counts[difference] += 1
                agreeing += 1
                total += difference
        mismatches[chunk] = count - agreeing
        if agreeing == 0:
            means[chunk] = medians[chunk] = np.inf
            continue
        means[chunk] = total / agreeing
        lower = upper = -1
        passed = 0
        for difference in range(MANTISSA + 1):
            passed += counts[difference]
            if lower < 0 and 2 * passed >= agreeing:
                lower = difference
            if 2 * passed > agreeing:
                upper = difference
                break
        medians[chunk] = (lower + upper) / 2
