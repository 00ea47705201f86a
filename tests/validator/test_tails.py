"""Tails: known distributions are reached no further than they are, classes do not dilute each other, exact bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np
import pytest

from validator.tails import F64, LEAST_SAMPLES, SHAPE_MOST, Class, Pool, Tails, lower_rate, upper_rate

RARE = 1e-5
SEEDS = 40
Draw = Callable[[np.random.Generator, int], F64]


def singles(values: F64) -> Class:
    """Samples that have a submission each."""
    return Class(values, np.ones(values.size, dtype=np.int64))


def uniform(generator: np.random.Generator, size: int) -> F64:
    return generator.random(size)


def normal(generator: np.random.Generator, size: int) -> F64:
    return generator.standard_normal(size)


def exponential(generator: np.random.Generator, size: int) -> F64:
    return generator.standard_exponential(size)


def lognormal(generator: np.random.Generator, size: int) -> F64:
    return generator.lognormal(0.0, 0.5, size)


def student(generator: np.random.Generator, size: int) -> F64:
    """Student's t of 8 degrees of freedom: its tail has the shape 1/8."""
    return generator.standard_t(8, size)


DEVIATE = NormalDist().inv_cdf(1 - RARE)
QUANTILES = [
    (uniform, 1 - RARE, 0.95),
    (normal, DEVIATE, 0.95),
    (exponential, -math.log(RARE), 0.9),
    (lognormal, math.exp(0.5 * DEVIATE), 0.85),
    (student, 8.9070, 0.75),
]


@pytest.mark.parametrize(("draw", "true", "covered"), QUANTILES, ids=lambda value: getattr(value, "__name__", ""))
def test_upper_end_covers_the_true_quantile(draw: Draw, true: float, covered: float) -> None:
    found = [Tails.fit([singles(draw(np.random.default_rng(seed), 500))]).reach(RARE) for seed in range(SEEDS)]
    assert sum(reach.limit >= true for reach in found) >= covered * SEEDS
    assert np.median([reach.limit for reach in found]) < 3.5 * true
    assert all(reach.estimate <= reach.upper for reach in found)


def test_true_quantile_of_student_t() -> None:
    """By integrating the density: what the case above rests on."""
    steps = np.linspace(8.9070, 400, 2_000_001)
    constant = math.gamma(4.5) / (math.sqrt(8 * math.pi) * math.gamma(4.0))
    density = constant * (1 + steps**2 / 8) ** -4.5
    assert np.trapezoid(density, steps) == pytest.approx(RARE, rel=1e-4)


@pytest.mark.parametrize("probability", [0.09, 0.05, 0.02])
def test_quantile_within_the_samples_is_theirs(probability: float) -> None:
    values = np.random.default_rng(3).standard_exponential(4000)
    found = Tails.fit([singles(values)]).reach(probability)
    assert found.estimate == pytest.approx(float(np.quantile(values, 1 - probability)), rel=0.06)
    assert found.counted is not None
    assert np.quantile(values, 1 - probability) < found.counted < np.quantile(values, 1 - 0.7 * probability)
    assert found.level < found.seen


def test_rarer_is_further() -> None:
    tails = Tails.fit([singles(np.random.default_rng(1).standard_normal(300))])
    found = [tails.reach(10.0**-digits) for digits in range(2, 9)]
    for name in ("estimate", "upper", "limit"):
        values = [getattr(reach, name) for reach in found]
        assert values == sorted(values)
        assert values[0] < values[-1]


def test_constant_reaches_itself() -> None:
    found = Tails.fit([singles(np.full(80, 2.5))]).reach(RARE)
    assert (found.seen, found.estimate, found.upper, found.limit) == (2.5, 2.5, 2.5, 2.5)


@pytest.mark.parametrize("mean", [0.002, 0.02, 0.2, 1.0, 8.0])
def test_rare_counts_are_covered(mean: float) -> None:
    """Poisson: where nearly all samples are 0, and where they are not."""
    term, true, beyond = math.exp(-mean), 0, 1 - math.exp(-mean)
    while beyond > RARE:
        true += 1
        term *= mean / true
        beyond -= term
    draws = [np.random.default_rng(seed).poisson(mean, 500).astype(float) for seed in range(SEEDS)]
    found = [Tails.fit([singles(values)]).reach(RARE) for values in draws if values.any()]
    assert sum(math.floor(reach.limit) >= true for reach in found) >= 0.9 * len(found)


def test_class_that_hardly_drifts_does_not_hide_one_that_does() -> None:
    """Nine in ten samples are of hardware without drift; the limit still holds for the tenth."""
    covered = 0
    for seed in range(SEEDS):
        generator = np.random.default_rng(seed)
        quiet, loud = 0.01 * generator.random(900), generator.standard_exponential(100)
        reached = Tails.fit([singles(quiet), singles(loud)]).reach(RARE)
        covered += reached.limit >= -math.log(RARE)
    assert covered >= 0.9 * SEEDS


def test_class_that_lies_further_moves_the_reach() -> None:
    generator = np.random.default_rng(5)
    near, far = generator.standard_normal(300), generator.standard_normal(60) + 6
    alone = Tails.fit([singles(near)]).reach(RARE)
    both = Tails.fit([singles(near), singles(far)]).reach(RARE)
    assert both.limit > alone.limit + 4
    assert both.limit >= DEVIATE + 6


def test_samples_that_hang_together_tell_less() -> None:
    """Each submission's chunks have one place: as many values, but a tenth as many draws."""
    alone, together, covered = [], [], 0
    for seed in range(SEEDS):
        generator = np.random.default_rng(seed)
        values = np.repeat(generator.standard_normal(60), 10) + 0.1 * generator.standard_normal(600)
        reached = Tails.fit([Class(values, np.full(60, 10))], heaviest=0.0).reach(RARE)
        together.append(reached.upper)
        alone.append(Tails.fit([singles(values)], heaviest=0.0).reach(RARE).upper)
        covered += reached.limit >= DEVIATE
    assert np.mean(together) > np.mean(alone)
    assert covered >= 0.95 * SEEDS


def test_submissions_are_drawn_whole_and_within_their_class() -> None:
    one, other = Class.of([[1.0, 1.0, 1.0], [], [2.0], np.array([3.0, 3.0])]), Class.of([[4.0, 4.0], [5.0]])
    assert (one.values.tolist(), one.counts.tolist()) == ([1, 1, 1, 2, 3, 3], [3, 1, 2])
    pool = Pool.of([one, other])
    seen: set[float] = set()
    for seed in range(50):
        values, classes = (found.tolist() for found in pool.resampled(np.random.default_rng(seed)))
        assert classes == [int(value > 3) for value in values]
        assert values.count(1.0) % 3 == values.count(3.0) % 2 == values.count(4.0) % 2 == 0
        assert values.count(1.0) // 3 + values.count(2.0) + values.count(3.0) // 2 == 3
        assert values.count(4.0) // 2 + values.count(5.0) == 2
        seen |= set(values)
    assert seen == {1.0, 2.0, 3.0, 4.0, 5.0}


def test_tail_is_no_heavier_than_allowed() -> None:
    generator = np.random.default_rng(7)
    heavy = singles(generator.pareto(1.5, 2000))
    assert Tails.fit([heavy]).tail.shape == SHAPE_MOST
    assert Tails.fit([heavy], heaviest=0.0).tail.shape == 0.0
    assert Tails.fit([singles(generator.random(2000))]).tail.shape == 0.0


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ([np.zeros(LEAST_SAMPLES - 1)], "at least 50 samples, got 49"),
        ([], "got 0"),
        ([np.zeros(60), np.array([math.inf])], "finite"),
        ([np.full(60, math.nan)], "finite"),
    ],
)
def test_too_few_samples_and_no_numbers_are_refused(classes: list[F64], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Tails.fit([singles(values) for values in classes])


@pytest.mark.parametrize("probability", [0.0, 0.1, 1.0, math.nan])
def test_what_needs_no_tail_is_refused(probability: float) -> None:
    with pytest.raises(ValueError, match="probability below"):
        Tails.fit([singles(np.arange(60.0))]).reach(probability)


@pytest.mark.parametrize(
    ("events", "trials", "upper"),
    [
        # One-sided 95 % bounds of Clopper and Pearson, as tables print them.
        (0, 10, 0.2589),
        (1, 10, 0.3942),
        (5, 10, 0.7776),
        (9, 10, 0.9949),
        (0, 20, 0.1391),
        (2, 20, 0.2826),
        (0, 59, 0.0495),
        (3, 100, 0.0757),
        (10, 10, 1.0),
        (0, 0, 1.0),
    ],
)
def test_bounds_of_a_rate(events: int, trials: int, upper: float) -> None:
    assert upper_rate(events, trials) == pytest.approx(upper, abs=6e-5)
    assert lower_rate(trials - events, trials) == pytest.approx(1 - upper, abs=6e-5)


@pytest.mark.parametrize("trials", [1, 7, 264, 100_000])
def test_bound_without_events_is_the_rule_of_three(trials: int) -> None:
    assert upper_rate(0, trials) == pytest.approx(1 - 0.05 ** (1 / trials), rel=1e-9)
    assert lower_rate(trials, trials) == pytest.approx(0.05 ** (1 / trials), rel=1e-9)
    assert lower_rate(0, trials) == 0.0


def test_bounds_of_two_sides_are_the_published_ones() -> None:
    """Clopper and Pearson's own example, 97.5 % on each side: 3 of 10."""
    assert upper_rate(3, 10, 0.975) == pytest.approx(0.6525, abs=6e-5)
    assert lower_rate(3, 10, 0.975) == pytest.approx(0.0667, abs=6e-5)


def test_bounds_widen_with_confidence_and_narrow_with_trials() -> None:
    assert upper_rate(2, 40, 0.99) > upper_rate(2, 40, 0.95) > upper_rate(20, 400) > 0.05
    assert lower_rate(38, 40, 0.99) < lower_rate(38, 40, 0.95) < lower_rate(380, 400) < 0.95


def test_rate_beyond_a_value_is_covered_and_falls() -> None:
    """Of the exponential, whose tail is fitted with the freedom to be heavier."""
    far = -math.log(RARE)
    found = [Tails.fit([singles(exponential(np.random.default_rng(seed), 500))]).beyond(far) for seed in range(SEEDS)]
    assert sum(rate.upper >= RARE for rate in found) >= 0.9 * SEEDS
    assert all(rate.estimate <= rate.upper < 100 * RARE for rate in found)
    fit = Tails.fit([singles(exponential(np.random.default_rng(0), 500))])
    rates = [fit.beyond(value).upper for value in (4.0, 8.0, 16.0, 32.0)]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] > 0


def test_rate_beyond_what_a_limit_reaches_is_that_of_the_limit() -> None:
    fit = Tails.fit([singles(student(np.random.default_rng(0), 500))], heaviest=0.0)
    reach = fit.reach(RARE)
    assert fit.tail.beyond(reach.estimate) == pytest.approx(RARE)
    assert fit.beyond(reach.upper).estimate <= RARE


def test_samples_that_are_all_alike_lie_nowhere_else() -> None:
    fit = Tails.fit([singles(np.full(LEAST_SAMPLES, 2.0))])
    assert fit.beyond(3.0).upper == 0.0
