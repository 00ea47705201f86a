"""Pairing: are the proved states nearer to the claimed policy's or to another's? Pure.

A stale or rounded policy drifts less than honest hardware may. But it drifts in one direction, which a validator that
has the other policy knows: the difference of the two policies' states. The proved states are projected on it. An
honest worker's rounding errors point anywhere, so its share of the way is 0, whatever its hardware; that of a worker
which used the other policy is 1. How sure that is follows from how much the share varies over blocks of the same
submission, so that no noise level has to be known beforehand.

Legend: T tokens, H hidden size, C chunks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from stannary import toploc

BLOCK_TOKENS = 8
"""Tokens whose errors are taken as one draw."""
LEAST_BLOCKS = 6
"""With fewer blocks nothing can be said."""
HEAVIEST_BLOCK = 0.5
"""Nor where one block has more than this part of the whole difference."""
OUTLIER = 0.25
"""A proved value further than this from the recomputed one, relative to it, is one by chance and left out."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """How far the proved states lie from the claimed policy towards another one."""

    name: str
    share: float
    """Share of the way: 0 for the claimed policy, 1 for the other one."""
    errors: float
    """How many standard errors of a normal distribution that is from 0; less than half of the way counts for less."""
    blocks: int
    distance: float
    """Root of the mean squared relative difference of the two policies' states: with it grows the power."""


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
    towards: list[npt.NDArray[np.float64]] = []
    squares: list[npt.NDArray[np.float64]] = []
    values = 0
    for own, proved, claimed, other in zip(states, proofs, way.claimed, way.other, strict=True):
        along, size, used = _projected(own, proved, claimed, other)
        towards.append(along)
        squares.append(size)
        values += used
    along_B, size_B = np.concatenate(towards), np.concatenate(squares)
    is_told = size_B > 0
    along_B, size_B = along_B[is_told], size_B[is_told]
    total, blocks = float(size_B.sum()), int(is_told.sum())
    distance = math.sqrt(total / values) if values else 0.0
    if blocks < LEAST_BLOCKS:
        return Pairing(way.name, 0.0, 0.0, blocks, distance)
    share = float(along_B.sum()) / total
    # Each block left out in turn: a large one would otherwise explain itself.
    weight_B = size_B / total
    if float(weight_B.max()) > HEAVIEST_BLOCK:
        return Pairing(way.name, 0.0, 0.0, blocks, distance)
    left_out_B = (along_B - share * size_B) / (1 - weight_B)
    error = math.sqrt(float(left_out_B @ left_out_B) * (blocks - 1) / blocks) / total
    freedom = max(1.0, 1 / float(weight_B @ weight_B) - 1)
    ratio = share / error if error > 0 else math.copysign(math.inf, share) if share else 0.0
    return Pairing(way.name, share, _normal(ratio, freedom) * min(1.0, max(0.0, 2 * share)), blocks, distance)


def _projected(
    own: torch.Tensor, proofs: Sequence[bytes], claimed: torch.Tensor, other: torch.Tensor
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], int]:
    """Return, for each block of a rollout, error times difference and difference squared, and how many values count."""
    indices_CK, _, proved_CK = toploc.proved_points(own.to(torch.bfloat16), proofs)
    tokens_CK = indices_CK // own.shape[1] + np.arange(len(indices_CK))[:, None] * toploc.CHUNK_TOKENS
    columns_CK = indices_CK % own.shape[1]
    r, a, b = (_floats(states)[tokens_CK, columns_CK] for states in (own, claimed, other))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # chance makes any bits, NaN too
        p = (proved_CK << 16).view(np.float32).astype(np.float64)  # bf16 is the upper half of a float32
        error, difference = (p - r) / np.abs(a), (b - a) / np.abs(a)
        is_used = (np.abs(error) <= OUTLIER) & np.isfinite(difference)
    difference = np.where(is_used, np.clip(difference, -OUTLIER, OUTLIER), 0.0)
    error = np.where(is_used, error, 0.0)
    block_CK = tokens_CK // BLOCK_TOKENS
    count = -(-len(own) // BLOCK_TOKENS)
    along, size = np.zeros(count), np.zeros(count)
    np.add.at(along, block_CK, error * difference)
    np.add.at(size, block_CK, difference * difference)
    return along, size, int(is_used.sum())


def _floats(states: torch.Tensor) -> npt.NDArray[np.float64]:
    found: npt.NDArray[np.float64] = states.detach().cpu().double().numpy()
    return found


def _normal(ratio: float, freedom: float) -> float:
    """Return the normal deviate that is as rare as Student's t (Wallace 1959), a little less far out."""
    if math.isinf(ratio):
        return ratio
    deviate = (8 * freedom + 1) / (8 * freedom + 3) * math.sqrt(freedom * math.log1p(ratio * ratio / freedom))
    return math.copysign(deviate, ratio)
