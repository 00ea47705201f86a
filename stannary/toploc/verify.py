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
    from stannary.toploc.field import measure
    from stannary.toploc.states import top_points

    moduli, coefficients = parse_all(proofs)
    indices, own = top_points(states)
    count = len(own)
    if len(moduli) != count:
        raise ProofError(f"proofs: expected {count} for {len(states)} tokens, got {len(proofs)}")
    mismatches, means, medians = np.empty(count, np.int64), np.empty(count), np.empty(count)
    measure(indices, own, moduli, coefficients, mismatches, means, medians)
    return [ChunkDrift(*figures) for figures in zip(mismatches.tolist(), means.tolist(), medians.tolist(), strict=True)]
