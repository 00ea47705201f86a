"""How a provider stands: the evidence against it, recounted from what panels published. Pure.

A leaf's score in each part of the checks is the median of those that the members of its panel published, the lower of
the middle two where their number is even, and only where more than half of the members that judged it, by the votes on
chain, published one: so one liar moves nothing, be it the first to publish or the only one whose file is served.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from stannary.e_process import PARTS, Counts, EvidenceRules, Scores
from stannary.evidence import LeafEvidence, Measure
from stannary.published import Published, judges_of, said_of
from stannary.structs import Submission
from stannary.types import Hash

SCORES = tuple(f"score of the {part}" for part in PARTS)
"""The measures of an evidence file that evidence is made of: by part of the checks, the largest share of its limit that
any number reached."""


@dataclass(frozen=True, slots=True)
class ScoredLeaf:
    """A leaf and what it adds to the evidence against its provider."""

    step: int
    slot: int
    leaf_hash: Hash
    scores: Scores
    """By part of the checks: above 1 it is rejected; infinite where the measured number was not finite."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The evidence against a provider."""

    counts: Counts
    """Of the leaves with scores."""
    log10: float
    """The evidence as a power of ten, to be held against `stop_log10` and `slash_log10` of the rules."""
    leaves: tuple[ScoredLeaf, ...]
    """By step and slot."""

    @classmethod
    def of(cls, rules: EvidenceRules, leaves: Iterable[ScoredLeaf]) -> Self:
        """Return what these leaves come to; their order does not matter."""
        found = tuple(sorted(leaves, key=lambda leaf: (leaf.step, leaf.slot)))
        counts = rules.count([leaf.scores for leaf in found])
        return cls(counts, float(rules.log10(counts)), found)


def scored_leaves(panel: Sequence[Published], leaves: Iterable[Submission]) -> list[ScoredLeaf]:
    """Return the leaves of one step for which its panel published scores, in their order.

    `leaves` are those under the step's root and those delivered in slots taken on chain.
    """
    found = []
    for leaf in leaves:
        scores = median_scores(said_of(panel, leaf), judges_of(panel, leaf.slot))
        if scores is not None:
            found.append(ScoredLeaf(leaf.step, leaf.slot, leaf.struct_hash(), scores))
    return found


def median_scores(entries: Sequence[LeafEvidence], judges: int) -> Scores | None:
    """Return the scores of a leaf from what is known of its judges, None if half of these or fewer published any.

    `judges` is how many there are by the votes on chain: what one of them says first, or alone as the files of the
    others are withheld, is no score yet.
    """
    published = [scores for entry in entries if (scores := scores_of(entry.measures)) is not None]
    if 2 * len(published) <= judges:
        return None
    return tuple(sorted(part)[(len(part) - 1) // 2] for part in zip(*published, strict=True))


def scores_of(measures: Mapping[str, Measure]) -> Scores | None:
    """Return the scores among measures, None for a leaf that was not audited or is too short to tell from.

    A score below 0 is none that a validator can have found, and counts as none.
    """
    found = [measures[name] for name in SCORES if name in measures]
    if len(found) < len(SCORES) or any(measure.value is not None and measure.value < 0 for measure in found):
        return None
    return tuple(math.inf if measure.value is None else measure.value for measure in found)
