"""The learning rule: group advantages and the two-sided clipped loss, as pure functions. It knows of no model or file.

Legend: N = trained tokens of a batch, flat over rollouts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

EPSILON = 0.2
"""Clip of the probability ratio around 1. Source: INTELLECT-2 (arXiv 2505.07291)."""
DELTA = 4.0
"""Upper clip of the ratio for negative advantages, which plain GRPO leaves unbounded. Source: as above."""
LOG_RATIO_BOUND = 20.0
"""Log-ratios are cut here before the exponential, far outside both clips: an overflow would make 0 · inf gradients."""
STD_FLOOR = 1e-6


@dataclass(frozen=True, slots=True)
class Loss:
    """The loss of a batch and how its tokens fared; sums, so that micro-batches add up.

    Shapes: loss [] (divided by the global token count, carries the gradient).
    """

    loss: torch.Tensor
    clipped_high: int
    """Tokens of positive advantage beyond 1 + ε: without gradient."""
    clipped_low: int
    """Tokens of negative advantage below 1 − ε: without gradient."""
    clipped_delta: int
    """Tokens of negative advantage beyond δ: without gradient."""
    ratio_sum: float


def group_advantages(rewards: Sequence[float]) -> list[float]:
    """Return (r − mean) / (std with ddof 1 + 1e-6) for each reward of one group, zeros if they are all equal.

    Equality is compared on the rewards: a float residue in the deviation would be blown up to thousands.
    Raises: ValueError for a reward that is not finite.
    """
    if not all(math.isfinite(reward) for reward in rewards):
        raise ValueError(f"rewards must be finite, got {list(rewards)}")
    if len(set(rewards)) < 2:
        return [0.0] * len(rewards)
    mean = math.fsum(rewards) / len(rewards)
    variance = math.fsum((reward - mean) ** 2 for reward in rewards) / (len(rewards) - 1)
    return [(reward - mean) / (math.sqrt(variance) + STD_FLOOR) for reward in rewards]


def grpo_loss(
    logprobs_N: torch.Tensor,
    old_logprobs_N: torch.Tensor,
    advantages_N: torch.Tensor,
    token_count: int,
    *,
    epsilon: float = EPSILON,
    delta: float = DELTA,
) -> Loss:
    """Return −Σ min(min(ρ, δ)·A, clip(ρ, 1−ε, 1+ε)·A) / token_count with ρ = exp(logp − logp_old).

    Shapes: all [N]; `token_count` counts the tokens of the whole optimizer step, not of this micro-batch.
    Source: INTELLECT-2 (arXiv 2505.07291), two-sided clipping.
    """
    log_ratio_N = (logprobs_N - old_logprobs_N.detach()).clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND)
    ratio_N = log_ratio_N.exp()
    free_N = ratio_N.clamp(max=delta) * advantages_N
    clipped_N = ratio_N.clamp(1 - epsilon, 1 + epsilon) * advantages_N
    loss = -torch.minimum(free_N, clipped_N).sum() / token_count
    with torch.no_grad():
        up_N, down_N = advantages_N > 0, advantages_N < 0
        return Loss(
            loss=loss,
            clipped_high=int((up_N & (ratio_N > 1 + epsilon)).sum()),
            clipped_low=int((down_N & (ratio_N < 1 - epsilon)).sum()),
            clipped_delta=int((down_N & (ratio_N > delta)).sum()),
            ratio_sum=float(ratio_N.sum()),
        )
