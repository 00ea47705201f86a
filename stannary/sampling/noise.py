"""Gumbel noise by (seed, position, token id): Philox words mapped through the frozen table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stannary.sampling.philox import WORD, philox_arrays, seed_words
from stannary.sampling.table import F32, U32, gumbel_table, table_index


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
