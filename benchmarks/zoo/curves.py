"""Detection by audited tokens: each submission alone, and what submissions of one provider say together.

Honest work is shown beside. Providers are drawn from measured submissions, with replacement.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.zoo.tally import Row, by_level, crossings, every_scores, is_detected
from stannary.cards import Card

SUBMISSIONS = (1, 2, 4, 8, 16, 32, 64, 128)


def curve(rows: Sequence[Row], card: Card) -> Row:
    """Return which part of the providers of such submissions alone is found after so many, by each way."""
    scores = every_scores(rows)
    slashed = crossings(card.evidence, scores, [], 1.0, card.evidence.slash_log10)
    rate = sum(map(is_detected, rows)) / len(rows)
    ways = np.array([entry["way"] for entry in rows if entry["way"] is not None])
    return {
        "n": len(rows),
        "mean_share": round(float(ways[:, 0].mean()), 3) if len(ways) else None,
        "spread_of_shares": round(float(ways[:, 0].std()), 3) if len(ways) else None,
        "mean_errors": round(float(ways[:, 1].mean()), 3) if len(ways) else None,
        "spread_of_errors": round(float(ways[:, 1].std()), 3) if len(ways) else None,
        "by_level": by_level(card.evidence, scores),
        "submissions": list(SUBMISSIONS),
        "audited_tokens": [round(count * float(np.mean([entry["tokens"] for entry in rows]))) for count in SUBMISSIONS],
        "one_at_a_time": [round(1 - (1 - rate) ** count, 4) for count in SUBMISSIONS],
        "convicted_by_evidence": [
            round(sum(found is not None and found <= count for found in slashed) / len(slashed), 4)
            for count in SUBMISSIONS
        ],
    }
