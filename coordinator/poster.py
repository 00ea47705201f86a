"""What the coordinator does for its pool on chain, and when. The decision is pure; sending is at the end.

    seal the seed beacon once its block is past    ->  commit the root when every slot is delivered or time is up
    -> seal the audit beacon, which draws the panel  ->  redraw a panel that misses its quorum, once
    -> finalize when votes and challenge time are over  ->  slash the leaves found at fault

All but committing can be done by anyone; the coordinator does it so that nobody has to wait. It decides no outcome.
Times are on the pool's clock, which stands while the pool is paused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from sqlalchemy.orm import Session

from coordinator import queries
from coordinator.event_rows import history_of
from coordinator.store import Store
from coordinator.tables import CommitmentRow, StepRow
from stannary.chain import Block, Chain, LeafOpening, PoolTerms, Sender, StepHistory
from stannary.chain.sender import Submitted
from stannary.errors import ChainError, FundsError, NetworkError
from stannary.slots import PayTable
from stannary.types import Hash, Outcome, Phase, PoolId, to_hex
from stannary.verdict import unpack_outcomes

log = logging.getLogger(__name__)

FIRST_RETRY_S = 2.0
LAST_RETRY_S = 60.0


class Deed(StrEnum):
    """What is to be done with a step."""

    SEAL_SEED = "seal the seed beacon"
    COMMIT = "commit the root"
    SEAL_AUDIT = "seal the audit beacon"
    REDRAW = "redraw the panel"
    FINALIZE = "finalize"
    CANCEL = "cancel"
    SLASH = "slash a leaf"


@dataclass(frozen=True, slots=True)
class Action:
    """One transaction to send."""

    deed: Deed
    step: int
    slot: int | None = None

    def __str__(self) -> str:
        slot = "" if self.slot is None else f", slot {self.slot}"
        return f"step {self.step}{slot}: {self.deed}"


@dataclass(frozen=True, slots=True)
class StepFacts:
    """What the decision about one step needs; times in pool time."""

    step: int
    phase: Phase
    slots: int
    seed_block: int
    seeded_at: int
    audit_block: int
    """0 while it is still to be drawn: as long as slots can be taken on chain, nobody must know the panel."""
    audit_from: int
    reveal_until: int
    revealed: int
    """Votes that are known."""
    was_redrawn: bool
    uploaded: int
    """Slots whose bytes are there."""
    awaited: int
    """Leaves with a receipt whose bytes may still come."""
    is_ours: bool
    """Whether the step was opened under an offer with this coordinator."""
    is_first_unsettled: bool
    unslashed_faults: tuple[int, ...] = ()
    """Slots of a finalized step whose leaves were found at fault."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do for a step now, or what it waits for."""

    actions: tuple[Action, ...] = ()
    waiting: str | None = None


def plan(facts: StepFacts, block_number: int, now: int, terms: PoolTerms) -> Plan:
    """Decide what a step needs at a block, `now` on the pool's clock."""
    match facts.phase:
        case Phase.OPEN:
            if block_number > facts.seed_block:
                return _do(Deed.SEAL_SEED, facts)
            return Plan(waiting=f"step {facts.step}: block {facts.seed_block + 1} for the seed beacon")
        case Phase.SEEDED:
            return _collect(facts, now, terms)
        case Phase.COMMITTED:
            if now < facts.audit_from:
                return Plan(waiting=f"step {facts.step}: the slots taken on chain")
            if block_number > facts.audit_block:
                return _do(Deed.SEAL_AUDIT, facts)
            return Plan(waiting=f"step {facts.step}: block {facts.audit_block + 1} for the audit beacon")
        case Phase.AUDITED:
            return _count(facts, now, terms)
        case Phase.FINALIZED:
            return Plan(tuple(Action(Deed.SLASH, facts.step, slot) for slot in facts.unslashed_faults))
        case _:
            return Plan()


def collect_deadline(seeded_at: int, terms: PoolTerms) -> int:
    """Return the pool time up to which leases run; the pool's leaseSeconds after it are for the last uploads."""
    return seeded_at + terms.collect_seconds


def _collect(facts: StepFacts, now: int, terms: PoolTerms) -> Plan:
    deadline = collect_deadline(facts.seeded_at, terms)
    if now >= deadline + terms.lease_seconds:
        if facts.is_first_unsettled:
            return _do(Deed.CANCEL, facts)
        return Plan(waiting=f"step {facts.step}: earlier steps to settle")
    if not facts.is_ours:
        return Plan(waiting=f"step {facts.step}: its own coordinator")
    if facts.uploaded >= facts.slots:
        return _do(Deed.COMMIT, facts)
    if now < deadline:
        return Plan(waiting=f"step {facts.step}: {facts.slots - facts.uploaded} of {facts.slots} groups")
    # Half of the grace goes to bytes that were promised, the rest is kept for getting the root into a block.
    if facts.awaited and now < deadline + terms.lease_seconds // 2:
        return Plan(waiting=f"step {facts.step}: the bytes of {facts.awaited} receipted groups")
    if facts.uploaded:
        return _do(Deed.COMMIT, facts)
    return Plan(waiting=f"step {facts.step}: its deadline, no group has come")


def _count(facts: StepFacts, now: int, terms: PoolTerms) -> Plan:
    if now < facts.reveal_until:
        return Plan(waiting=f"step {facts.step}: the panel's votes")
    if facts.revealed < terms.quorum and not facts.was_redrawn:
        return _do(Deed.REDRAW, facts)
    if now < facts.reveal_until + terms.challenge_seconds:
        return Plan(waiting=f"step {facts.step}: the end of its challenge time")
    if not facts.is_first_unsettled:
        return Plan(waiting=f"step {facts.step}: earlier steps to settle")
    return _do(Deed.FINALIZE, facts)


def _do(deed: Deed, facts: StepFacts) -> Plan:
    return Plan((Action(deed, facts.step),))


@dataclass(slots=True)
class _Retry:
    at: float
    why: str
    pause_s: float = FIRST_RETRY_S


@dataclass(slots=True)
class Poster:
    """Sends what `plan` decides; an action that failed is tried again with growing pauses."""

    chain: Chain
    sender: Sender
    store: Store
    pool: PoolId
    terms: PoolTerms
    clock: Callable[[], float]
    _retries: dict[Action, _Retry] = field(default_factory=dict)
    _clean: set[tuple[int, int]] = field(default_factory=set)
    """(step, finalized at) of steps in which nobody is left to slash."""
    _underway: dict[Action, Submitted] = field(default_factory=dict)
    """Slashes that were sent: they do not depend on each other, so none waits for the block of the one before."""
    _spared: set[Action] = field(default_factory=set)
    """Slashes of planted faults, which nobody is slashed for."""

    def tick(self, head: Block) -> list[str]:
        """Do what is due at a block that is mirrored; return what is waited for.

        Raises: NetworkError when the chain does not answer.
        """
        waiting = []
        now, steps = self.store.read(lambda session: self._facts(session))
        for facts in steps:
            decided = plan(facts, head.number, now, self.terms)
            if decided.waiting:
                waiting.append(decided.waiting)
            for action in decided.actions:
                problem = self._attempt(action)
                if problem:
                    waiting.append(f"{action} ({problem})")
        return waiting

    def _facts(self, session: Session) -> tuple[int, list[StepFacts]]:
        now = queries.now(session).pool_time
        unsettled = queries.unsettled_steps(session)
        first = unsettled[0].step if unsettled else None
        facts = [self._step_facts(session, row, now, is_first=row.step == first) for row in unsettled]
        for row in queries.newest_steps(session):
            if row.phase == Phase.FINALIZED and (faults := self._unslashed(session, row)):
                facts.append(self._step_facts(session, row, now, is_first=False, faults=faults))
        return now, facts

    def _step_facts(
        self, session: Session, row: StepRow, now: int, *, is_first: bool, faults: Sequence[int] = ()
    ) -> StepFacts:
        return StepFacts(
            step=row.step,
            phase=Phase(row.phase),
            slots=row.slots,
            seed_block=row.seed_block,
            seeded_at=row.seeded_at,
            audit_block=row.audit_block,
            audit_from=row.audit_from,
            reveal_until=row.reveal_until,
            revealed=len(queries.votes(session, row.step)),
            was_redrawn=row.was_redrawn,
            uploaded=queries.counts(session, row.step).uploaded,
            awaited=queries.awaited_uploads(session, row.step, now - self.terms.lease_seconds),
            is_ours=row.coordinator == self.sender.address,
            is_first_unsettled=is_first,
            unslashed_faults=tuple(faults),
        )

    def _unslashed(self, session: Session, row: StepRow) -> list[int]:
        if (row.step, row.finalized_at) in self._clean or row.outcomes is None:
            return []
        outcomes = unpack_outcomes(row.outcomes, row.slots + row.taken)
        done = queries.slots_of_events(session, row.step, "LeafSlashed")
        held = queries.slots_of_events(session, row.step, "SlotHeld")
        known = set(range(row.slots, row.slots + row.taken)) | self._own_slots(session, row)
        left = [
            slot
            for slot, outcome in enumerate(outcomes)
            if outcome is Outcome.FAULT
            and slot in known - done - held
            and Action(Deed.SLASH, row.step, slot) not in self._spared
        ]
        if not left:
            self._clean.add((row.step, row.finalized_at))
        return left

    @staticmethod
    def _own_slots(session: Session, row: StepRow) -> set[int]:
        """Return the slots whose committed leaves lie in this database."""
        frozen = session.get(CommitmentRow, row.step)
        if frozen is None or frozen.submission_root != row.submission_root:
            return set()
        return {leaf.slot for leaf in queries.leaves(session, row.step)}

    def _attempt(self, action: Action) -> str | None:
        retry = self._retries.get(action)
        if retry is not None and self.clock() < retry.at:
            return retry.why
        try:
            if action.deed is Deed.SLASH and not self._slash(action):
                return "it is sent and in no block yet"
            self._send(action)
        except (FundsError, ChainError) as error:
            self._underway.pop(action, None)
            return self._postpone(action, str(error))
        except NetworkError:
            self._postpone(action, "the chain did not answer")
            raise
        self._retries.pop(action, None)
        log.info("%s: done", action)
        return None

    def _postpone(self, action: Action, why: str) -> str:
        retry = self._retries.setdefault(action, _Retry(0.0, why))
        retry.at, retry.why = self.clock() + retry.pause_s, why
        log.warning("%s: %s; again in %.0f s", action, why, retry.pause_s)
        retry.pause_s = min(2 * retry.pause_s, LAST_RETRY_S)
        return why

    def _send(self, action: Action) -> None:
        ledger, panel, step = self.chain.submission_ledger, self.chain.voting_panel, action.step
        match action.deed:
            case Deed.SEAL_SEED:
                ledger.seal_seed_beacon(self.sender, self.pool, step)
            case Deed.COMMIT:
                self._commit(step)
            case Deed.SEAL_AUDIT:
                panel.seal_audit_beacon(self.sender, self.pool, step)
            case Deed.REDRAW:
                panel.redraw_panel(self.sender, self.pool, step)
            case Deed.FINALIZE:
                history = self._history(step)
                panel.finalize(self.sender, self.pool, step, history.votes_by_seat(), history.pay_table)
            case Deed.CANCEL:
                ledger.cancel_step(self.sender, self.pool, step)
            case Deed.SLASH:
                self._underway.pop(action, None)

    def _slash(self, action: Action) -> bool:
        """Send a slash if it is not sent yet, and say whether it is done, or nothing is to be done."""
        if action not in self._underway:
            assert action.slot is not None
            history = self._history(action.step)
            opening = self._opening(history, action.slot)
            if self.chain.planted_faults.is_plant(opening.leaf.struct_hash()):
                self._spared.add(action)
                return True
            assert history.finalized is not None
            arguments = (self.pool, action.step, opening.as_struct(), history.finalized.outcomes)
            self._underway[action] = self.sender.submit(self.chain.voting_panel.encode("slashLeaf", *arguments))
            return False
        return self.sender.poll(self._underway[action]) is not None

    def _history(self, step: int) -> StepHistory:
        return self.store.read(lambda session: history_of(session, self.pool, step))

    def _opening(self, history: StepHistory, slot: int) -> LeafOpening:
        delivered = history.delivered.get(slot)
        if delivered is not None:
            return LeafOpening(delivered.leaf, ())
        assert history.opened is not None
        leaves = self.store.read(lambda session: queries.leaves(session, history.step))
        return LeafOpening.of([leaf.submission() for leaf in leaves], history.opened.slots, slot)

    def _commit(self, step: int) -> None:
        # The leaves are frozen in the database before the root is sent: from here on no leaf can come or go.
        def work(session: Session) -> tuple[Hash, Hash, PayTable] | None:
            row = session.get(StepRow, step)
            frozen = queries.freeze(session, row) if row is not None else None
            if row is None or frozen is None:
                return None
            table = PayTable.of(
                [leaf.submission() for leaf in queries.leaves(session, step)], row.slots, self.terms.max_units
            )
            return frozen.submission_root, frozen.slot_table_root, table

        frozen = self.store.write(work)
        if frozen is None:
            return
        root, table_root, table = frozen
        log.info("step %d: commits %d leaves under %s", step, table.leaf_count, to_hex(root))
        self.chain.submission_ledger.commit_root(self.sender, self.pool, step, root, table_root, table)
