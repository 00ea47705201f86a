"""What panels published of a provider, read from public sources: leaf by leaf, and what it all comes to as evidence.

What is final is read once; a member's file that nobody serves is asked for again. Nothing here believes a file that
does not have the root which was voted on chain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, Self, overload

from stannary.accusation import Accusation, counted_slots, evidence_log10, slots_of
from stannary.audit import decide
from stannary.cards import Card
from stannary.chain import Chain, Event, StepHistory
from stannary.chain.events import BlockCursor, PlantRevealed, VoteRevealed, read_events
from stannary.chain.names import PLANTED_FAULTS, SUBMISSION_LEDGER, VOTING_PANEL
from stannary.client import CoordinatorClient
from stannary.e_process import EvidenceRules, Scores
from stannary.errors import PeerError, Unavailable
from stannary.evidence import EvidenceFile, Measure
from stannary.published import Published, committed_leaves, evidence_file, judges_of, panel_of, said_of
from stannary.standing import SCORES, ScoredLeaf, Standing, median_scores, scored_leaves, scores_of
from stannary.structs import Submission
from stannary.types import Address, Hash, Outcome, Reason

_Key = tuple[int, int]
"""Pool and step."""
TRIES = 3
"""How often a file of a finalised step is asked for before it is left alone."""


class Steps(Sequence[Event]):
    """The events of a pool's steps in the order of the chain, kept by step as they arrive.

    The history of a step is made once, and made anew only after an event of that step came or went.
    """

    def __init__(self, found: Iterable[Event] = ()) -> None:
        self._events: list[Event] = []
        self._by_step: dict[_Key, list[Event]] = {}
        self._histories: dict[_Key, StepHistory] = {}
        self._plants: list[Hash] = []
        self._add(found)

    @classmethod
    def of(cls, found: Sequence[Event]) -> Self:
        """Return events by step; those that are so already are not gone through again."""
        return found if isinstance(found, cls) else cls(found)

    @overload
    def __getitem__(self, place: int) -> Event: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Event]: ...
    def __getitem__(self, place: int | slice) -> Event | Sequence[Event]:
        return self._events[place]

    def __len__(self) -> int:
        return len(self._events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self._events)

    @property
    def plants(self) -> frozenset[Hash]:
        """The leaves that were shown to be planted faults."""
        return frozenset(self._plants)

    def opened(self, last: int | None = None) -> list[StepHistory]:
        """Return the histories of the steps that were opened, up to a step, the oldest first."""
        keys = (key for key in sorted(self._by_step) if last is None or key[1] <= last)
        return [history for key in keys if (history := self.history(*key)).opened is not None]

    def replace_from(self, block: int, found: Iterable[Event]) -> None:
        """Put what a chain holds from a block on into the place of what it held before."""
        while self._events and self._events[-1].place.block_number >= block:
            event = self._events.pop()
            key = _key(event)
            if key is not None:
                self._by_step[key].pop()
                self._histories.pop(key, None)
            if isinstance(event, PlantRevealed):
                self._plants.pop()
        self._add(found)

    def _add(self, found: Iterable[Event]) -> None:
        for event in found:
            self._events.append(event)
            key = _key(event)
            if key is not None:
                self._by_step.setdefault(key, []).append(event)
                self._histories.pop(key, None)
            if isinstance(event, PlantRevealed):
                self._plants.append(event.leaf_hash)

    def history(self, pool: int, step: int) -> StepHistory:
        """Return what happened to a step."""
        key = pool, step
        if key not in self._histories:
            self._histories[key] = StepHistory.of(self._by_step.get(key, ()), *key)
        return self._histories[key]


class Sources(Protocol):
    """What a reader asks of the world; `PublicSources` is one."""

    def events(self) -> Sequence[Event]:
        """Return the events of all steps of the pool, in the order of the chain. Raises: NetworkError, ChainError."""
        ...

    def judged_up_to(self, provider: Address) -> int:
        """Return the step after the last one for which a run of a provider was ruled on."""
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
    """What panels have published of a provider since a run of it was last ruled on, under the card of the last step."""

    provider: Address
    card_hash: Hash
    rules: EvidenceRules
    first: int
    """The first step whose leaves count."""
    last: int
    """The last step that was read."""
    total: int
    """Audited leaves of the provider in these steps, whatever is known of them."""
    under_way: int
    """Leaves that are handed in and that the votes on chain do not decide yet."""
    standing: Standing
    """Without leaves that were shown to be planted faults."""
    leaves: tuple[Judged, ...]
    """By step and slot."""
    missing: tuple[str, ...] = ()
    """What could not be had, each with the reason."""

    def accusation(self, pool: int, first: int | None = None) -> Accusation | None:
        """Return the accusation that names all leaves from a step on that reach a level, None if none does."""
        first = self.first if first is None else first
        named = [leaf for leaf in self.standing.leaves if leaf.step >= first]
        if not any(self.rules.reached(leaf.scores) for leaf in named):
            return None
        return Accusation.of(pool, self.provider, first, self.last, self.card_hash, self.rules, named)

    def as_juror(self, accusation: Accusation) -> float:
        """Return the evidence of a juror that measures the named leaves as the panels did, as a power of ten."""
        return evidence_log10(self.rules, self.total, [leaf.scores for leaf in accusation.leaves])


def limited_measures(measures: Mapping[str, Measure]) -> Iterator[tuple[str, Measure]]:
    """Yield the measures that have a limit, but for the scores, which are made of them."""
    return ((name, own) for name, own in measures.items() if own.limit is not None and name not in SCORES)


@dataclass(slots=True)
class _Own:
    """What is a provider's of a step."""

    history: StepHistory
    """That this was found in."""
    slots: frozenset[int]
    card_hash: Hash | None = None
    """Of the card whose audit rate `counted` is by."""
    counted: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class _Step:
    """What a step adds to a record."""

    history: StepHistory
    """That this was made of."""
    judged: tuple[Judged, ...]
    scored: tuple[ScoredLeaf, ...]


class Reader:
    """Reads the record of one provider again and again; what is final is read once."""

    def __init__(self, sources: Sources, provider: Address, quorum: int) -> None:
        self._sources = sources
        self._provider = provider
        self._quorum = quorum
        self._own: dict[int, _Own] = {}
        self._final: dict[int, _Step] = {}
        """Steps to which nothing is added any more."""
        self._submissions: dict[int, tuple[Hash, list[Submission]]] = {}
        """Own leaves of the other steps, with the root that they stand under."""
        self._files: dict[tuple[int, Hash], EvidenceFile] = {}
        """By the step and the root that was voted, cut down to own leaves."""
        self._tries: Counter[tuple[int, Hash]] = Counter()

    def read(self, last: int | None = None) -> Record | None:
        """Return the record up to a step, or as of now; None while no step is open.

        Raises: NetworkError, PeerError, ChainError.
        """
        found = Steps.of(self._sources.events())
        histories = found.opened(last)
        if not histories:
            return None
        card_hash = self._sources.card_hash(_offer(histories[-1]))
        card, first = self._sources.card(card_hash), self._sources.judged_up_to(self._provider)
        steps: list[_Step] = []
        missing: list[str] = []
        counted: dict[int, frozenset[int]] = {}
        under_way = 0
        for history in histories:
            own = self._own_of(history)
            if not own.slots:
                continue
            if not history.votes and not _is_over(history):
                under_way += len(own.slots)
            if history.step < first or self._sources.card_hash(_offer(history)) != card_hash:
                continue
            if own.card_hash != card_hash:
                own.card_hash, own.counted = card_hash, counted_slots(history, self._provider, card.audit_bps)
            counted[history.step] = own.counted
            if not history.votes:
                continue
            try:
                steps.append(self._step(history, own.slots, missing))
            except (Unavailable, PeerError) as error:
                missing.append(f"the leaves of step {history.step}: {error}")
        plants = found.plants
        scored = (
            leaf
            for step in steps
            for leaf in step.scored
            if leaf.slot in counted[leaf.step] and leaf.leaf_hash not in plants
        )
        return Record(
            provider=self._provider,
            card_hash=card_hash,
            rules=card.evidence,
            first=first,
            last=histories[-1].step,
            total=sum(map(len, counted.values())),
            under_way=under_way,
            standing=Standing.of(card.evidence, scored),
            leaves=tuple(leaf for step in steps for leaf in step.judged),
            missing=tuple(missing),
        )

    def _own_of(self, history: StepHistory) -> _Own:
        kept = self._own.get(history.step)
        if kept is None or kept.history is not history:
            kept = self._own[history.step] = _Own(history, slots_of(history, self._provider))
        return kept

    def _step(self, history: StepHistory, slots: frozenset[int], missing: list[str]) -> _Step:
        """Return what a step adds; what is not to be had of its evidence is noted. Raises: NetworkError, PeerError."""
        kept = self._final.get(history.step)
        if kept is not None and kept.history is history:
            return kept
        if kept is not None and _judged_by(kept.history) == _judged_by(history):
            self._final[history.step] = kept = replace(kept, history=history)
            return kept
        leaves = self._leaves(history, slots)
        noted = len(missing)
        panel = self._panel(history, leaves, missing)
        judged = tuple(_judged(panel, leaf, self._quorum, history.finalized is not None) for leaf in leaves)
        made = _Step(history, judged, tuple(scored_leaves(panel, leaves)))
        if history.finalized is not None and len(missing) == noted:
            self._final[history.step] = made
            self._submissions.pop(history.step, None)
            for vote in history.votes.values():
                self._files.pop((history.step, vote.evidence_root), None)
        return made

    def _leaves(self, history: StepHistory, slots: frozenset[int]) -> list[Submission]:
        """Return the provider's leaves of a step, taken slots last. Raises: NetworkError, PeerError."""
        delivered = [event.leaf for slot, event in sorted(history.delivered.items()) if slot in slots]
        if history.committed is None or history.opened is None or len(delivered) == len(slots):
            return delivered
        root = history.committed.submission_root
        kept = self._submissions.get(history.step)
        if kept is None or kept[0] != root:
            served = committed_leaves(history, self._sources.leaves)
            kept = root, sorted((leaf for leaf in served if leaf.slot in slots), key=lambda leaf: leaf.slot)
            self._submissions[history.step] = kept
        return kept[1] + delivered

    def _panel(self, history: StepHistory, leaves: Sequence[Submission], missing: list[str]) -> list[Published]:
        """Return what the panel voted and published of these leaves; note what is not to be had."""
        wanted = {leaf.struct_hash() for leaf in leaves}
        panel = panel_of(history, partial(self._file, history, wanted))
        missing += [f"the evidence of {seat.member} on step {history.step}: {seat.missing}" for seat in _lost(panel)]
        return panel

    def _file(self, history: StepHistory, wanted: set[Hash], vote: VoteRevealed) -> EvidenceFile | None:
        key = (history.step, vote.evidence_root)
        if key not in self._files:
            if self._tries[key] >= TRIES:
                return None
            if history.finalized is not None:
                self._tries[key] += 1
            file = evidence_file(self._sources.evidence, history, vote)
            self._files[key] = replace(file, leaves=tuple(own for own in file.leaves if own.leaf_hash in wanted))
        return self._files[key]


def suspects(sources: Sources, history: StepHistory, rules: EvidenceRules) -> tuple[set[Address], str]:
    """Return the providers with a leaf in a step for which its panel published scores that reach a level, and why not
    all that was published could be read, empty if it could. Raises: NetworkError, PeerError.
    """
    leaves = [*committed_leaves(history, sources.leaves), *(event.leaf for event in history.delivered.values())]
    panel = panel_of(history, partial(evidence_file, sources.evidence, history))
    owners = {leaf.struct_hash(): leaf.provider for leaf in leaves}
    found = {owners[leaf.leaf_hash] for leaf in scored_leaves(panel, leaves) if rules.reached(leaf.scores)}
    return found, "; ".join(seat.missing for seat in _lost(panel))


class PublicSources:
    """Chain and coordinator, as anyone may ask them."""

    def __init__(self, chain: Chain, client: CoordinatorClient, pool: int) -> None:
        self._chain = chain
        self._client = client
        self._pool = pool
        self._steps = Steps()
        self._cursor = BlockCursor(chain.deployment.deployed_block)
        self._card_hashes: dict[int, Hash] = {}
        self._cards: dict[Hash, Card] = {}

    def events(self) -> Steps:
        """Return the events of all steps of the pool; only new blocks are read.

        They are kept range by range: where the chain stops answering, the next look goes on from there.
        Raises: NetworkError, ChainError.
        """
        for start, end in self._cursor.ranges(self._chain.frozen().number):
            self._steps.replace_from(start, self._read(start, end))
        return self._steps

    def _read(self, start: int, end: int) -> list[Event]:
        """Return the events of some blocks, both ends included, in the order of the chain."""
        chain, pool = self._chain, self._pool.to_bytes(32)
        wanted = (([SUBMISSION_LEDGER, VOTING_PANEL], [None, pool]), ([PLANTED_FAULTS], [None, None, pool]))
        found = [
            event
            for contracts, topics in wanted
            for event in read_events(chain, chain.deployment, start, end, only=contracts, topics=topics)
        ]
        return sorted(found, key=lambda event: (event.place.block_number, event.place.log_index))

    def judged_up_to(self, provider: Address) -> int:
        """Return the step after the last one for which a run of a provider was ruled on."""
        return self._chain.dispute_court.judged_up_to(self._pool, provider)

    def card_hash(self, offer: int) -> Hash:
        """Return the card of an offer; an offer never changes."""
        if offer not in self._card_hashes:
            self._card_hashes[offer] = self._chain.pool_registry.offer_of(self._pool, offer).card_hash
        return self._card_hashes[offer]

    def card(self, card_hash: Hash) -> Card:
        """Return a card; one of a hash never changes."""
        if card_hash not in self._cards:
            self._cards[card_hash] = Card.from_document(self._client.document(card_hash))
        return self._cards[card_hash]

    def leaves(self, step: int) -> Sequence[Submission]:
        """Return the leaves that the coordinator serves of a step."""
        return [leaf.submission.submission() for leaf in self._client.leaves(step).leaves]

    def evidence(self, evidence_root: Hash) -> bytes:
        """Return an evidence file."""
        return self._client.evidence(evidence_root)


def _key(event: Event) -> _Key | None:
    """Return the pool and the step that an event is about, None for one that is about no step."""
    step = getattr(event, "step", None)
    return None if step is None else (getattr(event, "pool", 0), step)


def _is_over(history: StepHistory) -> bool:
    return history.finalized is not None or history.is_cancelled


def _offer(history: StepHistory) -> int:
    assert history.opened is not None
    return history.opened.offer


def _judged_by(history: StepHistory) -> tuple[object, ...]:
    """Return what a finalised step's part of a record is made of, so far as the chain tells it."""
    return history.committed, history.delivered, history.panel, history.votes, history.finalized


def _lost(panel: Sequence[Published]) -> list[Published]:
    """Return the seats whose votes name files that cannot be had."""
    return [seat for seat in panel if seat.is_lost]


def _judged(panel: Sequence[Published], leaf: Submission, quorum: int, is_final: bool) -> Judged:
    said = said_of(panel, leaf)
    scores = median_scores(said, judges_of(panel, leaf.slot))
    decided = decide((seat.outcomes[leaf.slot] for seat in panel if seat.outcomes is not None), quorum)
    outcome = None if decided is Outcome.ABSTAIN and not is_final else decided
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
