"""The mirror: what the chain says about one pool, kept in the database up to one block.

Events say *what* has changed, views read at one block say *what it is now*. Each chunk of blocks is one transaction:
its events, the keys of what they touched (`stale`) and the cursor. Once the cursor is at the newest block, all stale
things are read at that block and written in one more transaction. A block that the chain no longer has takes its
events with it and leaves what they touched stale, so that nothing of a dropped branch survives. No chain call is made
while a transaction is open.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from coordinator.store import Store
from coordinator.tables import (
    SINGLE_ROW,
    BlockRow,
    CommitmentRow,
    CursorRow,
    EventRow,
    LeaseRow,
    NodeRow,
    PanelRow,
    PolicyRow,
    PositionRow,
    StaleRow,
    StepRow,
    SubmissionRow,
    VerdictRow,
    VoteRow,
)
from stannary.chain import Block, Chain, StepState, Vote, events
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
class StepSnapshot:
    """A step, its panel and its votes at one block."""

    step: int
    state: StepState
    panel: tuple[Address, ...]
    votes: tuple[tuple[Address, Vote], ...]


Write = Callable[[Session], None]


def stale_key(event: events.Event, pool: int) -> str | None:
    """Return the key of what an event changes, None if it is not about this pool."""
    match event:
        case events.NodeAdded() | events.NodeRemoved():
            return f"node/{event.node}"
        case _ if getattr(event, "pool", None) != pool:
            return None
        case events.Allocated() | events.ExitStarted() | events.Slashed():
            return f"position/{event.provider}/{event.role}"
        case events.PolicyPublished():
            return f"policy/{event.policy_step}"
        case events.PoolCreated() | events.PoolClosed():
            return "pool"
        case (
            events.StepOpened()
            | events.SeedBeaconSealed()
            | events.RootCommitted()
            | events.AuditBeaconSealed()
            | events.BeaconRedrawn()
            | events.Voted()
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
        self._refresh(head)
        self._store.write(lambda session: _see(session, head, self._clock()))
        return head

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
                        seen_at=0.0,
                        is_open=False,
                    )
                )
                session.merge(StaleRow(key="pool"))

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
        return fork

    def _read_chunk(self, at: Block, head: Block) -> Block:
        last = min(at.number + self._blocks_per_read, head.number)
        end = head if last == head.number else self._chain.block(last)
        found = self._chain.read_events(at.number + 1, last)
        is_torn = any(event.place.block_number == last and event.place.block_hash != end.hash for event in found)
        if is_torn or self._chain.block(last).hash != end.hash:
            raise Reorganised(f"block {last} changed while it was read")
        rows = [row for event in found if (row := _event_row(event, self._pool)) is not None]
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
                return lambda session: _write_step(session, snapshot)
            case "position", [text, role]:
                provider = Address(text)
                active = self._chain.stake_manager.active_stake_of(self._pool, Role(int(role)), provider, at)
                return lambda session: _write_position(session, provider, int(role), active)
            case "node", [text]:
                node = Address(text)
                provider = parse_address(self._chain.stake_manager.provider_of(node, at))
                return lambda session: _write_node(session, node, provider)
            case "policy", [policy_step]:
                root = self._read_policy(int(policy_step), at)
                return lambda session: _write_policy(session, int(policy_step), root)
            case "pool", []:
                is_open = self._chain.pool_registry.is_open(self._pool, at)
                return lambda session: _write_pool(session, is_open)
            case _:
                raise ValueError(f"no such stale key: {key}")

    def _read_step(self, step: int, at: Block) -> StepSnapshot:
        ledger = self._chain.submission_ledger
        state = ledger.step_of(self._pool, step, at)
        panel = tuple(ledger.panel_of(self._pool, step, at)) if state.audited_at else ()
        votes = tuple((provider, ledger.vote_of(self._pool, step, provider, at)) for provider in panel)
        return StepSnapshot(step, state, panel, tuple(found for found in votes if found[1].outcomes))

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


def _see(session: Session, head: Block, now: float) -> None:
    _require_cursor(session, head).seen_at = now


def _stale_keys(session: Session) -> Sequence[str]:
    return session.scalars(select(StaleRow.key).order_by(StaleRow.key).limit(REFRESH_KEYS)).all()


def _event_row(event: events.Event, pool: int) -> EventRow | None:
    key = stale_key(event, pool)
    if key is None:
        return None
    place = event.place
    arguments = {
        spec.name: _plain(getattr(event, spec.name)) for spec in fields(event) if spec.name not in ("place", "terms")
    }
    return EventRow(
        block_number=place.block_number,
        log_index=place.log_index,
        block_hash=place.block_hash,
        transaction=place.transaction,
        name=type(event).__name__,
        step=getattr(event, "step", None),
        leaf_index=getattr(event, "index", None),
        arguments=json.dumps(arguments, sort_keys=True),
        stale_key=key,
    )


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return to_hex(value)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value if isinstance(value, bool) else str(value)


def _write_step(session: Session, snapshot: StepSnapshot) -> None:
    state, step = snapshot.state, snapshot.step
    row = session.get(StepRow, step)
    if row is not None and row.seed_beacon not in (ZERO_HASH, state.seed_beacon):
        _void(session, step)
    session.execute(delete(PanelRow).where(PanelRow.step == step))
    session.execute(delete(VoteRow).where(VoteRow.step == step))
    if state.phase is Phase.NONE:
        if row is not None:
            session.delete(row)
        return
    session.merge(
        StepRow(
            step=step,
            phase=int(state.phase),
            policy_step=state.policy_step,
            slots=state.slots,
            leaf_count=state.leaf_count,
            opened_block=state.opened_block,
            opened_at=state.opened_at,
            seed_block=state.seed_block,
            seeded_at=state.seeded_at,
            audit_block=state.audit_block,
            committed_at=state.committed_at,
            audited_at=state.audited_at,
            voted_at=state.voted_at,
            finalized_at=state.finalized_at,
            seed_beacon=state.seed_beacon,
            submission_root=state.submission_root,
        )
    )
    session.add_all(PanelRow(step=step, place=place, provider=member) for place, member in enumerate(snapshot.panel))
    session.add_all(
        VoteRow(
            step=step,
            provider=provider,
            outcomes=vote.outcomes,
            verdict_root=vote.verdict_root,
            evidence_root=vote.evidence_root,
        )
        for provider, vote in snapshot.votes
    )


def _void(session: Session, step: int) -> None:
    """Drop the work on a beacon that the chain no longer has; nobody is paid or slashed for it."""
    log.warning("step %d has another seed beacon after a re-organisation: its leases and leaves are void", step)
    for table in (VerdictRow, SubmissionRow, LeaseRow, CommitmentRow):
        session.execute(delete(table).where(table.step == step))


def _write_position(session: Session, provider: Address, role: int, active: Wei) -> None:
    session.merge(PositionRow(provider=provider, role=role, active=active))


def _write_node(session: Session, node: Address, provider: Address) -> None:
    session.merge(NodeRow(node=node, provider=None if provider in (_ZERO_ADDRESS, node) else provider))


def _write_policy(session: Session, policy_step: int, root: Hash) -> None:
    if root == ZERO_HASH:
        session.execute(delete(PolicyRow).where(PolicyRow.policy_step == policy_step))
    else:
        session.merge(PolicyRow(policy_step=policy_step, policy_root=root))


def _write_pool(session: Session, is_open: bool) -> None:
    row = session.get(CursorRow, SINGLE_ROW)
    assert row is not None
    row.is_open = is_open
