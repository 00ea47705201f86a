"""Building proofs from hidden states. Never substitutes: what cannot be proved raises."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from stannary.errors import ProofError
from stannary.toploc.field import interpolate
from stannary.toploc.proof import CHUNK_TOKENS, MODULUS_MIN, PRIME, Proof
from stannary.toploc.states import U16, bits_of, top_points

if TYPE_CHECKING:
    import torch


def chunk_count(tokens: int) -> int:
    """How many proofs a completion of so many tokens carries."""
    return -(-tokens // CHUNK_TOKENS)


def build(states: torch.Tensor | U16) -> list[bytes]:
    """One proof of 258 bytes for every 32 tokens of a completion.

    Shapes: states [T, H], bfloat16 tensor or uint16 bits; the state that predicted each generated token.
    Raises: ProofError on other dtypes, no token, a chunk of fewer than 128 values, states that are not finite.
    """
    indices, values = top_points(bits_of(states))
    moduli = [injective_modulus(row) for row in indices]
    x = (indices % np.array(moduli)[:, None]).astype(np.uint32)
    rows = interpolate(x, values)
    return [Proof(modulus=m, coefficients=row).to_bytes() for m, row in zip(moduli, rows, strict=True)]


def injective_modulus(indices: npt.NDArray[np.int64]) -> int:
    """The largest modulus up to the field's order under which the indices stay distinct.

    Raises: ProofError when there is none in the published range.
    """
    if int(indices.max()) < PRIME:
        return PRIME
    for modulus in range(PRIME, MODULUS_MIN - 1, -1):
        if len(set((indices % modulus).tolist())) == len(indices):
            return modulus
    raise ProofError("chunk: no injective modulus")
