"""Hidden states as integers: bf16 bit patterns in chunks, and the largest magnitudes of each."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from stannary.errors import ProofError
from stannary.toploc.proof import CHUNK_TOKENS, TOP_K

if TYPE_CHECKING:
    import torch

U16 = npt.NDArray[np.uint16]
MAGNITUDE = np.uint16(0x7FFF)
SIEVE = 1024  # groups whose maxima narrow the search before the partition
NOT_FINITE = 0x7F80  # magnitude of infinity; NaN patterns lie above


def bits_of(states: torch.Tensor | U16) -> U16:
    """The raw bf16 bits of states.

    Shapes: [T, H] bfloat16 tensor, or uint16 array that already holds the bits.
    Raises: ProofError on any other type, dtype or rank (float32 states have no proof), and on no token.
    """
    array: Any = states
    torch = sys.modules.get("torch")  # a tensor can only come from a torch that is already loaded
    if torch is not None and isinstance(states, torch.Tensor):
        if states.dtype != torch.bfloat16:
            raise ProofError(f"states: expected bfloat16, got {states.dtype}")
        array = states.detach().cpu().contiguous().view(torch.uint16).numpy()
    if not isinstance(array, np.ndarray) or array.dtype != np.uint16:
        raise ProofError(f"states: expected bfloat16 bits, got {getattr(array, 'dtype', type(array).__name__)}")
    if array.ndim != 2 or not array.size:
        raise ProofError(f"states: expected [T, H] with T, H above 0, got {list(array.shape)}")
    return array


def largest(magnitude: U16) -> npt.NDArray[np.int64]:
    """Indices, ascending, of the 128 largest of at least 128 values; ties go to the lowest index."""
    candidates = None
    if magnitude.size >= 8 * SIEVE:
        # The 128th largest of the maxima of disjoint groups bounds the 128th largest value from below.
        maxima = magnitude[: magnitude.size // SIEVE * SIEVE].reshape(-1, SIEVE).max(axis=0)
        bound = np.partition(maxima, SIEVE - TOP_K)[SIEVE - TOP_K]
        candidates = np.flatnonzero(magnitude >= bound)
        magnitude = magnitude[candidates]
    least = np.partition(magnitude, magnitude.size - TOP_K)[magnitude.size - TOP_K]
    above = np.flatnonzero(magnitude > least)
    equal = np.flatnonzero(magnitude == least)[: TOP_K - above.size]
    index = np.sort(np.concatenate([above, equal]))
    return index if candidates is None else candidates[index]


def top_points(bits: U16) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32]]:
    """Flat indices and raw bits of each chunk's 128 largest magnitudes; ties go to the lowest index.

    Shapes: bits [T, H]; results [ceil(T / 32), 128], indices ascending.
    Raises: ProofError on a chunk of fewer than 128 values, and on states that are not finite.
    """
    indices, values = [], []
    for start in range(0, len(bits), CHUNK_TOKENS):
        flat = bits[start : start + CHUNK_TOKENS].reshape(-1)
        if flat.size < TOP_K:
            raise ProofError(f"chunk {start // CHUNK_TOKENS}: expected at least {TOP_K} values, got {flat.size}")
        index = largest(flat & MAGNITUDE)
        value = flat[index]
        if int((value & MAGNITUDE).max()) >= NOT_FINITE:
            raise ProofError(f"chunk {start // CHUNK_TOKENS}: states are not finite")
        indices.append(index)
        values.append(value.astype(np.uint32))
    return np.stack(indices), np.stack(values)
