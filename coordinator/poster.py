"""What the coordinator does for its pool on chain, and when. The decision is pure; sending is at the end.

    seal the seed beacon once its block is past    ->  commit the root when every slot is delivered or time is up
    -> seal the audit beacon  ->  finalize when votes and challenge time are over  ->  slash the leaves found at fault

All but committing can be done by anyone; the coordinator does it so that nobody has to wait. It decides no outcome.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from sqlalchemy.orm import Session

from coordinator import queries
from coordinator.store import Store
from coordinator.tables import StepRow
from stannary.chain import Block, Chain, LeafOpening, PoolTerms, Sender
from stannary.chain.sender import Submitted
from stannary.errors import ChainError, FundsError, NetworkError
from stannary.merkle import merkle_proof
from stannary.types import Hash, Outcome, Phase, PoolId, to_hex
from stannary.verdict import tally, unpack_outcomes

log = logging.getLogger(__name__)

FIRST_RETRY_S = 2.0
LAST_RETRY_S = 60.0


class Deed(StrEnum):
    """What is to be done with a step."""

    SEAL_SEED = "seal the seed beacon"
    COMMIT = "commit the root"
    SEAL_AUDIT = "seal the audit beacon"
    FINALIZE = "finalize"
    CANCEL = "cancel"
    SLASH = "slash a leaf"


@dataclass(frozen=True, slots=True)
class Action:
    """One transaction to send."""

    deed: Deed
    step: int
    leaf_index: int | None = None

    def __str__(self) -> str:
        leaf = "" if self.leaf_index is None else f", leaf {self.leaf_index}"
        return f"step {self.step}{leaf}: {self.deed}"


@dataclass(frozen=True, slots=True)
class StepFacts:
    """What the decision about one step needs; times in chain time."""

    step: int
    phase: Phase
    slots: int
    seed_block: int
    seeded_at: int
    audit_block: int
    audited_at: int
    voted_at: int
    uploaded: int
    """Slots whose bytes are there."""
    awaited: int
    """Leaves with a receipt whose bytes may still come."""
    is_first_unsettled: bool
    unslashed_faults: tuple[int, ...] = ()
    """Leaves of a finalized step that the quorum found at fault."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do for a step now, or what it waits for."""

    actions: tuple[Action, ...] = ()
    waiting: str | None = None


def plan(facts: StepFacts, head: Block, terms: PoolTerms) -> Plan:
    """Decide what a step needs at a block."""
    now = head.timestamp
    match facts.phase:
        case Phase.OPEN:
            if head.number > facts.seed_block:
                return _do(Deed.SEAL_SEED, facts)
            return Plan(waiting=f"step {facts.step}: block {facts.seed_block + 1} for the seed beacon")
        case Phase.SEEDED:
            return _collect(facts, now, terms)
        case Phase.COMMITTED:
            if head.number > facts.audit_block:
                return _do(Deed.SEAL_AUDIT, facts)
            return Plan(waiting=f"step {facts.step}: block {facts.audit_block + 1} for the audit beacon")
        case Phase.AUDITED:
            if not facts.voted_at and now < facts.audited_at + terms.vote_seconds:
                return Plan(waiting=f"step {facts.step}: the panel's votes")
            decided_at = facts.voted_at or facts.audited_at + terms.vote_seconds
            if now < decided_at + terms.challenge_seconds:
                return Plan(waiting=f"step {facts.step}: the end of its challenge time")
            if not facts.is_first_unsettled:
                return Plan(waiting=f"step {facts.step}: earlier steps to settle")
            return _do(Deed.FINALIZE, facts)
        case Phase.FINALIZED:
            return Plan(tuple(Action(Deed.SLASH, facts.step, index) for index in facts.unslashed_faults))
        case _:
            return Plan()


def collect_deadline(seeded_at: int, terms: PoolTerms) -> int:
    """Return the chain time up to which leases run; the pool's leaseSeconds after it are for the last uploads."""
    return seeded_at + terms.collect_seconds


def _collect(facts: StepFacts, now: int, terms: PoolTerms) -> Plan:
    deadline = collect_deadline(facts.seeded_at, terms)
    if now > deadline + terms.lease_seconds:
        if facts.is_first_unsettled:
            return _do(Deed.CANCEL, facts)
        return Plan(waiting=f"step {facts.step}: earlier steps to settle")
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

    def tick(self, head: Block) -> list[str]:
        """Do what is due at a block that is mirrored; return what is waited for.

        Raises: NetworkError when the chain does not answer.
        """
        waiting = []
        for facts in self.store.read(lambda session: self._facts(session, head)):
            decided = plan(facts, head, self.terms)
            if decided.waiting:
                waiting.append(decided.waiting)
            for action in decided.actions:
                problem = self._attempt(action)
                if problem:
                    waiting.append(f"{action} ({problem})")
        return waiting

    def _facts(self, session: Session, head: Block) -> list[StepFacts]:
        unsettled = queries.unsettled_steps(session)
        first = unsettled[0].step if unsettled else None
        facts = [self._step_facts(session, row, head, is_first=row.step == first) for row in unsettled]
        for row in queries.newest_steps(session):
            if row.phase == Phase.FINALIZED and (faults := self._unslashed(session, row)):
                facts.append(self._step_facts(session, row, head, is_first=False, faults=faults))
        return facts

    def _step_facts(
        self, session: Session, row: StepRow, head: Block, *, is_first: bool, faults: Sequence[int] = ()
    ) -> StepFacts:
        return StepFacts(
            step=row.step,
            phase=Phase(row.phase),
            slots=row.slots,
            seed_block=row.seed_block,
            seeded_at=row.seeded_at,
            audit_block=row.audit_block,
            audited_at=row.audited_at,
            voted_at=row.voted_at,
            uploaded=queries.counts(session, row.step).uploaded,
            awaited=queries.awaited_uploads(session, row.step, head.timestamp - self.terms.lease_seconds),
            is_first_unsettled=is_first,
            unslashed_faults=tuple(faults),
        )

    def _unslashed(self, session: Session, row: StepRow) -> list[int]:
        if (row.step, row.finalized_at) in self._clean:
            return []
        votes = [unpack_outcomes(vote.outcomes, row.leaf_count) for vote in queries.votes(session, row.step)]
        faults = [
            index
            for index in range(row.leaf_count)
            if tally([vote[index] for vote in votes], self.terms.quorum) is Outcome.FAULT
        ]
        done = queries.slashed_leaves(session, row.step)
        left = [index for index in faults if index not in done] if self._is_ours(session, row) else []
        if not left:
            self._clean.add((row.step, row.finalized_at))
        return left

    @staticmethod
    def _is_ours(session: Session, row: StepRow) -> bool:
        return [leaf.leaf_index for leaf in queries.leaves(session, row.step)] == list(range(row.leaf_count))

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
        ledger, step = self.chain.submission_ledger, action.step
        match action.deed:
            case Deed.SEAL_SEED:
                ledger.seal_seed_beacon(self.sender, self.pool, step)
            case Deed.COMMIT:
                self._commit(step)
            case Deed.SEAL_AUDIT:
                ledger.seal_audit_beacon(self.sender, self.pool, step)
            case Deed.FINALIZE:
                ledger.finalize(self.sender, self.pool, step)
            case Deed.CANCEL:
                ledger.cancel_step(self.sender, self.pool, step)
            case Deed.SLASH:
                self.sender.wait(self._underway.pop(action))

    def _slash(self, action: Action) -> bool:
        """Send a slash if it is not sent yet, and say whether it is in a block."""
        if action not in self._underway:
            assert action.leaf_index is not None
            index = action.leaf_index
            opening = self.store.read(lambda session: _opening(session, action.step, index))
            call = self.chain.submission_ledger.encode("slashLeaf", self.pool, action.step, opening.as_struct())
            self._underway[action] = self.sender.submit(call)
            return False
        return self.chain.mined(self._underway[action].transaction) is not None

    def _commit(self, step: int) -> None:
        # The leaves are frozen in the database before the root is sent: from here on no leaf can come or go.
        def work(session: Session) -> tuple[Hash, int, Hash] | None:
            row = session.get(StepRow, step)
            frozen = queries.freeze(session, row) if row is not None else None
            return None if frozen is None else (frozen.submission_root, frozen.leaf_count, frozen.slot_table_root)

        frozen = self.store.write(work)
        if frozen is None:
            return
        root, leaf_count, table_root = frozen
        log.info("step %d: commits %d leaves under %s", step, leaf_count, to_hex(root))
        self.chain.submission_ledger.commit_root(self.sender, self.pool, step, root, leaf_count, table_root)


def _opening(session: Session, step: int, leaf_index: int) -> LeafOpening:
    rows = queries.leaves(session, step)
    proof = merkle_proof([row.leaf_hash for row in rows], leaf_index)
    return LeafOpening(rows[leaf_index].submission(), leaf_index, tuple(proof))
