"""How far honest numbers reach, rarer than what was seen: empirical bounds, and a tail fitted beyond them. Pure.

Samples come in classes (an engine, a way of using the machine, a compute, a policy step). Each has its own mean and
width; what lies beyond a threshold, in units of that width, is taken to have one shape for all, which is fitted to all
of them together. How often the threshold is exceeded is each class's own: a class that hardly drifts lends nothing to
one that does. A limit holds for the class that reaches furthest.

Samples of one submission hang together, so submissions are what is resampled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

TAIL_SHARE = 0.1
"""The part of all samples that the tail is fitted to. What is reached more often needs none."""
LEAST_BEYOND = 10
"""Fewest samples that a tail is fitted to."""
SHAPE_MOST = 0.25
"""Heaviest tail that is thought possible, with four moments: every number is a count or a mean of bounded ones. The
lightest is exponential: a bounded one would be a guess in our favour."""
PRIOR = 10
"""Samples of the common width that each class is given beside its own."""
RESAMPLES = 200
CONFIDENCE = 0.95
LEAST_SAMPLES = 50
"""Samples of all classes below which no tail is fitted."""


@dataclass(frozen=True, slots=True)
class Reach:
    """How far honest samples reach at a probability, in the worst class."""

    seen: float
    """The largest sample."""
    samples: int
    counted: float | None
    """What each class that is large enough exceeds at most so often, by counting alone (95 %, one-sided); None where
    none is."""
    estimate: float
    """The fitted quantile."""
    upper: float
    """The upper end of its one-sided 95 % interval, by resampling."""

    @property
    def limit(self) -> float:
        """What is not exceeded but with that probability: never below what was seen."""
        return max(self.seen, self.upper)

    @property
    def level(self) -> float:
        """The same where some of the samples may lie beyond: what they count up to is not exceeded more often."""
        return self.upper if self.counted is None else max(self.counted, self.upper)


@dataclass(frozen=True, slots=True)
class Rate:
    """How often samples lie beyond a value, in the worst class: by the fitted tail."""

    estimate: float
    upper: float
    """The upper end of its one-sided 95 % interval, by resampling."""


@dataclass(frozen=True, slots=True)
class Class:
    """Samples of one class. Shapes: all values [N], one submission after another; counts [S], values of each."""

    values: F64
    counts: I64

    @classmethod
    def of(cls, submissions: Sequence[Sequence[float] | F64]) -> Class:
        """Return the class of these submissions' values; one without any is left out."""
        kept = [values for values in submissions if len(values)]
        flat = np.concatenate([np.asarray(values, dtype=np.float64) for values in kept]) if kept else np.empty(0)
        return cls(flat, np.array([len(values) for values in kept], dtype=np.int64))


@dataclass(frozen=True, slots=True)
class Pool:
    """Samples of all classes, one submission after another."""

    values: F64
    classes: I64
    """Of each value. Shapes: both [N]."""
    starts: I64
    counts: I64
    firsts: I64
    sizes: I64
    """Of each submission: where its values start, how many they are, which is the first submission of its class, and
    how many its class has. Shapes: all [S]."""

    @classmethod
    def of(cls, classes: Sequence[Class]) -> Pool:
        """Return the samples of these classes."""
        counts = np.concatenate([each.counts for each in classes])
        sizes = np.array([each.counts.size for each in classes])
        return cls(
            values=np.concatenate([each.values for each in classes]),
            classes=np.repeat(np.arange(len(classes)), [each.values.size for each in classes]),
            starts=np.cumsum(counts) - counts,
            counts=counts,
            firsts=np.repeat(np.cumsum(sizes) - sizes, sizes),
            sizes=np.repeat(sizes, sizes),
        )

    def resampled(self, generator: np.random.Generator) -> tuple[F64, I64]:
        """Draw as many submissions of each class, with replacement. Return their values and the classes of these."""
        drawn = self.firsts + (generator.random(self.sizes.size) * self.sizes).astype(np.int64)
        counts = self.counts[drawn]
        shifts = self.starts[drawn] - (np.cumsum(counts) - counts)
        chosen = np.arange(counts.sum()) + np.repeat(shifts, counts)
        return self.values[chosen], self.classes[chosen]


@dataclass(frozen=True, slots=True)
class Tail:
    """A generalised Pareto tail of what differs from each class's own mean, in units of its own width."""

    start: float
    scale: float
    shape: float
    means: F64
    widths: F64
    rates: F64
    """Of each class: mean, width, and how often it lies beyond the start. Shapes: all [classes]."""

    @classmethod
    def fit(cls, values: F64, classes: I64, heaviest: float) -> Tail:
        """Fit by probability-weighted moments (Hosking and Wallis 1987). Shapes: values, classes [N]."""
        sizes = np.bincount(classes)
        means = np.bincount(classes, values) / sizes
        squares = np.bincount(classes, (values - means[classes]) ** 2)
        variance = float(squares.sum()) / values.size
        # A class of few samples, or of none but zeros, does not know its own width: it is drawn to that of all.
        widths = np.sqrt((squares + variance * PRIOR) / (sizes + PRIOR))
        if variance == 0:
            return cls(0.0, 0.0, 0.0, means, widths, np.ones(sizes.size))
        scaled = (values - means[classes]) / widths[classes]
        pooled = np.sort(scaled)
        start = float(pooled[-1 - max(LEAST_BEYOND, round(TAIL_SHARE * pooled.size))])
        beyond = pooled[np.searchsorted(pooled, start, "right") :] - start
        lower = pooled[: np.searchsorted(pooled, start)]
        if beyond.size < LEAST_BEYOND and lower.size:
            # Too many lie on the threshold itself: the next smaller sample is the threshold.
            start = float(lower[-1])
            beyond = pooled[lower.size :] - start
        mean = float(beyond.mean()) if beyond.size else 0.0
        ranks = (np.arange(beyond.size) + 0.65) / max(beyond.size, 1)
        spread = mean - 2 * float((beyond * (1 - ranks)).mean()) if beyond.size >= LEAST_BEYOND else 0.0
        shape = min(heaviest, max(0.0, 2 - mean / spread)) if spread > 0 else heaviest
        # One more of each: a class of few samples does not know how often it lies beyond.
        rates = (np.bincount(classes[scaled > start], minlength=sizes.size) + 1) / (sizes + 1)
        return cls(start, mean * (1 - shape), shape, means, widths, rates)

    def quantile(self, probability: float) -> float:
        """Return what no class lies beyond with more than this probability."""
        rarer = np.maximum(1.0, self.rates / probability)
        grown = np.log(rarer) if self.shape == 0 else (rarer**self.shape - 1) / self.shape
        return float((self.means + self.widths * (self.start + self.scale * grown)).max())

    def beyond(self, value: float) -> float:
        """Return how often the class that reaches furthest lies beyond a value, at most; it must lie in the tail."""
        if self.scale == 0:
            return float((self.rates * (self.means + self.widths * self.start >= value)).max())
        scaled = np.maximum(0.0, (value - self.means) / self.widths - self.start) / self.scale
        rarer = np.exp(-scaled) if self.shape == 0 else (1 + self.shape * scaled) ** (-1 / self.shape)
        return float((self.rates * rarer).max())


@dataclass(frozen=True, slots=True)
class Tails:
    """The tail of samples, and the tails of resamples of them, for any probability."""

    classes: tuple[Class, ...]
    tail: Tail
    resampled: tuple[Tail, ...]

    @classmethod
    def fit(cls, classes: Sequence[Class], *, heaviest: float = SHAPE_MOST, seed: int = 0) -> Tails:
        """Fit one tail to the pooled exceedances of all classes.

        `heaviest` is the largest shape that it may have, 0 where it is known to be no heavier than exponential.
        Raises: ValueError for fewer than 50 samples, or one that is not finite.
        """
        kept = tuple(each for each in classes if each.values.size)
        count = sum(each.values.size for each in kept)
        if count < LEAST_SAMPLES:
            raise ValueError(f"expected at least {LEAST_SAMPLES} samples, got {count}")
        if not all(np.isfinite(each.values).all() for each in kept):
            raise ValueError("expected finite samples")
        generator, pool = np.random.default_rng(seed), Pool.of(kept)
        return cls(
            classes=kept,
            tail=Tail.fit(pool.values, pool.classes, heaviest),
            resampled=tuple(Tail.fit(*pool.resampled(generator), heaviest) for _ in range(RESAMPLES)),
        )

    def reach(self, probability: float) -> Reach:
        """Return how far samples reach with a probability. Raises: ValueError for one that needs no tail."""
        if not 0 < probability < TAIL_SHARE:
            raise ValueError(f"expected a probability below {TAIL_SHARE}, got {probability}")
        counted = [bound for each in self.classes if (bound := _counted(each.values, probability)) is not None]
        return Reach(
            seen=max(float(each.values.max()) for each in self.classes),
            samples=sum(each.values.size for each in self.classes),
            counted=max(counted, default=None),
            estimate=self.tail.quantile(probability),
            upper=float(np.quantile([tail.quantile(probability) for tail in self.resampled], CONFIDENCE)),
        )

    def beyond(self, value: float) -> Rate:
        """Return how often samples lie beyond a value, which must lie in the tail."""
        resampled = [tail.beyond(value) for tail in self.resampled]
        return Rate(self.tail.beyond(value), float(np.quantile(resampled, CONFIDENCE)))


def _counted(values: F64, probability: float) -> float | None:
    """Return the sample that bounds what is exceeded so often, whatever the distribution; None for too few samples."""
    allowed = -1
    while allowed + 1 < values.size and _at_most(allowed + 1, values.size, probability) <= 1 - CONFIDENCE:
        allowed += 1
    return float(np.sort(values)[-1 - allowed]) if allowed >= 0 else None


def upper_rate(events: int, trials: int, confidence: float = CONFIDENCE) -> float:
    """Return the one-sided upper bound of a rate (Clopper and Pearson 1934)."""
    if events >= trials:
        return 1.0
    return _bisect(lambda rate: _at_most(events, trials, rate) - (1 - confidence))


def lower_rate(events: int, trials: int, confidence: float = CONFIDENCE) -> float:
    """Return the one-sided lower bound of a rate (Clopper and Pearson 1934)."""
    return 1.0 - upper_rate(trials - events, trials, confidence)


def _at_most(events: int, trials: int, rate: float) -> float:
    """Return the probability of at most so many events."""
    if rate <= 0:
        return 1.0
    if rate >= 1:
        return float(events >= trials)
    terms = (
        math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1)
        + k * math.log(rate) + (trials - k) * math.log1p(-rate)
        for k in range(events + 1)
    )  # fmt: skip
    return min(1.0, sum(math.exp(term) for term in terms))


def _bisect(falling: Callable[[float], float]) -> float:
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if falling(middle) > 0:
            low = middle
        else:
            high = middle
    return high
