"""Gumbel noise by (seed, position, token id): Philox words mapped through one frozen float32 table.

A table, because log differs in its last bits between libm, CUDA and numpy; the integers never do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from stannary.errors import OperatorError
from stannary.sampling.philox import WORD, philox_arrays, seed_words

MANTISSA_BITS = 11
SHIFT = np.int32(23 - MANTISSA_BITS)
OFFSET = np.int32((127 << MANTISSA_BITS) - 1)  # index of x = 1 is 1
TABLE_SIZE = (32 << MANTISSA_BITS) + 2  # x = 0; 32 octaves; x that rounds up to 2^32
TABLE_SHA256 = "786a51ed76c8d60b741526b1aefa95ef4cc0ef8aa70d1a23624c9e906f2d30e9"

F32 = npt.NDArray[np.float32]
U32 = npt.NDArray[np.uint32]


def _build_table() -> F32:
    cell = np.arange(TABLE_SIZE - 1, dtype=np.uint32)
    low = ((cell + np.uint32(OFFSET + 1)) << np.uint32(SHIFT)).view(np.float32).astype(np.float64)
    edges = np.concatenate([[0.0], low]) * 2.0**-32  # exact: a float32 times a power of two
    v = np.empty(TABLE_SIZE, np.float64)
    v[:-1] = (edges[:-1] + edges[1:]) / 2
    v[-1] = 1 - 2.0**-26  # x rounds to 2^32 from 2^32 − 128 on: the cell [1 − 2^-25, 1), clamped below 1
    table: F32 = (-np.log(-np.log1p(-v))).astype(np.float32)
    return table


@cache
def gumbel_table() -> F32:
    """The protocol's table, read-only.

    Shapes: [65538], little-endian float32.
    Raises: OperatorError when this machine's float64 log makes another table.
    """
    table = _build_table()
    digest = hashlib.sha256(table.astype("<f4").tobytes()).hexdigest()
    if digest != TABLE_SHA256:
        raise OperatorError(f"Gumbel table: expected sha256 {TABLE_SHA256}, got {digest}: this log() cannot be used")
    table.flags.writeable = False
    return table


def table_index(words: npt.NDArray[np.uint64] | npt.NDArray[np.uint32]) -> npt.NDArray[np.int32]:
    """Table index of 32-bit words: the leading 11 mantissa bits of the word as a float32 (nearest even)."""
    bits = words.astype(np.float32).view(np.int32)
    index: npt.NDArray[np.int32] = np.maximum((bits >> SHIFT) - OFFSET, 0)  # the word 0 has no exponent: cell 0
    return index


def gumbel(seed: bytes, position: int, vocab: int) -> F32:
    """Noise of every token id at one position of one rollout.

    Shapes: [vocab] float32.
    Raises: ValueError on a seed that has not 32 bytes, a negative position or an empty vocabulary.
    """
    noise: F32 = gumbel_batch([seed], [position], vocab)[0]
    return noise


def gumbel_batch(seeds: Sequence[bytes], positions: Sequence[int], vocab: int) -> F32:
    """Noise of many (seed, position) pairs, by compiled code.

    Shapes: [len(seeds), vocab] float32.
    Raises: ValueError on a malformed seed or position, an empty vocabulary, or lengths that disagree.
    """
    # Compiled code is loaded by whoever samples or replays, not by whoever imports the package.
    from stannary.sampling.kernel import fill_noise

    words, where = counters(seeds, positions, vocab)
    noise = np.empty((len(words), vocab), np.float32)
    fill_noise(words, where, gumbel_table(), noise)
    return noise


def gumbel_by_array_operations(seeds: Sequence[bytes], positions: Sequence[int], vocab: int) -> F32:
    """The same by numpy alone: what the compiled code and the tensor operations are held against."""
    words, where = counters(seeds, positions, vocab)
    key0, key1, counter2, counter3 = (column[:, None].astype(np.uint64) for column in words.T)
    groups = np.arange(-(-vocab // 4), dtype=np.uint64)[None]
    made = philox_arrays(groups, where[:, None].astype(np.uint64), counter2, counter3, key0, key1)
    index = table_index(np.stack(made, axis=-1).reshape(len(words), -1))
    noise: F32 = gumbel_table()[index][:, :vocab]
    return noise


def counters(seeds: Sequence[bytes], positions: Sequence[int], vocab: int) -> tuple[U32, U32]:
    """The words of each seed and the positions, checked. Shapes: [R, 4], [R]."""
    if len(seeds) != len(positions):
        raise ValueError(f"positions: expected {len(seeds)}, one a seed, got {len(positions)}")
    if not 0 < vocab <= WORD:
        raise ValueError(f"vocab: expected 1 … {WORD}, got {vocab}")
    words = [seed_words(seed) for seed in seeds]
    for position in positions:
        if not 0 <= position <= WORD:
            raise ValueError(f"position: expected 0 … {WORD}, got {position}")
    return np.array(words, np.uint32).reshape(-1, 4), np.array(positions, np.uint32)
