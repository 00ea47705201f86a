"""Measuring an accusation: the named leaves again, all others of the provider counted, until the ruling is clear."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol
from urllib.parse import urljoin

from stannary.accusation import Accusation, counted_slots, evidence_log10, is_convicted
from stannary.cards import Card
from stannary.chain import Block, StepHistory, StepState
from stannary.e_process import NOTHING, PARTS, Scores
from stannary.errors import AbstainError, BadSignature, ChainError, Malformed, NetworkError, PeerError
from stannary.standing import ScoredLeaf, scores_of
from stannary.types import Outcome, Ruling, to_hex
from validator import checks
from validator.inspection import SLICE_S, Inspector, Work
from validator.judgement import Judgement
from validator.panel import delivered_leaves, served_leaves
from validator.parts import Parts
from validator.statistics import is_statistical


@dataclass(slots=True)
class _Named:
    """The leaves of one step that an accusation names and that are not measured yet."""

    history: StepHistory
    """Of the step, up to its settlement."""
    leaves: list[ScoredLeaf]
    work: Work
    absent: int = 0
    """How many of them were to be had nowhere at the last try."""


class Hearing:
    """What a juror finds out about an accusation, one slice of time after the other.

    The leaves that the accusation names are measured again, step by step; all others of the provider only count. What
    cannot be had is tried again after all else, as long as there is time.
    """

    def __init__(
        self,
        parts: Parts,
        inspector: Inspector,
        clock: Callable[[], float],
        accusation: Accusation,
        *,
        first: int,
        where: str = "",
    ) -> None:
        """`first` is the first step of which every leaf counts, `where` the place that the accusation is served at."""
        self._parts = parts
        self._inspector = inspector
        self._clock = clock
        self._accusation = accusation
        self._where = where
        self._card: Card | None = None
        self._claimed = accusation.by_step()
        """The leaves that the accusation names, by step."""
        self._next = first
        """The first step whose leaves are not counted."""
        self._histories: Iterator[StepHistory] | None = None
        """Of the steps from there on."""
        self._total = 0
        """Leaves of the provider that are counted."""
        self._scores: list[Scores] = []
        """Of the named leaves that were measured."""
        self._undecided = 0
        """Named leaves that this machine cannot judge, however often it tries."""
        self._left: deque[_Named] = deque()
        """The one to be measured next first."""
        self._tried = 0
        """How many of those in a row were left with something missing."""

    def go_on(self, work: Work, at: Block) -> None:
        """Do one slice of work. Raises: NetworkError, PeerError, ChainError for what may be there at the next try."""
        begun = self._clock()
        if self._card is None:
            self._card = self._parts.card_of(self._accusation.card_hash)
        while self._next <= self._accusation.last_step:
            if self._clock() - begun > SLICE_S:
                work.is_sliced = True
                return
            self._count(self._card, work, at)
        if self._left and self.ruling() is None:
            self._measure(self._left[0], work, at)

    def ruling(self, *, is_last: bool = False) -> Ruling | None:
        """Return the ruling that no leaf which is left can change, None if there is none.

        When time is up, what is served nowhere adds nothing, and what this machine could not judge leaves it open.
        """
        if self._card is None or self._next <= self._accusation.last_step:
            return Ruling.NONE if is_last else None
        left = sum(len(found.leaves) - (found.absent if is_last else 0) for found in self._left)
        verdict = is_convicted(self._card.evidence, self._total, self._scores, left + self._undecided)
        if verdict is None:
            return Ruling.NONE if is_last or not self._left else None
        return Ruling.FAULT if verdict else Ruling.ACCEPT

    def tell(self) -> str:
        """Say how far it has come."""
        if self._card is None:
            return ""
        log10 = evidence_log10(self._card.evidence, self._total, self._scores)
        return (
            f"{len(self._scores)} of {self._total} leaves measured: evidence 10^{log10:.1f}, "
            f"10^{self._card.evidence.slash_log10:g} convicts"
        )

    def _count(self, card: Card, work: Work, at: Block) -> None:
        """Count the leaves of the next step, and note those that are named and the provider's."""
        step, ledger, accusation = self._next, self._parts.ledger, self._accusation
        history = self._next_history(at)
        slots = counted_slots(history, accusation.provider, card.audit_bps)
        is_under_card = (
            history.opened is not None and ledger.offer(history.opened.offer, at).card_hash == accusation.card_hash
        )
        if slots and is_under_card:
            self._total += len(slots)
            # A plant is bad for all to see, and was paid for.
            named = [
                leaf
                for leaf in self._claimed.get(step, ())
                if leaf.slot in slots and not self._parts.court.is_plant(leaf.leaf_hash, at)
            ]
            if named:
                own = Work(work.key, work.until, work.paused_s, work.started, taken_beacons=history.taken_beacons)
                self._left.append(_Named(history, named, own))
        self._next += 1

    def _next_history(self, at: Block) -> StepHistory:
        if self._histories is None:
            steps = range(self._next, self._accusation.last_step + 1)
            self._histories = self._parts.ledger.settled_histories(steps, at)
        try:
            return next(self._histories)
        except Exception:
            self._histories = None  # what failed once goes on no more
            raise

    def _measure(self, found: _Named, work: Work, at: Block) -> None:
        """Measure the named leaves of a step as far as one slice goes; what is missing waits for the other steps."""
        own = found.work
        try:
            self._inspect(found, at)
        except (NetworkError, PeerError, ChainError, AbstainError) as error:
            own.failure, own.is_sliced = str(error), False
        work.failure = own.failure or work.failure
        if own.is_sliced:
            work.is_sliced = True
            return
        self._left.popleft()
        self._tried += 1
        if found.leaves:
            self._left.append(found)
        else:
            self._tried = 0
        work.is_sliced = self._tried < len(self._left)
        if not work.is_sliced:
            self._tried = 0

    def _inspect(self, found: _Named, at: Block) -> None:
        own, ledger = found.work, self._parts.ledger
        state = ledger.step(found.history.step, at)
        if own.leaves is None:
            own.leaves = self._take(found, state, at)
        facts = self._inspector.facts(found.history.step, state, own.taken_beacons)
        self._inspector.inspect(own, self._inspector.rules(state, at), facts, at, is_jury=True)
        found.absent = len(own.absent)
        for slot in own.judgements:
            scores = juror_scores(own.judgements[slot], is_screened=slot in own.screened)
            if scores is None:
                self._undecided += 1
            else:
                self._scores.append(scores)
        missing = set(own.missing)
        # What is nowhere comes last, or it would use up every slice.
        own.leaves = tuple(
            sorted(
                (leaf for leaf in own.leaves if leaf.submission.slot in missing),
                key=lambda leaf: leaf.submission.slot in own.absent,
            )
        )
        found.leaves = [leaf for leaf in found.leaves if leaf.slot in missing]
        own.judgements.clear()

    def _take(self, found: _Named, state: StepState, at: Block) -> tuple[checks.Leaf, ...]:
        """Return the named leaves that are under the root of their step; what is not there adds nothing.

        Raises: NetworkError, PeerError, ChainError, AbstainError if they cannot be had.
        """
        history = found.history
        found.absent = len(found.leaves)
        leaves = served_leaves(self._parts, history.step)
        # The state of a step that is settled has the hash of its outcomes in place of its pay table's.
        fine = checks.check_commitment(
            leaves, state.slots, self._parts.rules.max_units, state.submission_root, history.pay_table.hash()
        )
        if not fine.is_fine:
            raise AbstainError(fine.explanation)
        found.absent = 0
        by_slot = {leaf.submission.slot: leaf for leaf in [*leaves, *delivered_leaves(history)]}
        taken = [
            (named, leaf)
            for named in found.leaves
            if (leaf := by_slot.get(named.slot)) is not None and leaf.submission.struct_hash() == named.leaf_hash
        ]
        found.leaves = [named for named, _ in taken]
        # The panel found place and lease right; the node that signed may be another's since then.
        outcomes = history.outcomes() or []
        found.work.screened = {
            leaf.submission.slot
            for _, leaf in taken
            if outcomes[leaf.submission.slot : leaf.submission.slot + 1] == [Outcome.ACCEPT] and self._is_own(leaf, at)
        }
        return tuple(
            # Beside the accusation, if the coordinator does not serve it.
            replace(leaf, location=self._where and urljoin(self._where, to_hex(leaf.submission.content_hash)))
            for _, leaf in taken
        )

    def _is_own(self, leaf: checks.Leaf, at: Block) -> bool:
        """Say whether a leaf was signed by a node that acts, or once acted, for its provider."""
        submission = leaf.submission
        try:
            submission.require_signer(leaf.signature, self._parts.rules.domain, submission.node)
        except (Malformed, BadSignature):
            return False
        return self._parts.ledger.has_acted_for(submission.node, submission.provider, at)


class Turns(Protocol):
    """What comes to a ruling slice by slice."""

    def go_on(self, work: Work, at: Block) -> None:
        """Do one slice of work. Raises: NetworkError, PeerError, ChainError for what may be there at the next try."""
        ...

    def ruling(self, *, is_last: bool = False) -> Ruling | None:
        """Return the ruling that nothing which is left can change, None if there is none."""
        ...


def take_turn(hearing: Turns, work: Work, at: Block, clock: Callable[[], float]) -> Ruling | None:
    """Do one slice unless the ruling is clear or time is up; return the ruling, None while there is more to come."""
    work.is_sliced = False
    ruling = hearing.ruling()
    if ruling is None and clock() < work.until:
        try:
            hearing.go_on(work, at)
        except (NetworkError, PeerError, ChainError) as error:
            work.failure = str(error)
        ruling = hearing.ruling()
    if ruling is None and clock() < work.until:
        return None
    return ruling or hearing.ruling(is_last=True) or Ruling.NONE


def juror_scores(judgement: Judgement, *, is_screened: bool) -> Scores | None:
    """Return the scores of a leaf for a juror, None if it was not judged.

    What is too short to tell from has the lowest. A leaf that contradicts itself has the highest. What the coordinator
    could have spoiled speaks against nobody.
    """
    finding = judgement.finding
    if finding.outcome is Outcome.ABSTAIN:
        return None
    if (scores := scores_of(finding.measures)) is not None:
        return scores
    if finding.is_fine or is_statistical(finding) or (finding.outcome is Outcome.REJECT and not is_screened):
        return NOTHING
    return (math.inf,) * len(PARTS)
