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
from stannary.sampling.philox import WORD, Scratch, philox_rows, round_keys, seed_words

MANTISSA_BITS = 11
SHIFT = 23 - MANTISSA_BITS
OFFSET = (127 << MANTISSA_BITS) - 1  # index of x = 1 is 1
TABLE_SIZE = (32 << MANTISSA_BITS) + 2  # x = 0; 32 octaves; x that rounds up to 2^32
TABLE_SHA256 = "786a51ed76c8d60b741526b1aefa95ef4cc0ef8aa70d1a23624c9e906f2d30e9"
BLOCK = 12288  # counters a block: five uint64 buffers of 96 KiB stay in a core's second-level cache

F32 = npt.NDArray[np.float32]


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
    """Noise of many (seed, position) pairs.

    Shapes: [len(seeds), vocab] float32.
    Raises: ValueError on a malformed seed or position, an empty vocabulary, or lengths that disagree.
    """
    if len(seeds) != len(positions):
        raise ValueError(f"positions: expected {len(seeds)}, one a seed, got {len(positions)}")
    if not 0 < vocab <= WORD:
        raise ValueError(f"vocab: expected 1 … {WORD}, got {vocab}")
    rows = [seed_words(seed) for seed in seeds]
    for position in positions:
        if not 0 <= position <= WORD:
            raise ValueError(f"position: expected 0 … {WORD}, got {position}")
    table = gumbel_table()
    width = -(-vocab // 4)
    noise = np.empty((len(rows), width * 4), np.float32)
    column_step = min(width, BLOCK)
    row_step = max(1, BLOCK // width)
    scratch = None
    index = np.empty(0, np.int32)
    for top in range(0, len(rows), row_step):
        part = rows[top : top + row_step]
        columns = np.array([[*words, p] for words, p in zip(part, positions[top : top + row_step], strict=True)])
        columns = columns.astype(np.uint64)
        keys = [round_keys(words[0], words[1]) for words in part]
        pairs = [(np.array([[k[r][0]] for k in keys], np.uint64), np.array([[k[r][1]] for k in keys], np.uint64))
                 for r in range(len(keys[0]))]  # fmt: skip
        for left in range(0, width, column_step):
            right = min(left + column_step, width)
            shape = (len(part), right - left)
            if scratch is None or scratch.product.shape != shape:
                scratch = Scratch(shape)
                index = np.empty((shape[0], shape[1], 4), np.int32)
            ids4 = np.arange(left, right, dtype=np.uint64)[None]
            words4 = philox_rows(scratch, ids4, columns[:, 4:5], columns[:, 2:3], columns[:, 3:4], pairs)
            as_float = index.view(np.float32)
            for w in range(4):
                as_float[:, :, w] = words4[w]  # rounds to nearest even
            np.right_shift(index, SHIFT, out=index)
            np.subtract(index, OFFSET, out=index)
            np.maximum(index, 0, out=index)
            block = noise[top : top + len(part), left * 4 : right * 4]
            block[...] = table.take(index.reshape(len(part), -1), mode="clip")
    return noise[:, :vocab]
