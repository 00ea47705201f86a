"""How a provider stands: the evidence against it, recounted from what panels published. Pure.

A leaf's score is the median of those that the members of its panel published, the lower of the middle two where their
number is even, and only where more than half of the members that judged it published one: so one liar moves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from stannary.e_process import EvidenceRules
from stannary.evidence import EvidenceFile, LeafEvidence
from stannary.structs import Submission
from stannary.types import Address, Hash, Outcome

SCORE = "score"
"""The measure of an evidence file that evidence is made of: the largest share of its limit that any number reached."""


@dataclass(frozen=True, slots=True)
class ScoredLeaf:
    """A leaf and what it adds to the evidence against its provider."""

    step: int
    slot: int
    leaf_hash: Hash
    score: float
    """Above 1 it is rejected; infinite where the measured number was not finite."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The evidence against a provider."""

    counts: tuple[int, ...]
    """Of the leaves with a score, by bracket, the lowest first."""
    log10: float
    """The evidence as a power of ten, to be held against `stop_log10` and `slash_log10` of the rules."""
    leaves: tuple[ScoredLeaf, ...]
    """By step and slot."""

    @classmethod
    def of(cls, rules: EvidenceRules, leaves: Iterable[ScoredLeaf]) -> Self:
        """Return what these leaves come to; their order does not matter."""
        found = tuple(sorted(leaves, key=lambda leaf: (leaf.step, leaf.slot)))
        counts = rules.count([leaf.score for leaf in found])
        return cls(counts, float(rules.log10(counts)), found)


def standing(
    rules: EvidenceRules,
    files: Mapping[int, Sequence[EvidenceFile]],
    leaves: Iterable[Submission],
    provider: Address,
) -> Standing:
    """Return how a provider stands after these leaves; those of others are passed over.

    `files` holds, by step, the evidence of the members that revealed, one file each, checked against the roots on
    chain, and `leaves` are those under the roots of these steps and those delivered in slots taken on chain, without
    those that were shown to be planted faults.
    """
    own: dict[int, list[Submission]] = {}
    for leaf in leaves:
        if leaf.provider == provider:
            own.setdefault(leaf.step, []).append(leaf)
    return Standing.of(
        rules, (scored for step, found in own.items() for scored in scored_leaves(files.get(step, ()), found))
    )


def scored_leaves(files: Sequence[EvidenceFile], leaves: Iterable[Submission]) -> list[ScoredLeaf]:
    """Return the leaves of one step for which its panel published a score, in their order; as `standing`."""
    # The first entry on a leaf counts, so that nobody speaks twice.
    members = [{entry.leaf_hash: entry for entry in reversed(file.leaves)} for file in files]
    found = []
    for leaf in leaves:
        leaf_hash = leaf.struct_hash()
        entries = [entry for member in members if (entry := member.get(leaf_hash)) is not None]
        score = median_score([entry for entry in entries if entry.outcome is not Outcome.ABSTAIN])
        if score is not None:
            found.append(ScoredLeaf(leaf.step, leaf.slot, leaf_hash, score))
    return found


def median_score(entries: Sequence[LeafEvidence]) -> float | None:
    """Return the score of a leaf that these members judged, None if half of them or fewer published one."""
    scores = sorted(score for entry in entries if (score := score_of(entry)) is not None)
    return scores[(len(scores) - 1) // 2] if 2 * len(scores) > len(entries) else None


def score_of(entry: LeafEvidence) -> float | None:
    """Return the score that a member published, None for a leaf that was not audited or is too short to tell from."""
    measure = entry.measures.get(SCORE)
    if measure is None:
        return None
    return math.inf if measure.value is None else measure.value
