"""TOPLOC: evidence that a completion's hidden states are the policy's, byte for byte in the published format.

Owns building, parsing and measuring proofs. Judges nothing: thresholds belong to the calibration card.
Source: arXiv 2501.16007. Needs numpy and numba; torch tensors are taken as they are.
"""

from __future__ import annotations

from stannary.toploc.build import build, chunk_count
from stannary.toploc.proof import CHUNK_TOKENS, MODULUS_MIN, PRIME, PROOF_BYTES, TOP_K, Proof, parse
from stannary.toploc.verify import ChunkDrift, proved_points, verify

__all__ = [
    "CHUNK_TOKENS",
    "MODULUS_MIN",
    "PRIME",
    "PROOF_BYTES",
    "TOP_K",
    "ChunkDrift",
    "Proof",
    "build",
    "chunk_count",
    "parse",
    "proved_points",
    "verify",
]
