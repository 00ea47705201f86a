"""A22: the worker makes its task easy, and proves honestly what it did. Real toy policy, real proofs, real files."""

from __future__ import annotations

import pytest

from stannary.environments import Environment
from stannary.types import Outcome, Reason
from tests.validator.conftest import (
    FACTS,
    RULES,
    Bench,
    bench,
    bf16,
    card,
    environment,
    fp32,
    generate,
    judge,
    prove,
    toy,
)
from validator.prefill import Prefill

__all__ = ["bench", "bf16", "card", "environment", "fp32", "judge", "toy"]
SYMBOL = 12


def honest_rollouts_of(bench: Bench, policy: Prefill, prompt: tuple[int, ...]) -> Outcome:
    tokens, states = generate(policy, prompt, bench.seeds, RULES.max_completion_tokens)
    finding = bench.finding(prove(prompt, tokens, states))
    assert finding.reason is Reason.PROMPT, finding
    return finding.outcome


def test_a22_a_another_problem_of_the_same_dataset(bench: Bench, bf16: Prefill, environment: Environment) -> None:
    other = environment.problem(FACTS.seeds.slot_seed(4)).prompt
    assert other != bench.prompt
    assert honest_rollouts_of(bench, bf16, other) is Outcome.FAULT


def test_a22_b_the_right_problem_with_the_answer_added(bench: Bench, bf16: Prefill) -> None:
    assert honest_rollouts_of(bench, bf16, (*bench.prompt, SYMBOL, SYMBOL + 1)) is Outcome.FAULT


def test_a22_c_the_right_tokens_with_a_prompt_reported_longer(bench: Bench) -> None:
    """The first five generated tokens are called prompt, so that they need no proof and no seed."""
    rows = [tokens for tokens in bench.tokens if len(tokens) > 37]
    assert rows, "the fixture needs a completion longer than 37 tokens"
    moved = [
        prove((*bench.prompt, *tokens[:5]), [tokens[5:]], [states[5:]])[0]
        for tokens, states in zip(bench.tokens, bench.states, strict=True)
        if len(tokens) > 5
    ]
    moved += [moved[-1]] * (RULES.group_size - len(moved))
    finding = bench.finding(moved)
    assert (finding.outcome, finding.reason) == (Outcome.FAULT, Reason.PROMPT)


@pytest.mark.parametrize("temperature", [0.1, 0.7])
def test_a22_d_other_sampling_settings(bench: Bench, bf16: Prefill, temperature: float) -> None:
    tokens, states = generate(bf16, bench.prompt, bench.seeds, RULES.max_completion_tokens, temperature)
    finding = bench.finding(prove(bench.prompt, tokens, states))
    assert finding.reason in (Reason.SAMPLING, Reason.SAMPLING_BOUND)
    assert finding.outcome in (Outcome.REJECT, Outcome.FAULT)


def test_a22_e_a_system_message_before_the_problem(bench: Bench, bf16: Prefill) -> None:
    assert honest_rollouts_of(bench, bf16, (bench.prompt[0], SYMBOL, SYMBOL, *bench.prompt)) is Outcome.FAULT


def test_a22_the_unchanged_problem_is_accepted(bench: Bench) -> None:
    assert bench.finding(bench.rollouts).is_fine
