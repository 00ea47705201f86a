"""Pairing: an honest worker is on no way, one that used the other policy is at its end."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from stannary import toploc
from validator.pairing import LEAST_BLOCKS, Way, pair

TOKENS, WIDTH = 96, 256


def made(
    seed: int, noise: float, share: float, step: float = 0.003
) -> tuple[list[torch.Tensor], list[list[bytes]], Way]:
    """Return states of a claimed policy, proofs of states some share of the way to another, and the way."""
    generator = torch.Generator().manual_seed(seed)

    def draw() -> torch.Tensor:
        return torch.randn(TOKENS, WIDTH, generator=generator, dtype=torch.float64)

    claimed = [draw() for _ in range(4)]
    other = [own * (1 + step * draw()) for own in claimed]
    proved = [own + share * (end - own) + noise * own * draw() for own, end in zip(claimed, other, strict=True)]
    return claimed, [toploc.build(own.bfloat16()) for own in proved], Way("another", claimed, other)


@pytest.mark.parametrize("seed", range(5))
def test_honest_noise_leads_nowhere(seed: int) -> None:
    states, proofs, way = made(seed, noise=0.003, share=0.0)
    found = pair(states, proofs, way)
    assert abs(found.share) < 0.1
    assert found.deviation(0.0) < 4
    assert found.distance == pytest.approx(0.003, rel=0.15)


@pytest.mark.parametrize("share", [0.7, 1.0, 1.3])
def test_states_of_the_other_policy_lie_at_the_end_of_the_way(share: float) -> None:
    states, proofs, way = made(1, noise=0.003, share=share)
    found = pair(states, proofs, way)
    assert found.share == pytest.approx(share, abs=0.15)
    assert found.deviation(0.0) > 8


def test_power_grows_with_the_distance() -> None:
    errors = [pair(*made(2, noise=0.003, share=1.0, step=step)).deviation(0.0) for step in (0.0005, 0.002, 0.008)]
    assert errors == sorted(errors)
    assert errors[0] < 5 < errors[2]


def test_less_than_half_of_the_way_counts_for_less() -> None:
    states, proofs, way = made(3, noise=0.001, share=0.2)
    found, whole = pair(states, proofs, way), pair(*made(3, noise=0.001, share=0.6))
    assert found.share == pytest.approx(0.2, abs=0.02)
    assert found.deviation(0.0) < 0.6 * whole.deviation(0.0)


def test_policy_that_did_not_change_leads_nowhere() -> None:
    states, proofs, way = made(4, noise=0.003, share=0.0, step=0.0)
    found = pair(states, proofs, way)
    assert (found.share, found.deviation(0.0), found.blocks) == (0.0, 0.0, 0)


@pytest.mark.parametrize("units", [1, 2, 4])
def test_noise_of_a_few_units_in_the_last_place_does_not_hide_the_way(units: int) -> None:
    """A cheat may add it to what it proves, up to what the limits of the drift leave room for."""
    states, _, way = made(9, noise=0.0, share=0.0)
    generator = torch.Generator().manual_seed(2)
    proofs = []
    for other in way.other:
        bits = other.bfloat16().view(torch.int16)
        signs = torch.randint(0, 2, bits.shape, generator=generator, dtype=torch.int16) * 2 - 1
        proofs.append(toploc.build((bits + units * signs).view(torch.bfloat16)))
    found = pair(states, proofs, way)
    assert found.share > 0.6
    assert found.deviation(0.0) > 5


def test_share_beyond_what_counts_of_a_difference_is_still_far_out() -> None:
    """An older step lies several times as far as the step before."""
    found = pair(*made(1, noise=0.003, share=4.0))
    assert found.share > 3
    assert found.deviation(0.0) > 8


def test_error_common_to_a_submission_is_the_floor() -> None:
    found = pair(*made(1, noise=0.003, share=1.0))
    assert found.deviation(found.distance / 4) == pytest.approx(found.share / np.hypot(found.error, 1 / 4))
    assert found.deviation(0.0) > 2 * found.deviation(found.distance / 4)


def test_few_blocks_tell_nothing() -> None:
    states, _, way = made(5, noise=0.0, share=1.0)
    few = 8 * (LEAST_BLOCKS - 1)
    short = Way("another", [way.claimed[0][:few]], [way.other[0][:few]])
    found = pair([states[0][:few]], [toploc.build(short.other[0].bfloat16())], short)
    assert (found.deviation(0.0), found.blocks) == (0.0, LEAST_BLOCKS - 1)


def test_foreign_proofs_point_nowhere() -> None:
    """Values by chance count little, so garbage is for the activations to find and no step towards anything."""
    states, _, way = made(6, noise=0.003, share=0.0)
    rng = np.random.default_rng(0)
    proofs = [[(65497).to_bytes(2, "big") + rng.integers(0, 65497, 128).astype(">u2").tobytes() for _ in range(3)]] * 4
    assert pair(states, proofs, way).deviation(0.0) < 4


def test_rounded_way_would_accuse_the_honest() -> None:
    """Why the way is computed in more than bf16: the rounding of the validator's own states points along it."""
    generator = torch.Generator().manual_seed(0)
    claimed = [torch.randn(TOKENS, WIDTH, generator=generator, dtype=torch.float64) for _ in range(4)]
    other = [own * (1 + 0.001 * torch.randn(own.shape, generator=generator, dtype=torch.float64)) for own in claimed]
    noisy = [own * (1 + 0.001 * torch.randn(own.shape, generator=generator, dtype=torch.float64)) for own in claimed]
    proofs = [toploc.build(own.bfloat16()) for own in noisy]
    exact = pair(claimed, proofs, Way("another", claimed, other))
    rounded = [own.bfloat16() for own in claimed]
    biased = pair(rounded, proofs, Way("another", rounded, [own.bfloat16() for own in other]))
    assert exact.deviation(0.0) < 4
    assert biased.deviation(0.0) > exact.deviation(0.0) + 2
