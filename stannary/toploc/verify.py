"""Measuring how far recomputed states lie from proved ones. Numbers only, no thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stannary.errors import ProofError
from stannary.toploc.proof import parse_all

if TYPE_CHECKING:
    import torch

    from stannary.toploc.field import I64, U16, U32


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
    from stannary.toploc.field import measure

    indices, own, moduli, coefficients = _matched(states, proofs)
    count = len(own)
    mismatches, means, medians = np.empty(count, np.int64), np.empty(count), np.empty(count)
    measure(indices, own, moduli, coefficients, mismatches, means, medians)
    return [ChunkDrift(*figures) for figures in zip(mismatches.tolist(), means.tolist(), medians.tolist(), strict=True)]


def proved_points(states: torch.Tensor | U16, proofs: Sequence[bytes]) -> tuple[I64, U32, U32]:
    """What proofs say of a completion at the recomputed 128 largest magnitudes of each chunk.

    A proof says something at every index; where the prover's own 128 did not include it, that is a value by chance.

    Shapes: states [T, H] recomputed; proofs ceil(T / 32), in order; results [ceil(T / 32), 128]: flat index within the
    chunk, recomputed bits, proved bits.
    Raises: as `verify`.
    """
    from stannary.toploc.field import evaluate

    indices, own, moduli, coefficients = _matched(states, proofs)
    proved = np.empty_like(own)
    for chunk in range(len(own)):
        evaluate(coefficients[chunk], (indices[chunk] % moduli[chunk]).astype(np.uint32), proved[chunk])
    return indices, own, proved


def _matched(states: torch.Tensor | U16, proofs: Sequence[bytes]) -> tuple[I64, U32, I64, U32]:
    """Return indices and bits of each chunk's largest values, moduli and coefficients of its proof."""
    from stannary.toploc.states import top_points

    moduli, coefficients = parse_all(proofs)
    indices, own = top_points(states)
    if len(moduli) != len(own):
        raise ProofError(f"proofs: expected {len(own)} for {len(states)} tokens, got {len(proofs)}")
    return indices, own, moduli, coefficients
