"""Philox4x32-10: the counter-based generator behind the noise. Owns integers only, no distribution.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011); Random123.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

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


def philox_arrays(c0: U64, c1: U64, c2: U64, c3: U64, key0: U64, key1: U64) -> tuple[U64, U64, U64, U64]:
    """The same for arrays that broadcast, all of 32-bit words held in uint64."""
    low, half = np.uint64(WORD), np.uint64(32)
    m0, m1 = (np.uint64(multiplier) for multiplier in MULTIPLIERS)
    w0, w1 = (np.uint64(step) for step in WEYL)
    for _ in range(ROUNDS):
        p0, p1 = c0 * m0, c2 * m1
        c0, c1, c2, c3 = (p1 >> half) ^ c1 ^ key0, p1 & low, (p0 >> half) ^ c3 ^ key1, p0 & low
        key0, key1 = (key0 + w0) & low, (key1 + w1) & low
    return c0, c1, c2, c3
