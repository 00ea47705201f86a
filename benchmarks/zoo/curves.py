"""Detection by audited tokens: what submissions of one provider say together.

Two ways of adding up are shown beside judging each alone: the pairing's deviates, as their sum over the root of their
number, and the evidence of the card. Providers are drawn from measured submissions, with replacement.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from benchmarks.zoo.tally import Row, crossings, is_detected, score
from stannary.cards import Card

SUBMISSIONS = (1, 2, 4, 8, 16, 32, 64, 128)
DRAWS = 2000


def curve(rows: Sequence[Row], card: Card) -> Row:
    """Return which part of the providers of such submissions alone is found after so many, by each way."""
    generator = np.random.default_rng(0)
    deviates = np.array([entry["deviate"] for entry in rows if entry["deviate"] is not None])
    scores = [score(entry) or 0.0 for entry in rows]
    slashed = crossings(card.evidence, scores, [], 1.0, card.evidence.slash_log10)
    rate = sum(map(is_detected, rows)) / len(rows)
    pairing = [
        round(
            float(
                np.mean(
                    generator.choice(deviates, (DRAWS, count)).sum(axis=1) / math.sqrt(count) > card.thresholds.pairing
                )
            ),
            4,
        )
        for count in SUBMISSIONS
        if deviates.size
    ]
    return {
        "n": len(rows),
        "mean_deviate": round(float(deviates.mean()), 3) if deviates.size else None,
        "deviate_spread": round(float(deviates.std()), 3) if deviates.size else None,
        "submissions": list(SUBMISSIONS),
        "audited_tokens": [round(count * float(np.mean([entry["tokens"] for entry in rows]))) for count in SUBMISSIONS],
        "one_at_a_time": [round(1 - (1 - rate) ** count, 4) for count in SUBMISSIONS],
        "pairing_added_up": pairing,
        "convicted_by_evidence": [
            round(sum(found is not None and found <= count for found in slashed) / len(slashed), 4)
            for count in SUBMISSIONS
        ],
    }
