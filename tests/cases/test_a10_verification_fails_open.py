"""A10: whatever breaks on the validator's side ends in abstention: nothing accepted, nobody slashed, and it says so."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from stannary.errors import PolicyError, StannaryError, Unavailable, Unreachable
from stannary.types import Outcome, Reason
from stannary.verdict import tally
from tests.validator.conftest import Bench, Made, bench, bf16, card, environment, fp32, judge, toy
from tests.validator.test_loop import World, made, make_world, world
from validator.judgement import Recompute
from validator.prefill import Prefill

__all__ = ["bench", "bf16", "card", "environment", "fp32", "judge", "made", "toy", "world"]


def model_path_is_missing(folder: Path) -> StannaryError:
    with pytest.raises(PolicyError) as found:
        Prefill(folder / "no such policy", "fp32")
    return found.value


@pytest.mark.parametrize(
    "failure",
    [
        model_path_is_missing,
        lambda _: Unavailable("policy step 1 is not there"),
        lambda _: Unreachable("coordinator answered 500"),
    ],
    ids=["a missing model path", "weights unavailable", "storage answers 500"],
)
def test_a10_broken_validator_abstains_and_says_so(
    world: World, tmp_path: Path, failure: Callable[[Path], StannaryError], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    world.weights.fails = failure(tmp_path)
    world.ticks(60)
    assert world.outcomes == [Outcome.ABSTAIN] * 3
    assert set(world.reasons) == {Reason.UNAVAILABLE}
    assert world.weights.loads > 3
    assert "waiting for 3 of 3 leaves of step 2" in caplog.text
    assert "abstained" in caplog.text
    # A panel of such validators decides nothing: no leaf is paid, none is slashed.
    assert {tally([outcome] * 3, 2) for outcome in world.outcomes} == {Outcome.ABSTAIN}


class Dying:
    """A policy whose device is lost after one forward pass."""

    def __init__(self, real: Recompute) -> None:
        self._real, self._left = real, 1
        self.vocabulary, self.hidden_size, self.tokens = real.vocabulary, real.hidden_size, real.tokens
        self.head_rows = real.head_rows

    def states(self, prompt: Sequence[int], completions: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        if not self._left:
            raise RuntimeError("device lost")
        self._left -= 1
        return self._real.states(prompt, completions)

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        return self._real.logits(states)


def test_a10_device_that_dies_abstains_on_what_was_left(made: list[Made], bench: Bench, tmp_path: Path) -> None:
    """Slot 1 fails before any forward pass, slot 3 takes the only one, slot 4 is left."""
    world = make_world(made, bench, tmp_path, Dying(bench.judge.policy))
    world.ticks(10)
    assert world.outcomes == [Outcome.FAULT, Outcome.ACCEPT, Outcome.ABSTAIN]
    assert "device lost" in world.ledger.votes[0].evidence.leaves[2].explanation
