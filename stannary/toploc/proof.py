"""The proof as bytes: a big-endian u16 modulus and 128 big-endian u16 coefficients, lowest degree first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stannary.errors import ProofError

CHUNK_TOKENS = 32
"""Generated tokens under one proof. Source: TOPLOC (arXiv 2501.16007)."""
TOP_K = 128
PROOF_BYTES = 2 + 2 * TOP_K
PRIME = 65497
"""The field's order; values from here on (NaN patterns) cannot be represented."""
MODULUS_MIN = (1 << 15) + 1
"""The published builder searches down to here; anything lower was not built by it."""


@dataclass(frozen=True, slots=True)
class Proof:
    """One chunk's polynomial. Shapes: coefficients [128] uint32, each below PRIME."""

    modulus: int
    coefficients: npt.NDArray[np.uint32]

    def to_bytes(self) -> bytes:
        """The 258 bytes of the published format."""
        return self.modulus.to_bytes(2, "big") + self.coefficients.astype(">u2").tobytes()


def parse(proof: bytes) -> Proof:
    """Read one proof. Raises: ProofError as `parse_all`."""
    moduli, coefficients = parse_all([proof])
    return Proof(modulus=int(moduli[0]), coefficients=coefficients[0])


def parse_all(proofs: Sequence[bytes]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32]]:
    """Read the proofs of a completion, refusing whatever the builder cannot have written, before any arithmetic.

    Shapes: moduli [chunks], coefficients [chunks, 128].
    Raises: ProofError on another length, a modulus outside its range, or a coefficient outside the field.
    """
    for proof in proofs:
        if len(proof) != PROOF_BYTES:
            raise ProofError(f"proof: expected {PROOF_BYTES} bytes, got {len(proof)}")
    words = np.frombuffer(b"".join(proofs), dtype=">u2").reshape(-1, 1 + TOP_K)
    moduli, coefficients = words[:, 0].astype(np.int64), words[:, 1:].astype(np.uint32)
    for modulus in moduli[(moduli < MODULUS_MIN) | (moduli > PRIME)][:1]:
        raise ProofError(f"proof modulus: expected {MODULUS_MIN} … {PRIME}, got {modulus}")
    highest = int(coefficients.max(initial=0))
    if highest >= PRIME:
        raise ProofError(f"proof coefficient: expected below {PRIME}, got {highest}")
    return moduli, coefficients
