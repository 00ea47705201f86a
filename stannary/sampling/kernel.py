"""The sampling rule as compiled code, equal bit for bit to the arrays' way: counters, words, table, scores, best.

Rows are worked off in blocks that stay in the first cache; the loops over a block's lanes are written so that the
compiler turns them into vector instructions, which is why words, indices and scores each have a pass of their own.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stannary.compiled import compiled
from stannary.sampling.philox import MULTIPLIERS, ROUNDS, WEYL, WORD
from stannary.sampling.table import OFFSET, SHIFT

U32 = npt.NDArray[np.uint32]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
F32 = npt.NDArray[np.float32]
M0, M1 = np.uint64(MULTIPLIERS[0]), np.uint64(MULTIPLIERS[1])
W0, W1 = np.uint32(WEYL[0]), np.uint32(WEYL[1])
LOW = np.uint64(WORD)
HALF = np.uint64(32)
LANES = 64
"""Counters of a block; four ids each."""
BLOCK = 4 * LANES
SIGN = np.int32(31)
MAGNITUDE = np.int32(0x7FFFFFFF)
INFINITY = np.int32(0x7F800000)
LEAST = np.int32(-0x80000000)


@compiled
def _fill_words(seed: U32, position: np.uint32, first: int, words: U32) -> None:
    """Philox of the counters first … first + LANES − 1. Shapes: seed [4], words [4, LANES]."""
    key0, key1, counter2, counter3 = seed[0], seed[1], seed[2], seed[3]
    for lane in range(LANES):
        k0, k1 = key0, key1
        c0, c1, c2, c3 = np.uint32(first + lane), position, counter2, counter3
        for _ in range(ROUNDS):
            p0, p1 = np.uint64(c0) * M0, np.uint64(c2) * M1
            c0 = np.uint32(p1 >> HALF) ^ c1 ^ k0
            c2 = np.uint32(p0 >> HALF) ^ c3 ^ k1
            c1, c3 = np.uint32(p1 & LOW), np.uint32(p0 & LOW)
            k0, k1 = np.uint32(k0 + W0), np.uint32(k1 + W1)
        words[0, lane] = c0
        words[1, lane] = c1
        words[2, lane] = c2
        words[3, lane] = c3


@compiled
def _fill_indices(words: U32, rounded: F32, index: I32) -> None:
    """Table entries of a block's ids. Shapes: words, rounded [4, LANES], index [BLOCK]."""
    for word in range(4):
        for lane in range(LANES):
            rounded[word, lane] = np.float32(words[word, lane])
    bits = rounded.view(np.int32)
    for lane in range(LANES):
        for word in range(4):
            index[4 * lane + word] = max((bits[word, lane] >> SHIFT) - OFFSET, np.int32(0))


@compiled
def fill_noise(seeds: U32, positions: U32, table: F32, noise: F32) -> None:
    """Write the noise of many (seed, position) pairs.

    Shapes: seeds [R, 4] as `seed_words`, positions [R], table as `gumbel_table`, noise [R, V]: token id 4·w + i is
    word i of counter w.
    """
    vocab = noise.shape[1]
    words, rounded, index = np.empty((4, LANES), np.uint32), np.empty((4, LANES), np.float32), np.empty(BLOCK, np.int32)
    for row in range(noise.shape[0]):
        for start in range(0, vocab, BLOCK):
            _fill_words(seeds[row], positions[row], start // 4, words)
            _fill_indices(words, rounded, index)
            for i in range(min(BLOCK, vocab - start)):
                noise[row, start + i] = table[np.uint32(index[i])]


@compiled
def replay_rows(
    logits: F32,
    temperature: np.float32,
    seeds: U32,
    positions: U32,
    table: F32,
    tokens: I64,
    choice: I64,
    best: F32,
    second: F32,
    claimed: F32,
) -> None:
    """Write, of each row, the id of the highest score (the lowest of equals), that score, the next, and the token's.

    A row that holds NaN gets NaN as its best. Shapes: logits [R, V] with V ≥ 2, unchanged; tokens, choice, best,
    second, claimed [R]; the rest as `fill_noise`.
    """
    vocab = logits.shape[1]
    words, rounded, index = np.empty((4, LANES), np.uint32), np.empty((4, LANES), np.float32), np.empty(BLOCK, np.int32)
    scores = np.empty(BLOCK, np.float32)
    bits = scores.view(np.int32)
    for row in range(logits.shape[0]):
        best_key, second_key, farthest = LEAST, LEAST, np.int32(0)
        choice[row], best[row], second[row], claimed[row] = 0, np.nan, np.nan, np.nan
        for start in range(0, vocab, BLOCK):
            _fill_words(seeds[row], positions[row], start // 4, words)
            _fill_indices(words, rounded, index)
            count = min(BLOCK, vocab - start)
            for i in range(count):
                scores[i] = logits[row, start + i] / temperature + table[np.uint32(index[i])]
            # Integers that order as the floats do: their maximum is a vector instruction, and no NaN hides in it.
            most = LEAST
            for i in range(count):
                most = max(most, bits[i] ^ ((bits[i] >> SIGN) & MAGNITUDE))
                farthest = max(farthest, bits[i] & MAGNITUDE)
            if most > second_key:
                for i in range(count):
                    key = bits[i] ^ ((bits[i] >> SIGN) & MAGNITUDE)
                    if key > best_key:
                        second_key, second[row] = best_key, best[row]
                        best_key, best[row], choice[row] = key, scores[i], start + i
                    elif key > second_key:
                        second_key, second[row] = key, scores[i]
            if start <= tokens[row] < start + count:
                claimed[row] = scores[tokens[row] - start]
        if farthest > INFINITY:
            best[row] = np.float32(np.nan)
