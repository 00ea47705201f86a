"""Calibration: measures honest engines under this validator's computes, fits limits, checks them, counts attacks.

One half of the honest recordings sets the limits. The other half, and attacks, are only counted under them. It must
not know how an engine works or where recordings come from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from stannary import toploc
from stannary.cards import Card, Thresholds
from stannary.corpus import Corpus, Recorded, policy_digest
from stannary.e_process import NOTHING, Counts, EvidenceRules, Scores
from stannary.errors import Malformed, SettingsError
from stannary.rollout import Rollout
from stannary.standing import scores_of
from stannary.types import Outcome, to_hex
from validator import statistics
from validator.finding import Finding
from validator.fit import INFORMATIVE_SIZES, Fit, Sample, cut_informative, findings, fit, honest_scores, rounded_up
from validator.judgement import decide, widened
from validator.pairing import Way
from validator.prefill import Prefill
from validator.samples import CardSamples
from validator.statistics import ChunkMeasure, Measured
from validator.tails import lower_rate, upper_rate
from validator.weights import FIRST, SECOND

FALSE_REJECT_RATE = 1e-4
"""Honest submissions that are rejected at most, over all numbers of a submission together."""
PUBLISHED = (38, 10.0, 8.0)
"""Limits of a chunk in the published library: exponent mismatches, mantissa mean and median (arXiv 2501.16007)."""
PIECE_SIZES = (1, 2, 3, 5, 8, 12, 16, 24)
"""Sizes of the chunks that are cut out of the middle of longer completions."""
DTYPES = (FIRST, SECOND)

MOST_SUBMISSIONS = 10_000
"""Up to so many are counted until the evidence slashes."""
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Attack:
    """A recording that pretends to be of another policy than made it."""

    name: str
    corpus: Path
    pretended: Path
    before: Path | None = None
    """The policy step before the one that it pretends to be of."""


class Bench:
    """Policies by folder, each loaded once for each compute, and what they measure."""

    def __init__(self, device: str = "cpu") -> None:
        self._device = device
        self._opened: dict[tuple[Path, str], Prefill] = {}

    def open(self, folder: Path, dtype: str) -> Prefill:
        """Return a loaded policy."""
        key = (folder, dtype)
        if key not in self._opened:
            self._opened[key] = Prefill(folder, dtype, self._device)
        return self._opened[key]

    def measure(
        self,
        corpus: Corpus,
        folder: Path,
        before: Path | None,
        temperature_milli: int | None = None,
        dtypes: Sequence[str] = DTYPES,
    ) -> Iterator[list[Measured]]:
        """Yield what each compute measures of each group of a recording, held against the policy in `folder`.

        Tokens are replayed at the pool's temperature, the recording's own unless given.
        """
        temperature = (temperature_milli or corpus.temperature_milli) / 1000
        for group in corpus.groups:
            rollouts = [Rollout(r.prompt, r.completion, tuple(toploc.build(r.states))) for r in group]
            prompt, completions = group[0].prompt, [r.completion for r in group]
            exact = self.open(folder, "fp32").unrounded_states(prompt, completions)
            ways = []
            if before is not None:
                other = self.open(before, "fp32").unrounded_states(prompt, completions)
                ways.append(Way("the policy step before", exact, other))
            found = []
            for dtype in dtypes:
                policy = self.open(folder, dtype)
                states = exact if dtype == "fp32" else policy.unrounded_states(prompt, completions)
                seeds = [r.seed for r in group]
                found.append(statistics.measure(rollouts, states, seeds, temperature, policy, ways))
            yield found

    def samples(self, corpus: Corpus, folder: Path, before: Path | None) -> list[Sample]:
        """Measure an honest recording."""
        found = []
        exact = self.open(folder, "fp32")
        for group, measured in zip(corpus.groups, self.measure(corpus, folder, before), strict=True):
            pieces = tuple(_pieces(group, exact))
            found += [
                Sample(
                    f"{corpus.engine}; {each.compute}",
                    each,
                    pieces if each.compute == exact.compute else (),
                    corpus.policy[:16],
                )
                for each in measured
            ]
        return found


def calibrate(
    policies: Sequence[Path],
    fitted: Sequence[Path],
    checked: Sequence[Path],
    attacks: Sequence[Attack],
    about: Mapping[str, object],
    *,
    audit_bps: int = 10_000,
    false_reject_rate: float = FALSE_REJECT_RATE,
    device: str = "cpu",
    report: Report = lambda _: None,
    keep: Callable[[CardSamples], None] = lambda _: None,
) -> Card:
    """Return the card of honest recordings of consecutive policy steps.

    `fitted` set the limits, `checked` are held against them. `about` is recorded as it is, `keep` is given
    what was measured.
    Raises: SettingsError for a recording whose policy is not given, for too few recordings, if an honest submission
    that set the limits would be rejected, or if the others contradict what the card says of honest ones.
    """
    folders = {policy_digest(folder): index for index, folder in enumerate(policies)}
    bench = Bench(device)
    read = {path: Corpus.read(path) for path in [*fitted, *checked]}
    temperature_milli = _one({corpus.temperature_milli for corpus in read.values()}, "temperature")

    def samples_of(paths: Iterable[Path]) -> list[Sample]:
        found: list[Sample] = []
        for path in paths:
            corpus = read[path]
            if corpus.policy not in folders:
                raise SettingsError(f"{path} is of the policy {corpus.policy[:16]}, which is none of those given")
            index = folders[corpus.policy]
            # An engine lies on the way back as far as on the way forth: the first step is paired with the next.
            neighbour = policies[index - 1] if index else policies[1] if len(policies) > 1 else None
            found += bench.samples(corpus, policies[index], neighbour)
            report(f"{path.name}: {len(corpus.groups)} submissions of {corpus.engine} measured")
        return found

    own = samples_of(fitted)
    made = fit(own, false_reject_rate)
    honest = _honest(own, made.thresholds)
    if honest["rejected"]:
        raise SettingsError(f"{honest['rejected']} of {honest['submissions']} submissions would be rejected")
    shape = bench.open(policies[0], "fp32")
    measured: dict[str, object] = {
        **about,
        "false_reject_rate": false_reject_rate,
        "limits": {name: asdict(reached) for name, reached in made.reaches.items()},
        "fitted": honest,
    }
    if made.beyond_bound is not None:
        measured["beyond_bound"] = asdict(made.beyond_bound)
    if not made.is_paired:
        report("the pairing is off: too few submissions are of a policy step that lies next to another one given")
    others = samples_of(checked)
    if checked:
        levels = _levels(others, made)
        measured["checked"] = {**_honest(others, made.thresholds), "levels": levels}
        report(f"checked on others: {measured['checked']}")
        _refuse_contradiction(others, made, levels, false_reject_rate)
    counted: dict[str, object] = {}
    attacked: dict[str, list[list[Measured]]] = {}
    for attack in attacks:
        found = attacked[attack.name] = list(
            bench.measure(Corpus.read(attack.corpus), attack.pretended, attack.before, temperature_milli)
        )
        counted[attack.name] = count(found, made.thresholds, made.rules)
        report(f"{attack.name}: {counted[attack.name]}")
    measured["attacks"] = counted
    card = Card(
        temperature_milli=temperature_milli,
        hidden_size=shape.hidden_size,
        vocabulary=shape.vocabulary,
        audit_bps=audit_bps,
        thresholds=made.thresholds,
        evidence=made.rules,
        measured=measured,
    )
    try:
        Card.parse(card.to_bytes())
    except Malformed as error:
        raise SettingsError(f"no pool could use this card: {error}: record more, or longer completions") from error
    keep(CardSamples.of(to_hex(card.hash()), card.thresholds, own, others, attacked))
    return card


def count(found: Sequence[Sequence[Measured]], thresholds: Thresholds, rules: EvidenceRules) -> dict[str, object]:
    """Hold dishonest submissions against limits: how many are detected, by what, and how many in short pieces.

    Those detected that are grey are paid on appeal. Also how many go beyond each level of evidence, and after how many
    submissions of which all are like these, in the shares measured, the evidence reaches the slash level; None for
    never.
    """
    decided, wide = [decide(each, thresholds) for each in found], widened(thresholds)
    detected = sum(not finding.is_fine for finding in decided)
    scores = [_published(each, finding, thresholds) for each, finding in zip(found, decided, strict=True)]
    reached = list(map(rules.reached, scores))
    return {
        "n": len(decided),
        "detected": detected,
        "rate_lower_95": round(lower_rate(detected, len(decided)), 4),
        "faulted": sum(finding.outcome is Outcome.FAULT for finding in decided),
        "grey": sum(
            finding.outcome is Outcome.REJECT and decide(each, wide).is_fine
            for each, finding in zip(found, decided, strict=True)
        ),
        "reasons": dict(Counter(finding.reason.name.lower() for finding in decided if not finding.is_fine)),
        "by_published_limits": sum(_is_published_reject(each[0].chunks) for each in found),
        "beyond_levels": [sum(each >= level for each in reached) for level in range(1, len(rules.levels) + 1)],
        "submissions_to_slash": {"1": _submissions_to(rules, rules.count(scores), rules.slash_log10)},
        "power": {str(size): power for size in INFORMATIVE_SIZES if (power := _power(found, thresholds, size))},
    }


def _published(each: Sequence[Measured], decided: Finding, thresholds: Thresholds) -> Scores:
    """Return the scores that a validator publishes: of the first compute alone where that has nothing against it."""
    first = statistics.judge(each[0], thresholds)
    return scores_of((first if first.is_fine else decided).measures) or NOTHING


def _submissions_to(rules: EvidenceRules, counts: Counts, log10: float) -> int | None:
    """Return how many submissions in these shares the evidence needs to reach a level, None if it never does."""
    shares = np.array(counts) / max(1, sum(counts[0]))
    totals = np.arange(1, MOST_SUBMISSIONS + 1)
    reached = np.flatnonzero(rules.log10(totals[:, None, None] * shares) >= log10)
    return int(totals[reached[0]]) if reached.size else None


def cut(measured: Measured, informative: int) -> Measured | None:
    """Return the beginning of a submission that holds so many informative tokens, as if it were all of it.

    Pairings are of the whole submission and left out. None if there are fewer.
    """
    replay = cut_informative(measured.replay, informative)
    if replay is None:
        return None
    lengths, left = [], replay.gap.size
    for length in measured.lengths:
        if left > 0:
            lengths.append(min(length, left))
            left -= length
    chunks = tuple(
        chunk
        for chunk in measured.chunks
        if chunk.rollout < len(lengths) and chunk.chunk * toploc.CHUNK_TOKENS + chunk.tokens <= lengths[chunk.rollout]
    )
    return replace(measured, chunks=chunks or measured.chunks[:1], lengths=tuple(lengths), replay=replay, pairings=())


def _power(found: Sequence[Sequence[Measured]], thresholds: Thresholds, size: int) -> list[int]:
    """Return how many pieces with so many informative tokens there are, and how many of them are detected."""
    pieces = [[cut(measured, size) for measured in each] for each in found]
    whole = [[piece for piece in each if piece is not None] for each in pieces]
    kept = [each for each, before in zip(whole, found, strict=True) if len(each) == len(before)]
    return [len(kept), sum(not decide(each, thresholds).is_fine for each in kept)] if kept else []


def _honest(samples: Sequence[Sample], thresholds: Thresholds) -> dict[str, object]:
    """Say how honest submissions fare: each compute alone, which is stricter than both together."""
    kinds: dict[str, Counter[str]] = {}
    rejected = 0
    for sample in samples:
        finding: Finding = statistics.judge(sample.measured, thresholds)
        rejected += not finding.is_fine
        kinds.setdefault(sample.kind, Counter()).update(
            submissions=1,
            tokens=int(sample.measured.replay.gap.size),
            rejected=int(not finding.is_fine),
            rejected_by_published_limits=int(_is_published_reject(sample.measured.chunks)),
        )
    scores = honest_scores(samples, thresholds)
    submissions = len(samples) // len(DTYPES)
    return {
        "submissions": submissions,
        "rejected": rejected,
        "rate_upper_95": round(upper_rate(min(rejected, submissions), submissions), 6),
        "kinds": {
            kind: {**counts, "largest_score": rounded_up(max(map(max, scores[kind]), default=0.0))}
            for kind, counts in kinds.items()
        },
    }


def _levels(samples: Sequence[Sample], made: Fit) -> list[dict[str, float]]:
    """Say how many other submissions than those that set the levels of evidence went beyond them, by either compute.

    Two computes of one submission are no two trials.
    """
    highest = []
    for first in range(0, len(samples), len(DTYPES)):
        one = honest_scores(samples[first : first + len(DTYPES)], made.thresholds)
        if any(one.values()):
            highest.append(max(max(map(max, scores), default=0.0) for scores in one.values()))
    return [
        {
            "score": level.score,
            "honest_at_most": level.honest_at_most,
            "reached": (reached := sum(score > level.score for score in highest)),
            "of": len(highest),
            "rate_upper_95": round(upper_rate(reached, len(highest)), 6),
        }
        for level in made.rules.levels
    ]


def _refuse_contradiction(
    samples: Sequence[Sample], made: Fit, levels: Sequence[Mapping[str, float]], rate: float
) -> None:
    """Refuse limits that other honest submissions go beyond more often than chance explains. Raises: SettingsError."""
    advice = "record more, of every way of using a machine in both halves"
    submissions = len(samples) // len(DTYPES)
    found = zip(samples, findings(samples, made.thresholds), strict=True)
    rejected = Counter(sample.kind for sample, finding in found if not finding.is_fine)
    count = min(rejected.total(), submissions)
    if lower_rate(count, submissions) > rate:
        raise SettingsError(
            f"checked: expected at most {rate:g} of honest submissions rejected, got {count} of {submissions} "
            f"({', '.join(f'{kind}: {number}' for kind, number in rejected.items())}): {advice}"
        )
    for level in levels:
        reached, of, most = int(level["reached"]), int(level["of"]), level["honest_at_most"]
        if of and lower_rate(reached, of) > most:
            raise SettingsError(
                f"checked: expected at most {most:g} of honest submissions beyond score {level['score']:g}, "
                f"got {reached} of {of}: {advice}"
            )


def _is_published_reject(chunks: Sequence[ChunkMeasure]) -> bool:
    mismatches, mean, median = PUBLISHED
    return any(
        chunk.drift.exponent_mismatches > mismatches
        or chunk.drift.mantissa_mean > mean
        or chunk.drift.mantissa_median > median
        for chunk in chunks
    )


def _pieces(group: Sequence[Recorded], policy: Prefill) -> Iterator[ChunkMeasure]:
    """Yield the drift of one short chunk cut out of the middle of each rollout."""
    states = policy.states(group[0].prompt, [rollout.completion for rollout in group])
    for index, (rollout, own) in enumerate(zip(group, states, strict=True)):
        length = len(rollout.completion)
        size = PIECE_SIZES[(index + length) % len(PIECE_SIZES)]
        if size < length:
            start = (index * 7 + length) % (length - size)
            part = slice(start, start + size)
            drift = toploc.verify(own[part], toploc.build(rollout.states[part]))[0]
            yield ChunkMeasure(index, 0, size, drift)


def _one(found: set[int], name: str) -> int:
    if len(found) != 1:
        raise SettingsError(f"{name}: a card is for one, the recordings have {sorted(found)}")
    return found.pop()
