"""Philox4x32-10: the counter-based generator behind the noise. Owns integers only, no distribution.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011); Random123.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

SEED_BYTES = 32  # only the first 16 key the generator; a seed is still one whole keccak256 digest
ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
WORD = 0xFFFFFFFF

U64 = npt.NDArray[np.uint64]


def round_keys(key0: int, key1: int) -> list[tuple[int, int]]:
    """The ten key pairs of one key."""
    return [((key0 + r * WEYL[0]) & WORD, (key1 + r * WEYL[1]) & WORD) for r in range(ROUNDS)]


def seed_words(seed: bytes) -> tuple[int, int, int, int]:
    """Big-endian words (key 0, key 1, counter 2, counter 3) of a seed.

    Raises: ValueError unless the seed has 32 bytes.
    """
    if len(seed) != SEED_BYTES:
        raise ValueError(f"seed: expected {SEED_BYTES} bytes, got {len(seed)}")
    key0, key1, counter2, counter3 = struct.unpack(">4I", seed[:16])
    return key0, key1, counter2, counter3


def philox4x32(counter: Sequence[int], key: Sequence[int]) -> tuple[int, int, int, int]:
    """One block of four words, in plain integers: the reference that the vectorised form is tested against."""
    c0, c1, c2, c3 = counter
    for k0, k1 in round_keys(key[0], key[1]):
        p0, p1 = c0 * MULTIPLIERS[0], c2 * MULTIPLIERS[1]
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & WORD, (p0 >> 32) ^ c3 ^ k1, p0 & WORD
    return c0, c1, c2, c3


class Scratch:
    """Buffers of one block of counters, reused so that a block stays in the core's cache."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.words: list[U64] = [np.empty(shape, np.uint64) for _ in range(4)]
        self.product: U64 = np.empty(shape, np.uint64)


def philox_rows(
    scratch: Scratch, ids4: U64, position: U64, counter2: U64, counter3: U64, keys: Sequence[tuple[Any, Any]]
) -> list[U64]:
    """Four word arrays [R, W] for counters (ids4, position, counter2, counter3).

    Shapes: ids4 [1, W]; position, counter2, counter3 and every key [R, 1], all uint64 holding 32 bits.
    """
    low, half = np.uint64(WORD), np.uint64(32)
    m0, m1 = (np.uint64(m) for m in MULTIPLIERS)
    c0, c1, c2, c3 = scratch.words
    spare = scratch.product
    c0[...], c1[...], c2[...], c3[...] = ids4, position, counter2, counter3
    for k0, k1 in keys:
        # c1 and c3 may carry a whole 64-bit product: only their low halves count, and the mask below drops the rest.
        np.multiply(c2, m1, out=spare)  # p1
        np.right_shift(spare, half, out=c2)
        np.bitwise_xor(c2, c1, out=c2)
        np.bitwise_xor(c2, k0, out=c2)
        np.bitwise_and(c2, low, out=c2)  # next c0
        np.multiply(c0, m0, out=c1)  # p0, the next c3
        np.right_shift(c1, half, out=c0)
        np.bitwise_xor(c0, c3, out=c0)
        np.bitwise_xor(c0, k1, out=c0)
        np.bitwise_and(c0, low, out=c0)  # next c2
        c0, c1, c2, c3, spare = c2, spare, c0, c1, c3
    np.bitwise_and(c1, low, out=c1)
    np.bitwise_and(c3, low, out=c3)
    return [c0, c1, c2, c3]
