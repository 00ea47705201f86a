"""From measured honest submissions to the limits and levels of a card. Pure: attacks never set a limit.

A submission is rejected by mistake with the wanted probability at most, over all its numbers together: each of the
families below gets an equal part. Where a submission is short, its means vary more, so limits of means come by size,
each fitted on pieces of exactly that size. The mean of a longer submission is the mean over its pieces, so it varies
less than a piece drawn from it, however its tokens hang together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import NormalDist
from typing import TypeVar

import numpy as np

from stannary.cards import (
    Allowance,
    DriftLimits,
    MeanDriftLimits,
    PairingLimits,
    SamplingLimits,
    Thresholds,
    evidence_rules,
)
from stannary.e_process import FAMILIES, EvidenceRules, Scores
from stannary.errors import SettingsError
from stannary.sampling import Replay, SamplingStatistics, summarise
from stannary.sampling.statistics import INFORMATIVE
from stannary.standing import scores_of
from stannary.toploc import CHUNK_TOKENS
from validator import statistics
from validator.finding import Finding
from validator.pairing import Pairing
from validator.statistics import ChunkMeasure, Measured
from validator.tails import F64, LEAST_SAMPLES, SHAPE_MOST, Class, Rate, Reach, Tails

CHUNK_BANDS = (1, 4, 16)
"""Smallest chunk sizes of the limits of single chunks."""
MEAN_CHUNKS = (1, 2, 4, 8, 16, 32, 64, 128)
INFORMATIVE_SIZES = (32, 64, 128, 256, 512, 1024, 2048)
MARGIN_RATE = 1e-5
"""How often one honest token lies beyond the margin: a handful of tokens beyond it is no chance."""
BEYOND_BASE, BEYOND_EACH = 2.0, 0.002
MARGIN_FACTOR = 3.0
"""Where too few honest tokens lie below the best to fit a tail to: the margin is so many times the largest gap."""
MARGIN_LEAST, BOUND_LEAST, BOUND_FACTOR = 0.05, 1.0, 5.0
"""The bound slashes: it lies at least five times as far as the margin, which one honest token in 100,000 reaches."""
LEAST_EVENTS = 2
"""What a count may be where none was ever seen: never having seen one in a few hundred excludes no single one."""
SCORE_MOST = 1000.0
"""What a score counts as that is no finite number."""
UNPAIRED = 1e6
"""Limit of the pairing where too few honest submissions were paired: engines have errors of their own that point
somewhere, and what they do was not measured."""
LEAST_IN_CLASS = 8
"""Pairings of one class below which what they vary by is not known."""
LEVELS = (0.05, 0.005, 0.0005)
"""How often honest submissions reach the levels of evidence at most."""
STOP_LOG10, SLASH_LOG10 = 3.0, 6.0
LEAST_EXPECTED = 0.05
"""Samples beyond the largest seen that a fitted tail must expect at least, to be believed further out."""
GAP = "gap of a token"
"""Name of the limit that the margin follows from."""


Band = TypeVar("Band", MeanDriftLimits, SamplingLimits)


@dataclass(frozen=True, slots=True)
class Sample:
    """One honest submission as one compute measured it."""

    kind: str
    """The engine and its use of the machine, and the compute."""
    measured: Measured
    pieces: tuple[ChunkMeasure, ...] = ()
    """Chunks cut out of longer ones: short ones are rare at the end of honest completions."""
    policy: str = ""
    """The policy step. Each makes a class of its own: a provider's submissions follow one another on the same one."""


@dataclass(slots=True)
class Fit:
    """What was fitted, and on what."""

    thresholds: Thresholds
    rules: EvidenceRules
    reaches: dict[str, Reach] = field(default_factory=dict)
    """By name of a limit: empirical bound, fitted quantile, its upper end."""
    beyond_bound: Rate | None = None
    """How often one honest token lies beyond the hard bound, by the fitted tail of its gaps; None where too few lie
    below the best to fit one, or where it does not explain the largest that was seen."""

    @property
    def is_paired(self) -> bool:
        """Whether enough honest submissions were paired for the pairing to be held against anybody."""
        return self.thresholds.pairing.deviation < UNPAIRED


def fit(samples: Sequence[Sample], false_reject_rate: float) -> Fit:
    """Return the limits under which an honest submission is rejected at most so often, and the ladder below them.

    Raises: SettingsError when there are too few samples, or none of a size that limits are needed for.
    """
    numbers = _Numbers(samples)
    reaches: dict[str, Reach] = {}
    thresholds = numbers.thresholds(false_reject_rate, reaches)
    ladder = tuple(numbers.thresholds(rate, {}, is_step=True) for rate in LEVELS)
    return Fit(
        replace(thresholds, ladder=ladder),
        evidence_rules(LEVELS, STOP_LOG10, SLASH_LOG10),
        reaches,
        numbers.beyond_gap(thresholds.gap_bound, reaches.get(GAP)),
    )


class _Numbers:
    """The tails of every number that is held against a limit, each fitted once."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._samples = samples
        self._tails: dict[str, Tails] = {}
        self._summaries: dict[int, dict[int, list[SamplingStatistics]]] = {}

    def thresholds(self, rate: float, reaches: dict[str, Reach], *, is_step: bool = False) -> Thresholds:
        """Return the limits beyond which an honest submission is at most so often, and note how they were found.

        Those of a step of the ladder reject nothing, so that some of the samples may lie beyond them.
        """
        share = rate / sum(FAMILIES.values())

        def limit(
            name: str, values: Callable[[Sample], Sequence[float]], probability: float, heaviest: float = SHAPE_MOST
        ) -> float:
            found = reaches[name] = self._tail(name, values, heaviest).reach(probability)
            return found.level if is_step else found.limit

        chunks = max(1, max(len(sample.measured.chunks) for sample in self._samples))

        def chunk_limit(start: int, name: str) -> float:
            return limit(f"{name} of a chunk from {start}", partial(_chunks, start, name), share / chunks)

        def mean_limit(size: int, name: str) -> float:
            return limit(f"{name} over {size} chunks", partial(_means, size, name), share)

        drift = tuple(
            DriftLimits(
                start,
                math.ceil(chunk_limit(start, "exponent_mismatches")) or LEAST_EVENTS,
                rounded_up(chunk_limit(start, "mantissa_mean")),
                rounded_up(chunk_limit(start, "mantissa_median")),
            )
            for start in CHUNK_BANDS
        )
        means = tuple(
            MeanDriftLimits(
                size,
                rounded_up(mean_limit(size, "exponent_mismatches") or LEAST_EVENTS / size),
                rounded_up(mean_limit(size, "mantissa_mean")),
            )
            for size in MEAN_CHUNKS
            if sum(len(statistics.averaged(s.measured.chunks)) >= size for s in self._samples) >= LEAST_SAMPLES
        )
        margin = self._gap_margin(reaches)
        bound = rounded_up(max(BOUND_LEAST, BOUND_FACTOR * margin))
        sampling = []
        for size in INFORMATIVE_SIZES:
            found = self._summarised(size, margin, bound)
            if sum(bool(part) for part in found.values()) < LEAST_SAMPLES:
                break
            rates = limit(f"not_chosen_rate of {size}", partial(_piecewise, found, "not_chosen_rate"), share)
            gaps = limit(f"mean_gap of {size}", partial(_piecewise, found, "mean_gap"), share)
            # As a few tokens may lie beyond the margin, the mean must stand one that does.
            sampling.append(
                SamplingLimits(size, rounded_up(rates or LEAST_EVENTS / size), rounded_up(max(gaps, margin / size)))
            )
        floor, deviation = self._floor(), UNPAIRED
        if floor is not None:
            # Where the two policies hardly differ it is a normal deviate, and smaller elsewhere: never less than that.
            reached = limit("pairing", partial(_deviations, floor), share, heaviest=0.0)
            deviation = max(NormalDist().inv_cdf(1 - share), reached)
        return Thresholds(
            drift=drift,
            mean_drift=_falling(means, "exponent_mismatches", "mantissa_mean"),
            gap_bound=bound,
            gap_margin=margin,
            beyond_margin=Allowance(BEYOND_BASE, BEYOND_EACH),
            gap_cap=bound,
            sampling=_falling(sampling, "not_chosen_rate", "mean_gap"),
            pairing=PairingLimits(floor or 0.0, rounded_up(deviation)),
        )

    def _floor(self) -> float | None:
        """Return how far engines lie on the way to another policy by themselves: what their shares vary by beyond their
        own errors, in the class where that is most. None where that is not known of every class.
        """
        classes: dict[tuple[str, str], list[float]] = {}
        for sample in self._samples:
            if pairings := _pairings(sample):
                excess = [(each.share**2 - each.error**2) * each.distance**2 for each in pairings]
                classes.setdefault((sample.kind, sample.policy), []).extend(excess)
        sizes = [len(excess) for excess in classes.values()]
        if sum(sizes) < LEAST_SAMPLES or min(sizes) < LEAST_IN_CLASS:
            return None
        return rounded_up(math.sqrt(max(0.0, *(sum(excess) / len(excess) for excess in classes.values()))))

    def _gap_margin(self, reaches: dict[str, Reach]) -> float:
        """Return the gap that one honest token in so many lies beyond."""
        gaps = [sample.measured.replay.gap for sample in self._samples]
        if sum(np.count_nonzero(gap) for gap in gaps) < LEAST_SAMPLES:
            largest = max((float(gap.max()) for gap in gaps if gap.size), default=0.0)
            return rounded_up(max(MARGIN_LEAST, MARGIN_FACTOR * largest))
        found = reaches[GAP] = self._tail(GAP, _gaps).reach(MARGIN_RATE)
        return rounded_up(max(MARGIN_LEAST, found.limit))

    def beyond_gap(self, bound: float, reach: Reach | None) -> Rate | None:
        """Return how often one honest token lies beyond a gap, given how far gaps reach.

        None where no tail was fitted to gaps, or one that does not explain the largest gap that was seen.
        """
        if reach is None:
            return None
        tails = self._tails[GAP]
        is_explained = reach.samples * tails.beyond(reach.seen).estimate >= LEAST_EXPECTED
        return tails.beyond(bound) if is_explained else None

    def _summarised(self, size: int, margin: float, bound: float) -> dict[int, list[SamplingStatistics]]:
        if size not in self._summaries:
            self._summaries[size] = {
                id(sample): [summarise(part, margin=margin, cap=bound) for part in pieces(sample.measured.replay, size)]
                for sample in self._samples
            }
        return self._summaries[size]

    def _tail(
        self, name: str, values: Callable[[Sample], Sequence[float] | F64], heaviest: float = SHAPE_MOST
    ) -> Tails:
        if name not in self._tails:
            classes: dict[tuple[str, str], list[Sequence[float] | F64]] = {}
            for sample in self._samples:
                classes.setdefault((sample.kind, sample.policy), []).append(values(sample))
            try:
                self._tails[name] = Tails.fit([Class.of(part) for part in classes.values()], heaviest=heaviest)
            except ValueError as error:
                raise SettingsError(f"{name}: {error}: record more, or longer completions") from error
        return self._tails[name]


def findings(samples: Iterable[Sample], thresholds: Thresholds) -> list[Finding]:
    """Hold each sample against limits."""
    return [statistics.judge(sample.measured, thresholds) for sample in samples]


def honest_scores(samples: Sequence[Sample], thresholds: Thresholds) -> dict[str, list[Scores]]:
    """Return the scores by kind, without the submissions that are too short to have any."""
    scores: dict[str, list[Scores]] = {sample.kind: [] for sample in samples}
    for sample, finding in zip(samples, findings(samples, thresholds), strict=True):
        if (own := scores_of(finding.measures)) is not None:
            scores[sample.kind].append(tuple(min(SCORE_MOST, score) for score in own))
    return scores


def cut_informative(replay: Replay, size: int) -> Replay | None:
    """Return the shortest beginning of a replay that holds so many informative tokens, None if there are fewer."""
    return next(pieces(replay, size), None)


def pieces(replay: Replay, size: int) -> Iterator[Replay]:
    """Yield pieces of exactly so many informative tokens that cover all of them, from the first.

    Where their number is no multiple, the last piece begins earlier.
    """
    places = np.flatnonzero(replay.top_probability <= INFORMATIVE)
    for first in _starts(places.size, size):
        begin = int(places[first - 1]) + 1 if first else 0
        part = slice(begin, int(places[first + size - 1]) + 1)
        yield Replay(
            gap=replay.gap[part],
            margin=replay.margin[part],
            choice=replay.choice[part],
            logprob=replay.logprob[part],
            top_probability=replay.top_probability[part],
        )


def rounded_up(value: float) -> float:
    """Round up to three significant digits, so that a card reads well."""
    if value <= 0:
        return 0.0
    digits = 2 - int(np.floor(np.log10(value)))
    return float(round(float(np.ceil(round(value * 10.0**digits, 6))) / 10.0**digits, max(0, digits)))


def _falling(bands: Sequence[Band], *names: str) -> tuple[Band, ...]:
    """Return limits of means by rising size that fall: a mean over fewer varies no less than one over more."""
    found: list[Band] = []
    for band in reversed(bands):
        found.append(
            replace(band, **{name: max(getattr(each, name) for each in (band, *found[-1:])) for name in names})
        )
    return tuple(reversed(found))


def _starts(length: int, size: int) -> list[int]:
    """Return where pieces of one size begin that cover a length, none if it is shorter."""
    return [*range(0, length - size, size), length - size] if length >= size else []


def _gaps(sample: Sample) -> F64:
    return sample.measured.replay.gap


def _chunks(start: int, name: str, sample: Sample) -> list[float]:
    end = next((band for band in CHUNK_BANDS if band > start), CHUNK_TOKENS + 1)
    chunks = (*sample.measured.chunks, *sample.pieces)
    return [float(getattr(chunk.drift, name)) for chunk in chunks if start <= chunk.tokens < end]


def _means(size: int, name: str, sample: Sample) -> list[float]:
    chunks = statistics.averaged(sample.measured.chunks)
    return [_mean(chunks[first : first + size], name) for first in _starts(len(chunks), size)]


def _mean(chunks: Sequence[ChunkMeasure], name: str) -> float:
    return sum(float(getattr(found.drift, name)) for found in chunks) / len(chunks)


def _piecewise(found: Mapping[int, Sequence[SamplingStatistics]], name: str, sample: Sample) -> list[float]:
    return [float(getattr(piece, name)) for piece in found[id(sample)]]


def _pairings(sample: Sample) -> list[Pairing]:
    """Return the pairings of a sample that tell something, by a compute whose pairings are held against limits."""
    if not sample.measured.is_exact:
        return []
    return [pairing for pairing in sample.measured.pairings if math.isfinite(pairing.error)]


def _deviations(floor: float, sample: Sample) -> list[float]:
    return [pairing.deviation(floor) for pairing in _pairings(sample)]
