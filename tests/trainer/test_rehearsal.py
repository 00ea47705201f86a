"""The recipe learns: the toy's held-out reward rises, on its own and with half of the groups rejected."""

from __future__ import annotations

from pathlib import Path

import pytest

from stannary.environments import Environment
from trainer.policy import Recipe
from trainer.rehearsal import Schedule, rehearse


@pytest.mark.parametrize(("accepted_share", "seed"), [(1.0, 0), (0.5, 1)])
def test_rehearsal_of_the_toy_recipe_raises_heldout_reward(
    toy: Path, sieve: Environment, accepted_share: float, seed: int
) -> None:
    result = rehearse(
        toy, sieve, Recipe(learning_rate=2e-3), Schedule(policy_steps=15, accepted_share=accepted_share, seed=seed)
    )
    assert 0.1 < result.heldout_before < 0.25
    assert result.heldout_after - result.heldout_before >= 0.3


def test_rehearsal_at_rate_zero_moves_nothing(toy: Path, sieve: Environment) -> None:
    result = rehearse(toy, sieve, Recipe(learning_rate=0.0), Schedule(policy_steps=2))
    assert result.heldout_after == result.heldout_before
