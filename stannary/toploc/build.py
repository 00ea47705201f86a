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
    from stannary.toploc.field import inverses, prove
    from stannary.toploc.states import top_points

    indices, values = top_points(states)
    moduli, coefficients = np.empty(len(indices), np.int64), np.empty((len(indices), TOP_K), np.uint32)
    prove(indices, values, inverses(), moduli, coefficients)
    if not moduli.all():
        raise ProofError(f"chunk {int(moduli.argmin())}: no injective modulus")
    return [Proof(modulus, own).to_bytes() for modulus, own in zip(moduli.tolist(), coefficients, strict=True)]
