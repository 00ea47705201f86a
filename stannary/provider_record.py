"""What panels published of a provider, read from public sources: leaf by leaf, and what it all comes to as evidence.

What is final is read once; a member's file that nobody serves is asked for again. Nothing here believes a file that
does not have the root which was voted on chain.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from stannary.accusation import Accusation, counted_slots, evidence_log10, slots_of
from stannary.cards import Card
from stannary.chain import Chain, Event, StepHistory
from stannary.chain.events import PlantRevealed, StepOpened, VoteRevealed, read_events
from stannary.chain.names import PLANTED_FAULTS, SUBMISSION_LEDGER, VOTING_PANEL
from stannary.client import CoordinatorClient
from stannary.disputes import panel_outcome
from stannary.e_process import EvidenceRules, Scores
from stannary.errors import Malformed, PeerError, Unavailable
from stannary.evidence import EvidenceFile, Measure
from stannary.slots import submission_root
from stannary.standing import SCORES, ScoredLeaf, Standing, median_scores, scored_leaves, scores_of
from stannary.structs import Submission
from stannary.types import ZERO_HASH, Address, Hash, Outcome, Reason, to_hex
from stannary.verdict import unpack_outcomes

REREAD_BLOCKS = 64
"""Newest blocks that are read again at each look, as a chain may still replace them."""
TRIES = 3
"""How often a file of a finalised step is asked for before it is left alone."""


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

    def read(self, last: int | None = None) -> Record | None:
        """Return the record up to a step, or as of now; None while no step is open.

        Raises: NetworkError, PeerError, ChainError.
        """
        events = self._sources.events()
        histories = [own for own in _histories(events) if own.opened is not None and (last is None or own.step <= last)]
        if not histories:
            return None
        card_hash = self._sources.card_hash(_offer(histories[-1]))
        card, first = self._sources.card(card_hash), self._sources.judged_up_to(self._provider)
        steps: list[_Step] = []
        missing: list[str] = []
        counted: dict[int, frozenset[int]] = {}
        for history in histories:
            if history.step < first or self._sources.card_hash(_offer(history)) != card_hash:
                continue
            counted[history.step] = counted_slots(history, self._provider, card.audit_bps)
            if not history.votes:
                continue
            try:
                steps.append(self._step(history, missing))
            except (Unavailable, PeerError) as error:
                missing.append(f"the leaves of step {history.step}: {error}")
        plants = {event.leaf_hash for event in events if isinstance(event, PlantRevealed)}
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
            under_way=sum(
                len(slots_of(history, self._provider))
                for history in histories
                if not history.votes and not _is_over(history)
            ),
            standing=Standing.of(card.evidence, scored),
            leaves=tuple(leaf for step in steps for leaf in step.judged),
            missing=tuple(missing),
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
            served = committed_leaves(self._sources, history)
            kept = root, sorted((leaf for leaf in served if leaf.slot in slots), key=lambda leaf: leaf.slot)
            self._submissions[history.step] = kept
        return kept[1] + delivered

    def _evidence(self, history: StepHistory, own: Sequence[Submission], missing: list[str]) -> Iterator[EvidenceFile]:
        """Yield what the panel's members published of these leaves; note what is not to be had."""
        wanted = {leaf.struct_hash() for leaf in own}
        for vote in votes_with_evidence(history):
            root = vote.evidence_root
            if root not in self._files and self._tries[root] < TRIES:
                if history.finalized is not None:
                    self._tries[root] += 1
                try:
                    file = evidence_file(self._sources, root)
                except (Unavailable, PeerError) as error:
                    missing.append(f"the evidence of {vote.provider} on step {history.step}: {error}")
                    continue
                kept = tuple(entry for entry in file.leaves if entry.leaf_hash in wanted)
                self._files[root] = replace(file, leaves=kept)
            if root in self._files:
                yield as_voted(self._files[root], vote, history, own)


def suspects(sources: Sources, history: StepHistory, rules: EvidenceRules) -> tuple[set[Address], str]:
    """Return the providers with a leaf in a step for which its panel published scores that reach a level, and why not
    all that was published could be read, empty if it could. Raises: NetworkError, PeerError.
    """
    files, missing = [], ""
    leaves = [*committed_leaves(sources, history), *(event.leaf for event in history.delivered.values())]
    for vote in votes_with_evidence(history):
        try:
            files.append(as_voted(evidence_file(sources, vote.evidence_root), vote, history, leaves))
        except (Unavailable, PeerError) as error:
            missing = str(error)
    owners = {leaf.struct_hash(): leaf.provider for leaf in leaves}
    found = {owners[leaf.leaf_hash] for leaf in scored_leaves(files, leaves) if rules.reached(leaf.scores)}
    return found, missing


def committed_leaves(sources: Sources, history: StepHistory) -> Sequence[Submission]:
    """Return the leaves under the root of a step, none if it has no root. Raises: NetworkError, PeerError."""
    if history.committed is None or history.opened is None:
        return []
    served, root = sources.leaves(history.step), history.committed.submission_root
    found = submission_root(served, history.opened.slots)
    if found != root:
        raise Malformed("leaves", expected=f"the root {to_hex(root)} on chain", got=to_hex(found))
    return served


def votes_with_evidence(history: StepHistory) -> list[VoteRevealed]:
    """Return the votes of a panel's members that published evidence, seat by seat."""
    votes = [history.votes[member] for member in history.panel if member in history.votes]
    # A vote without a root is an abstention on the whole step.
    return [vote for vote in votes if vote.evidence_root != ZERO_HASH]


def as_voted(
    file: EvidenceFile, vote: VoteRevealed, history: StepHistory, leaves: Sequence[Submission]
) -> EvidenceFile:
    """Return what a member published of these leaves, without what its vote on chain contradicts: a number that it was
    not ready to vote by costs it nothing.
    """
    slots = {leaf.struct_hash(): leaf.slot for leaf in leaves}
    voted = unpack_outcomes(vote.outcomes, history.positions)
    kept = [own for own in file.leaves if own.leaf_hash in slots and voted[slots[own.leaf_hash]] is own.outcome]
    return replace(file, leaves=tuple(kept))


def evidence_file(sources: Sources, root: Hash) -> EvidenceFile:
    """Return the evidence file of a root. Raises: NetworkError, PeerError."""
    file = EvidenceFile.parse(sources.evidence(root))
    if file.root() != root:
        raise Malformed("evidence", expected=to_hex(root), got=to_hex(file.root()))
    return file


class PublicSources:
    """Chain and coordinator, as anyone may ask them."""

    def __init__(self, chain: Chain, client: CoordinatorClient, pool: int) -> None:
        self._chain = chain
        self._client = client
        self._pool = pool
        self._events: list[Event] = []
        self._next_block = chain.deployment.deployed_block
        self._card_hashes: dict[int, Hash] = {}
        self._cards: dict[Hash, Card] = {}

    def events(self) -> Sequence[Event]:
        """Return the events of all steps of the pool; only new blocks are read. Raises: NetworkError, ChainError."""
        chain, head, pool = self._chain, self._chain.frozen().number, self._pool.to_bytes(32)
        start = min(self._next_block, head + 1)
        wanted = (([SUBMISSION_LEDGER, VOTING_PANEL], [None, pool]), ([PLANTED_FAULTS], [None, None, pool]))
        self._events = [event for event in self._events if event.place.block_number < start] + [
            event
            for contracts, topics in wanted
            for event in read_events(chain, chain.deployment, start, head, only=contracts, topics=topics)
        ]
        self._next_block = max(chain.deployment.deployed_block, head + 1 - REREAD_BLOCKS)
        return self._events

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


def _histories(found: Sequence[Event]) -> list[StepHistory]:
    """Return the histories of the steps that were opened, the oldest first."""
    by_step: dict[int, list[Event]] = defaultdict(list)
    pools = {event.pool for event in found if isinstance(event, StepOpened)}
    for event in found:
        step = getattr(event, "step", None)
        if step is not None:
            by_step[step].append(event)
    return [StepHistory.of(own, pool, step) for pool in pools for step, own in sorted(by_step.items())]


def _is_over(history: StepHistory) -> bool:
    return history.finalized is not None or history.is_cancelled


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
