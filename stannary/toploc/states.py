"""Hidden states as integers: bf16 bit patterns in chunks, and the largest magnitudes of each."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from stannary.errors import ProofError
from stannary.toploc.field import I64, MAGNITUDE, NOT_FINITE, U16, U32, largest_of_chunks
from stannary.toploc.proof import CHUNK_TOKENS, TOP_K

if TYPE_CHECKING:
    import torch

CHUNKS_AT_ONCE = 64
"""Searched together on a device: a key takes four times the memory of its value."""
INDEX_BITS = 32
"""Of a key that orders values by magnitude and equal ones by index."""


def top_points(states: torch.Tensor | U16) -> tuple[I64, U32]:
    """Flat indices and raw bits of each chunk's 128 largest magnitudes; ties go to the lowest index.

    A tensor on a device is searched there: only what is found comes to the host.

    Shapes: states [T, H] bfloat16 tensor, or uint16 array that already holds the bits; results [ceil(T / 32), 128],
    indices ascending.
    Raises: ProofError on any other type, dtype or rank (float32 states have no proof), on no token, on a chunk of fewer
    than 128 values, and on states that are not finite.
    """
    array: Any = states
    torch: Any = sys.modules.get("torch")  # a tensor can only come from a torch that is already loaded
    is_tensor = torch is not None and isinstance(states, torch.Tensor)
    kind = states.dtype if is_tensor else getattr(states, "dtype", type(states).__name__)
    if is_tensor and str(kind) != "torch.bfloat16":
        raise ProofError(f"states: expected bfloat16, got {kind}")
    if not is_tensor and not (isinstance(states, np.ndarray) and states.dtype == np.uint16):
        raise ProofError(f"states: expected bfloat16 bits, got {kind}")
    if array.ndim != 2 or 0 in array.shape:
        raise ProofError(f"states: expected [T, H] with T, H above 0, got {list(array.shape)}")
    tokens, width = array.shape
    last = (tokens - 1) % CHUNK_TOKENS + 1
    if last * width < TOP_K:
        raise ProofError(f"chunk {tokens // CHUNK_TOKENS}: expected at least {TOP_K} values, got {last * width}")
    if is_tensor and array.device.type != "cpu":
        indices, values = top_points_on_device(array)
    else:
        if is_tensor:
            array = array.detach().contiguous().view(torch.uint16).numpy()
        indices, values = _top_points(np.ascontiguousarray(array))
    is_finite = ((values & MAGNITUDE) < NOT_FINITE).all(axis=1)
    if not is_finite.all():
        raise ProofError(f"chunk {int(is_finite.argmin())}: states are not finite")
    return indices, values


def _top_points(bits: U16) -> tuple[I64, U32]:
    count = -(-len(bits) // CHUNK_TOKENS)
    indices, values = np.empty((count, TOP_K), np.int64), np.empty((count, TOP_K), np.uint32)
    largest_of_chunks(bits.reshape(-1), CHUNK_TOKENS * bits.shape[1], indices, values)
    return indices, values


def top_points_on_device(states: torch.Tensor) -> tuple[I64, U32]:
    """The same by tensor operations, for any device. Shapes: states [T, H] bfloat16."""
    import torch

    bits = states.detach().contiguous().view(torch.int16)
    whole = len(bits) // CHUNK_TOKENS * CHUNK_TOKENS
    indices, values = [], []
    for part, rows in ((bits[:whole], CHUNK_TOKENS), (bits[whole:], len(bits) - whole)):
        if not len(part):
            continue
        size = rows * states.shape[1]
        # One number a value: its magnitude, then how far from the end it stands.
        from_end = size - 1 - torch.arange(size, device=part.device, dtype=torch.int64)
        for flat in torch.split(part.reshape(-1, size), CHUNKS_AT_ONCE):
            keys = ((flat.to(torch.int64) & MAGNITUDE) << INDEX_BITS) | from_end
            found = size - 1 - (keys.topk(TOP_K, dim=1, sorted=False).values & ((1 << INDEX_BITS) - 1))
            index = found.sort(dim=1).values
            indices.append(index.cpu().numpy())
            values.append(flat.gather(1, index).cpu().numpy().view(np.uint16).astype(np.uint32))
    return np.concatenate(indices), np.concatenate(values)
