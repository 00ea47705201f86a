"""What was measured, held against the card: each number alone can reject, and says where."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stannary.cards import Card, Thresholds
from stannary.evidence import Measure
from stannary.sampling import Replay, SamplingStatistics, summarise
from stannary.standing import SCORES
from stannary.toploc import ChunkDrift
from stannary.types import Outcome, Reason
from validator import statistics
from validator.finding import Finding, fault, reject, worse
from validator.judgement import agreed_pairings, decide
from validator.pairing import Pairing
from validator.statistics import ChunkMeasure, Measured

NOTHING = ChunkDrift(0, 0.0, 0.0)


PAIRING = SCORES[1]


def replay_of(gap: np.ndarray[tuple[int], np.dtype[np.float64]], top_probability: float = 0.5) -> Replay:
    ones = np.ones_like(gap)
    return Replay(
        gap=gap, margin=ones, choice=np.zeros(len(gap), np.int64), logprob=-ones, top_probability=ones * top_probability
    )


def sampled(gap: np.ndarray[tuple[int], np.dtype[np.float64]], limits: Thresholds) -> SamplingStatistics:
    return summarise(replay_of(gap), margin=limits.gap_margin, cap=limits.gap_cap)


def held(gap: np.ndarray[tuple[int], np.dtype[np.float64]], limits: Thresholds) -> Finding:
    return statistics.judge_sampling(sampled(gap, limits), limits)


def measured(
    gap: np.ndarray[tuple[int], np.dtype[np.float64]] | None = None,
    drift: ChunkDrift = NOTHING,
    chunks: int = 8,
    pairings: tuple[Pairing, ...] = (),
    top_probability: float = 0.5,
    *,
    is_exact: bool = True,
) -> Measured:
    gap = np.zeros(256) if gap is None else gap
    return Measured(
        compute="a test",
        chunks=tuple(ChunkMeasure(chunk // 4, chunk % 4, 32, drift) for chunk in range(chunks)),
        lengths=(128, 128),
        replay=replay_of(gap, top_probability),
        pairings=pairings,
        is_exact=is_exact,
    )


def pairing(share: float, deviation: float) -> Pairing:
    """Return one whose only error is its own, so that no floor adds to it."""
    found = Pairing("the policy step before", share, share / deviation, 60, 1e9)
    assert found.deviation(0.001) == pytest.approx(deviation)
    return found


def test_sampling_gaps_within_the_card_are_fine(card: Card) -> None:
    assert held(np.zeros(192), card.thresholds).is_fine


def test_sampling_gap_beyond_the_bound_is_a_fault(card: Card) -> None:
    gap = np.zeros(256)
    gap[135] = card.thresholds.gap_bound * 1.01
    found = statistics.judge(measured(gap), card.thresholds)
    assert (found.outcome, found.reason) == (Outcome.FAULT, Reason.SAMPLING_BOUND)
    assert found.explanation.startswith("rollout 1, token 7:")


def test_sampling_gaps_that_are_many_are_rejected(card: Card) -> None:
    limits = card.thresholds
    gap = np.zeros(192)
    allowed = int(limits.beyond_margin.of(192))
    gap[: allowed + 1] = limits.gap_margin * 1.01
    found = held(gap, replace(limits, sampling=()))
    assert (found.outcome, found.reason) == (Outcome.REJECT, Reason.SAMPLING)
    assert f"{allowed + 1} of 192 tokens" in found.explanation
    gap[allowed] = 0.0
    assert held(gap, replace(limits, sampling=())).is_fine


def test_sampling_gaps_that_are_small_but_add_up_are_rejected(card: Card) -> None:
    limits = card.thresholds
    band = limits.sampling_limits(192)
    assert band is not None
    gap = np.zeros(192)
    few = int(0.9 * band.not_chosen_rate * 192)
    gap[:few] = min(1.01 * band.mean_gap * 192 / few, limits.gap_margin * 0.99)
    loose = replace(limits, sampling=(replace(band, mean_gap=0.99 * float(gap.sum()) / 192),))
    found = held(gap, loose)
    assert (found.outcome, found.reason) == (Outcome.REJECT, Reason.SAMPLING)
    assert "as a mean over 192 informative ones" in found.explanation


def test_tokens_that_are_not_chosen_too_often_are_rejected_however_near(card: Card) -> None:
    band = card.thresholds.sampling_limits(192)
    assert band is not None
    gap = np.zeros(192)
    gap[: int(band.not_chosen_rate * 192) + 1] = 1e-6
    found = held(gap, card.thresholds)
    assert (found.outcome, found.reason) == (Outcome.REJECT, Reason.SAMPLING)
    assert "informative tokens are not those that the seed picks" in found.explanation


def test_too_few_informative_tokens_pass_the_means_and_are_no_evidence(card: Card) -> None:
    few = card.thresholds.sampling[0].min_informative - 1
    found = statistics.judge(replace(measured(), replay=replay_of(np.full(few, 1e-6))), card.thresholds)
    assert found.is_fine
    assert not set(SCORES) & set(found.measures)
    certain = statistics.judge(measured(np.full(256, 1e-6), top_probability=0.99), card.thresholds)
    assert certain.is_fine
    assert not set(SCORES) & set(certain.measures)
    bound = card.thresholds.gap_bound * 1.01
    wrong = statistics.judge(replace(measured(), replay=replay_of(np.full(few, bound))), card.thresholds)
    assert wrong.outcome is Outcome.FAULT


@pytest.mark.parametrize("name", ["exponent_mismatches", "mantissa_mean", "mantissa_median"])
def test_one_chunk_beyond_its_limit_is_named(name: str, card: Card) -> None:
    limits = card.thresholds.drift_limits(32)
    bad = replace(NOTHING, **{name: float(getattr(limits, name)) + 1})  # type: ignore[arg-type]
    chunks = (*measured().chunks[:5], ChunkMeasure(1, 1, 32, bad), *measured().chunks[6:])
    found = statistics.judge(replace(measured(), chunks=chunks), card.thresholds)
    assert (found.outcome, found.reason) == (Outcome.REJECT, Reason.ACTIVATIONS)
    assert found.explanation.startswith(f"rollout 1, chunk 1 of 32 tokens: {name}")


@pytest.mark.parametrize("name", ["exponent_mismatches", "mantissa_mean"])
def test_small_drift_of_every_chunk_adds_up(name: str, card: Card) -> None:
    means = card.thresholds.mean_drift_limits(8)
    drift = replace(NOTHING, **{name: getattr(means, name) * 1.01})
    wide = replace(
        card.thresholds,
        drift=tuple(
            replace(band, exponent_mismatches=128, mantissa_mean=127.0, mantissa_median=127.0)
            for band in card.thresholds.drift
        ),
    )
    found = statistics.judge(measured(drift=drift), wide)
    assert (found.outcome, found.reason) == (Outcome.REJECT, Reason.ACTIVATIONS)
    assert found.explanation.startswith(f"mean over 8 chunks: {name}")


def test_states_on_the_way_to_another_policy_are_rejected(card: Card) -> None:
    limits = card.thresholds.pairing
    near = pairing(0.97, limits.deviation * 1.01)
    found = statistics.judge(measured(pairings=(near,)), card.thresholds)
    assert (found.outcome, found.reason) == (Outcome.REJECT, Reason.PAIRING)
    assert "0.97 of the way to the policy step before" in found.explanation
    far = pairing(0.97, limits.deviation * 0.99)
    assert statistics.judge(measured(pairings=(far,)), card.thresholds).is_fine
    assert statistics.judge(measured(pairings=(near,), is_exact=False), card.thresholds).is_fine


def drifted(mean: float) -> Measured:
    return measured(drift=replace(NOTHING, mantissa_mean=mean))


def score_of(found: Measured, limits: Thresholds) -> float:
    value = statistics.judge(found, limits).measures[SCORES[0]].value
    assert value is not None
    return value


def test_score_without_a_ladder_is_the_largest_share_of_a_limit(card: Card) -> None:
    limits = replace(card.thresholds, ladder=())
    assert score_of(drifted(0.7 * limits.mean_drift_limits(8).mantissa_mean), limits) == pytest.approx(0.7)


def test_score_takes_a_step_for_each_set_of_limits_that_is_passed(card: Card) -> None:
    limits = card.thresholds
    steps = len(limits.ladder) + 1
    for step, own in enumerate((*limits.ladder, limits)):
        at = own.mean_drift_limits(8).mantissa_mean
        assert step / steps <= score_of(drifted(0.999 * at), limits) <= (step + 1) / steps
        assert score_of(drifted(1.001 * at), limits) > (step + 1) / steps
        assert card.evidence.bracket(score_of(drifted(1.001 * at), limits)) == min(step + 1, len(limits.ladder))


def test_score_rises_with_what_is_measured(card: Card) -> None:
    top = card.thresholds.mean_drift_limits(8).mantissa_mean
    scores = [score_of(drifted(share * top), card.thresholds) for share in np.linspace(0, 2, 41)]
    assert scores == sorted(scores)


def test_share_of_a_measure_without_finite_value_or_with_limit_zero() -> None:
    assert Measure(None, 2.0).share == np.inf
    assert Measure(3.0, None).share == 0.0
    assert Measure(0.0, 0.0).share == 0.0
    assert Measure(0.1, 0.0).share == np.inf


def test_exact_compute_pairs_and_the_other_concurs(card: Card) -> None:
    """By the other's states the proofs have to be nearer to the step before as well; its own errors do not count."""
    found = pairing(0.97, card.thresholds.pairing.deviation * 1.5)
    exact = measured(pairings=(found,))
    concurs, differs = (
        measured(pairings=(replace(found, share=share, error=5.0),), is_exact=False) for share in (0.51, 0.49)
    )
    rejected = decide([exact, concurs], card.thresholds)
    assert (rejected.outcome, rejected.reason) == (Outcome.REJECT, Reason.PAIRING)
    assert rejected.measures[PAIRING].share == pytest.approx(1.5)
    assert rejected.measures["concurring share of the policy step before"].value == 0.51
    passed = decide([exact, differs], card.thresholds)
    assert passed.is_fine
    assert passed.measures[PAIRING].share == 1.0
    assert "passed by" in passed.explanation
    assert agreed_pairings([exact, concurs]) == [found]
    assert agreed_pairings([exact, differs]) == agreed_pairings([concurs]) == []


def test_computes_that_find_different_things_find_nothing_together(card: Card) -> None:
    """One sees the pairing and the other drift; one sees drift and the other tokens: nothing is confirmed."""
    limits = card.thresholds
    drift = replace(NOTHING, mantissa_mean=1e6)
    found = pairing(0.97, limits.pairing.deviation * 1.5)
    unlike = replace(found, share=0.3, error=5.0)
    late = measured(np.full(256, limits.gap_margin * 1.01))
    for both in (
        [measured(pairings=(found,)), measured(drift=drift, pairings=(unlike,), is_exact=False)],
        [measured(drift=drift), replace(late, is_exact=False)],
        [late, measured(drift=drift, is_exact=False)],
    ):
        assert not any(statistics.judge(each, limits).is_fine for each in both)
        decided = decide(both, limits)
        assert decided.is_fine
        assert all(decided.measures[name].share <= 1 for name in SCORES)
        assert decided.explanation.count("alone: ") == 2
    confirmed = decide([measured(drift=drift), measured(drift=drift, is_exact=False)], limits)
    assert (confirmed.outcome, confirmed.reason) == (Outcome.REJECT, Reason.ACTIVATIONS)
    assert confirmed.measures[SCORES[0]].share > 1


def test_submission_too_short_to_score_is_paired_all_the_same(card: Card) -> None:
    """A sharp policy leaves few informative tokens; its states are as telling as any."""
    found = pairing(0.97, card.thresholds.pairing.deviation * 1.5)
    both = [measured(pairings=(found,), top_probability=0.99, is_exact=is_exact) for is_exact in (True, False)]
    decided = decide(both, card.thresholds)
    assert (decided.outcome, decided.reason) == (Outcome.REJECT, Reason.PAIRING)
    assert not set(SCORES) & set(decided.measures)


def test_pairing_that_all_agree_on_lends_nothing_to_other_numbers(card: Card) -> None:
    """One compute alone sees drift far beyond the limits: the score is that of the pairing."""
    found = pairing(0.97, card.thresholds.pairing.deviation * 1.5)
    exact = measured(drift=replace(NOTHING, mantissa_mean=1e6), pairings=(found,))
    decided = decide([exact, measured(pairings=(found,), is_exact=False)], card.thresholds)
    assert (decided.outcome, decided.reason) == (Outcome.REJECT, Reason.PAIRING)
    assert decided.measures[PAIRING].share == pytest.approx(1.5)
    assert decided.measures[SCORES[0]].share == 0.0


def test_worse_finding_decides_and_all_measures_are_kept(card: Card) -> None:
    fine = held(np.zeros(10), card.thresholds)
    bad = reject(Reason.ACTIVATIONS, "drift")
    for chosen in (worse(fine, bad), worse(bad, fine)):
        assert chosen.reason is Reason.ACTIVATIONS
        assert set(chosen.measures) == set(fine.measures)
    assert worse(bad, fault(Reason.SAMPLING_BOUND, "far")).outcome is Outcome.FAULT
