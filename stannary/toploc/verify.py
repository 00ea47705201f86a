"""Measuring how far recomputed states lie from proved ones. Numbers only, no thresholds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stannary.errors import ProofError
from stannary.toploc.proof import parse

if TYPE_CHECKING:
    import torch

    from stannary.toploc.field import U16


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
    from stannary.toploc.field import evaluate
    from stannary.toploc.states import top_points

    parsed = [parse(proof) for proof in proofs]
    indices, own = top_points(states)
    if len(parsed) != len(own):
        raise ProofError(f"proofs: expected {len(own)} for {len(states)} tokens, got {len(proofs)}")
    claimed = np.empty_like(own)
    for chunk, proof in enumerate(parsed):
        evaluate(proof.coefficients, (indices[chunk] % proof.modulus).astype(np.uint32), claimed[chunk])
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
