"""The mirror: what the chain says about one pool, kept in the database up to one block.

Events say *what* has changed, views read at one block say *what it is now*; what no view gives is in a step's events.
Each chunk of blocks is one transaction: its events, the keys of what they touched (`stale`) and the cursor. Once the
cursor is at the newest block, all stale things are read at that block and written in one more transaction. A block that
the chain no longer has takes its events with it and leaves what they touched stale, so that nothing of a dropped branch
survives. No chain call is made while a transaction is open.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from coordinator.event_rows import history_of, row_of
from coordinator.store import Store
from coordinator.tables import (
    SINGLE_ROW,
    BlockRow,
    CaseRow,
    CommitmentRow,
    CursorRow,
    EventRow,
    LeaseRow,
    NodeRow,
    PanelRow,
    PolicyRow,
    PositionRow,
    StakeRow,
    StaleRow,
    StepRow,
    SubmissionRow,
    TakenRow,
    VerdictRow,
    VoteRow,
)
from stannary.chain import Block, Case, Chain, Offer, PanelTimes, StepHistory, StepState, events
from stannary.errors import NetworkError, Reverted, SettingsError
from stannary.types import ZERO_HASH, Address, Hash, Phase, PoolId, Role, Wei, parse_address, to_hex

log = logging.getLogger(__name__)

KEPT_BLOCKS = 512
"""Mirrored blocks whose hashes are kept to find where a re-organisation began; older ones count as final."""
REFRESH_KEYS = 256
"""Stale things read and written at once."""

_ZERO_ADDRESS = "0x0000000000000000000000000000000000000000"


class Reorganised(NetworkError):
    """The chain changed while it was read; the next tick reads again."""


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """The pool at one block."""

    is_open: bool
    is_paused: bool
    pool_time: int
    trainer: Address


@dataclass(frozen=True, slots=True)
class StepSnapshot:
    """A step at one block, and all that its events say up to it."""

    step: int
    state: StepState
    offer: Offer
    audit_from: int
    times: PanelTimes
    history: StepHistory
    stakes: Mapping[Address, Wei] | None
    """Workers' active stakes just before it was opened; None once it collects no more."""


Write = Callable[[Session], None]


def stale_key(event: events.Event, pool: int) -> str | None:
    """Return the key of what an event changes, None if it is not about this pool."""
    match event:
        case events.NodeAdded() | events.NodeRemoved():
            return f"node/{event.node}"
        case events.ControllerChanged():
            return f"control/{event.provider}/{event.controller}"
        case events.JuryDrawn() | events.CaseAppealed() | events.CaseRuled() | events.CaseResolved():
            return f"case/{event.case_id}"
        case _ if getattr(event, "pool", None) != pool:
            return None
        case events.Allocated() | events.ExitStarted() | events.Slashed() | events.Suspended() | events.Reinstated():
            return f"position/{event.provider}/{event.role}"
        case events.PolicyPublished():
            return f"policy/{event.policy_step}"
        case events.CaseOpened():
            return f"case/{event.case_id}"
        case (
            events.StepOpened()
            | events.SeedBeaconSealed()
            | events.SlotTaken()
            | events.TakenSlotSealed()
            | events.TakenSlotDelivered()
            | events.RootCommitted()
            | events.AuditBeaconSealed()
            | events.AuditBlockDrawn()
            | events.BeaconRedrawn()
            | events.VoteCommitted()
            | events.VoteRevealed()
            | events.PanelRedrawn()
            | events.SlotHeld()
            | events.StepFinalized()
            | events.StepCancelled()
            | events.LeafSlashed()
        ):
            return f"step/{event.step}"
        case _:
            return None


class Mirror:
    """Follows the chain for one pool. One instance per process; several processes may run it on one database."""

    def __init__(
        self, chain: Chain, store: Store, pool: PoolId, *, blocks_per_read: int, clock: Callable[[], float]
    ) -> None:
        self._chain = chain
        self._store = store
        self._pool = pool
        self._blocks_per_read = blocks_per_read
        self._clock = clock
        self._offers: dict[int, Offer] = {}
        """By number; an offer in force never changes."""
        self._seen: tuple[Hash, PoolFacts] | None = None

    def advance(self) -> Block:
        """Bring the database to the newest block and return it.

        Raises: NetworkError or ChainError when the chain does not answer; nothing is half done.
        """
        head = self._chain.frozen()
        at = self._store.read(_cursor_block)
        if at is None:
            at = self._begin()
        if not self._is_on_chain(at, head):
            at = self._roll_back(at, head)
        while at.number < head.number:
            at = self._read_chunk(at, head)
        # The clock first: whoever sees a step seeded must not see a clock that is older, or a lease would be too.
        facts = self._look(head)
        self._store.write(lambda session: _see(session, head, facts, self._clock()))
        self._refresh(head)
        return head

    def _look(self, head: Block) -> PoolFacts:
        """Return the pool at the newest block: clock, pause and offer change without events as time goes by."""
        if self._seen is None or self._seen[0] != head.hash:
            registry = self._chain.pool_registry
            facts = PoolFacts(
                is_open=registry.is_open(self._pool, head),
                is_paused=registry.is_paused(self._pool, head),
                pool_time=registry.clock_of(self._pool, head),
                trainer=self._offer(registry.offer_number_of(self._pool, head), head).trainer,
            )
            self._seen = (head.hash, facts)
        return self._seen[1]

    def _offer(self, number: int, at: Block) -> Offer:
        if number not in self._offers:
            self._offers[number] = self._chain.pool_registry.offer_of(self._pool, number, at)
        return self._offers[number]

    def _begin(self) -> Block:
        deployment = self._chain.deployment
        start = self._chain.block(max(0, deployment.deployed_block - 1))

        def work(session: Session) -> None:
            if session.get(CursorRow, SINGLE_ROW) is None:
                session.add(
                    CursorRow(
                        id=SINGLE_ROW,
                        chain_id=deployment.chain_id,
                        ledger=deployment.submission_ledger,
                        pool=self._pool,
                        block_number=start.number,
                        block_hash=start.hash,
                        chain_time=start.timestamp,
                        pool_time=0,
                        seen_at=0.0,
                        is_open=False,
                        is_paused=False,
                        trainer=None,
                    )
                )

        self._store.write(work)
        return start

    def _is_on_chain(self, at: Block, head: Block) -> bool:
        if at.number > head.number:
            return False
        return self._chain.block(at.number).hash == at.hash

    def _roll_back(self, at: Block, head: Block) -> Block:
        """Return the newest mirrored block that the chain still has, after undoing everything later."""
        known = self._store.read(
            lambda session: session.execute(
                select(BlockRow.number, BlockRow.hash).order_by(BlockRow.number.desc())
            ).all()
        )
        first = max(0, self._chain.deployment.deployed_block - 1)
        fork = next(
            (
                block
                for number, block_hash in known
                if number <= head.number and (block := self._chain.block(number)).hash == block_hash
            ),
            None,
        ) or self._chain.block(min(first, head.number))
        log.warning("the chain dropped block %d %s; back to block %d", at.number, to_hex(at.hash), fork.number)
        self._store.write(lambda session: _roll_back(session, fork))
        self._offers.clear()
        return fork

    def _read_chunk(self, at: Block, head: Block) -> Block:
        last = min(at.number + self._blocks_per_read, head.number)
        end = head if last == head.number else self._chain.block(last)
        found = self._chain.read_events(at.number + 1, last)
        is_torn = any(event.place.block_number == last and event.place.block_hash != end.hash for event in found)
        if is_torn or self._chain.block(last).hash != end.hash:
            raise Reorganised(f"block {last} changed while it was read")
        keyed = [(event, stale_key(event, self._pool)) for event in found]
        rows = [row_of(event, key) for event, key in keyed if key is not None]
        self._store.write(lambda session: _append(session, at, end, rows))
        return end

    def _refresh(self, head: Block) -> None:
        while keys := self._store.read(_stale_keys):
            writes = [self._read(key, head) for key in keys]

            def work(session: Session, keys: Sequence[str] = keys, writes: Sequence[Write] = writes) -> None:
                _require_cursor(session, head)
                for write in writes:
                    write(session)
                session.execute(delete(StaleRow).where(StaleRow.key.in_(keys)))

            self._store.write(work)

    def _read(self, key: str, at: Block) -> Write:
        kind, *rest = key.split("/")
        match kind, rest:
            case "step", [step]:
                snapshot = self._read_step(int(step), at)
                return lambda session: _write_step(session, int(step), snapshot)
            case "position", [text, role]:
                provider = Address(text)
                active = self._chain.stake_manager.active_stake_of(self._pool, Role(int(role)), provider, at)
                acts_for = self._acts_for(provider, at)
                return lambda session: _write_position(session, provider, int(role), active, acts_for)
            case "node", [text]:
                return self._read_accounts([Address(text)], at)
            case "control", [provider_text, controller]:
                provider = Address(provider_text)
                others = self._store.read(
                    lambda session: session.scalars(select(NodeRow.node).where(NodeRow.provider == provider)).all()
                )
                return self._read_accounts({provider, Address(controller), *others}, at)
            case "policy", [policy_step]:
                root = self._read_policy(int(policy_step), at)
                return lambda session: _write_policy(session, int(policy_step), root)
            case "case", [number]:
                case = self._chain.dispute_court.case_of(int(number), at)
                return lambda session: _write_case(session, int(number), case, self._pool)
            case _:
                raise ValueError(f"no such stale key: {key}")

    def _acts_for(self, account: Address, at: Block) -> Address | None:
        provider = parse_address(self._chain.stake_manager.provider_of(account, at))
        return None if provider == _ZERO_ADDRESS else provider

    def _read_accounts(self, accounts: Iterable[Address], at: Block) -> Write:
        found = [(account, self._acts_for(account, at)) for account in accounts]

        def write(session: Session) -> None:
            for account, provider in found:
                session.merge(NodeRow(node=account, provider=provider))

        return write

    def _read_step(self, step: int, at: Block) -> StepSnapshot | None:
        ledger = self._chain.submission_ledger
        state = ledger.step_of(self._pool, step, at)
        if state.phase is Phase.NONE:
            return None
        history = self._store.read(lambda session: history_of(session, self._pool, step))
        return StepSnapshot(
            step=step,
            state=state,
            offer=self._offer(state.offer, at),
            audit_from=ledger.audit_from(self._pool, step, at),
            times=self._chain.voting_panel.panel_times_of(self._pool, step, at),
            history=history,
            stakes=self._stakes_at_opening(state, at) if state.phase <= Phase.SEEDED else None,
        )

    def _stakes_at_opening(self, state: StepState, at: Block) -> Mapping[Address, Wei]:
        """Return the stakes of all workers that were there by then; events before views, so that none is missed."""
        prefix = f"position/%/{int(Role.WORKER)}"
        keys = self._store.read(
            lambda session: session.scalars(
                select(EventRow.stale_key)
                .where(EventRow.stale_key.like(prefix), EventRow.block_number < state.opened_block)
                .distinct()
            ).all()
        )
        workers = sorted(Address(key.split("/")[1]) for key in keys)
        before = state.opened_block - 1
        found = self._chain.stake_manager.active_stakes_at(self._pool, Role.WORKER, workers, before, at)
        return dict(zip(workers, found, strict=True))

    def _read_policy(self, policy_step: int, at: Block) -> Hash:
        try:
            return self._chain.submission_ledger.policy_root_of(self._pool, policy_step, at)
        except Reverted:
            return ZERO_HASH


def check_identity(store: Store, chain_id: int, ledger: Address, pool: PoolId) -> None:
    """Refuse a database that belongs to another chain, deployment or pool. Raises: SettingsError."""
    row = store.read(lambda session: session.get(CursorRow, SINGLE_ROW))
    if row is not None and (row.chain_id, row.ledger, row.pool) != (chain_id, ledger, pool):
        raise SettingsError(
            f"the database is of pool {row.pool} at {row.ledger} on chain {row.chain_id}, "
            f"not of pool {pool} at {ledger} on chain {chain_id}: use another --run-dir"
        )


def _cursor_block(session: Session) -> Block | None:
    row = session.get(CursorRow, SINGLE_ROW)
    return None if row is None else Block(row.block_number, row.block_hash, row.chain_time)


def _require_cursor(session: Session, at: Block) -> CursorRow:
    row = session.get(CursorRow, SINGLE_ROW)
    if row is None or row.block_hash != at.hash:
        raise Reorganised("another process moved the mirror")
    return row


def _move(session: Session, row: CursorRow, to: Block) -> None:
    row.block_number, row.block_hash, row.chain_time = to.number, to.hash, to.timestamp
    session.merge(BlockRow(number=to.number, hash=to.hash))


def _append(session: Session, at: Block, end: Block, rows: Sequence[EventRow]) -> None:
    row = _require_cursor(session, at)
    for event in rows:
        session.merge(event)
    for key in {event.stale_key for event in rows}:
        session.merge(StaleRow(key=key))
    _move(session, row, end)
    old = session.scalars(select(BlockRow.number).order_by(BlockRow.number.desc()).offset(KEPT_BLOCKS).limit(1)).first()
    if old is not None:
        session.execute(delete(BlockRow).where(BlockRow.number <= old))


def _roll_back(session: Session, fork: Block) -> None:
    gone = EventRow.block_number > fork.number
    for key in session.scalars(select(EventRow.stale_key).where(gone).distinct()).all():
        session.merge(StaleRow(key=key))
    session.execute(delete(EventRow).where(gone))
    session.execute(delete(BlockRow).where(BlockRow.number > fork.number))
    row = session.get(CursorRow, SINGLE_ROW)
    assert row is not None
    _move(session, row, fork)


def _see(session: Session, head: Block, facts: PoolFacts, now: float) -> None:
    row = _require_cursor(session, head)
    row.seen_at = now
    row.is_open, row.is_paused = facts.is_open, facts.is_paused
    row.pool_time, row.trainer = facts.pool_time, facts.trainer


def _stale_keys(session: Session) -> Sequence[str]:
    return session.scalars(select(StaleRow.key).order_by(StaleRow.key).limit(REFRESH_KEYS)).all()


def _write_step(session: Session, step: int, snapshot: StepSnapshot | None) -> None:
    row = session.get(StepRow, step)
    for table in (PanelRow, VoteRow, TakenRow):
        session.execute(delete(table).where(table.step == step))
    if snapshot is None:
        if row is not None:
            _void(session, step)
            session.delete(row)
        session.execute(delete(StakeRow).where(StakeRow.step == step))
        return
    state, offer, history = snapshot.state, snapshot.offer, snapshot.history
    if row is not None and row.seed_beacon not in (ZERO_HASH, state.seed_beacon):
        _void(session, step)
    pay_table = None if history.committed is None else history.committed.pay_table
    session.merge(
        StepRow(
            step=step,
            phase=int(state.phase),
            policy_step=state.policy_step,
            slots=state.slots,
            taken=state.taken,
            opened_block=state.opened_block,
            seed_block=state.seed_block,
            seeded_at=state.seeded_at,
            audit_block=state.audit_block,
            committed_at=state.committed_at,
            audit_from=snapshot.audit_from,
            reveal_until=snapshot.times.reveal_until,
            was_redrawn=snapshot.times.was_redrawn,
            finalized_at=state.finalized_at,
            seed_beacon=state.seed_beacon,
            submission_root=state.submission_root,
            leaf_count=0 if pay_table is None else pay_table.leaf_count,
            outcomes=history.finalized and history.finalized.outcomes,
            coordinator=offer.coordinator,
            card_hash=offer.card_hash,
            price_per_group=Wei(offer.price_per_group),
            price_per_token=Wei(offer.price_per_token),
        )
    )
    if snapshot.stakes is not None:
        session.execute(delete(StakeRow).where(StakeRow.step == step))
        session.add_all(StakeRow(step=step, provider=who, active=active) for who, active in snapshot.stakes.items())
    session.add_all(
        TakenRow(
            step=step,
            slot=slot,
            provider=taken.provider,
            leaf_hash=history.delivered[slot].leaf.struct_hash() if slot in history.delivered else None,
        )
        for slot, taken in history.taken.items()
    )
    session.add_all(PanelRow(step=step, place=place, provider=member) for place, member in enumerate(history.panel))
    session.add_all(
        VoteRow(
            step=step,
            provider=member,
            outcomes=history.votes[member].outcomes,
            verdict_root=history.votes[member].verdict_root,
            evidence_root=history.votes[member].evidence_root,
        )
        for member in history.panel
        if member in history.votes
    )


def _void(session: Session, step: int) -> None:
    """Drop the work on a beacon that the chain no longer has; nobody is paid or slashed for it."""
    log.warning("step %d has another seed beacon after a re-organisation: its leases and leaves are void", step)
    for table in (VerdictRow, SubmissionRow, LeaseRow, CommitmentRow):
        session.execute(delete(table).where(table.step == step))


def _write_position(session: Session, provider: Address, role: int, active: Wei, acts_for: Address | None) -> None:
    session.merge(PositionRow(provider=provider, role=role, active=active))
    known = session.get(NodeRow, provider)
    if known is not None:
        known.provider = acts_for


def _write_case(session: Session, case_id: int, case: Case | None, pool: int) -> None:
    if case is None or case.pool != pool:
        session.execute(delete(CaseRow).where(CaseRow.case_id == case_id))
        return
    session.merge(
        CaseRow(
            case_id=case_id,
            step=case.step,
            slot=case.slot,
            provider=case.provider,
            kind=int(case.kind),
            phase=int(case.phase),
            ruling=int(case.ruling),
        )
    )


def _write_policy(session: Session, policy_step: int, root: Hash) -> None:
    if root == ZERO_HASH:
        session.execute(delete(PolicyRow).where(PolicyRow.policy_step == policy_step))
    else:
        session.merge(PolicyRow(policy_step=policy_step, policy_root=root))
