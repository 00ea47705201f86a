"""What honest numerics move: measured under one forward pass, and held against the card. Pure.

Measuring and judging are apart, so that a calibration measures once and tries limits, and an explanation shows what was
measured. It must not know of leases, files or the chain. Legend: T tokens, H hidden size, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch

from stannary import toploc
from stannary.cards import Thresholds
from stannary.e_process import Scores
from stannary.evidence import Measure
from stannary.rollout import Rollout
from stannary.sampling import Replay, SamplingStatistics, joined, summarise
from stannary.sampling.torch import replay_tensor
from stannary.standing import SCORES
from stannary.types import Outcome, Reason
from validator.finding import Finding, fault, reject, worse
from validator.pairing import Pairing, Way, pair

MEAN_TOKENS = 16
"""Tokens of the shortest chunk that counts in the means over a submission."""


@dataclass(frozen=True, slots=True)
class ChunkMeasure:
    """One chunk: where it is, how long, and how far its proof lies from the recomputed states."""

    rollout: int
    chunk: int
    tokens: int
    drift: toploc.ChunkDrift


class Recompute(Protocol):
    """What measuring needs of a policy; `validator.prefill.Prefill` is one."""

    compute: str
    is_exact: bool

    @property
    def head_rows(self) -> int:
        """Positions whose logits may be asked for at once."""
        ...

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """Return the logits [T, V] float32 of states."""
        ...


@dataclass(frozen=True, slots=True)
class Measured:
    """Everything that a forward pass tells of a submission."""

    compute: str
    chunks: tuple[ChunkMeasure, ...]
    lengths: tuple[int, ...]
    """Completion tokens of each rollout."""
    replay: Replay
    """Of all tokens, one rollout after another."""
    pairings: tuple[Pairing, ...] = ()
    is_exact: bool = True
    """Whether it computes in more than bf16. Only then are pairings held against limits: a bf16 compute adds rounding
    errors of its own to the engine's."""

    def place(self, flat: int) -> str:
        """Say where a token stands that is counted over all rollouts."""
        for index, length in enumerate(self.lengths):
            if flat < length:
                return f"rollout {index}, token {flat}"
            flat -= length
        return f"token {flat}"


def measure(
    rollouts: Sequence[Rollout],
    states: Sequence[torch.Tensor],
    seeds: Sequence[bytes],
    temperature: float,
    policy: Recompute,
    ways: Sequence[Way] = (),
) -> Measured:
    """Measure a submission whose proofs are well-formed and as many as its chunks.

    Shapes: states one [T, H] for each rollout, recomputed by `policy`, in its own type.
    """
    completions = [rollout.completion for rollout in rollouts]
    proofs = [rollout.proofs for rollout in rollouts]
    rounded = [own.to(torch.bfloat16) for own in states]
    return Measured(
        compute=policy.compute,
        chunks=tuple(_chunks(rounded, proofs)),
        lengths=tuple(len(completion) for completion in completions),
        replay=replay_group(completions, rounded, seeds, temperature, policy),
        pairings=tuple(pair(states, proofs, way) for way in ways),
        is_exact=policy.is_exact,
    )


def replay_group(
    completions: Sequence[Sequence[int]],
    states: Sequence[torch.Tensor],
    seeds: Sequence[bytes],
    temperature: float,
    policy: Recompute,
) -> Replay:
    """Return the replay of all tokens of a group, one completion after another.

    Shapes: states one [T, H] bfloat16 for each completion.
    """
    every = torch.cat(list(states))
    tokens = [token for completion in completions for token in completion]
    own_seeds = [seed for completion, seed in zip(completions, seeds, strict=True) for _ in completion]
    positions = [position for completion in completions for position in range(len(completion))]
    parts = []
    for start in range(0, len(tokens), policy.head_rows):
        part = slice(start, start + policy.head_rows)
        logits = policy.logits(every[part])
        parts.append(replay_tensor(logits, tokens[part], temperature, own_seeds[part], positions[part]))
    return joined(parts)


def judge(measured: Measured, thresholds: Thresholds) -> Finding:
    """Hold what was measured against the card: the gravest finding decides, and every number is kept.

    The scores are left out where the submission has too few informative tokens to be evidence.
    """
    parts = held_by_part(measured, thresholds)
    found = worse(*parts)
    informative = int(found.measures["informative"].value or 0)
    if thresholds.sampling_limits(informative) is None:
        return found
    return with_scores(found, _scores(measured, thresholds, _shares(parts)))


def held_by_part(measured: Measured, thresholds: Thresholds) -> tuple[Finding, Finding, Finding]:
    """Hold what was measured against limits, by part of the checks."""
    sampled = summarise(measured.replay, margin=thresholds.gap_margin, cap=thresholds.gap_cap)
    return (
        judge_activations(measured.chunks, thresholds),
        judge_pairings(measured.pairings if measured.is_exact else (), thresholds),
        judge_sampling(sampled, thresholds, measured.place),
    )


def with_scores(found: Finding, scores: Scores) -> Finding:
    """Return a finding with these scores among its measures."""
    measures = {name: Measure.of(score, 1.0) for name, score in zip(SCORES, scores, strict=True)}
    return replace(found, measures={**found.measures, **measures})


def _shares(parts: Sequence[Finding]) -> Scores:
    return tuple(largest_share(part.measures.values()) for part in parts)


def _scores(measured: Measured, thresholds: Thresholds, own: Scores) -> Scores:
    """Return how far a submission gets in each part: a step for each set of limits it goes beyond, and a part for the
    next. Beyond the limits of a rejection it is the largest share of one of them.
    """
    steps = [*(_shares(held_by_part(measured, limits)) for limits in thresholds.ladder), own]
    return tuple(map(_climbed, zip(*steps, strict=True)))


def _climbed(shares: Sequence[float]) -> float:
    """Return how far up a ladder these shares of its limits get, the tightest first."""
    if shares[-1] > 1:
        return shares[-1]
    step = next(step for step, reached in enumerate(shares) if reached <= 1)
    return (step + shares[step]) / len(shares)


def judge_activations(chunks: Sequence[ChunkMeasure], thresholds: Thresholds) -> Finding:
    """Say whether the proofs are of the states that the policy has at these tokens."""
    worst: dict[str, Measure] = {}
    failed = ""
    for found in chunks:
        limits = thresholds.drift_limits(found.tokens)
        for name in ("exponent_mismatches", "mantissa_mean", "mantissa_median"):
            own = Measure.of(getattr(found.drift, name), getattr(limits, name))
            if name not in worst or own.share > worst[name].share:
                worst[name] = own
            if own.share > 1 and not failed:
                failed = (
                    f"rollout {found.rollout}, chunk {found.chunk} of {found.tokens} tokens: {name} {_against(own)}"
                )
    whole = averaged(chunks)
    if whole:
        means = thresholds.mean_drift_limits(len(whole))
        for name in ("exponent_mismatches", "mantissa_mean"):
            mean = sum(float(getattr(found.drift, name)) for found in whole) / len(whole)
            own = worst[f"mean_{name}"] = Measure.of(mean, getattr(means, name))
            if own.share > 1 and not failed:
                failed = f"mean over {len(whole)} chunks: {name} {_against(own)}"
    return reject(Reason.ACTIVATIONS, failed, worst) if failed else Finding(measures=worst)


def averaged(chunks: Sequence[ChunkMeasure]) -> list[ChunkMeasure]:
    """Return the chunks that count in the means: short ones drift more, and a policy may answer in two tokens."""
    return [chunk for chunk in chunks if chunk.tokens >= MEAN_TOKENS]


def judge_pairings(pairings: Sequence[Pairing], thresholds: Thresholds) -> Finding:
    """Say whether the proofs are nearer to another policy's states than to those of the claimed one."""
    measures: dict[str, Measure] = {}
    failed = ""
    for found in pairings:
        own = measures[f"towards {found.name}"] = Measure.of(
            found.deviation(thresholds.pairing.floor), thresholds.pairing.deviation
        )
        measures[f"share of {found.name}"] = Measure.of(found.share)
        if own.share > 1 and not failed:
            failed = (
                f"the proved states lie {found.share:.2f} of the way to {found.name}, "
                f"{_against(own)} standard errors from the claimed policy"
            )
    return reject(Reason.PAIRING, failed, measures) if failed else Finding(measures=measures)


def judge_sampling(found: SamplingStatistics, thresholds: Thresholds, place: Callable[[int], str] = str) -> Finding:
    """Say whether every token is the one that the noise picks, up to what honest numerics move."""
    allowed_beyond = thresholds.beyond_margin.of(found.tokens)
    measures = {
        "tokens": Measure.of(found.tokens),
        "informative": Measure.of(found.informative),
        "largest_gap": Measure.of(found.largest, thresholds.gap_bound),
        "beyond_margin": Measure.of(found.beyond_margin, allowed_beyond),
    }
    limits = thresholds.sampling_limits(found.informative)
    if limits is not None:
        measures["not_chosen_rate"] = Measure.of(found.not_chosen_rate, limits.not_chosen_rate)
        measures["mean_gap"] = Measure.of(found.mean_gap, limits.mean_gap)
    if found.largest > thresholds.gap_bound:
        return fault(
            Reason.SAMPLING_BOUND,
            f"{place(found.largest_at)}: {found.largest:.3f} below the token that the seed picks, "
            f"at most {thresholds.gap_bound:g} is possible",
            measures,
        )
    failed = ""
    if found.beyond_margin > allowed_beyond:
        failed = (
            f"{found.beyond_margin} of {found.tokens} tokens lie more than {thresholds.gap_margin:g} below the token "
            f"that the seed picks, at most {allowed_beyond:.1f} may; the furthest is {place(found.largest_at)}"
        )
    elif limits is not None and found.not_chosen_rate > limits.not_chosen_rate:
        failed = (
            f"{found.not_chosen} of {found.informative} informative tokens are not those that the seed picks, "
            f"{_against(measures['not_chosen_rate'])} of them may"
        )
    elif limits is not None and found.mean_gap > limits.mean_gap:
        failed = (
            f"tokens lie {_against(measures['mean_gap'])} below those that the seed picks, "
            f"as a mean over {found.informative} informative ones"
        )
    return reject(Reason.SAMPLING, failed, measures) if failed else Finding(measures=measures)


def largest_share(measures: Iterable[Measure]) -> float:
    """Return the largest share of its limit that a measure reached; what has no limit has no share."""
    return max((measure.share for measure in measures), default=0.0)


def is_statistical(finding: Finding) -> bool:
    """Say whether a finding rests on numbers that another forward pass may see otherwise."""
    return finding.outcome in (Outcome.REJECT, Outcome.FAULT) and finding.reason in STATISTICAL


STATISTICAL = (Reason.ACTIVATIONS, Reason.PAIRING, Reason.SAMPLING, Reason.SAMPLING_BOUND)
"""Reasons that hold a measured number against a limit of the card."""


def _chunks(states: Sequence[torch.Tensor], proofs: Sequence[Sequence[bytes]]) -> list[ChunkMeasure]:
    found = []
    for rollout, (own, proved) in enumerate(zip(states, proofs, strict=True)):
        for chunk, drift in enumerate(toploc.verify(own, proved)):
            tokens = min(toploc.CHUNK_TOKENS, len(own) - chunk * toploc.CHUNK_TOKENS)
            found.append(ChunkMeasure(rollout, chunk, tokens, drift))
    return found


def _against(measure: Measure) -> str:
    value = math.inf if measure.value is None else measure.value
    return f"{value:.4g}, at most {measure.limit:.4g}"
