"""Whole submissions of the real toy policy: honest ones pass, cheats do not, and our own failures are no verdict."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from stannary import toploc
from stannary.cards import Card
from stannary.environments import Environment
from stannary.errors import AbstainError
from stannary.sampling import gumbel
from stannary.standing import scores_of
from stannary.token_rules import TokenRules
from stannary.types import Hash, Outcome, Reason
from stannary.verdict import rewards_hash
from tests.validator.conftest import FACTS, NODE, RULES, STRANGER, Bench, generate, leaf_of, prove, provider_of
from validator.judgement import Computes, Judge, screen, widened
from validator.prefill import Prefill
from worker.engine import RolloutRequest
from worker.engine_transformers import TransformersEngine, TransformersOptions


def test_honest_group_is_accepted_with_its_rewards(bench: Bench) -> None:
    judgement = bench.verdict(bench.rollouts)
    assert judgement.finding.is_fine, judgement.finding.explanation
    problem = bench.judge.environment.problem(FACTS.seeds.slot_seed(3))
    expected = tuple(bench.judge.environment.reward(problem, tokens) for tokens in bench.tokens)
    assert judgement.rewards == expected
    assert judgement.verdict(1, 2).rewards_hash == rewards_hash(expected)
    assert judgement.finding.measures["largest_gap"].value is not None


@pytest.mark.parametrize("engine_dtype", ["bf16", "fp32"])
def test_honest_corpus_of_the_engine_is_never_rejected(
    engine_dtype: str, toy: Path, neighbour: Path, card: Card, environment: Environment
) -> None:
    """By the first compute alone, which is stricter than both together."""
    for folder, before in ((toy, None), (neighbour, toy)):
        engine = TransformersEngine(
            TransformersOptions(dtype={"bf16": torch.bfloat16, "fp32": torch.float32}[engine_dtype], keeps_states=True)
        )
        engine.load(folder)
        first = Prefill(folder, "fp32")
        other = None if before is None else Prefill(before, "fp32")
        judge = Judge(
            RULES,
            FACTS,
            card,
            environment,
            Computes(first, lambda first=first: first, None if other is None else lambda other=other: other),
        )
        for slot in range(FACTS.slots):
            prompt = environment.problem(FACTS.seeds.slot_seed(slot)).prompt
            outputs = engine.generate(
                [RolloutRequest(FACTS.seeds.rollout_seed(slot, rollout), prompt, 48) for rollout in range(4)], 1.0
            )
            made = leaf_of(prove(prompt, [o.tokens for o in outputs], [o.states for o in outputs]), slot)
            finding = judge.judge(made.leaf, made.data).finding
            assert finding.is_fine, (slot, finding)


def edited(bench: Bench, choose: random.Random, rollouts: int) -> tuple[list[tuple[int, ...]], list[torch.Tensor]]:
    """Replace one token of each of some rollouts and run the right policy over it: activations are honest."""
    tokens = []
    for index, own in enumerate(bench.tokens):
        row = list(own)
        if index < rollouts:
            place = choose.randrange(len(row) - 1)
            row[place] = choose.choice([token for token in range(12, 48) if token != row[place]])
        tokens.append(tuple(row))
    return tokens, bench.judge.computes.first.states(bench.prompt, tokens)


def test_edited_tokens_are_caught_by_sampling_alone(bench: Bench) -> None:
    outcomes = []
    for trial in range(10):
        tokens, states = edited(bench, random.Random(trial), rollouts=1)
        finding = bench.finding(prove(bench.prompt, tokens, states))
        assert finding.reason in (Reason.SAMPLING, Reason.SAMPLING_BOUND)
        mismatches = finding.measures["exponent_mismatches"]
        assert mismatches.value is not None
        assert mismatches.limit is not None
        assert mismatches.value <= mismatches.limit
        outcomes.append(finding.outcome)
    assert outcomes.count(Outcome.FAULT) >= 8


def test_stale_policy_is_caught(bench: Bench, neighbour: Path) -> None:
    """The leased policy is one step newer than the one that generated and proved."""
    judge = replace(bench.judge, computes=both(neighbour))
    made = leaf_of(bench.rollouts)
    finding = judge.judge(made.leaf, made.data).finding
    assert finding.outcome in (Outcome.REJECT, Outcome.FAULT)


def both(folder: Path) -> Computes:
    second = Prefill(folder, "bf16")
    return Computes(Prefill(folder, "fp32"), lambda: second)


def test_rejection_that_the_second_compute_does_not_see_is_none(bench: Bench, neighbour: Path) -> None:
    """A validator whose first compute is broken rejects nobody."""
    broken, sound = Prefill(neighbour, "fp32"), bench.judge.computes.first
    made = leaf_of(bench.rollouts)
    alone = replace(bench.judge, computes=Computes(broken, lambda: broken)).judge(made.leaf, made.data)
    assert alone.finding.outcome in (Outcome.REJECT, Outcome.FAULT)
    scores = scores_of(alone.finding.measures)
    assert scores is not None
    assert max(scores) > 1
    judgement = replace(bench.judge, computes=Computes(broken, lambda: sound)).judge(made.leaf, made.data)
    assert judgement.finding.is_fine
    assert judgement.finding.explanation.startswith(f"by {broken.compute} alone: ")
    assert judgement.finding.explanation.endswith(f"; passed by {sound.compute}")
    scores = scores_of(judgement.finding.measures)
    assert scores is not None
    assert max(scores) < 1


def test_leaf_that_the_beacon_did_not_choose_gets_no_forward_pass(bench: Bench) -> None:
    class Never:
        vocabulary, hidden_size, tokens, head_rows = 64, 128, TokenRules(frozenset({1})), 64
        compute, is_exact = "none", True

        def unrounded_states(self, prompt: Sequence[int], completions: Sequence[Sequence[int]]) -> list[torch.Tensor]:
            raise AssertionError("not chosen")

    rare = replace(bench.judge.card, audit_bps=1)
    made = leaf_of(bench.rollouts)
    judge = replace(bench.judge, card=rare, computes=Computes(Never(), Never))
    assert not judge.looks_at(3)
    judgement = judge.judge(made.leaf, made.data)
    assert judgement.finding.is_fine
    assert judgement.rewards == ()
    assert scores_of(judgement.finding.measures) is None
    # Nor from a juror: the members that accepted it were not to look, and must not be fined for it.
    assert replace(judge, is_jury=True).judge(made.leaf, made.data).finding.is_fine
    with pytest.raises(AssertionError, match="not chosen"):
        replace(judge, card=bench.judge.card).judge(made.leaf, made.data)


def test_right_tokens_with_states_of_a_stale_policy_are_rejected_not_faulted(bench: Bench, neighbour: Path) -> None:
    states = Prefill(neighbour, "bf16").states(bench.prompt, bench.tokens)
    finding = bench.finding(prove(bench.prompt, bench.tokens, states))
    assert (finding.outcome, finding.reason) == (Outcome.REJECT, Reason.ACTIVATIONS)


def test_best_of_two_is_caught(bench: Bench, bf16: Prefill) -> None:
    other = [bytes(byte ^ 0xFF for byte in seed) for seed in bench.seeds]
    tokens, states = generate(bf16, bench.prompt, other, RULES.max_completion_tokens)
    mixed = [*bench.tokens[:3], tokens[3]], [*bench.states[:3], states[3]]
    finding = bench.finding(prove(bench.prompt, *mixed))
    assert (finding.outcome, finding.reason) == (Outcome.FAULT, Reason.SAMPLING_BOUND)
    assert finding.explanation.startswith("rollout 3")


def test_runner_up_at_every_chance_is_caught(bench: Bench) -> None:
    """Choosing the second best wherever it is nearly as good stays below the bound and still adds up."""
    policy, rows = bench.judge.computes.first, []
    for seed in bench.seeds:
        row: list[int] = []
        while len(row) < RULES.max_completion_tokens:
            (states,) = policy.states(bench.prompt, [[*row, 0]])
            scores = policy.logits(states[-1:])[0] + torch.from_numpy(gumbel(seed, len(row), policy.vocabulary))
            best, second = scores.topk(2).indices.tolist()
            is_near = float(scores[best] - scores[second]) < 0.3 and best not in policy.tokens.end_ids
            row.append(second if is_near else best)
            if row[-1] in policy.tokens.end_ids:
                break
        rows.append(tuple(row))
    finding = bench.finding(prove(bench.prompt, rows, policy.states(bench.prompt, rows)))
    assert (finding.outcome, finding.reason) == (Outcome.REJECT, Reason.SAMPLING)


@pytest.mark.parametrize("cap", [1, 31, 32, 33, 48])
def test_completions_around_a_chunk_are_accepted(
    cap: int, bench: Bench, bf16: Prefill, environment: Environment
) -> None:
    judge = replace(bench.judge, rules=replace(RULES, max_completion_tokens=cap))
    tokens, states = generate(bf16, bench.prompt, bench.seeds, cap)
    made = leaf_of(prove(bench.prompt, tokens, states))
    judgement = judge.judge(made.leaf, made.data)
    assert judgement.finding.is_fine, judgement.finding
    assert max(len(row) for row in tokens) == cap


def test_completion_of_the_end_token_alone_scores_nothing(bench: Bench) -> None:
    tokens = [(1,)] * 4
    states = bench.judge.computes.first.states(bench.prompt, tokens)
    # A seed whose noise picks the end token at once is too rare to look for: take the sampling check's word away.
    loose = replace(bench.judge.card.thresholds, gap_bound=1e9, gap_margin=1e9)
    judge = replace(bench.judge, card=replace(bench.judge.card, thresholds=loose))
    made = leaf_of(prove(bench.prompt, tokens, states))
    judgement = judge.judge(made.leaf, made.data)
    assert judgement.finding.is_fine, judgement.finding
    assert judgement.rewards == (0.0,) * 4


def test_reward_is_the_environments_whatever_the_worker_thinks(bench: Bench) -> None:
    assert not any("reward" in name for name in type(bench.rollouts[0]).__slots__)


def test_one_hostile_leaf_leaves_the_others_alone(bench: Bench) -> None:
    honest = leaf_of(bench.rollouts)
    for data in (b"", b"PAR1", b"PAR1" + bytes(1000) + b"PAR1", bytes(range(256)) * 8):
        hostile = leaf_of(bench.rollouts, data=data)
        assert bench.judge.judge(hostile.leaf, data).finding.outcome is Outcome.REJECT
        assert bench.judge.judge(honest.leaf, honest.data).finding.is_fine


def test_own_failure_is_raised_and_never_a_verdict(bench: Bench) -> None:
    class Broken:
        vocabulary, hidden_size, tokens, head_rows = 64, 128, TokenRules(frozenset({1})), 64
        compute, is_exact = "broken", True

        def unrounded_states(self, prompt: Sequence[int], completions: Sequence[Sequence[int]]) -> list[torch.Tensor]:
            raise RuntimeError("the device is gone")

        def logits(self, states: torch.Tensor) -> torch.Tensor:
            raise RuntimeError("the device is gone")

    made = leaf_of(bench.rollouts)
    with pytest.raises(RuntimeError, match="the device is gone"):
        replace(bench.judge, computes=Computes(Broken(), Broken)).judge(made.leaf, made.data)


def test_own_states_that_are_not_finite_are_no_verdict(bench: Bench) -> None:
    class Drifted:
        vocabulary, hidden_size, tokens, head_rows = 64, 128, TokenRules(frozenset({1})), 64
        compute, is_exact = "broken", True

        def unrounded_states(self, prompt: Sequence[int], completions: Sequence[Sequence[int]]) -> list[torch.Tensor]:
            return [torch.full((len(own), 128), float("nan"), dtype=torch.bfloat16) for own in completions]

        def logits(self, states: torch.Tensor) -> torch.Tensor:
            return torch.full((len(states), 64), float("nan"))

    made = leaf_of(bench.rollouts)
    with pytest.raises(Exception, match="finite"):
        replace(bench.judge, computes=Computes(Drifted(), Drifted)).judge(made.leaf, made.data)


def test_card_of_another_policy_or_temperature_is_no_verdict(bench: Bench) -> None:
    for card in (
        replace(bench.judge.card, hidden_size=576),
        replace(bench.judge.card, vocabulary=65),
        replace(bench.judge.card, temperature_milli=600),
    ):
        with pytest.raises(AbstainError):
            replace(bench.judge, card=card)


def test_screen_finds_what_needs_no_file(bench: Bench) -> None:
    good, outside = leaf_of(bench.rollouts, 3), leaf_of(bench.rollouts, 9)
    forged, foreign = leaf_of(bench.rollouts, 4, coordinator=NODE), leaf_of(bench.rollouts, 5, node=STRANGER)
    findings = screen([good.leaf, outside.leaf, forged.leaf, foreign.leaf], RULES, FACTS, provider_of)
    assert [finding.reason for finding in findings] == [Reason.NONE, Reason.SLOT, Reason.LEASE, Reason.SIGNATURE]


def with_limit_of(bench: Bench, share: float) -> Judge:
    """Return a juror's judge whose limit on one chunk's mantissa lies at a share of what an honest group measures."""
    measured = bench.finding(bench.rollouts).measures["mean_mantissa_mean"].value
    assert measured is not None
    limits = bench.judge.card.thresholds
    tight = replace(
        limits, mean_drift=tuple(replace(band, mantissa_mean=share * measured) for band in limits.mean_drift)
    )
    card, first = replace(bench.judge.card, thresholds=tight), bench.judge.computes.first
    return replace(bench.judge, card=card, computes=Computes(first, lambda: first), is_jury=True)


@pytest.mark.parametrize(("share", "is_grey"), [(0.9, True), (0.81, True), (0.79, False)])
def test_rejection_near_its_limit_is_grey_for_a_juror(bench: Bench, share: float, is_grey: bool) -> None:
    made = leaf_of(bench.rollouts)
    judgement = with_limit_of(bench, share).judge(made.leaf, made.data)
    assert (judgement.finding.outcome, judgement.finding.reason) == (Outcome.REJECT, Reason.ACTIVATIONS)
    assert judgement.is_grey is is_grey


def test_panel_member_asks_for_no_grey_band(bench: Bench) -> None:
    made = leaf_of(bench.rollouts)
    judge = replace(with_limit_of(bench, 0.9), is_jury=False)
    assert not judge.judge(made.leaf, made.data).is_grey


def test_fault_is_never_grey(bench: Bench) -> None:
    other = [bytes(byte ^ 0xFF for byte in seed) for seed in bench.seeds]
    judge = replace(
        bench.judge, facts=replace(FACTS, seeds=replace(FACTS.seeds, seed_beacon=Hash(other[0]))), is_jury=True
    )
    made = leaf_of(bench.rollouts)
    judgement = judge.judge(made.leaf, made.data)
    assert judgement.finding.outcome is Outcome.FAULT
    assert not judgement.is_grey


def test_widened_limits_let_a_quarter_more_pass_and_keep_the_bound(card: Card) -> None:
    limits, wide = card.thresholds, widened(card.thresholds)
    assert wide.gap_bound == limits.gap_bound
    assert wide.sampling[0].mean_gap == pytest.approx(1.25 * limits.sampling[0].mean_gap)
    assert wide.mean_drift[0].mantissa_mean == pytest.approx(1.25 * limits.mean_drift[0].mantissa_mean)
    assert wide.drift[0].mantissa_mean == pytest.approx(1.25 * limits.drift[0].mantissa_mean)


def test_copy_of_another_slot_is_caught(bench: Bench, environment: Environment) -> None:
    """A's completions under B's prompt, proved honestly: the noise of the slot picks other tokens."""
    prompt = environment.problem(FACTS.seeds.slot_seed(5)).prompt
    states = bench.judge.computes.first.states(prompt, bench.tokens)
    finding = bench.finding(prove(prompt, bench.tokens, states), slot=5)
    assert (finding.outcome, finding.reason) == (Outcome.FAULT, Reason.SAMPLING_BOUND)


def test_chunk_count_is_the_protocols() -> None:
    assert [toploc.chunk_count(tokens) for tokens in (1, 31, 32, 33, 64, 65)] == [1, 1, 1, 2, 2, 3]
