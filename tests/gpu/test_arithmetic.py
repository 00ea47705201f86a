"""What must be the same on a GPU bit for bit: noise, choices, replay, and the points under a proof."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import torch

from stannary import toploc
from stannary.sampling import gumbel_batch, replay
from stannary.sampling.torch import noise_by_tensor_ops, replay_tensor, sample
from stannary.toploc.states import top_points

GPU = torch.device("cuda")
SEEDS = [hashlib.sha256(bytes([row])).digest() for row in range(32)]
POSITIONS = [7 * row for row in range(32)]


@pytest.mark.parametrize("vocab", [5, 64, 49_152, 151_936])
def test_noise_has_the_same_bits(vocab: int) -> None:
    made = noise_by_tensor_ops(SEEDS, POSITIONS, vocab, GPU).cpu().numpy()
    assert np.array_equal(made.view(np.uint32), gumbel_batch(SEEDS, POSITIONS, vocab).view(np.uint32))


@pytest.mark.parametrize("temperature", [0.3, 0.7, 1.0, 1.5])
def test_choices_and_replay_are_the_same(temperature: float) -> None:
    logits = 4 * torch.randn(32, 49_152, generator=torch.Generator().manual_seed(3))
    logits[:, 100:200] = -torch.inf
    tokens = [11 * row for row in range(9)] + [201 + row for row in range(23)]
    ours = replay(logits.numpy(), tokens, temperature, SEEDS, POSITIONS)
    there = replay_tensor(logits.to(GPU), tokens, temperature, SEEDS, POSITIONS)
    assert np.array_equal(ours.choice, there.choice)
    assert np.array_equal(ours.gap, there.gap)
    assert np.array_equal(ours.margin, there.margin)
    assert np.allclose(ours.logprob, there.logprob, atol=1e-4)
    chosen, logprobs = sample(logits.to(GPU), temperature, SEEDS, POSITIONS)
    here, expected = sample(logits, temperature, SEEDS, POSITIONS)
    assert chosen.device.type == logprobs.device.type == "cuda"
    assert torch.equal(chosen.cpu(), here)
    assert torch.allclose(logprobs.cpu(), expected, atol=1e-4)


def test_row_that_is_not_finite_is_marked_and_spoils_no_other() -> None:
    logits = torch.zeros(3, 500)
    logits[1, 400] = torch.nan
    chosen, logprobs = sample(logits.to(GPU), 1.0, SEEDS[:3], [0, 1, 2])
    assert torch.isfinite(logprobs).tolist() == [True, False, True]
    assert chosen[[0, 2]].tolist() == sample(logits[[0, 2]], 1.0, [SEEDS[0], SEEDS[2]], [0, 2])[0].tolist()


@pytest.mark.parametrize("shape", [(1, 128), (32, 576), (33, 200), (70, 576), (640, 5120)])
def test_points_and_proofs_are_the_same(shape: tuple[int, int]) -> None:
    states = torch.randn(shape, generator=torch.Generator().manual_seed(5)).bfloat16()
    states[0, :40] = states[0, 0]  # ties
    for here, there in zip(top_points(states), top_points(states.to(GPU)), strict=True):
        assert np.array_equal(here, there)
    proofs = toploc.build(states)
    assert toploc.build(states.to(GPU)) == proofs
    assert toploc.verify(states.to(GPU), proofs) == toploc.verify(states, proofs)
