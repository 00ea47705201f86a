"""Measures how far honest engines drift from this validator's prefill, and derives limits with room.

Honest corpora set the limits; attacks never do, they are only counted under them. It must not know of engines or chain.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from stannary import toploc
from stannary.cards import Allowance, Card, DriftLimits, Thresholds
from stannary.errors import SettingsError
from stannary.rollout import Rollout
from stannary.types import Outcome
from validator import checks
from validator.corpus import Corpus, Recorded, policy_digest
from validator.prefill import Prefill

BANDS = (1, 4, 16)
"""Smallest chunk sizes of the drift limits."""
CHUNK_SIZES = (1, 2, 3, 5, 8, 12, 16, 24, 32)
"""Chunk sizes that are measured, cut out of longer completions too."""

DRIFT_FACTOR = 2.0
MISMATCH_ROOM = 4
MANTISSA_ROOM = 1.0
"""Drift limit = factor × measured maximum + room: engines, kernels and devices not measured must fit in it."""
MEAN_FACTOR = 2.0
"""A submission's mean drift varies little, so it needs less room than a single chunk's."""
MARGIN_FACTOR, MARGIN_LEAST = 3.0, 0.05
BOUND_FACTOR, BOUND_LEAST = 20.0, 1.0
"""The bound slashes: at least twenty times what honest numerics were ever seen to do."""
BEYOND_BASE, BEYOND_EACH = 2.0, 0.002
"""Tokens beyond the margin: honest submissions held none."""
SUM_FACTOR, SUM_BASE_LEAST, SUM_EACH_LEAST = 3.0, 0.1, 0.0002


@dataclass(slots=True)
class Honest:
    """What one corpus shows under one prefill."""

    engine: str
    policy: str
    compute: str
    submissions: int = 0
    tokens: int = 0
    chunks: int = 0
    not_best: int = 0
    largest_gap: float = 0.0
    largest_mean_gap: float = 0.0
    """Worst submission's sum of gaps per token."""
    largest_mantissa_mean: float = 0.0
    """Worst submission's mean over its chunks."""
    drift: dict[int, tuple[int, float, float]] = field(default_factory=dict)
    """Chunk size → worst exponent mismatches, mantissa mean, mantissa median."""

    def add_drift(self, size: int, found: toploc.ChunkDrift) -> None:
        """Keep the worst of each figure."""
        before = self.drift.get(size, (0, 0.0, 0.0))
        self.drift[size] = (
            max(before[0], found.exponent_mismatches),
            max(before[1], found.mantissa_mean),
            max(before[2], found.mantissa_median),
        )

    def document(self) -> dict[str, object]:
        """Return what the card records."""
        return {
            "engine": self.engine,
            "policy": self.policy[:16],
            "compute": self.compute,
            "submissions": self.submissions,
            "tokens": self.tokens,
            "chunks": self.chunks,
            "not_best_share": round(self.not_best / max(1, self.tokens), 6),
            "largest_gap": round(self.largest_gap, 6),
            "largest_mean_gap": round(self.largest_mean_gap, 8),
            "largest_mantissa_mean": round(self.largest_mantissa_mean, 4),
            "exponent_mismatches": max(worst[0] for worst in self.drift.values()),
            "mantissa_mean": round(max(worst[1] for worst in self.drift.values()), 4),
            "mantissa_median": round(max(worst[2] for worst in self.drift.values()), 4),
        }


@dataclass(frozen=True, slots=True)
class Claim:
    """One submission as the checks see it: what is claimed, and the states that this validator has for it."""

    rollouts: tuple[Rollout, ...]
    seeds: tuple[bytes, ...]
    states: tuple[torch.Tensor, ...]


@dataclass(slots=True)
class Caught:
    """How many submissions of one kind the limits stop, and by what."""

    submissions: int = 0
    rejected: int = 0
    faulted: int = 0
    by_activations: int = 0
    by_sampling: int = 0

    def document(self) -> dict[str, object]:
        """Return what the card records."""
        return {
            "submissions": self.submissions,
            "stopped": self.rejected + self.faulted,
            "faulted": self.faulted,
            "by_activations": self.by_activations,
            "by_sampling": self.by_sampling,
        }


def measure(corpus: Corpus, claims: Sequence[Claim], policy: Prefill) -> Honest:
    """Measure one honest corpus under one prefill; `claims` are its `honest_claims`."""
    found = Honest(corpus.engine, corpus.policy, policy.compute)
    temperature = corpus.temperature_milli / 1000
    for group, claim in zip(corpus.groups, claims, strict=True):
        mantissas: list[float] = []
        gap = checks.replay_group(
            [rollout.completion for rollout in group],
            claim.states,
            [rollout.seed for rollout in group],
            temperature,
            policy.logits,
            policy.head_rows,
        ).gap
        found.tokens += gap.size
        found.not_best += int((gap > 0).sum())
        found.largest_gap = max(found.largest_gap, float(gap.max()))
        found.largest_mean_gap = max(found.largest_mean_gap, float(gap.mean()))
        for index, (rollout, own) in enumerate(zip(group, claim.states, strict=True)):
            whole = toploc.verify(own, claim.rollouts[index].proofs)
            mantissas += [drift.mantissa_mean for drift in whole]
            found.chunks += len(whole)
            for chunk, drift in enumerate(whole):
                found.add_drift(min(toploc.CHUNK_TOKENS, len(own) - chunk * toploc.CHUNK_TOKENS), drift)
            for size, drift in _short_drift(rollout, own, index):
                found.chunks += 1
                found.add_drift(size, drift)
        found.largest_mantissa_mean = max(found.largest_mantissa_mean, sum(mantissas) / len(mantissas))
        found.submissions += 1
    return found


def derive(measured: Sequence[Honest]) -> Thresholds:
    """Return limits that leave room above everything measured."""
    gap = max(found.largest_gap for found in measured)
    mean_gap = max(found.largest_mean_gap for found in measured)
    bound = _round_up(max(BOUND_LEAST, BOUND_FACTOR * gap))
    drift = tuple(_band(measured, start) for start in BANDS)
    mantissa_mean = max(found.largest_mantissa_mean for found in measured)
    return Thresholds(
        drift=drift,
        mantissa_sum=Allowance(max(band.mantissa_mean for band in drift), _round_up(MEAN_FACTOR * mantissa_mean)),
        gap_bound=bound,
        gap_margin=_round_up(max(MARGIN_LEAST, MARGIN_FACTOR * gap)),
        beyond_margin=Allowance(BEYOND_BASE, BEYOND_EACH),
        gap_cap=bound,
        capped_sum=Allowance(
            _round_up(max(SUM_BASE_LEAST, SUM_FACTOR * gap)),
            _round_up(max(SUM_EACH_LEAST, SUM_FACTOR * mean_gap)),
        ),
    )


def honest_claims(corpus: Corpus, policy: Prefill) -> Iterator[Claim]:
    """Yield the submissions of a corpus with its own proofs."""
    for group in corpus.groups:
        states = policy.states(group[0].prompt, [rollout.completion for rollout in group])
        yield Claim(
            tuple(Rollout(r.prompt, r.completion, tuple(toploc.build(r.states))) for r in group),
            tuple(rollout.seed for rollout in group),
            tuple(states),
        )


def edited_claims(corpus: Corpus, policy: Prefill, rollouts: int, kind: str) -> Iterator[Claim]:
    """Yield submissions in which one token of each of the first `rollouts` rollouts was replaced and then proved.

    The liar runs the right policy over the edited tokens, so its states are the validator's own. `kind` is `any` (a
    random token) or `runner-up` (the token that the seed picks second).
    """
    choose = random.Random(0)  # noqa: S311  repeatable, not secret
    temperature = corpus.temperature_milli / 1000
    for group in corpus.groups:
        edited = []
        for index, rollout in enumerate(group):
            tokens = list(rollout.completion)
            inner = len(tokens) - 1
            if index < rollouts and inner > 0:
                place = choose.randrange(inner)
                tokens[place] = (
                    _runner_up(rollout, place, policy, temperature)
                    if kind == "runner-up"
                    else _other(choose, policy, tokens[place])
                )
            edited.append(tuple(tokens))
        states = policy.states(group[0].prompt, edited)
        yield Claim(
            tuple(
                Rollout(group[0].prompt, tokens, tuple(toploc.build(own)))
                for tokens, own in zip(edited, states, strict=True)
            ),
            tuple(rollout.seed for rollout in group),
            tuple(states),
        )


def reseeded_claims(corpus: Corpus, policy: Prefill) -> Iterator[Claim]:
    """Yield submissions whose first rollout was drawn with another seed than its own: best of two, once a group."""
    for claim in honest_claims(corpus, policy):
        seeds = (bytes(byte ^ 0xFF for byte in claim.seeds[0]), *claim.seeds[1:])
        yield Claim(claim.rollouts, seeds, claim.states)


def count(claims: Iterable[Claim], thresholds: Thresholds, policy: Prefill, temperature_milli: int) -> Caught:
    """Hold submissions against limits."""
    caught = Caught()
    for claim in claims:
        activations = checks.check_activations(claim.rollouts, claim.states, thresholds)
        sampling = checks.check_sampling(
            claim.rollouts,
            claim.states,
            claim.seeds,
            temperature_milli / 1000,
            thresholds,
            policy.logits,
            policy.head_rows,
        )
        outcome = checks.worse(activations, sampling).outcome
        caught.submissions += 1
        caught.rejected += outcome is Outcome.REJECT
        caught.faulted += outcome is Outcome.FAULT
        caught.by_activations += not activations.is_fine
        caught.by_sampling += not sampling.is_fine
    return caught


def calibrate(
    policies: Sequence[Path],
    corpora: Sequence[Path],
    attacks: Sequence[tuple[str, Path, Path]],
    dtypes: Sequence[str],
    about: dict[str, object],
    report: Callable[[str], None] = lambda _: None,
) -> Card:
    """Return the card of honest corpora of one or more policies of one shape.

    `attacks` are (name, corpus, policy that it pretends to be of). `about` is recorded as it is.
    Raises: SettingsError for a corpus whose policy is not given, or if an honest submission would be rejected.
    """
    folders = {policy_digest(folder): folder for folder in policies}
    recorded = [Corpus.read(path) for path in corpora]
    if not recorded:
        raise SettingsError("calibration needs at least one corpus of honest rollouts")
    temperatures = {corpus.temperature_milli for corpus in recorded}
    if len(temperatures) != 1:
        raise SettingsError(f"a card is for one temperature, the corpora have {sorted(temperatures)} ‰")
    (temperature_milli,) = temperatures
    measured: list[Honest] = []
    opened: dict[tuple[str, str], Prefill] = {}
    held: list[tuple[list[Claim], Prefill]] = []
    sizes: set[tuple[int, int]] = set()
    for corpus in recorded:
        if corpus.policy not in folders:
            raise SettingsError(f"a corpus is of the policy {corpus.policy[:16]}, which is none of those given")
        for dtype in dtypes:
            policy = opened.get((corpus.policy, dtype)) or Prefill(folders[corpus.policy], dtype)
            opened[corpus.policy, dtype] = policy
            sizes.add((policy.hidden_size, policy.vocabulary))
            claims = list(honest_claims(corpus, policy))
            held.append((claims, policy))
            measured.append(measure(corpus, claims, policy))
            report(f"{corpus.engine}, policy {corpus.policy[:8]}, {dtype}: largest gap {measured[-1].largest_gap:.4f}")
    if len(sizes) != 1:
        raise SettingsError(f"a card is for one policy's shape, these have {sorted(sizes)}")
    ((hidden_size, vocabulary),) = sizes
    thresholds = derive(measured)
    honest = Caught()
    for claims, policy in held:
        part = count(claims, thresholds, policy, temperature_milli)
        honest.submissions += part.submissions
        honest.rejected += part.rejected + part.faulted
    if honest.rejected:
        raise SettingsError(f"{honest.rejected} of {honest.submissions} honest submissions would be rejected")
    distinct = sum(len(corpus.groups) for corpus in recorded)
    detected: dict[str, object] = {}
    for name, caught in _attacks(recorded[0], folders, attacks, dtypes[-1], thresholds, temperature_milli):
        report(f"{name}: {caught.rejected + caught.faulted} of {caught.submissions} stopped, {caught.faulted} faults")
        detected[name] = caught.document()
    return Card(
        temperature_milli=temperature_milli,
        hidden_size=hidden_size,
        vocabulary=vocabulary,
        thresholds=thresholds,
        evidence={
            **about,
            "honest": [found.document() for found in measured],
            "honest_rejected": {
                "submissions": distinct,
                "checks": honest.submissions,
                "rejected": honest.rejected,
                # The rule of three, over distinct submissions: two prefills of one are no two samples. These are also
                # the submissions that set the limits, so it says how small the sample is, not how good the card.
                "share_at_most_95_percent": round(3 / distinct, 6),
                "sample": "the submissions that set the limits",
            },
            "attacks": detected,
            "safety": {
                "drift": f"{DRIFT_FACTOR:g} × measured maximum + {MISMATCH_ROOM} mismatches or {MANTISSA_ROOM:g}",
                "mantissa_sum": f"one chunk's limit + {MEAN_FACTOR:g} × worst submission's mean a chunk",
                "gap_margin": f"{MARGIN_FACTOR:g} × largest honest gap, at least {MARGIN_LEAST:g}",
                "gap_bound": f"{BOUND_FACTOR:g} × largest honest gap, at least {BOUND_LEAST:g}",
                "capped_sum": f"{SUM_FACTOR:g} × largest honest gap + {SUM_FACTOR:g} × worst submission's mean a token",
            },
        },
    )


def _attacks(
    base: Corpus,
    folders: dict[str, Path],
    attacks: Sequence[tuple[str, Path, Path]],
    dtype: str,
    thresholds: Thresholds,
    temperature_milli: int,
) -> Iterator[tuple[str, Caught]]:
    policy = Prefill(folders[base.policy], dtype)
    whole = max(len(group) for group in base.groups)
    made = {
        "one token of a group replaced by any": edited_claims(base, policy, 1, "any"),
        "one token of each rollout replaced by any": edited_claims(base, policy, whole, "any"),
        "one token of a group replaced by the runner-up": edited_claims(base, policy, 1, "runner-up"),
        "one token of each rollout replaced by the runner-up": edited_claims(base, policy, whole, "runner-up"),
        "one rollout of a group drawn with another seed": reseeded_claims(base, policy),
    }
    for name, claims in made.items():
        yield name, count(claims, thresholds, policy, temperature_milli)
    for name, path, folder in attacks:
        pretended = Prefill(folder, dtype)
        yield name, count(honest_claims(Corpus.read(path), pretended), thresholds, pretended, temperature_milli)


def _short_drift(rollout: Recorded, own: torch.Tensor, index: int) -> Iterator[tuple[int, toploc.ChunkDrift]]:
    """Yield the drift of one chunk cut out of the middle: short ones are rare at the end of honest completions."""
    length = len(rollout.completion)
    size = CHUNK_SIZES[index % len(CHUNK_SIZES)]
    if size < length:
        start = (index * 7) % (length - size)
        part = slice(start, start + size)
        yield size, toploc.verify(own[part], toploc.build(rollout.states[part]))[0]


def _band(measured: Sequence[Honest], start: int) -> DriftLimits:
    end = next((band for band in BANDS if band > start), toploc.CHUNK_TOKENS + 1)
    worst = [drift for found in measured for size, drift in found.drift.items() if start <= size < end]
    if not worst:
        raise SettingsError(f"the corpora hold no chunk of {start} … {end - 1} tokens: record longer completions")
    return DriftLimits(
        min_tokens=start,
        exponent_mismatches=round(DRIFT_FACTOR * max(drift[0] for drift in worst)) + MISMATCH_ROOM,
        mantissa_mean=_round_up(DRIFT_FACTOR * max(drift[1] for drift in worst) + MANTISSA_ROOM),
        mantissa_median=_round_up(DRIFT_FACTOR * max(drift[2] for drift in worst) + MANTISSA_ROOM),
    )


def _other(choose: random.Random, policy: Prefill, token: int) -> int:
    while True:
        other = choose.randrange(policy.vocabulary)
        if other != token and other not in policy.tokens.end_ids and other not in policy.tokens.suppressed_ids:
            return other


def _runner_up(rollout: Recorded, place: int, policy: Prefill, temperature: float) -> int:
    from stannary.sampling import gumbel

    (states,) = policy.states(rollout.prompt, [rollout.completion[: place + 1]])
    logits = policy.logits(states[place : place + 1]).cpu().numpy()[0]
    scores = logits / np.float32(temperature) + gumbel(rollout.seed, place, policy.vocabulary)
    for token in np.argsort(-scores)[1:].tolist():
        if token not in policy.tokens.end_ids:
            return int(token)
    raise AssertionError("a vocabulary of end tokens only")


def _round_up(value: float) -> float:
    """Round up to two significant digits, so that a card reads well."""
    if value == 0:
        return 0.0
    digits = 1 - int(np.floor(np.log10(value)))
    scaled = np.ceil(round(value * 10.0**digits, 6))
    return float(round(float(scaled) / 10.0**digits, max(0, digits)))
