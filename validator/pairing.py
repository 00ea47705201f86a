"""Pairing: are the proved states nearer to the claimed policy's or to another's? Pure.

A stale or rounded policy drifts less than honest hardware may. But it drifts in one direction, which a validator that
has the other policy knows: the difference of the two policies' states. The proved states are projected on it. An
honest worker's share of the way is near 0, whatever its hardware; that of a worker which used the other policy is 1.

Two errors stand against a share. One follows from how much it varies over blocks of the same submission. The other is
common to all of them: the rounding errors of a prompt reach every token after it, and may point along the way. How
large that one gets, in the same units as the distance of the policies, is measured on honest engines: the floor.

Legend: T tokens, H hidden size, C chunks, N proved values, B blocks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from stannary import toploc

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

BLOCK_TOKENS = 8
"""Tokens whose errors are taken as one draw."""
LEAST_BLOCKS = 6
"""With fewer blocks nothing can be said."""
HEAVIEST_BLOCK = 0.5
"""Nor where one block has more than this part of the whole difference."""
WIDEST = 2.0**-5
"""A relative difference counts as this at most, four to eight units in the last place of bf16: beyond it a proved value
may be one by chance. Tighter, and noise of a few units would fill the bounds and hide the way."""
HALFWAY = 0.5
"""Beyond it the proved states are nearer to the other policy."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """How far the proved states lie from the claimed policy towards another one."""

    name: str
    share: float
    """Share of the way: 0 for the claimed policy, 1 for the other one."""
    error: float
    """Its standard error by the blocks, widened for their number to that of a normal distribution; infinite where
    nothing can be said."""
    blocks: int
    distance: float
    """Root of the mean squared relative difference of the two policies' states: with it grows the power."""

    def deviation(self, floor: float) -> float:
        """Return how many standard errors the share is from 0, where less than half of the way counts for less.

        Units: `floor` is a relative difference of states, as `distance` is.
        """
        if math.isinf(self.error) or self.share <= 0 or self.distance <= 0:
            return 0.0
        error = math.hypot(self.error, floor / self.distance)
        return self.share / error * min(1.0, self.share / HALFWAY) if error > 0 else math.inf

    @property
    def is_nearer(self) -> bool:
        """Say whether the proved states are nearer to the other policy."""
        return self.share > HALFWAY


@dataclass(frozen=True, slots=True)
class Way:
    """From the claimed policy to another one, at the tokens of a submission.

    Shapes: claimed and other one [T, H] for each rollout, computed in more than bf16: rounded, they would share the
    rounding errors of the states that the proofs are held against, and every honest worker would seem to be on the way.
    """

    name: str
    claimed: Sequence[torch.Tensor]
    other: Sequence[torch.Tensor]


def pair(states: Sequence[torch.Tensor], proofs: Sequence[Sequence[bytes]], way: Way) -> Pairing:
    """Project what the proofs differ from this validator's states on the way to another policy.

    Shapes: states one [T, H] for each rollout, of the claimed policy, by any compute.
    """
    rollouts = zip(states, proofs, way.claimed, way.other, strict=True)
    parts = [_differences(*rollout) for rollout in rollouts]
    error_N, difference_N = (np.concatenate(values) for values in zip(*(part[:2] for part in parts), strict=True))
    firsts = np.cumsum([0, *(len(own) // BLOCK_TOKENS + 1 for own in states[:-1])])
    block_N = np.concatenate([first + part[2] // BLOCK_TOKENS for first, part in zip(firsts, parts, strict=True)])
    along_B = np.bincount(block_N, error_N * difference_N)
    size_B = np.bincount(block_N, difference_N * difference_N)
    is_told = size_B > 0
    along_B, size_B = along_B[is_told], size_B[is_told]
    total, blocks = float(size_B.sum()), int(is_told.sum())
    distance = math.sqrt(total / error_N.size) if error_N.size else 0.0
    weight_B = size_B / total if blocks else size_B
    if blocks < LEAST_BLOCKS or float(weight_B.max()) > HEAVIEST_BLOCK:
        return Pairing(way.name, 0.0, math.inf, blocks, distance)
    share = float(along_B.sum()) / total
    # Each block left out in turn: a large one would otherwise explain itself.
    left_out_B = (along_B - share * size_B) / (1 - weight_B)
    error = math.sqrt(float(left_out_B @ left_out_B) * (blocks - 1) / blocks) / total
    freedom = max(1.0, 1 / float(weight_B @ weight_B) - 1)
    return Pairing(way.name, share, error * _widening(abs(share) / error, freedom) if error else 0.0, blocks, distance)


def _differences(
    own: torch.Tensor, proofs: Sequence[bytes], claimed: torch.Tensor, other: torch.Tensor
) -> tuple[F64, F64, I64]:
    """Return what proofs, and the other policy, differ by relative to the claimed one, and at which token.

    Shapes: [N] each, of the proved values of a rollout.
    """
    indices_CK, _, proved_CK = toploc.proved_points(own.to(torch.bfloat16), proofs)
    tokens_CK = indices_CK // own.shape[1] + np.arange(len(indices_CK))[:, None] * toploc.CHUNK_TOKENS
    columns_CK = indices_CK % own.shape[1]
    places = torch.from_numpy(tokens_CK), torch.from_numpy(columns_CK)
    r, a, b = (_floats(states[places]) for states in (own, claimed, other))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # chance makes any bits, NaN too
        p = (proved_CK << 16).view(np.float32).astype(np.float64)  # bf16 is the upper half of a float32
        error, difference = (np.clip(moved / a, -WIDEST, WIDEST) for moved in (p - r, b - a))
    is_used = np.isfinite(error) & np.isfinite(difference)
    return error[is_used], difference[is_used], tokens_CK[is_used]


def _widening(ratio: float, freedom: float) -> float:
    """Return by which factor Student's t is further out than the normal deviate as rare as it (Wallace 1959)."""
    if ratio < 1e-6:
        return (8 * freedom + 3) / (8 * freedom + 1)
    deviate = (8 * freedom + 1) / (8 * freedom + 3) * math.sqrt(freedom * math.log1p(ratio * ratio / freedom))
    return ratio / deviate


def _floats(states: torch.Tensor) -> F64:
    found: F64 = states.detach().cpu().double().numpy()
    return found
