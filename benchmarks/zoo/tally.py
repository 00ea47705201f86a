"""From judgements to figures: how many were found, by what, and how long until the evidence convicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.zoo.stage import Found
from stannary import standing
from stannary.cards import Card
from stannary.e_process import NOTHING, EvidenceRules, Scores
from stannary.evidence import Measure
from stannary.standing import SCORES
from stannary.types import Outcome, Reason
from validator.judgement import GREY_FACTOR
from validator.statistics import STATISTICAL
from validator.tails import lower_rate, upper_rate

SHARES = (0.05, 0.2, 1.0)
"""Of the submissions that are cheated, for which the way to a conviction is given."""
MOST_SUBMISSIONS, RUNS = 10_000, 32
LEAST_RATE = 0.9
"""Lower end of the 95 % interval of detection that an attack by numbers must not stay below."""

Row = dict[str, Any]
"""What is kept of one judgement, as JSON."""


@dataclass(frozen=True, slots=True)
class Target:
    """What is asked of the detection of an attack."""

    figure: str
    least: float

    def __str__(self) -> str:
        return f"{self.figure} >= {self.least:g}"


ALWAYS = Target("rate", 1.0)
MOSTLY = Target("rate_lower_95", LEAST_RATE)


def row(found: Found) -> Row:
    """Return what is kept of a judgement."""
    finding = found.judgement.finding
    return {
        "outcome": finding.outcome.name,
        "reason": finding.reason.name.lower(),
        "explanation": finding.explanation,
        "measures": {name: [measure.value, measure.limit] for name, measure in finding.measures.items()},
        "rewards": list(found.judgement.rewards),
        "tokens": found.tokens,
        "is_grey": found.judgement.is_grey,
        "by_published_limits": found.by_published_limits,
        "way": None if found.way is None else list(found.way),
    }


def is_detected(entry: Row) -> bool:
    """Say whether a judgement refuses to pay."""
    return entry["outcome"] in (Outcome.REJECT.name, Outcome.FAULT.name)


def is_grey(entry: Row) -> bool:
    """Say whether a rejection is paid on appeal: every number lies within the grey band's wider limits."""
    numbers = {name: Measure(*pair) for name, pair in entry["measures"].items() if name not in SCORES}
    return (
        entry["outcome"] == Outcome.REJECT.name
        and entry["reason"] in {reason.name.lower() for reason in STATISTICAL}
        and all(measure.share <= GREY_FACTOR for measure in numbers.values())
    )


def scores_of(entry: Row) -> Scores | None:
    """Return the scores, None where there were too few tokens to tell from."""
    return standing.scores_of({name: Measure(*pair) for name, pair in entry["measures"].items()})


def every_scores(rows: Sequence[Row]) -> list[Scores]:
    """Return the scores of rows as they count in the evidence."""
    return [scores_of(entry) or NOTHING for entry in rows]


def forged(rows: Sequence[Row], expected: Sequence[Reason], cost_share: float) -> Row:
    """Return the figures of an attack that must be found every time, and by what is meant for it."""
    names = {reason.name.lower() for reason in expected}
    refused = [entry for entry in rows if entry["outcome"] != Outcome.ACCEPT.name and entry["reason"] in names]
    figures = _counted(rows, refused, cost_share)
    return figures | _held(figures, ALWAYS) | {"expected": sorted(names)}


def statistical(
    rows: Sequence[Row],
    card: Card,
    honest: Sequence[Row],
    *,
    cost_share: float,
    check_share: float = 0.0,
    target: Target | None = None,
) -> Row:
    """Return the figures of an attack that is found by numbers. `honest` are what it is mixed with."""
    figures = _counted(rows, list(filter(is_detected, rows)), cost_share)
    scores, others = every_scores(rows), every_scores(honest)
    figures["cost_share_if_checked_first"] = round(cost_share + check_share + figures["rate"], 4)
    figures["tokens_a_submission"] = round(float(np.mean([entry["tokens"] for entry in rows])), 1)
    figures["by_published_limits"] = sum(entry["by_published_limits"] for entry in rows)
    figures["grey"] = sum(map(is_grey, rows))
    figures["found_by_one_number_alone"] = dict(Counter(filter(None, map(_alone, rows))))
    figures["confirmed_by_one_compute_only"] = sum(
        entry["outcome"] == Outcome.ACCEPT.name and bool(entry["explanation"]) for entry in rows
    )
    figures["submissions_to_slash"] = {
        f"{share:g}": until_slashed(card.evidence, scores, others, share) for share in SHARES
    }
    return figures | _held(figures, target)


def certain(count: int, of: int, reason: str) -> Row:
    """Return the figures of what is no matter of judgement: how often it holds."""
    rows = [{"outcome": Outcome.REJECT.name, "reason": reason}] * count + [{"outcome": Outcome.ACCEPT.name}] * (
        of - count
    )
    figures = _counted(rows, rows[:count], 1.0)
    return figures | _held(figures, ALWAYS)


def honest(rows: dict[str, list[Row]], card: Card) -> Row:
    """Return how honest submissions fared, by machine."""
    rules = card.evidence
    every = [entry for part in rows.values() for entry in part]
    rejected = sum(entry["outcome"] != Outcome.ACCEPT.name for entry in every)
    return {
        "n": len(every),
        "false_rejects": rejected,
        "rate_upper_95": round(upper_rate(rejected, len(every)), 6),
        "by_machine": {
            name: {
                "n": len(part),
                "tokens": sum(entry["tokens"] for entry in part),
                "false_rejects": sum(entry["outcome"] != Outcome.ACCEPT.name for entry in part),
                "largest_score": round(max(map(max, every_scores(part)), default=0.0), 3),
                "by_level": by_level(rules, every_scores(part)),
                "evidence_log10": round(float(rules.log10(rules.count(every_scores(part)))), 3),
                "by_published_limits": sum(entry["by_published_limits"] for entry in part),
            }
            for name, part in rows.items()
        },
        "reasons": dict(Counter(entry["reason"] for entry in every if entry["outcome"] != Outcome.ACCEPT.name)),
    }


def by_level(rules: EvidenceRules, submissions: Sequence[Scores]) -> list[int]:
    """Return how many submissions go beyond so many levels in any part, from none."""
    reached = Counter(map(rules.reached, submissions))
    return [reached[level] for level in range(len(rules.levels) + 1)]


def until_slashed(
    rules: EvidenceRules, attack: Sequence[Scores], others: Sequence[Scores], share: float
) -> float | None:
    """Return how many audited submissions it takes on average until the evidence convicts, None if it may never.

    Scores are drawn anew from those measured: a share of them from the attack, the rest from honest ones.
    """
    crossed = [found for found in crossings(rules, attack, others, share, rules.slash_log10) if found is not None]
    return round(float(np.mean(crossed)), 1) if len(crossed) == RUNS else None


def crossings(
    rules: EvidenceRules, attack: Sequence[Scores], others: Sequence[Scores], share: float, level: float
) -> list[int | None]:
    """Return after how many submissions each of some drawn providers reaches a level of evidence."""
    generator = np.random.default_rng(0)
    own, rest = _brackets(rules, attack), _brackets(rules, others or [NOTHING])
    found: list[int | None] = []
    for _ in range(RUNS):
        cheats = generator.random(MOST_SUBMISSIONS) < share
        of_attack, of_honest = (generator.choice(part, MOST_SUBMISSIONS) for part in (own, rest))
        drawn = np.where(cheats[:, None], of_attack, of_honest)
        counts = np.cumsum(drawn[..., None] == np.arange(len(rules.levels) + 1), axis=0)
        reached = np.flatnonzero(rules.log10(counts) >= level)
        found.append(int(reached[0]) + 1 if reached.size else None)
    return found


def _brackets(rules: EvidenceRules, submissions: Sequence[Scores]) -> npt.NDArray[np.int64]:
    """Return brackets. Shapes: [submissions, parts]."""
    return np.array([[rules.bracket(score) for score in scores] for scores in submissions], dtype=np.int64)


def _counted(rows: Sequence[Row], detected: Sequence[Row], cost_share: float) -> Row:
    return {
        "n": len(rows),
        "detected": len(detected),
        "rate": round(len(detected) / len(rows), 4),
        "rate_lower_95": round(lower_rate(len(detected), len(rows)), 4),
        "faulted": sum(entry["outcome"] == Outcome.FAULT.name for entry in detected),
        "reasons": dict(Counter(entry["reason"] for entry in rows if entry["outcome"] != Outcome.ACCEPT.name)),
        "cost_share": cost_share,
    }


def _held(figures: Row, target: Target | None) -> Row:
    return {} if target is None else {"target": str(target), "met": figures[target.figure] >= target.least}


def _alone(entry: Row) -> str | None:
    """Name the one number that lies beyond its limit, if there is only one."""
    beyond = [
        name
        for name, (value, limit) in entry["measures"].items()
        if name not in SCORES and limit is not None and (value is None or value > limit)
    ]
    return beyond[0] if len(beyond) == 1 and is_detected(entry) else None
