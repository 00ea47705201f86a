"""What anyone may see: steps, their leaves, and the nodes that were heard of."""

from __future__ import annotations

from fastapi import APIRouter
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from coordinator import queries
from coordinator.desk import DeskDep
from coordinator.problems import describe
from coordinator.routes.parameters import IndexPath
from coordinator.tables import CommitmentRow, HeartbeatRow, LeaseRow, StepRow, SubmissionRow
from stannary import wire
from stannary.errors import Refused, Unavailable
from stannary.types import ZERO_HASH, to_hex

router = APIRouter(tags=["steps"])


@router.get("/steps", responses=describe())
def get_steps(desk: DeskDep) -> wire.StepsOut:
    """List the newest steps, newest first."""
    return desk.store.read(
        lambda session: wire.StepsOut(steps=[_step_out(session, row) for row in queries.newest_steps(session)])
    )


@router.get("/steps/{step}", responses=describe(404, 422))
def get_step(step: IndexPath, desk: DeskDep) -> wire.StepOut:
    """Show one step."""
    return desk.store.read(lambda session: _step_out(session, require_step(session, step)))


@router.get("/steps/{step}/leaves", responses=describe(404, 409, 422))
def get_leaves(step: IndexPath, desk: DeskDep) -> wire.LeavesOut:
    """List the leaves of a committed step in slot order, with the signatures that each check needs."""
    return desk.store.read(lambda session: _leaves_out(session, step))


@router.get("/nodes", responses=describe())
def get_nodes(desk: DeskDep) -> wire.NodesOut:
    """List all nodes heard of."""
    return desk.store.read(_nodes_out)


def require_step(session: Session, step: int) -> StepRow:
    """Return a step. Raises: Unavailable if the mirror knows none such."""
    row = session.get(StepRow, step)
    if row is None:
        raise Unavailable(f"no step {step} is open on chain yet")
    return row


def require_committed(session: Session, step: int) -> list[SubmissionRow]:
    """Return the leaves of a step whose root is on chain.

    Raises: Unavailable before that; Refused with 409 if the root on chain is not of our leaves.
    """
    row = require_step(session, step)
    frozen = session.get(CommitmentRow, step)
    if row.submission_root == ZERO_HASH or frozen is None:
        raise Unavailable(f"the root of step {step} is not on chain yet")
    if row.submission_root != frozen.submission_root:
        raise Refused(
            "leaves",
            status=409,
            reason=f"the chain holds the root {to_hex(row.submission_root)}, "
            f"the leaves here have {to_hex(frozen.submission_root)}",
        )
    return list(queries.leaves(session, step))


def _step_out(session: Session, row: StepRow) -> wire.StepOut:
    counts = queries.counts(session, row.step)
    return wire.StepOut(
        step=row.step,
        policy_step=row.policy_step,
        phase=row.phase,
        slots=row.slots,
        leased=counts.leased,
        received=counts.received,
        uploaded=counts.uploaded,
        taken=row.taken,
        leaf_count=row.leaf_count,
        submission_root=None if row.submission_root == ZERO_HASH else to_hex(row.submission_root),
        disputes=[
            wire.DisputeOut(
                case_id=case.case_id,
                slot=case.slot,
                provider=case.provider,
                kind=case.kind,
                phase=case.phase,
                ruling=case.ruling,
            )
            for case in queries.disputes(session, row.step)
        ],
    )


def _leaves_out(session: Session, step: int) -> wire.LeavesOut:
    rows = require_committed(session, step)
    leases = {
        lease.lease_hash: wire.LeaseMessage.of(lease.lease(), lease.signature)
        for lease in session.scalars(select(LeaseRow).where(LeaseRow.step == step))
    }
    return wire.LeavesOut(
        step=step,
        submission_root=to_hex(require_step(session, step).submission_root),
        leaves=[
            wire.LeafOut(
                submission=wire.SubmissionMessage.of(row.submission(), row.signature), lease=leases[row.lease_hash]
            )
            for row in rows
        ],
    )


def _nodes_out(session: Session) -> wire.NodesOut:
    leased = dict(session.execute(select(LeaseRow.node, func.count()).group_by(LeaseRow.node)).all())
    received = dict(session.execute(select(SubmissionRow.node, func.count()).group_by(SubmissionRow.node)).all())
    rows = session.scalars(select(HeartbeatRow).order_by(HeartbeatRow.node)).all()
    return wire.NodesOut(
        nodes=[
            wire.NodeOut(
                node=row.node,
                provider=row.provider,
                engine=row.engine,
                state=row.state,
                policy_step=row.policy_step,
                tokens_per_s=row.tokens_per_s,
                last_seen_at=row.last_seen_at,
                leased=leased.get(row.node, 0),
                received=received.get(row.node, 0),
            )
            for row in rows
        ]
    )
