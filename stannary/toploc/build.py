"""Building proofs from hidden states. Never substitutes: what cannot be proved raises."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stannary.errors import ProofError
from stannary.toploc.proof import CHUNK_TOKENS, TOP_K, Proof

if TYPE_CHECKING:
    import torch

    from stannary.toploc.field import U16


def chunk_count(tokens: int) -> int:
    """How many proofs a completion of so many tokens carries."""
    return -(-tokens // CHUNK_TOKENS)


def build(states: torch.Tensor | U16) -> list[bytes]:
    """One proof of 258 bytes for every 32 tokens of a completion.

    Shapes: states [T, H], bfloat16 tensor or uint16 bits; the state that predicted each generated token.
    Raises: ProofError on other dtypes, no token, a chunk of fewer than 128 values, states that are not finite.
    """
    # Compiled code is loaded by whoever builds or verifies, not by whoever reads a length.
    from stannary.toploc.field import injective_modulus, interpolate, inverses
    from stannary.toploc.states import top_points

    proofs = []
    for index, value in zip(*top_points(states), strict=True):
        modulus = injective_modulus(index)
        if modulus == 0:
            raise ProofError("chunk: no injective modulus")
        coefficients = np.empty(TOP_K, np.uint32)
        interpolate((index % modulus).astype(np.uint32), value, inverses(), coefficients)
        proofs.append(Proof(modulus=modulus, coefficients=coefficients).to_bytes())
    return proofs
