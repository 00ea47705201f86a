"""Our proofs before the published library, and its proofs before ours. It is installed by `make bench-proofs` only."""

from __future__ import annotations

import pytest
import torch

from stannary.toploc import CHUNK_TOKENS, TOP_K, build, parse, verify

reference = pytest.importorskip("toploc")

TIED = 8
"""Where several values tie for the last places, the two libraries may have picked others of them."""
SHAPES = [(32, 128), (96, 576), (70, 576), (64, 2048), (96, 5120), (33, 576)]


def states_of(tokens: int, hidden: int) -> torch.Tensor:
    return torch.randn(tokens, hidden, generator=torch.Generator().manual_seed(tokens + hidden)).bfloat16()


def drifted(states: torch.Tensor) -> torch.Tensor:
    noise = torch.randn(states.shape, generator=torch.Generator().manual_seed(1))
    return (states.float() * (1 + noise * 2**-8)).bfloat16()


def build_theirs(states: torch.Tensor) -> list[bytes]:
    return list(reference.build_proofs_bytes(list(states.split(CHUNK_TOKENS)), 1, TOP_K, skip_prefill=True))


def verify_theirs(states: torch.Tensor, proofs: list[bytes]) -> list[tuple[int, float, float]]:
    found = reference.verify_proofs_bytes(list(states.split(CHUNK_TOKENS)), proofs, 1, TOP_K, skip_prefill=True)
    return [(each.exp_mismatches, each.mant_err_mean, each.mant_err_median) for each in found]


@pytest.mark.parametrize("shape", SHAPES)
def test_our_proofs_are_accepted_by_the_published_library(shape: tuple[int, int]) -> None:
    states = states_of(*shape)
    for mismatches, mean, _ in verify_theirs(states, build(states)):
        assert mismatches <= TIED
        assert mean < 1


@pytest.mark.parametrize("shape", SHAPES)
def test_the_published_librarys_proofs_are_accepted_by_ours(shape: tuple[int, int]) -> None:
    states = states_of(*shape)
    proofs = build_theirs(states)
    assert all(parse(proof).to_bytes() == proof for proof in proofs)
    for drift in verify(states, proofs):
        assert drift.exponent_mismatches <= TIED
        assert drift.mantissa_mean < 1


@pytest.mark.parametrize("shape", SHAPES)
def test_drift_is_measured_as_the_published_library_does(shape: tuple[int, int]) -> None:
    states = states_of(*shape)
    proofs = build(states)
    for ours, theirs in zip(verify(drifted(states), proofs), verify_theirs(drifted(states), proofs), strict=True):
        assert abs(ours.exponent_mismatches - theirs[0]) <= TIED
        assert ours.mantissa_mean == pytest.approx(theirs[1], abs=0.5)
        assert ours.mantissa_median == pytest.approx(theirs[2], abs=1)


def test_proofs_of_values_without_ties_are_the_published_librarys_byte_for_byte() -> None:
    bits = torch.arange(32 * 128, dtype=torch.int32) + 0x3000  # 4096 magnitudes, each once
    states = bits[torch.randperm(32 * 128, generator=torch.Generator().manual_seed(2))]
    states = states.to(torch.int16).view(torch.bfloat16).reshape(32, 128)
    assert build(states) == build_theirs(states)
