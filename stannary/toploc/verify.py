"""Measuring how far recomputed states lie from proved ones. Numbers only, no thresholds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stannary.errors import ProofError
from stannary.toploc.build import chunk_count
from stannary.toploc.field import evaluate
from stannary.toploc.proof import parse
from stannary.toploc.states import U16, bits_of, top_points

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class ChunkDrift:
    """Difference of one chunk's proof from the recomputed states at the recomputed 128 largest magnitudes.

    The mantissa figures cover the values whose exponents agree; both are infinite where none does.
    """

    exponent_mismatches: int
    mantissa_mean: float
    mantissa_median: float


def verify(states: torch.Tensor | U16, proofs: Sequence[bytes]) -> list[ChunkDrift]:
    """Drift of every chunk of a completion.

    Shapes: states [T, H] recomputed; proofs ceil(T / 32), in order.
    Raises: ProofError on another number of proofs, a malformed proof, or states that no proof can be built of.
    """
    bits = bits_of(states)
    expected = chunk_count(len(bits))
    if len(proofs) != expected:
        raise ProofError(f"proofs: expected {expected} for {len(bits)} tokens, got {len(proofs)}")
    parsed = [parse(proof) for proof in proofs]
    indices, own = top_points(bits)
    x = (indices % np.array([proof.modulus for proof in parsed])[:, None]).astype(np.uint32)
    claimed = evaluate(np.stack([proof.coefficients for proof in parsed]), x)
    agree = (own >> 7) & 0xFF == (claimed >> 7) & 0xFF  # the sign is not compared: the published rule
    difference = np.abs((own & 0x7F).astype(np.int64) - (claimed & 0x7F).astype(np.int64))
    drifts = []
    for row, same in zip(difference, agree, strict=True):
        errors = row[same]
        drifts.append(
            ChunkDrift(
                exponent_mismatches=int(same.size - errors.size),
                mantissa_mean=float(errors.mean()) if errors.size else math.inf,
                mantissa_median=float(np.median(errors)) if errors.size else math.inf,
            )
        )
    return drifts
