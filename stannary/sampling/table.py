"""The frozen float32 table that maps uniform words to Gumbel noise, and where in it a word stands.

A table, because log differs in its last bits between libm, CUDA and numpy; the integers never do.
"""

from __future__ import annotations

import hashlib
from functools import cache

import numpy as np
import numpy.typing as npt

from stannary.errors import OperatorError

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
