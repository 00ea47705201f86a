"""Plain sampling."""

from __future__ import annotations

from pathlib import Path

import torch

from stannary.token_rules import TokenRules
from trainer.generate import sample
from trainer.policy import Policy, Recipe

RULES = TokenRules(frozenset({1}))


def test_sample_with_same_seed_repeats_and_ends_at_the_end_token(toy: Path) -> None:
    model = Policy(toy, Recipe(1e-3)).model
    prompts = [(0, 4 + index % 8, 12, 13, 3) for index in range(32)]
    first = sample(model, prompts, rules=RULES, max_tokens=48, temperature=1.0, seed=5)
    assert first == sample(model, prompts, rules=RULES, max_tokens=48, temperature=1.0, seed=5)
    assert first != sample(model, prompts, rules=RULES, max_tokens=48, temperature=1.0, seed=6)
    assert all(1 not in tokens[:-1] and (tokens[-1] == 1 or len(tokens) == 48) for tokens in first)
    assert {len(tokens) == 48 for tokens in first} == {True, False}


def test_sample_of_padded_prompt_equals_sample_alone(toy: Path) -> None:
    model = Policy(toy, Recipe(1e-3)).model
    short, long = (0, 4, 12, 13, 3), (0, 4, 12, 13, 3, 14, 15, 16, 17)
    with torch.no_grad():
        alone = sample(model, [short], rules=RULES, max_tokens=6, temperature=1e-3, seed=0)
        both = sample(model, [short, long], rules=RULES, max_tokens=6, temperature=1e-3, seed=0)
    assert both[0] == alone[0]


def test_suppressed_ids_are_never_sampled(toy: Path) -> None:
    model = Policy(toy, Recipe(1e-3)).model
    prompts = [(0, 4 + index % 8, 12, 13, 3) for index in range(8)]
    free = sample(model, prompts, rules=RULES, max_tokens=48, temperature=1.0, seed=5)
    common = max(range(2, 64), key=[token for tokens in free for token in tokens].count)
    without = sample(
        model, prompts, rules=TokenRules(frozenset({1}), (common,)), max_tokens=48, temperature=1.0, seed=5
    )
    assert all(common not in tokens for tokens in without)
