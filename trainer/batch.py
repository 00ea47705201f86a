"""Batches: rollouts as padded tensors whose masks come from lengths, never from token values. It knows of no reward.

A pad id may equal an end id or a prompt marker, so no mask is made by comparing ids.
Legend: B = rollouts, T = positions (right-padded), N = trained tokens, flat in row order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Sample:
    """One rollout to learn from: token ids exactly as they were sampled, end token included."""

    prompt: tuple[int, ...]
    completion: tuple[int, ...]
    advantage: float

    @property
    def length(self) -> int:
        """Tokens of prompt and completion together."""
        return len(self.prompt) + len(self.completion)


@dataclass(frozen=True, slots=True)
class Batch:
    """Padded rollouts. `states[predicts_BT]` are the N states that predicted the N targets."""

    tokens_BT: torch.Tensor
    attention_BT: torch.Tensor
    """True at real tokens."""
    predicts_BT: torch.Tensor
    """True at positions whose next token is a completion token."""
    targets_N: torch.Tensor
    advantages_N: torch.Tensor


def make_batch(samples: Sequence[Sample]) -> Batch:
    """Pad samples on the right. Raises: ValueError for an empty prompt, an empty completion or no sample."""
    if not samples:
        raise ValueError("a batch needs at least one sample")
    for sample in samples:
        if not sample.prompt or not sample.completion:
            raise ValueError("a sample needs at least one prompt token and one completion token")
    width = max(sample.length for sample in samples)
    tokens_BT = torch.zeros(len(samples), width, dtype=torch.long)
    attention_BT = torch.zeros(len(samples), width, dtype=torch.bool)
    predicts_BT = torch.zeros(len(samples), width, dtype=torch.bool)
    targets: list[int] = []
    advantages: list[float] = []
    for row, sample in enumerate(samples):
        tokens_BT[row, : sample.length] = torch.tensor(sample.prompt + sample.completion)
        attention_BT[row, : sample.length] = True
        predicts_BT[row, len(sample.prompt) - 1 : sample.length - 1] = True
        targets.extend(sample.completion)
        advantages.extend([sample.advantage] * len(sample.completion))
    return Batch(
        tokens_BT=tokens_BT,
        attention_BT=attention_BT,
        predicts_BT=predicts_BT,
        targets_N=torch.tensor(targets),
        advantages_N=torch.tensor(advantages, dtype=torch.float32),
    )


def micro_batches(samples: Sequence[Sample], max_tokens: int) -> Iterator[list[Sample]]:
    """Yield samples in order of length, cut so that rows × longest stays within `max_tokens` (one row at least)."""
    taken: list[Sample] = []
    for sample in sorted(samples, key=lambda each: each.length):
        if taken and (len(taken) + 1) * sample.length > max_tokens:
            yield taken
            taken = []
        taken.append(sample)
    if taken:
        yield taken
