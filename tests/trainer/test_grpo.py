"""The learning rule: advantages and the two-sided clip."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trainer.grpo import group_advantages, grpo_loss


@pytest.mark.parametrize("rewards", [[1.0] * 8, [0.0] * 8, [float(np.float32(0.1))] * 8, [0.1 + 0.2] * 3, [0.7], []])
def test_a15_advantages_of_equal_rewards_are_exactly_zero(rewards: list[float]) -> None:
    assert group_advantages(rewards) == [0.0] * len(rewards)


def test_a15_advantages_with_one_outlier_are_bounded() -> None:
    found = group_advantages([0.35] * 7 + [0.95])
    assert max(map(abs, found)) == pytest.approx(7 / math.sqrt(8), rel=1e-4)
    assert sum(found) == pytest.approx(0, abs=1e-9)


def test_advantages_use_sample_deviation() -> None:
    assert group_advantages([0.0, 1.0]) == pytest.approx([-(0.5**0.5), 0.5**0.5], rel=1e-5)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_advantages_of_reward_that_is_not_finite_raise(bad: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        group_advantages([0.0, bad])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=32))
def test_advantages_of_any_rewards_are_finite_and_bounded(rewards: list[float]) -> None:
    found = group_advantages(rewards)
    assert all(math.isfinite(value) for value in found)
    assert max(map(abs, found)) <= (len(rewards) - 1) / math.sqrt(len(rewards)) + 1e-6 if len(rewards) > 1 else True


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "is_alive"),
    [
        (1.0, 1.0, -1.0, True),
        (1.1, 1.0, -1.1, True),
        (1.3, 1.0, -1.2, False),
        (0.5, 1.0, -0.5, True),
        (9.0, 1.0, -1.2, False),
        (1.0, -1.0, 1.0, True),
        (0.5, -1.0, 0.8, False),
        (3.0, -1.0, 3.0, True),
        (5.0, -1.0, 4.0, False),
    ],
)
def test_loss_of_one_token_follows_two_sided_clip(ratio: float, advantage: float, loss: float, is_alive: bool) -> None:
    logprobs = torch.tensor([math.log(ratio) - 2.0], requires_grad=True)
    result = grpo_loss(logprobs, torch.tensor([-2.0]), torch.tensor([advantage]), 1)
    result.loss.backward()
    assert float(result.loss.detach()) == pytest.approx(loss, rel=1e-5)
    assert logprobs.grad is not None
    assert float(logprobs.grad) == pytest.approx(-ratio * advantage if is_alive else 0.0, rel=1e-5)


def test_loss_is_divided_by_global_token_count() -> None:
    logprobs = torch.full((4,), -1.0)
    whole = grpo_loss(logprobs, logprobs, torch.ones(4), 4).loss
    parts = [
        grpo_loss(logprobs[:1], logprobs[:1], torch.ones(1), 4).loss,
        grpo_loss(logprobs[1:], logprobs[1:], torch.ones(3), 4).loss,
    ]
    assert float(sum(parts)) == pytest.approx(float(whole))


def test_loss_counts_clipped_tokens() -> None:
    logprobs = torch.log(torch.tensor([1.3, 0.7, 4.5, 1.0]))
    result = grpo_loss(logprobs, torch.zeros(4), torch.tensor([1.0, -1.0, -1.0, 1.0]), 4)
    assert (result.clipped_high, result.clipped_low, result.clipped_delta) == (1, 1, 1)


@pytest.mark.parametrize("advantage", [1.0, -1.0])
@pytest.mark.parametrize("gap", [-200.0, -99.0, 99.0, 200.0])
def test_a7_huge_gap_gives_finite_loss_and_leaves_other_gradients_alone(gap: float, advantage: float) -> None:
    old = torch.tensor([-1.0, -1.0 - gap])
    logprobs = torch.tensor([-1.1, -1.0], requires_grad=True)
    result = grpo_loss(logprobs, old, torch.tensor([1.0, advantage]), 2)
    result.loss.backward()
    alone = torch.tensor([-1.1], requires_grad=True)
    grpo_loss(alone, old[:1], torch.tensor([1.0]), 2).loss.backward()
    assert logprobs.grad is not None
    assert alone.grad is not None
    assert torch.isfinite(result.loss)
    assert torch.isfinite(logprobs.grad).all()
    assert float(logprobs.grad[0]) == float(alone.grad[0])
    assert abs(float(logprobs.grad[1])) < 1e-6
