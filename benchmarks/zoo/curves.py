"""Detection by audited tokens: what submissions of one provider say together.

Two ways of adding up are shown beside judging each alone: the pairing's standard errors, as their sum over the root of
their number, discounted as one pairing is where the mean share is less than half of the way; and the evidence of the
card. Providers are drawn from measured submissions, with replacement.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from benchmarks.zoo.tally import Row, crossings, is_detected, score
from stannary.cards import Card

F64 = npt.NDArray[np.float64]

SUBMISSIONS = (1, 2, 4, 8, 16, 32, 64, 128)
DRAWS = 2000


def curve(rows: Sequence[Row], card: Card) -> Row:
    """Return which part of the providers of such submissions alone is found after so many, by each way."""
    scores = [score(entry) or 0.0 for entry in rows]
    slashed = crossings(card.evidence, scores, [], 1.0, card.evidence.slash_log10)
    rate = sum(map(is_detected, rows)) / len(rows)
    ways = np.array([entry["way"] for entry in rows if entry["way"] is not None])
    return {
        "n": len(rows),
        "mean_share": round(float(ways[:, 0].mean()), 3) if len(ways) else None,
        "mean_errors": round(float(ways[:, 1].mean()), 3) if len(ways) else None,
        "spread_of_errors": round(float(ways[:, 1].std()), 3) if len(ways) else None,
        "by_level": list(card.evidence.count(scores)),
        "submissions": list(SUBMISSIONS),
        "audited_tokens": [round(count * float(np.mean([entry["tokens"] for entry in rows]))) for count in SUBMISSIONS],
        "one_at_a_time": [round(1 - (1 - rate) ** count, 4) for count in SUBMISSIONS],
        "pairing_added_up": [_added_up(ways, count, card.thresholds.pairing) for count in SUBMISSIONS if len(ways)],
        "convicted_by_evidence": [
            round(sum(found is not None and found <= count for found in slashed) / len(slashed), 4)
            for count in SUBMISSIONS
        ],
    }


def _added_up(ways: F64, count: int, limit: float) -> float:
    """Return how often so many submissions together lie beyond the limit of one. Shapes: ways [N, 2]."""
    drawn = ways[np.random.default_rng(count).integers(len(ways), size=(DRAWS, count))]
    share, errors = drawn[..., 0].mean(axis=1), drawn[..., 1].sum(axis=1) / math.sqrt(count)
    return round(float(np.mean(errors * np.clip(2 * share, 0.0, 1.0) > limit)), 4)
