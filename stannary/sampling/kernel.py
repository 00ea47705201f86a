"""The noise as compiled code: one pass from counters to table entries, equal bit for bit to the arrays' way."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stannary.compiled import compiled
from stannary.sampling.philox import MULTIPLIERS, ROUNDS, WEYL, WORD

U32 = npt.NDArray[np.uint32]
F32 = npt.NDArray[np.float32]
M0, M1 = np.uint64(MULTIPLIERS[0]), np.uint64(MULTIPLIERS[1])
W0, W1 = np.uint32(WEYL[0]), np.uint32(WEYL[1])
LOW = np.uint64(WORD)
HALF = np.uint64(32)


@compiled
def _table_index(word: np.uint32, shift: int, offset: int) -> int:
    # The leading mantissa bits of the word as a float32, which rounds to the nearest even.
    bits = int(np.float32(word).view(np.int32))
    return max((bits >> shift) - offset, 0)


@compiled
def fill_noise(seeds: U32, positions: U32, table: F32, shift: int, offset: int, noise: F32) -> None:
    """Write the noise of many (seed, position) pairs.

    Shapes: seeds [R, 4] as `seed_words`, positions [R], table as `gumbel_table`, noise [R, 4·W]: token id 4·w + i is
    word i of counter w.
    """
    groups = noise.shape[1] // 4
    for row in range(noise.shape[0]):
        for group in range(groups):
            k0, k1 = seeds[row, 0], seeds[row, 1]
            c0, c1, c2, c3 = np.uint32(group), positions[row], seeds[row, 2], seeds[row, 3]
            for _ in range(ROUNDS):
                p0, p1 = np.uint64(c0) * M0, np.uint64(c2) * M1
                c0 = np.uint32(p1 >> HALF) ^ c1 ^ k0
                c2 = np.uint32(p0 >> HALF) ^ c3 ^ k1
                c1, c3 = np.uint32(p1 & LOW), np.uint32(p0 & LOW)
                k0, k1 = np.uint32(k0 + W0), np.uint32(k1 + W1)
            at = 4 * group
            noise[row, at] = table[_table_index(c0, shift, offset)]
            noise[row, at + 1] = table[_table_index(c1, shift, offset)]
            noise[row, at + 2] = table[_table_index(c2, shift, offset)]
            noise[row, at + 3] = table[_table_index(c3, shift, offset)]
