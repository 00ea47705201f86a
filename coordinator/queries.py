"""The questions that routes and the poster ask the database. Each takes a session and runs inside its transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import ColumnElement, delete, func, or_, select
from sqlalchemy.orm import Session, aliased

from coordinator.leases import Held
from coordinator.tables import (
    SINGLE_ROW,
    CaseRow,
    CommitmentRow,
    CursorRow,
    EventRow,
    LeaseRow,
    NodeRow,
    NonceRow,
    PanelRow,
    PositionRow,
    StakeRow,
    StepRow,
    SubmissionRow,
    TakenRow,
    VoteRow,
)
from stannary.chain import PoolTerms
from stannary.errors import Unavailable
from stannary.slots import slot_table_root, submission_root
from stannary.types import ZERO_HASH, Address, CaseKind, Hash, Phase, Role

NEWEST_STEPS = 64
"""How many steps a list holds."""


@dataclass(frozen=True, slots=True)
class Now:
    """The chain as it was last seen."""

    block: int
    pool_time: int
    """The pool's clock, which every deadline is on."""
    seen_at: float
    """Server time."""
    is_open: bool
    is_paused: bool


@dataclass(frozen=True, slots=True)
class Counts:
    """How far the slots of a step have come; each number includes the next."""

    leased: int
    received: int
    uploaded: int


def now(session: Session) -> Now:
    """Return the mirrored point of the chain. Raises: Unavailable before the first look at it."""
    row = session.get(CursorRow, SINGLE_ROW)
    if row is None:
        raise Unavailable("the chain has not been read yet")
    return Now(row.block_number, row.pool_time, row.seen_at, row.is_open, row.is_paused)


def trainer(session: Session) -> Address | None:
    """Return the trainer of the offer in force, None before the first look at the chain."""
    row = session.get(CursorRow, SINGLE_ROW)
    return None if row is None else row.trainer


def provider_of(session: Session, address: Address) -> Address | None:
    """Return whom an account acts for in this pool: a node's or controller's provider, or itself with a position."""
    known = session.get(NodeRow, address)
    provider = address if known is None else known.provider
    return provider if provider is not None and _has_position(session, provider) else None


def _has_position(session: Session, provider: Address) -> bool:
    return (
        session.scalars(select(PositionRow.role).where(PositionRow.provider == provider).limit(1)).first() is not None
    )


def active_stake(session: Session, provider: Address, role: Role) -> int:
    """Return a provider's stake that counts. Units: wei of the stake token."""
    row = session.get(PositionRow, (provider, int(role)))
    return 0 if row is None else row.active


def stake_at_opening(session: Session, step: int, provider: Address) -> int:
    """Return a worker's stake that counted just before a step was opened. Units: wei of the stake token."""
    row = session.get(StakeRow, (step, provider))
    return 0 if row is None else row.active


def terms_of(row: StepRow, terms: PoolTerms) -> PoolTerms:
    """Return a pool's terms with the prices, card and coordinator in place that a step was opened under."""
    return replace(
        terms,
        coordinator=row.coordinator,
        card_hash=row.card_hash,
        price_per_group=row.price_per_group,
        price_per_token=row.price_per_token,
    )


def promised_wei(session: Session, step: int, provider: Address, terms: PoolTerms, pool_time: int) -> int:
    """Return what a step may come to pay a provider: its live leases and slots at the dearest, its leaves by units."""
    held = (LeaseRow.step == step, LeaseRow.provider == provider, _is_newest())
    delivered = session.scalars(
        select(SubmissionRow.units).join(LeaseRow, SubmissionRow.lease_hash == LeaseRow.lease_hash).where(*held)
    )
    promised = sum(terms.payout(units) for units in delivered)
    live = session.scalar(
        select(func.count(LeaseRow.lease_hash))
        .outerjoin(SubmissionRow, SubmissionRow.lease_hash == LeaseRow.lease_hash)
        .where(*held, SubmissionRow.leaf_hash.is_(None), LeaseRow.valid_until > pool_time)
    )
    taken = session.scalar(select(func.count()).where(TakenRow.step == step, TakenRow.provider == provider))
    return promised + ((live or 0) + (taken or 0)) * terms.slot_price


def providers_at_work(session: Session, step: int, pool_time: int) -> set[Address]:
    """Return the providers of a step that have a live lease or a leaf in it."""
    found = session.scalars(
        select(LeaseRow.provider)
        .distinct()
        .outerjoin(SubmissionRow, SubmissionRow.lease_hash == LeaseRow.lease_hash)
        .where(LeaseRow.step == step, _is_newest())
        .where(or_(SubmissionRow.leaf_hash.is_not(None), LeaseRow.valid_until > pool_time))
    )
    return set(found)


def _is_newest() -> ColumnElement[bool]:
    """The condition that a lease is the last one given for its slot."""
    other = aliased(LeaseRow)
    newest = select(func.max(other.issue)).where(other.step == LeaseRow.step, other.slot == LeaseRow.slot)
    return LeaseRow.issue == newest.scalar_subquery()


def take_nonce(session: Session, address: Address, nonce: str, now_s: float, expires_at: float) -> bool:
    """Note a nonce and drop those that are over; False if it was taken before."""
    session.execute(delete(NonceRow).where(NonceRow.expires_at < now_s))
    if session.get(NonceRow, (address, nonce)) is not None:
        return False
    session.add(NonceRow(address=address, nonce=nonce, expires_at=expires_at))
    session.flush()
    return True


def collecting_steps(session: Session, coordinator: Address) -> Sequence[StepRow]:
    """Return the steps of a coordinator that still take leaves, oldest first."""
    frozen = select(CommitmentRow.step)
    return session.scalars(
        select(StepRow)
        .where(StepRow.phase == Phase.SEEDED, StepRow.coordinator == coordinator, StepRow.step.not_in(frozen))
        .order_by(StepRow.step)
    ).all()


def unsettled_steps(session: Session) -> Sequence[StepRow]:
    """Return the steps that are neither finalized nor cancelled, oldest first."""
    return session.scalars(select(StepRow).where(StepRow.phase < Phase.FINALIZED).order_by(StepRow.step)).all()


def newest_steps(session: Session) -> Sequence[StepRow]:
    """Return the newest steps, newest first."""
    return session.scalars(select(StepRow).order_by(StepRow.step.desc()).limit(NEWEST_STEPS)).all()


def newest_leases(session: Session, step: int) -> Mapping[int, Held]:
    """Return the newest lease of each slot of a step that was ever leased."""
    rows = session.execute(
        select(LeaseRow, SubmissionRow.received_at, SubmissionRow.uploaded_at)
        .outerjoin(SubmissionRow, SubmissionRow.lease_hash == LeaseRow.lease_hash)
        .where(LeaseRow.step == step)
        .order_by(LeaseRow.issue)
    ).all()
    return {
        lease.slot: Held(
            slot=lease.slot,
            issue=lease.issue,
            valid_until=lease.valid_until,
            expires_at=lease.expires_at,
            received_at=received_at,
            is_uploaded=uploaded_at is not None,
        )
        for lease, received_at, uploaded_at in rows
    }


def is_superseded(session: Session, lease_hash: Hash) -> bool:
    """Say whether a lease is unknown or its slot was leased anew; pool time alone may go back, this does not."""
    lease = session.get(LeaseRow, lease_hash)
    if lease is None:
        return True
    newer = select(LeaseRow.issue).where(
        LeaseRow.step == lease.step, LeaseRow.slot == lease.slot, LeaseRow.issue > lease.issue
    )
    return session.scalars(newer.limit(1)).first() is not None


def open_leases(session: Session, node: Address, pool_time: int) -> Sequence[LeaseRow]:
    """Return the leases that a node can still fulfil, oldest step first."""
    frozen = select(CommitmentRow.step)
    return session.scalars(
        select(LeaseRow)
        .join(StepRow, StepRow.step == LeaseRow.step)
        .outerjoin(SubmissionRow, SubmissionRow.lease_hash == LeaseRow.lease_hash)
        .where(
            LeaseRow.node == node,
            LeaseRow.valid_until > pool_time,
            SubmissionRow.leaf_hash.is_(None),
            StepRow.phase == Phase.SEEDED,
            StepRow.step.not_in(frozen),
        )
        .order_by(LeaseRow.step, LeaseRow.valid_from, LeaseRow.slot)
    ).all()


def counts(session: Session, step: int) -> Counts:
    """Count the slots of a step that were leased, receipted and delivered."""
    leased = session.scalar(select(func.count(LeaseRow.slot.distinct())).where(LeaseRow.step == step))
    received = session.scalar(select(func.count(SubmissionRow.slot.distinct())).where(SubmissionRow.step == step))
    uploaded = session.scalar(
        select(func.count(SubmissionRow.slot.distinct())).where(
            SubmissionRow.step == step, SubmissionRow.uploaded_at.is_not(None)
        )
    )
    return Counts(leased or 0, received or 0, uploaded or 0)


def awaited_uploads(session: Session, step: int, received_after: int) -> int:
    """Count the leaves with a receipt younger than `received_after` (pool time) whose bytes are not there yet."""
    found = session.scalar(
        select(func.count()).where(
            SubmissionRow.step == step,
            SubmissionRow.uploaded_at.is_(None),
            SubmissionRow.received_at > received_after,
        )
    )
    return found or 0


def freeze(session: Session, step: StepRow) -> CommitmentRow | None:
    """Fix the leaves of a step for good: those whose bytes are there, at most one a slot. None without any.

    Called again it returns what was fixed the first time, so that a root sent twice is the same root.
    """
    frozen = session.get(CommitmentRow, step.step)
    if frozen is not None:
        return frozen
    rows = session.scalars(
        select(SubmissionRow).where(SubmissionRow.step == step.step, SubmissionRow.uploaded_at.is_not(None))
    ).all()
    if not rows:
        return None
    for row in rows:
        row.is_committed = True
    frozen = CommitmentRow(
        step=step.step,
        submission_root=submission_root([row.submission() for row in rows], step.slots),
        leaf_count=len(rows),
        slot_table_root=slot_table_root(_slot_table(session, step, rows)),
    )
    session.add(frozen)
    session.flush()
    return frozen


def _slot_table(session: Session, step: StepRow, leaves: Sequence[SubmissionRow]) -> list[tuple[Hash, Hash]]:
    table = [(ZERO_HASH, ZERO_HASH)] * step.slots
    for lease in session.scalars(select(LeaseRow).where(LeaseRow.step == step.step).order_by(LeaseRow.issue)):
        table[lease.slot] = (lease.lease_hash, ZERO_HASH)
    for leaf in leaves:
        table[leaf.slot] = (leaf.lease_hash, leaf.leaf_hash)
    return table


def leaves(session: Session, step: int) -> Sequence[SubmissionRow]:
    """Return the frozen leaves of a step in slot order."""
    return session.scalars(
        select(SubmissionRow).where(SubmissionRow.step == step, SubmissionRow.is_committed).order_by(SubmissionRow.slot)
    ).all()


def taken_slots(session: Session, step: int) -> Sequence[TakenRow]:
    """Return the slots of a step that were taken on chain, in slot order."""
    return session.scalars(select(TakenRow).where(TakenRow.step == step).order_by(TakenRow.slot)).all()


def disputes(session: Session, step: int) -> Sequence[CaseRow]:
    """Return the cases about leaves of a step, oldest first."""
    about_leaves = (CaseRow.step == step, CaseRow.kind != CaseKind.STATISTICS)
    return session.scalars(select(CaseRow).where(*about_leaves).order_by(CaseRow.case_id)).all()


def is_on_panel(session: Session, step: int, provider: Address) -> bool:
    """Say whether a provider sits on a step's panel."""
    found = session.scalars(select(PanelRow.place).where(PanelRow.step == step, PanelRow.provider == provider))
    return found.first() is not None


def votes(session: Session, step: int) -> Sequence[VoteRow]:
    """Return the revealed votes of a step's panel."""
    return session.scalars(select(VoteRow).where(VoteRow.step == step)).all()


def slots_of_events(session: Session, step: int, name: str) -> set[int]:
    """Return the slots of a step that events of a name are about, such as `LeafSlashed`."""
    found = session.scalars(select(EventRow.slot).where(EventRow.step == step, EventRow.name == name))
    return {slot for slot in found if slot is not None}
