"""The same sampling rule for tensors, equal bit for bit to the numpy form. Only this module of sampling needs torch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from stannary.sampling.noise import OFFSET, SHIFT, counters, gumbel_batch, gumbel_table
from stannary.sampling.philox import MULTIPLIERS, ROUNDS, WEYL, WORD


def gumbel_batch_torch(
    seeds: Sequence[bytes], positions: Sequence[int], vocab: int, device: torch.device
) -> torch.Tensor:
    """Noise of many (seed, position) pairs on a device.

    Shapes: [len(seeds), vocab] float32.
    Raises: ValueError as `gumbel_batch`.
    """
    if device.type == "cpu":
        return torch.from_numpy(gumbel_batch(seeds, positions, vocab))  # compiled for it
    return noise_by_tensor_ops(seeds, positions, vocab, device)


def noise_by_tensor_ops(
    seeds: Sequence[bytes], positions: Sequence[int], vocab: int, device: torch.device
) -> torch.Tensor:
    """The noise made of int64 tensor operations alone, for any device."""
    seed_columns, where = counters(seeds, positions, vocab)
    columns = torch.from_numpy(np.column_stack([seed_columns, where]).astype(np.int64)).to(device)
    key0, key1, c2, c3, c1 = columns[:, :, None].unbind(1)
    shape = (len(where), -(-vocab // 4))
    c0 = torch.arange(shape[1], dtype=torch.int64, device=device).expand(shape)
    for _ in range(ROUNDS):
        # Products wrap past 2^63; the shift is arithmetic, so both halves are masked to 32 bits.
        p0, p1 = c0 * MULTIPLIERS[0], c2 * MULTIPLIERS[1]
        c0 = ((p1 >> 32) & WORD) ^ c1 ^ key0
        c2 = ((p0 >> 32) & WORD) ^ c3 ^ key1
        c1, c3 = p1 & WORD, p0 & WORD
        key0, key1 = (key0 + WEYL[0]) & WORD, (key1 + WEYL[1]) & WORD
    words = torch.stack([c0, c1, c2, c3], dim=-1).reshape(shape[0], -1)
    index = ((words.to(torch.float32).view(torch.int32) >> SHIFT) - OFFSET).clamp_(min=0)
    table = torch.from_numpy(gumbel_table().copy()).to(device)
    return table[index.to(torch.int64)][:, :vocab]


def perturb_(logits: torch.Tensor, temperature: float, noise: torch.Tensor) -> torch.Tensor:
    """fp32(logits / T) + noise, written into the logits.

    Raises: ValueError on logits that are not float32 or a temperature that is not above 0.
    """
    if logits.dtype != torch.float32 or noise.dtype != torch.float32:
        raise ValueError(f"logits, noise: expected float32, got {logits.dtype}, {noise.dtype}")
    if not 0 < temperature < float("inf"):
        raise ValueError(f"temperature: expected above 0, got {temperature}")
    # A tensor, not a number: CUDA divides by a number as a product with its reciprocal, which rounds otherwise.
    divisor = torch.full((1,), temperature, dtype=torch.float32, device=logits.device)
    return logits.div_(divisor).add_(noise)


def choose_torch(logits: torch.Tensor, temperature: float, noise: torch.Tensor) -> torch.Tensor:
    """The token of each row; ties go to the lowest id. The logits are overwritten.

    Shapes: logits, noise [B, V]; result [B] int64.
    Raises: ValueError on logits that are not finite.
    """
    scores = perturb_(logits, temperature, noise)
    best, choice = scores.max(dim=-1)
    if not bool(torch.isfinite(best).all()):
        raise ValueError("logits: expected finite numbers")
    # max() does not promise the first of equals on every device: take the lowest id that reaches the best.
    ties = (scores == best[:, None]).sum(dim=-1) > 1
    if bool(ties.any()):
        ids = torch.arange(scores.shape[-1], device=scores.device).expand_as(scores)
        lowest = torch.where(scores == best[:, None], ids, scores.shape[-1]).min(dim=-1).values
        choice = torch.where(ties, lowest, choice)
    return choice
