"""How far a provider is from every threshold, and when its worker stops by itself. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from stannary.e_process import MILDEST_PART, NOTHING, PARTS, Counts, EvidenceRules, Scores
from stannary.evidence import Measure
from stannary.provider_record import Judged, Record, limited_measures
from stannary.standing import ScoredLeaf, Standing
from stannary.types import ZERO_HASH, Outcome, Reason

MOST_REJECTIONS = 1 << 20
"""Rejections in a row beyond which a level counts as out of reach."""
MILDEST_REJECTION: Scores = tuple(float(part == MILDEST_PART) for part in PARTS)
"""By the part of the checks in which it is the weakest evidence."""
FEW = 2
"""Leaves that reach a level which alone stop nobody, unless one more like them would reach the slash level."""
SHOWN = 5
"""Leaves that are named when a worker stops."""


@dataclass(frozen=True, slots=True)
class Distance:
    """How near a measure came to its limit over some leaves."""

    name: str
    worst: Measure
    step: int
    """Where the worst is."""
    slot: int
    median_share: float
    leaves: int

    @property
    def margin(self) -> float:
        """What was left of the limit at least; negative beyond it."""
        return 1 - self.worst.share


def distances(leaves: Sequence[Judged]) -> list[Distance]:
    """Return how near each measure came to its limit, the nearest first."""
    found: dict[str, list[tuple[float, Judged]]] = defaultdict(list)
    for leaf in leaves:
        for name, own in limited_measures(leaf.measures):
            found[name].append((own.share, leaf))
    made = []
    for name, shares in found.items():
        _, leaf = max(shares, key=lambda each: each[0])
        middle = median(each for each, _ in shares)
        made.append(Distance(name, leaf.measures[name], leaf.step, leaf.slot, middle, len(shares)))
    return sorted(made, key=lambda distance: distance.margin)


def rejections_to(rules: EvidenceRules, counts: Counts, log10: float, scores: Scores = MILDEST_REJECTION) -> int | None:
    """Return how many more submissions in a row with these scores reach a level of evidence, None if none ever do."""
    brackets = list(map(rules.bracket, scores))

    def reaches(more: int) -> bool:
        added = [
            [count + more * (place == bracket) for place, count in enumerate(part)]
            for part, bracket in zip(counts, brackets, strict=True)
        ]
        return float(rules.log10(added)) >= log10

    if reaches(0):
        return 0
    high = 1
    while not reaches(high):
        high *= 2
        if high > MOST_REJECTIONS:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high


def feared(record: Record) -> Standing:
    """Return the standing as it may be: what a panel rejected for reasons that are not to be had counts as well."""
    hidden = [
        ScoredLeaf(leaf.step, leaf.slot, ZERO_HASH, MILDEST_REJECTION)
        for leaf in record.leaves
        if leaf.outcome in (Outcome.REJECT, Outcome.FAULT) and leaf.reason is Reason.NONE
    ]
    return Standing.of(record.rules, [*record.standing.leaves, *hidden])


def must_stop(rules: EvidenceRules, found: Standing, stop_log10: float | None = None, *, under_way: int = 0) -> bool:
    """Say whether a worker must stop by itself, before its provider can be slashed.

    One or two leaves that reach a level do not stop it, unless one more like the worse of them, besides those under
    way, would reach the slash level. `stop_log10` stands in for the level of the card.
    """
    if found.log10 < (rules.stop_log10 if stop_log10 is None else stop_log10):
        return False
    worst = max((leaf.scores for leaf in found.leaves), key=max, default=NOTHING)
    more = rejections_to(rules, found.counts, rules.slash_log10, worst)
    reaching = sum(rules.reached(leaf.scores) > 0 for leaf in found.leaves)
    return reaching > FEW or (more is not None and more <= 1 + under_way)


def why_stop(record: Record, engine: str, stop_log10: float | None = None) -> list[str]:
    """Say why a worker stops by itself: what was measured against which limit, and what its operator should look at."""
    rules, found = record.rules, feared(record)
    suspicious = [leaf for leaf in record.leaves if leaf.scores is not None and rules.reached(leaf.scores)]
    shown = sorted(suspicious, key=lambda leaf: -(leaf.score or 0.0))[:SHOWN]
    stop_at, first = rules.stop_log10 if stop_log10 is None else stop_log10, rules.levels[0]
    return [
        f"the evidence against {record.provider} is {power(found.log10)}; a worker stops at {power(stop_at)}, slashing "
        f"begins at {power(rules.slash_log10)}",
        f"{len(suspicious)} of {len(found.leaves)} measured leaves reach the score {first.score:g} (above 1 is "
        f"rejected), honest ones at most {100 * first.honest_at_most:g} % of the time; the worst:",
        *(_told(leaf) for leaf in shown),
        *(f"could not be had: {each}" for each in record.missing),
        f"look at the engine ({engine}) and its version, the dtype that it computes in, errors of the hardware "
        "(memory, ECC, overclocking), and whether the weights are those of the leased policy step; all numbers: "
        "`stannary worker status`; one leaf: `stannary validator explain STEP:SLOT`",
        "putting it right does not take the evidence back: set STANNARY_WORKER_STOP_LOG10 above it to start again",
    ]


def power(log10: float) -> str:
    """Return a power of ten as people write it."""
    return f"10^{log10:.2f}".rstrip("0").rstrip(".")


def _told(leaf: Judged) -> str:
    worst = leaf.worst
    if worst is None:
        return f"step {leaf.step}, slot {leaf.slot}"
    name, own = worst
    value = "not finite" if own.value is None else f"{own.value:.4g}"
    return f"step {leaf.step}, slot {leaf.slot}: score {leaf.score:.3g}, {name} {value}, at most {own.limit:.4g}"
