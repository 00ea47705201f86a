"""Work: signs of life, leases, receipts for leaves, and the files behind them."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.responses import FileResponse, Response
from sqlalchemy import select
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from coordinator import leases, queries
from coordinator.auth import Caller, SignedCall, SignedUpload, signed, signed_upload
from coordinator.desk import Desk, DeskDep
from coordinator.poster import collect_deadline
from coordinator.problems import SIGNED, describe
from coordinator.routes.parameters import FILE_BODY, HashPath, json_body
from coordinator.tables import CommitmentRow, HeartbeatRow, LeaseRow, StepRow, SubmissionRow
from stannary import wire
from stannary.chain import PoolTerms
from stannary.errors import BadSignature, Malformed, Refused, Unavailable
from stannary.rollout import MAX_SUBMISSION_BYTES
from stannary.seeds import StepSeeds
from stannary.slots import MAX_PROVIDERS
from stannary.structs import Domain, Lease, Receipt, Submission
from stannary.types import Address, Hash, Phase, Role, parse_hash, to_hex

router = APIRouter(tags=["work"])

MAX_SMALL_BODY_BYTES = 4 << 10
MAX_LEAF_BODY_BYTES = 16 << 10


@router.post("/heartbeats", status_code=204, responses=describe(*SIGNED), openapi_extra=json_body(wire.HeartbeatIn))
def post_heartbeat(call: Annotated[SignedCall, Depends(signed(MAX_SMALL_BODY_BYTES))], desk: DeskDep) -> None:
    """Take a node's sign of life."""
    beat = call.parse(wire.HeartbeatIn)
    provider = call.caller.acting_for()
    row = HeartbeatRow(
        node=call.caller.address,
        provider=provider,
        engine=beat.engine,
        state=beat.state,
        policy_step=beat.policy_step,
        tokens_per_s=beat.tokens_per_s,
        last_seen_at=desk.clock(),
    )
    desk.store.write(lambda session: session.merge(row) and None)


@router.post("/leases", responses=describe(*SIGNED, 503), openapi_extra=json_body(wire.LeasesIn))
def post_leases(call: Annotated[SignedCall, Depends(signed(MAX_SMALL_BODY_BYTES))], desk: DeskDep) -> wire.LeasesOut:
    """Lease up to `count` slots; leases that the node already holds and can still fulfil come first."""
    count = call.parse(wire.LeasesIn).count
    return desk.store.write(lambda session: _lease(session, desk, call.caller, count))


def _lease(session: Session, desk: Desk, caller: Caller, count: int) -> wire.LeasesOut:
    provider = caller.acting_for()
    now = desk.fresh_now(session)
    obstacle = leases.obstacle(
        is_open=now.is_open,
        is_paused=now.is_paused,
        stake_wei=queries.active_stake(session, provider, Role.WORKER),
        min_stake_wei=desk.terms.min_worker_stake,
    )
    if obstacle is not None:
        return wire.LeasesOut(leases=[], waiting=obstacle)
    moment = leases.Moment(now.pool_time, desk.clock())
    held = queries.open_leases(session, caller.address, now.pool_time)
    granted = [row for row in held if not queries.is_superseded(session, row.lease_hash)][:count]
    wanted = min(count, desk.settings.max_leases_per_node) - len(granted)
    steps = queries.collecting_steps(session, desk.coordinator)
    capped = full = None
    for step in steps:
        if wanted <= 0:
            break
        at_work = queries.providers_at_work(session, step.step, moment.pool_time)
        if provider not in at_work and len(at_work) >= MAX_PROVIDERS:
            full = step.step
            continue
        terms = queries.terms_of(step, desk.terms)
        room = _room(session, step.step, provider, terms, moment.pool_time)
        if not room:
            capped = step.step
        new = _grant(session, desk, caller, provider, step, moment, min(wanted, room))
        granted += new
        wanted -= len(new)
    if granted:
        return wire.LeasesOut(leases=[wire.LeaseMessage.of(row.lease(), row.signature) for row in granted])
    if capped is not None:
        return wire.LeasesOut(leases=[], waiting=f"a step opened after more stake: step {capped} can pay no more")
    if full is not None:
        waiting = f"a step with room for one more provider: step {full} has {MAX_PROVIDERS}"
        return wire.LeasesOut(leases=[], waiting=waiting)
    return wire.LeasesOut(leases=[], waiting=_awaited(session, steps))


def _room(session: Session, step: int, provider: Address, terms: PoolTerms, pool_time: int) -> int:
    """Return how many more slots of a step a provider may be leased, so that none of its pay is cut off."""
    cap = terms.pay_cap(queries.stake_at_opening(session, step, provider))
    return leases.room(cap, queries.promised_wei(session, step, provider, terms, pool_time), terms.slot_price)


def _grant(
    session: Session, desk: Desk, caller: Caller, provider: Address, step: StepRow, moment: leases.Moment, wanted: int
) -> list[LeaseRow]:
    terms = queries.terms_of(step, desk.terms)
    window = leases.window(moment, terms.lease_seconds, collect_deadline(step.seeded_at, terms))
    if window is None:
        return []
    held = queries.newest_leases(session, step.step)
    order = _slot_order(desk.domain, desk.pool, step.step, step.seed_beacon, step.slots)
    rows = []
    for slot in leases.next_slots(order, held, moment, terms.lease_seconds, wanted):
        lease = Lease(
            pool=desk.pool,
            step=step.step,
            policy_step=step.policy_step,
            slot=slot,
            provider=provider,
            node=caller.address,
            valid_from=window.valid_from,
            valid_until=window.valid_until,
            max_units=terms.max_units,
            card_hash=terms.card_hash,
            protocol_version=terms.protocol_version,
        )
        rows.append(
            LeaseRow(
                lease_hash=lease.struct_hash(),
                step=lease.step,
                slot=slot,
                issue=held[slot].issue + 1 if slot in held else 0,
                pool=lease.pool,
                policy_step=lease.policy_step,
                provider=provider,
                node=caller.address,
                valid_from=lease.valid_from,
                valid_until=lease.valid_until,
                max_units=lease.max_units,
                card_hash=lease.card_hash,
                protocol_version=lease.protocol_version,
                signature=lease.sign(desk.account, desk.domain),
                expires_at=moment.server_time + (lease.valid_until - lease.valid_from),
            )
        )
    session.add_all(rows)
    session.flush()
    return rows


@lru_cache(maxsize=64)
def _slot_order(domain: Domain, pool: int, step: int, beacon: Hash, slots: int) -> list[int]:
    return StepSeeds(domain, pool, step, beacon).slot_order(slots)


def _awaited(session: Session, steps: object) -> str:
    unsettled = queries.unsettled_steps(session)
    if steps:
        return "a free slot of the open steps"
    opening = [row.step for row in unsettled if row.phase == Phase.OPEN]
    return f"the seed beacon of step {opening[0]}" if opening else "the next step to open"


@router.post("/submissions", responses=describe(*SIGNED, 403, 503), openapi_extra=json_body(wire.SubmissionIn))
def post_submission(
    call: Annotated[SignedCall, Depends(signed(MAX_LEAF_BODY_BYTES))], desk: DeskDep
) -> wire.ReceiptOut:
    """Take a leaf for a live lease and sign its receipt; the same leaf again gets the same receipt."""
    message = call.parse(wire.SubmissionIn)
    leaf, lease = message.submission.submission(), message.lease.lease()
    signature = bytes.fromhex(message.submission.signature[2:])
    if call.caller.address != lease.node:
        raise Refused(
            "submission",
            status=403,
            reason=f"the lease is of {lease.node}, the request is signed by {call.caller.address}",
        )
    check_leaf(leaf, lease)
    try:
        leaf.require_signer(signature, desk.domain, lease.node)
    except BadSignature as error:
        raise Malformed("submission.signature", expected=error.expected, got=error.got) from None
    return desk.store.write(lambda session: _receive(session, desk, leaf, lease, signature))


def check_leaf(leaf: Submission, lease: Lease) -> None:
    """Check that a leaf is what its lease asks for. Raises: Malformed naming the field."""
    expectations: list[tuple[str, object, object]] = [
        ("pool", lease.pool, leaf.pool),
        ("step", lease.step, leaf.step),
        ("slot", lease.slot, leaf.slot),
        ("provider", lease.provider, leaf.provider),
        ("node", lease.node, leaf.node),
        ("lease_hash", to_hex(lease.struct_hash()), to_hex(leaf.lease_hash)),
    ]
    for field, expected, got in expectations:
        if expected != got:
            raise Malformed(f"submission.{field}", expected=f"{expected} as in the lease", got=got)
    if not 1 <= leaf.units <= lease.max_units:
        raise Malformed("submission.units", expected=f"1 … {lease.max_units}", got=leaf.units)


def _receive(session: Session, desk: Desk, leaf: Submission, lease: Lease, signature: bytes) -> wire.ReceiptOut:
    leaf_hash = leaf.struct_hash()
    if session.get(LeaseRow, leaf.lease_hash) is None:
        raise Refused("submission", status=409, reason=f"no lease {to_hex(leaf.lease_hash)} is in force")
    row = session.scalars(select(SubmissionRow).where(SubmissionRow.lease_hash == leaf.lease_hash)).first()
    if row is None:
        row = _new_submission(session, desk, leaf, lease, signature)
    elif row.leaf_hash != leaf_hash:
        raise Refused("submission", status=409, reason=f"this lease has the leaf {to_hex(row.leaf_hash)} already")
    return wire.ReceiptOut(
        leaf_hash=to_hex(row.leaf_hash), received_at=row.received_at, signature=to_hex(row.receipt_signature)
    )


def _new_submission(session: Session, desk: Desk, leaf: Submission, lease: Lease, signature: bytes) -> SubmissionRow:
    now = desk.fresh_now(session)
    step = session.get(StepRow, lease.step)
    if step is None or step.phase != Phase.SEEDED or session.get(CommitmentRow, lease.step) is not None:
        raise Refused("submission", status=409, reason=f"step {lease.step} takes no more leaves")
    if queries.is_superseded(session, leaf.lease_hash):
        raise Refused("submission", status=409, reason=f"slot {lease.slot} was leased anew")
    if now.pool_time >= lease.valid_until:
        raise Refused(
            "submission", status=409, reason=f"the lease ended at {lease.valid_until}, pool time is {now.pool_time}"
        )
    receipt = Receipt(leaf.struct_hash(), now.pool_time)
    row = SubmissionRow(
        leaf_hash=receipt.leaf_hash,
        lease_hash=leaf.lease_hash,
        pool=leaf.pool,
        step=leaf.step,
        slot=leaf.slot,
        provider=leaf.provider,
        node=leaf.node,
        units=leaf.units,
        content_hash=leaf.content_hash,
        signature=signature,
        received_at=receipt.received_at,
        receipt_signature=receipt.sign(desk.account, desk.domain),
        is_committed=False,
    )
    session.add(row)
    session.flush()
    return row


@router.put(
    "/submissions/{content_hash}",
    status_code=201,
    responses=describe(*SIGNED, 403, 408, 503, 507),
    openapi_extra=FILE_BODY,
    response_class=Response,
)
async def put_submission(
    content_hash: HashPath, upload: Annotated[SignedUpload, Depends(signed_upload)], desk: DeskDep
) -> Response:
    """Take the bytes of a leaf for which there is a receipt."""
    name, node = parse_hash(content_hash), upload.caller.address
    if upload.body != name:
        raise Malformed("body", expected=f"the BLAKE3 hash {content_hash} of the path", got=to_hex(upload.body))
    await run_in_threadpool(desk.store.read, lambda session: _awaited_leaves(session, desk, node, name))
    await desk.files.take(upload.blocks(MAX_SUBMISSION_BYTES), name, MAX_SUBMISSION_BYTES)

    def note(session: Session) -> None:
        pool_time = queries.now(session).pool_time
        for row in _awaited_leaves(session, desk, node, name):
            row.uploaded_at = row.uploaded_at or pool_time

    await run_in_threadpool(desk.store.write, note)
    return Response(status_code=201)


def _awaited_leaves(session: Session, desk: Desk, node: Address, name: Hash) -> list[SubmissionRow]:
    """Return the node's leaves with this content that still take bytes or have them.

    Raises: Refused with 403 without a receipt, with 409 when the bytes come too late for all of them.
    """
    rows = session.scalars(
        select(SubmissionRow).where(SubmissionRow.node == node, SubmissionRow.content_hash == name)
    ).all()
    if not rows:
        raise Refused("upload", status=403, reason=f"{node} has no receipt for {to_hex(name)}: send its leaf first")
    now = queries.now(session)
    taken = []
    for row in rows:
        is_late = (
            now.pool_time >= row.received_at + desk.terms.lease_seconds
            or session.get(CommitmentRow, row.step) is not None
            or queries.is_superseded(session, row.lease_hash)
        )
        if row.uploaded_at is not None or not is_late:
            taken.append(row)
    if not taken:
        raise Refused(
            "upload", status=409, reason="the bytes come too late: the step is committed or the slot leased anew"
        )
    return taken


@router.get(
    "/submissions/{content_hash}",
    responses=describe(404, 416, 422) | {200: {"content": {"application/octet-stream": {}}}},
    response_class=FileResponse,
)
def get_submission(content_hash: HashPath, desk: DeskDep) -> FileResponse:
    """Return a submission file; ranges are served."""
    name = parse_hash(content_hash)
    found = desk.store.read(
        lambda session: session.scalars(
            select(SubmissionRow.leaf_hash).where(
                SubmissionRow.content_hash == name, SubmissionRow.uploaded_at.is_not(None)
            )
        ).first()
    )
    if found is None or not desk.files.holds(name):
        raise Unavailable(f"no submission {content_hash} here")
    return file_response(desk, name)


def file_response(desk: Desk, name: Hash, media_type: str = "application/octet-stream") -> FileResponse:
    """Return a stored file that never changes."""
    headers = {"etag": f'"{name.hex()}"', "cache-control": "public, max-age=31536000, immutable"}
    return FileResponse(desk.files.path_of(name), media_type=media_type, headers=headers)
