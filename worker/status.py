"""How a provider stands with the panels: what they published of its leaves, and how far that is from every threshold.

What is final is read once; a member's file that nobody serves is asked for again. Nothing here believes a file that
does not have the root which was voted on chain.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Protocol

from stannary.accusation import slots_of
from stannary.cards import Card
from stannary.chain import Chain, Event, StepHistory
from stannary.chain.events import StepOpened, read_events
from stannary.chain.names import SUBMISSION_LEDGER, VOTING_PANEL
from stannary.client import CoordinatorClient
from stannary.disputes import panel_outcome
from stannary.e_process import MILDEST_PART, NOTHING, PARTS, Counts, EvidenceRules, Scores
from stannary.errors import Malformed, PeerError, Unavailable
from stannary.evidence import EvidenceFile, Measure
from stannary.slots import submission_root
from stannary.standing import SCORES, ScoredLeaf, Standing, median_scores, scored_leaves, scores_of
from stannary.structs import Submission
from stannary.types import ZERO_HASH, Address, Hash, Outcome, Reason, to_hex

log = logging.getLogger(__name__)

REREAD_BLOCKS = 64
"""Newest blocks that are read again at each look, as a chain may still replace them."""
TRIES = 3
"""How often a file of a finalised step is asked for before it is left alone."""
MOST_REJECTIONS = 1 << 20
"""Rejections in a row beyond which a level counts as out of reach."""
MILDEST_REJECTION: Scores = tuple(float(part == MILDEST_PART) for part in PARTS)
"""By the part of the checks in which it is the weakest evidence."""
FEW = 2
"""Leaves that reach a level which alone stop nobody, unless one more like them would reach the slash level."""
SHOWN = 5
"""Leaves that are named when a worker stops."""


class Sources(Protocol):
    """What a reader asks of the world; `PublicSources` is one."""

    def events(self) -> Sequence[Event]:
        """Return the events of all steps of the pool, in the order of the chain. Raises: NetworkError, ChainError."""
        ...

    def judged_up_to(self) -> int:
        """Return the step after the last one for which a run of this provider was ruled on."""
        ...

    def card_hash(self, offer: int) -> Hash:
        """Return the card of an offer."""
        ...

    def card(self, card_hash: Hash) -> Card:
        """Return a card. Raises: NetworkError, PeerError."""
        ...

    def leaves(self, step: int) -> Sequence[Submission]:
        """Return the leaves that the coordinator serves of a step. Raises: NetworkError, PeerError."""
        ...

    def evidence(self, evidence_root: Hash) -> bytes:
        """Return an evidence file. Raises: NetworkError, PeerError."""
        ...


@dataclass(frozen=True, slots=True)
class Judged:
    """One leaf as its panel judged it."""

    step: int
    slot: int
    outcome: Outcome | None
    """What the revealed votes decide, None while they decide nothing."""
    reason: Reason
    explanation: str
    scores: Scores | None
    """The medians of the panel by part of the checks; None if it was not audited, or is too short to tell from."""
    measures: Mapping[str, Measure]
    """Of a member with these scores, or else of one that decided as the panel did."""

    @property
    def score(self) -> float | None:
        """The highest of the scores."""
        return None if self.scores is None else max(self.scores)

    @property
    def worst(self) -> tuple[str, Measure] | None:
        """The number that is nearest to its limit, or furthest beyond it; None without any."""
        limited = limited_measures(self.measures)
        return max(limited, key=lambda each: each[1].share, default=None)


@dataclass(frozen=True, slots=True)
class Record:
    """What panels have published of a provider, under the card in force and since a run of it was last ruled on."""

    provider: Address
    card_hash: Hash
    rules: EvidenceRules
    standing: Standing
    leaves: tuple[Judged, ...]
    """By step and slot."""
    missing: tuple[str, ...] = ()
    """What could not be had, each with the reason."""


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


def limited_measures(measures: Mapping[str, Measure]) -> Iterator[tuple[str, Measure]]:
    """Yield the measures that have a limit, but for the scores, which are made of them."""
    return ((name, own) for name, own in measures.items() if own.limit is not None and name not in SCORES)


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


def must_stop(rules: EvidenceRules, found: Standing, stop_log10: float | None = None) -> bool:
    """Say whether a worker must stop by itself, before its provider can be slashed.

    One or two leaves that reach a level do not stop it, unless one more like the worse of them would reach the slash
    level. `stop_log10` stands in for the level of the card.
    """
    if found.log10 < (rules.stop_log10 if stop_log10 is None else stop_log10):
        return False
    worst = max((leaf.scores for leaf in found.leaves), key=max, default=NOTHING)
    more = rejections_to(rules, found.counts, rules.slash_log10, worst)
    reaching = sum(rules.reached(leaf.scores) > 0 for leaf in found.leaves)
    return reaching > FEW or (more is not None and more <= 1)


def why_stop(record: Record, engine: str, stop_log10: float | None = None) -> list[str]:
    """Say why a worker stops by itself: what was measured against which limit, and what its operator should look at."""
    rules, found = record.rules, record.standing
    suspicious = [leaf for leaf in record.leaves if leaf.scores is not None and rules.reached(leaf.scores)]
    shown = sorted(suspicious, key=lambda leaf: -(leaf.score or 0.0))[:SHOWN]
    stop_at, first = rules.stop_log10 if stop_log10 is None else stop_log10, rules.levels[0]
    return [
        f"the evidence against {record.provider} is {power(found.log10)}; a worker stops at {power(stop_at)}, slashing "
        f"begins at {power(rules.slash_log10)}",
        f"{len(suspicious)} of {len(found.leaves)} measured leaves reach the score {first.score:g} (above 1 is "
        f"rejected), honest ones at most {100 * first.honest_at_most:g} % of the time; the worst:",
        *(_told(leaf) for leaf in shown),
        f"look at the engine ({engine}) and its version, the dtype that it computes in, errors of the hardware "
        "(memory, ECC, overclocking), and whether the weights are those of the leased policy step; all numbers: "
        "`stannary worker status`; one leaf: `stannary validator explain STEP:SLOT`",
        "putting it right does not take the evidence back: set STANNARY_WORKER_STOP_LOG10 above it to start again",
    ]


def power(log10: float) -> str:
    """Return a power of ten as people write it."""
    return f"10^{log10:.2f}".rstrip("0").rstrip(".")


@dataclass(frozen=True, slots=True)
class _Step:
    """What a step adds to a record."""

    root: Hash
    """That its leaves stand under."""
    judged: tuple[Judged, ...]
    scored: tuple[ScoredLeaf, ...]


class Reader:
    """Reads the record of one provider again and again; what is final is read once."""

    def __init__(self, sources: Sources, provider: Address, quorum: int) -> None:
        self._sources = sources
        self._provider = provider
        self._quorum = quorum
        self._final: dict[int, _Step] = {}
        """Steps to which nothing is added any more."""
        self._submissions: dict[int, tuple[Hash, list[Submission]]] = {}
        """Own leaves of the other steps, with the root that they stand under."""
        self._files: dict[Hash, EvidenceFile] = {}
        """By the root that was voted, cut down to own leaves."""
        self._tries: Counter[Hash] = Counter()
        self._cards: dict[Hash, Card] = {}

    def read(self) -> Record | None:
        """Return the record as of now, None while no step is open. Raises: NetworkError, PeerError, ChainError."""
        histories = _histories(self._sources.events())
        offers = [history.opened.offer for history in histories if history.opened is not None]
        if not offers:
            return None
        card_hash = self._sources.card_hash(offers[-1])
        if card_hash not in self._cards:
            self._cards[card_hash] = self._sources.card(card_hash)
        rules, first = self._cards[card_hash].evidence, self._sources.judged_up_to()
        steps: list[_Step] = []
        missing: list[str] = []
        for history in histories:
            is_counted = history.opened is not None and history.step >= first and history.votes
            if not is_counted or self._sources.card_hash(_offer(history)) != card_hash:
                continue
            try:
                steps.append(self._step(history, missing))
            except (Unavailable, PeerError) as error:
                missing.append(f"the leaves of step {history.step}: {error}")
        return Record(
            self._provider,
            card_hash,
            rules,
            Standing.of(rules, (leaf for step in steps for leaf in step.scored)),
            tuple(leaf for step in steps for leaf in step.judged),
            tuple(missing),
        )

    def _step(self, history: StepHistory, missing: list[str]) -> _Step:
        """Return what a step adds; what is not to be had of its evidence is noted. Raises: NetworkError, PeerError."""
        root = ZERO_HASH if history.committed is None else history.committed.submission_root
        kept = self._final.get(history.step)
        if kept is not None and kept.root == root:
            return kept
        own = self._own_leaves(history)
        noted = len(missing)
        files = list(self._evidence(history, own, missing)) if own else []
        judged = tuple(_judged(history, leaf, files, self._quorum) for leaf in own)
        made = _Step(root, judged, tuple(scored_leaves(files, own)))
        if history.finalized is not None and len(missing) == noted:
            self._final[history.step] = made
            self._submissions.pop(history.step, None)
            for vote in history.votes.values():
                self._files.pop(vote.evidence_root, None)
        return made

    def _own_leaves(self, history: StepHistory) -> list[Submission]:
        """Return the provider's leaves of a step, taken slots last. Raises: NetworkError, PeerError."""
        slots = slots_of(history, self._provider)
        delivered = [event.leaf for slot, event in sorted(history.delivered.items()) if slot in slots]
        if history.committed is None or history.opened is None or len(delivered) == len(slots):
            return delivered
        root = history.committed.submission_root
        kept = self._submissions.get(history.step)
        if kept is None or kept[0] != root:
            served = self._sources.leaves(history.step)
            found = submission_root(served, history.opened.slots)
            if found != root:
                raise Malformed("leaves", expected=f"the root {to_hex(root)} on chain", got=to_hex(found))
            kept = root, sorted((leaf for leaf in served if leaf.slot in slots), key=lambda leaf: leaf.slot)
            self._submissions[history.step] = kept
        return kept[1] + delivered

    def _evidence(self, history: StepHistory, own: Sequence[Submission], missing: list[str]) -> Iterator[EvidenceFile]:
        """Yield what the panel's members published of these leaves; note what is not to be had."""
        wanted = {leaf.struct_hash() for leaf in own}
        for member in history.panel:
            vote = history.votes.get(member)
            if vote is None or vote.evidence_root == ZERO_HASH:  # silent, or an abstention on the whole step
                continue
            root = vote.evidence_root
            if root not in self._files and self._tries[root] < TRIES:
                if history.finalized is not None:
                    self._tries[root] += 1
                try:
                    file = EvidenceFile.parse(self._sources.evidence(root))
                    if file.root() != root:
                        raise Malformed("evidence", expected=to_hex(root), got=to_hex(file.root()))
                except (Unavailable, PeerError) as error:
                    missing.append(f"the evidence of {member} on step {history.step}: {error}")
                    continue
                kept = tuple(entry for entry in file.leaves if entry.leaf_hash in wanted)
                self._files[root] = replace(file, leaves=kept)
            if root in self._files:
                yield self._files[root]


class PublicSources:
    """Chain and coordinator, as anyone may ask them."""

    def __init__(self, chain: Chain, client: CoordinatorClient, pool: int, provider: Address) -> None:
        self._chain = chain
        self._client = client
        self._pool = pool
        self._provider = provider
        self._events: list[Event] = []
        self._next_block = chain.deployment.deployed_block
        self._card_hashes: dict[int, Hash] = {}

    def events(self) -> Sequence[Event]:
        """Return the events of all steps of the pool; only new blocks are read. Raises: NetworkError, ChainError."""
        chain, head = self._chain, self._chain.frozen().number
        start = min(self._next_block, head + 1)
        found = read_events(
            chain,
            chain.deployment,
            start,
            head,
            only=[SUBMISSION_LEDGER, VOTING_PANEL],
            topics=[None, self._pool.to_bytes(32)],
        )
        self._events = [event for event in self._events if event.place.block_number < start] + found
        self._next_block = max(chain.deployment.deployed_block, head + 1 - REREAD_BLOCKS)
        return self._events

    def judged_up_to(self) -> int:
        """Return the step after the last one for which a run of this provider was ruled on."""
        return self._chain.dispute_court.judged_up_to(self._pool, self._provider)

    def card_hash(self, offer: int) -> Hash:
        """Return the card of an offer; an offer never changes."""
        if offer not in self._card_hashes:
            self._card_hashes[offer] = self._chain.pool_registry.offer_of(self._pool, offer).card_hash
        return self._card_hashes[offer]

    def card(self, card_hash: Hash) -> Card:
        """Return a card."""
        return Card.from_document(self._client.document(card_hash))

    def leaves(self, step: int) -> Sequence[Submission]:
        """Return the leaves that the coordinator serves of a step."""
        return [leaf.submission.submission() for leaf in self._client.leaves(step).leaves]

    def evidence(self, evidence_root: Hash) -> bytes:
        """Return an evidence file."""
        return self._client.evidence(evidence_root)


def _histories(found: Sequence[Event]) -> list[StepHistory]:
    """Return the histories of the steps that were opened, the oldest first."""
    by_step: dict[int, list[Event]] = defaultdict(list)
    pools = {event.pool for event in found if isinstance(event, StepOpened)}
    for event in found:
        step = getattr(event, "step", None)
        if step is not None:
            by_step[step].append(event)
    return [StepHistory.of(own, pool, step) for pool in pools for step, own in sorted(by_step.items())]


def _offer(history: StepHistory) -> int:
    assert history.opened is not None
    return history.opened.offer


def _judged(history: StepHistory, leaf: Submission, files: Sequence[EvidenceFile], quorum: int) -> Judged:
    leaf_hash = leaf.struct_hash()
    entries = [entry for file in files for entry in file.leaves if entry.leaf_hash == leaf_hash]
    said = [entry for entry in entries if entry.outcome is not Outcome.ABSTAIN]
    scores = median_scores(said)
    decided = panel_outcome(history, leaf.slot, quorum)
    outcome = None if decided is Outcome.ABSTAIN and history.finalized is None else decided
    shown = next((entry for entry in said if entry.outcome is outcome), said[0] if said else None)
    measured = next((entry for entry in said if scores is not None and scores_of(entry.measures) == scores), shown)
    return Judged(
        leaf.step,
        leaf.slot,
        outcome,
        Reason.NONE if shown is None else shown.reason,
        "" if shown is None else shown.explanation,
        scores,
        {} if measured is None else measured.measures,
    )


def _told(leaf: Judged) -> str:
    worst = leaf.worst
    if worst is None:
        return f"step {leaf.step}, slot {leaf.slot}"
    name, own = worst
    value = "not finite" if own.value is None else f"{own.value:.4g}"
    return f"step {leaf.step}, slot {leaf.slot}: score {leaf.score:.3g}, {name} {value}, at most {own.limit:.4g}"
