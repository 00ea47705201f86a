"""From honest samples to limits: fresh honest samples keep them, wider hardware widens them, few are refused."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from stannary.cards import Thresholds
from stannary.errors import SettingsError
from stannary.sampling import Replay
from stannary.standing import SCORES
from stannary.toploc import CHUNK_TOKENS, ChunkDrift
from validator import statistics, tails
from validator.fit import (
    LEAST_IN_CLASS,
    LEVELS,
    MARGIN_RATE,
    UNPAIRED,
    Fit,
    Sample,
    cut_informative,
    findings,
    fit,
    honest_scores,
    pieces,
    rounded_up,
)
from validator.pairing import Pairing
from validator.statistics import ChunkMeasure, Measured
from validator.tails import lower_rate, upper_rate

SIZES = (1, 2, 3, 5, 8, 12, 16, 24)
RATE = 0.02


def measured(generator: np.random.Generator, *, drift: float = 1.0, gaps: float = 1.0, chunks: int = 8) -> Measured:
    """A submission of a few rollouts whose chunks hang together: some submissions drift more than others."""
    own = drift * (0.8 + 0.4 * generator.random())
    found = []
    for chunk in range(chunks):
        spread = own * generator.gamma(20.0) / 20
        found.append(
            ChunkMeasure(
                chunk // 2, chunk % 2, CHUNK_TOKENS, ChunkDrift(int(generator.poisson(2 * own)), 0.4 * spread, spread)
            )
        )
    tokens = CHUNK_TOKENS * chunks
    gap = np.where(generator.random(tokens) < 0.01 * gaps, 0.004 * generator.standard_exponential(tokens), 0.0)
    replay = Replay(
        gap=gap,
        margin=np.ones(tokens),
        choice=np.zeros(tokens, dtype=np.int64),
        logprob=np.zeros(tokens),
        top_probability=generator.choice([0.5, 0.99], tokens),
    )
    share = float(generator.standard_normal())
    return Measured(
        "fp32", tuple(found), (2 * CHUNK_TOKENS,) * (chunks // 2), replay, (Pairing("before", share, 1.0, 32, 0.01),)
    )


def samples(seed: int, count: int, **options: float) -> list[Sample]:
    """Honest submissions of two kinds of hardware; the second drifts half as much again."""
    generator = np.random.default_rng(seed)
    made = []
    for index in range(count):
        is_second = index % 2
        own = options | {"drift": options.get("drift", 1.0) * (1.5 if is_second else 1.0)}
        cut = tuple(
            ChunkMeasure(
                0,
                0,
                size,
                ChunkDrift(int(generator.poisson(1.0)), 0.6 * generator.gamma(20.0) / 20, generator.random()),
            )
            for size in SIZES
        )
        made.append(Sample(f"kind {is_second}", measured(generator, **own), cut))  # type: ignore[arg-type]
    return made


@pytest.fixture(scope="module")
def fitted() -> Fit:
    return fit(samples(0, 200), 1e-4)


def numbers(thresholds: Thresholds) -> list[float]:
    """All limits that are fitted, in one order."""
    drift = [v for b in thresholds.drift for v in (b.exponent_mismatches, b.mantissa_mean, b.mantissa_median)]
    means = [v for b in thresholds.mean_drift for v in (b.exponent_mismatches, b.mantissa_mean)]
    sampled = [v for b in thresholds.sampling for v in (b.not_chosen_rate, b.mean_gap)]
    return [*drift, *means, *sampled, thresholds.pairing.deviation]


def test_limits_hold_for_what_set_them(fitted: Fit) -> None:
    assert all(finding.is_fine for finding in findings(samples(0, 200), fitted.thresholds))
    assert [band.min_chunks for band in fitted.thresholds.mean_drift] == [1, 2, 4, 8]
    assert [band.min_informative for band in fitted.thresholds.sampling] == [32, 64, 128]
    assert fitted.rules.levels[0].honest_at_most == LEVELS[0]
    assert len(fitted.thresholds.ladder) == len(LEVELS)


def test_limits_widen_with_rarity_and_narrow_with_size(fitted: Fit) -> None:
    """The ladder leads up to the limits of a rejection, and means over more have less room."""
    steps = [numbers(limits) for limits in (*fitted.thresholds.ladder, fitted.thresholds)]
    for tight, wide in pairwise(steps):
        assert all(low <= high for low, high in zip(tight, wide, strict=True))
    assert steps[0] < steps[-1]
    means = [band.exponent_mismatches for band in fitted.thresholds.mean_drift]
    rates = [band.not_chosen_rate for band in fitted.thresholds.sampling]
    assert means == sorted(means, reverse=True)
    assert rates == sorted(rates, reverse=True)
    stricter = fit(samples(0, 200), 1e-5).thresholds
    assert all(low <= high for low, high in zip(numbers(fitted.thresholds), numbers(stricter), strict=True))


def test_fresh_honest_samples_are_rejected_no_more_often_than_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a rate that can be counted: over all seeds together, and each step of the ladder as well."""
    monkeypatch.setattr(tails, "RESAMPLES", 40)
    rejected, tried = 0, 0
    beyond = dict.fromkeys(LEVELS, 0)
    for seed in range(8):
        made = fit(samples(seed, 120), RATE)
        fresh = samples(1000 + seed, 300)
        rejected += sum(not finding.is_fine for finding in findings(fresh, made.thresholds))
        scores = [max(own) for kind in honest_scores(fresh, made.thresholds).values() for own in kind]
        for level in made.rules.levels:
            beyond[level.honest_at_most] += sum(score > level.score for score in scores)
        tried += len(fresh)
    assert rejected / tried <= RATE
    for share, count in beyond.items():
        assert lower_rate(count, tried) <= share
    # The promise is kept by room to spare, but not by accepting everything.
    drifting = samples(5, 60, drift=4.0)
    assert sum(finding.is_fine for finding in findings(drifting, made.thresholds)) < 6


def test_worst_hardware_alone_keeps_its_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    """One kind in ten samples drifts most: what it is rejected by is not made up for by the others."""
    monkeypatch.setattr(tails, "RESAMPLES", 40)
    rejected, tried = 0, 0
    for seed in range(6):
        quiet = [replace(sample, kind="quiet") for sample in samples(seed, 180, drift=0.3)]
        loud = [replace(sample, kind="loud") for sample in samples(50 + seed, 20)]
        made = fit([*quiet, *loud], RATE)
        fresh = samples(2000 + seed, 200)
        rejected += sum(not finding.is_fine for finding in findings(fresh, made.thresholds))
        tried += len(fresh)
    assert rejected / tried <= RATE


def test_kind_or_policy_step_that_drifts_more_widens_limits(fitted: Fit) -> None:
    more = samples(1, 40, drift=1.6)
    for shifted in ([replace(s, kind="new") for s in more], [replace(s, policy="new") for s in more]):
        wider = fit([*samples(0, 200), *shifted], 1e-4).thresholds
        before = fitted.thresholds
        assert wider.drift[-1].mantissa_mean > 1.2 * before.drift[-1].mantissa_mean
        assert wider.mean_drift[-1].exponent_mismatches > 1.2 * before.mean_drift[-1].exponent_mismatches


def test_hardware_without_drift_does_not_tighten_limits(fitted: Fit) -> None:
    """Four in five samples agree to the bit; the fifth is still held against limits of its own."""
    still = [replace(sample, kind="still") for sample in samples(7, 400, drift=0.0, gaps=0.0)]
    thresholds = fit([*samples(0, 100), *still], 1e-3).thresholds
    fresh = findings(samples(3000, 600), thresholds)
    assert sum(not finding.is_fine for finding in fresh) <= 2


def test_count_that_was_never_seen_is_no_rejection() -> None:
    """No sample has a mismatch, or a token that is not chosen: a single one is not held against anyone."""
    made = fit(samples(2, 100, drift=0.0, gaps=0.0), 1e-4)
    own = samples(3, 1, drift=0.0, gaps=0.0)[0].measured
    gap = own.replay.gap.copy()
    gap[int(np.flatnonzero(own.replay.top_probability <= 0.9)[0])] = 0.01
    chunk = replace(own.chunks[0], drift=replace(own.chunks[0].drift, exponent_mismatches=1))
    other = replace(own, chunks=(chunk, *own.chunks[1:]), replay=replace(own.replay, gap=gap))
    found = statistics.judge(other, made.thresholds)
    assert found.is_fine
    assert all(0 <= found.measures[name].share < 1 for name in SCORES)


def test_mean_stands_one_token_at_the_margin(fitted: Fit) -> None:
    """As few tokens may lie beyond the margin, the mean over them does not forbid one."""
    limits = fitted.thresholds
    assert all(band.mean_gap >= limits.gap_margin / band.min_informative for band in limits.sampling)


def test_honest_token_lies_beyond_the_hard_bound_far_more_rarely_than_beyond_the_margin(fitted: Fit) -> None:
    assert fitted.beyond_bound is not None
    assert 0 < fitted.beyond_bound.estimate <= fitted.beyond_bound.upper < MARGIN_RATE / 10
    assert fit(samples(2, 100, drift=0.0, gaps=0.0), 1e-4).beyond_bound is None


def test_tail_that_does_not_explain_the_largest_gap_says_nothing_of_the_hard_bound() -> None:
    first, *rest = samples(0, 200)
    gap = first.measured.replay.gap.copy()
    gap[7] = 1.0
    replay = replace(first.measured.replay, gap=gap)
    found = fit([replace(first, measured=replace(first.measured, replay=replay)), *rest], 1e-4)
    assert found.thresholds.gap_margin >= 1.0
    assert found.beyond_bound is None


def test_pairing_is_never_held_tighter_than_a_normal_deviate(fitted: Fit) -> None:
    """Where the policies of the samples differ much, honest errors are smaller than they can be."""
    small = [
        replace(s, measured=replace(s.measured, pairings=(Pairing("before", 0.0, 0.01, 32, 0.3),)))
        for s in samples(0, 200)
    ]
    assert fit(small, 1e-4).thresholds.pairing.deviation >= 4.2
    assert fitted.thresholds.pairing.deviation >= 4.2
    assert fitted.thresholds.ladder[0].pairing.deviation >= 2.5


def paired(
    count: int, seed: int, bias: float, spread: float, error: float = 0.1, distance: float = 0.002
) -> list[Sample]:
    """Return samples whose shares of the way have errors of their own and one that is common to a submission."""
    generator = np.random.default_rng(seed)
    found = []
    for sample in samples(seed, count):
        common = bias + spread * generator.normal()
        share = float(common / distance + error * generator.normal())
        pairings = (Pairing("before", share, error, 60, distance),)
        found.append(replace(sample, measured=replace(sample.measured, pairings=pairings)))
    return found


def test_floor_is_what_engines_lie_on_the_way_by_themselves() -> None:
    still, drifting = paired(100, 1, 0.0, 0.0), paired(100, 2, 0.0005, 0.001)
    both = [*(replace(s, kind="still") for s in still), *(replace(s, kind="drifting") for s in drifting)]
    assert fit(still, 1e-4).thresholds.pairing.floor < 0.0001
    floor = fit(both, 1e-4).thresholds.pairing.floor
    assert floor == pytest.approx(np.hypot(0.0005, 0.001), rel=0.3)


def test_shares_of_honest_engines_stay_within_the_limit_and_a_stale_one_does_not() -> None:
    """An error that is common to a whole submission shows in no spread of its blocks: only the floor knows it."""
    limits = fit(paired(150, 3, 0.0002, 0.0005), 1e-3).thresholds.pairing
    fresh = [s.measured.pairings[0] for s in paired(2000, 4, 0.0002, 0.0005)]
    assert sum(each.deviation(limits.floor) > limits.deviation for each in fresh) <= 2
    assert sum(each.deviation(0.0) > limits.deviation for each in fresh) > 10
    stale = [s.measured.pairings[0] for s in paired(100, 5, 0.008, 0.0005, distance=0.008)]
    assert all(each.deviation(limits.floor) > limits.deviation for each in stale)


def test_pairings_of_which_too_few_tell_something_are_held_to_nothing() -> None:
    """Short answers have no blocks to take an error from, and a class of a few says nothing of what its engine does."""
    untold = [
        replace(s, measured=replace(s.measured, pairings=(Pairing("before", 0.0, math.inf, 3, 0.002),)))
        for s in samples(8, 60)
    ]
    unpaired = fit(untold, 1e-4)
    assert unpaired.thresholds.pairing.deviation == UNPAIRED
    assert not unpaired.is_paired
    few = [replace(s, kind="few") for s in paired(LEAST_IN_CLASS - 1, 9, 0.0, 0.0005)]
    assert fit([*paired(100, 10, 0.0, 0.0005), *few], 1e-4).thresholds.pairing.deviation == UNPAIRED


def test_pairings_of_a_compute_that_rounds_set_no_limit() -> None:
    exact = paired(100, 6, 0.0, 0.0005)
    rounded = [
        replace(s, kind="rounded", measured=replace(s.measured, is_exact=False)) for s in paired(100, 7, 0.0, 0.01)
    ]
    assert fit([*exact, *rounded], 1e-4).thresholds.pairing == fit(exact, 1e-4).thresholds.pairing


def test_score_that_is_no_finite_number_counts_as_far_beyond(fitted: Fit) -> None:
    own = samples(0, 1)[0]
    lost = replace(own.measured.chunks[0], drift=ChunkDrift(128, float("inf"), float("inf")))
    bad = replace(own, measured=replace(own.measured, chunks=(lost, *own.measured.chunks[1:])))
    scores = honest_scores([bad], fitted.thresholds)[bad.kind]
    assert max(scores[0]) > 100


def test_too_few_samples_are_refused() -> None:
    with pytest.raises(SettingsError, match="at least 50 samples, got 0: record more"):
        fit([replace(sample, pieces=()) for sample in samples(0, 60)], 1e-4)
    with pytest.raises(SettingsError, match="record more"):
        fit(samples(0, 6), 1e-4)


@pytest.mark.parametrize("size", [1, 7, 32, 100])
def test_pieces_are_of_one_size_and_cover_everything(size: int) -> None:
    replay = measured(np.random.default_rng(4)).replay
    replay = replace(replay, gap=np.arange(float(len(replay))))
    places = np.flatnonzero(replay.top_probability <= 0.9)
    found = list(pieces(replay, size))
    assert len(found) == -(-places.size // size)
    assert all(int((piece.top_probability <= 0.9).sum()) == size for piece in found)
    covered = {int(token) for piece in found for token in piece.gap}
    assert covered == set(range(int(places[-1]) + 1))
    first = cut_informative(replay, size)
    assert first is not None
    assert first.gap.tolist() == found[0].gap.tolist()
    assert list(pieces(replay, places.size + 1)) == []


@pytest.mark.parametrize("value", [0.0, 1e-9, 0.00012345, 0.1, 0.123, 0.1234, 1.0, 99.95, 12345.6])
def test_rounding_is_up_and_to_three_digits(value: float) -> None:
    found = rounded_up(value)
    assert value <= found <= value * 1.01
    assert float(f"{found:.3g}") == found


def test_rate_of_the_card_is_shown_by_enough_samples() -> None:
    """How many honest submissions the checked half must hold to exclude a rate: what a card's table says."""
    assert upper_rate(0, 300) < 0.01 < upper_rate(0, 298)
