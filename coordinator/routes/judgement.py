"""Judgement as the panel publishes it: signed verdicts, and the evidence behind votes. Nothing is judged here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.responses import FileResponse, Response
from sqlalchemy import func, select
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from coordinator import queries
from coordinator.auth import SignedCall, SignedUpload, signed, signed_upload
from coordinator.desk import Desk, DeskDep
from coordinator.problems import SIGNED, describe
from coordinator.routes.parameters import FILE_BODY, HashPath, IndexPath, json_body
from coordinator.routes.steps import require_committed, require_step
from coordinator.routes.work import file_response
from coordinator.tables import EvidenceRow, VerdictRow
from stannary import wire
from stannary.errors import BadSignature, Malformed, Refused, Unavailable
from stannary.evidence import MAX_EVIDENCE_BYTES, EvidenceFile
from stannary.types import Address, Hash, parse_hash, to_hex

router = APIRouter(tags=["judgement"])

MAX_VERDICTS_BODY_BYTES = 4 << 20
EVIDENCE_FILES_A_SEAT = 4
"""A validator that starts anew may measure slightly other numbers; more than a few times it need not."""


@router.post(
    "/verdicts", status_code=204, responses=describe(*SIGNED, 403, 404), openapi_extra=json_body(wire.VerdictsIn)
)
def post_verdicts(call: Annotated[SignedCall, Depends(signed(MAX_VERDICTS_BODY_BYTES))], desk: DeskDep) -> None:
    """Take the verdicts of a panel member on all leaves of a step, those of slots taken on chain included.

    The same again changes nothing.
    """
    verdicts = call.parse(wire.VerdictsIn).verdicts
    node, step = call.caller.address, verdicts[0].step
    for index, message in enumerate(verdicts):
        if (message.pool, message.step, message.node) != (desk.pool, step, node):
            raise Malformed(
                f"verdicts.{index}",
                expected=f"pool {desk.pool}, step {step}, node {node}",
                got=f"pool {message.pool}, step {message.step}, node {message.node}",
            )
    provider = call.caller.acting_for()
    desk.store.read(lambda session: _require_slot_order(session, step, provider, verdicts))
    for index, message in enumerate(verdicts):
        try:
            message.verdict().require_signer(bytes.fromhex(message.signature[2:]), desk.domain, node)
        except BadSignature as error:
            raise Malformed(f"verdicts.{index}.signature", expected=error.expected, got=error.got) from None
    desk.store.write(lambda session: _keep(session, step, provider, node, verdicts))


def _require_slot_order(
    session: Session, step: int, provider: Address, verdicts: Sequence[wire.VerdictMessage]
) -> list[int]:
    """Return the slot of each verdict, checked to be one for each leaf, in slot order."""
    leaves = [(leaf.slot, leaf.leaf_hash) for leaf in require_committed(session, step)]
    leaves += [(row.slot, row.leaf_hash) for row in queries.taken_slots(session, step) if row.leaf_hash is not None]
    _require_seat(session, step, provider)
    expected = [to_hex(leaf_hash) for _, leaf_hash in leaves]
    got = [message.leaf_hash for message in verdicts]
    if got != expected:
        raise Malformed("verdicts", expected=f"one for each of the {len(expected)} leaves, in slot order", got=got)
    return [slot for slot, _ in leaves]


def _require_seat(session: Session, step: int, provider: Address) -> None:
    if not queries.is_on_panel(session, step, provider):
        raise Refused("judgement", status=403, reason=f"{provider} is not on the panel of step {step}")


def _keep(
    session: Session, step: int, provider: Address, node: Address, verdicts: Sequence[wire.VerdictMessage]
) -> None:
    slots = _require_slot_order(session, step, provider, verdicts)
    rows = [
        VerdictRow(
            step=step,
            node=node,
            slot=slot,
            pool=message.pool,
            leaf_hash=parse_hash(message.leaf_hash),
            outcome=message.outcome,
            reason=message.reason,
            rewards_hash=parse_hash(message.rewards_hash),
            signature=bytes.fromhex(message.signature[2:]),
        )
        for slot, message in zip(slots, verdicts, strict=True)
    ]
    kept = _verdicts(session, step, node)
    if not kept:
        session.add_all(rows)
        session.flush()
    elif [row.verdict() for row in kept] != [row.verdict() for row in rows]:
        raise Refused("verdicts", status=409, reason=f"{node} has published other verdicts on step {step} before")


def _verdicts(session: Session, step: int, node: Address) -> Sequence[VerdictRow]:
    return session.scalars(
        select(VerdictRow).where(VerdictRow.step == step, VerdictRow.node == node).order_by(VerdictRow.slot)
    ).all()


@router.get("/steps/{step}/verdicts", responses=describe(404, 422))
def get_verdicts(step: IndexPath, desk: DeskDep) -> wire.VerdictsOut:
    """List the verdicts on a step, by node and then in slot order."""
    return desk.store.read(lambda session: _verdicts_out(session, step))


def _verdicts_out(session: Session, step: int) -> wire.VerdictsOut:
    require_step(session, step)
    rows = session.scalars(select(VerdictRow).where(VerdictRow.step == step).order_by(VerdictRow.node, VerdictRow.slot))
    return wire.VerdictsOut(
        step=step, verdicts=[wire.VerdictMessage.of(row.verdict(), row.node, row.signature) for row in rows]
    )


@router.put(
    "/evidence/{evidence_root}",
    status_code=201,
    responses=describe(*SIGNED, 403, 408, 507),
    openapi_extra=FILE_BODY,
    response_class=Response,
)
async def put_evidence(
    evidence_root: HashPath, upload: Annotated[SignedUpload, Depends(signed_upload)], desk: DeskDep
) -> Response:
    """Take the evidence file of a panel member, which must have the root of the path."""
    root, provider = parse_hash(evidence_root), upload.caller.acting_for()
    data = b"".join([block async for block in upload.blocks(MAX_EVIDENCE_BYTES)])
    await run_in_threadpool(_keep_evidence, desk, upload, provider, root, data)
    return Response(status_code=201)


def _keep_evidence(desk: Desk, upload: SignedUpload, provider: Address, root: Hash, data: bytes) -> None:
    upload.require_hash(data)
    file = EvidenceFile.parse(data)
    if (file.pool, file.node) != (desk.pool, upload.caller.address):
        raise Malformed(
            "evidence", expected=f"pool {desk.pool}, node {upload.caller.address}", got=f"{file.pool}, {file.node}"
        )
    if file.root() != root:
        raise Malformed("evidence", expected=f"leaves under {to_hex(root)}", got=to_hex(file.root()))

    def admit(session: Session) -> bool:
        _require_seat(session, file.step, provider)
        if session.get(EvidenceRow, (root, provider)) is not None:
            return False
        kept = session.scalar(
            select(func.count()).where(EvidenceRow.provider == provider, EvidenceRow.step == file.step)
        )
        if (kept or 0) >= EVIDENCE_FILES_A_SEAT:
            raise Refused(
                "evidence", status=409, reason=f"{kept} evidence files of {provider} on step {file.step} are kept"
            )
        return True

    if not desk.store.read(admit):
        return
    content_hash = desk.files.put(data)

    def note(session: Session) -> None:
        if admit(session):
            session.add(EvidenceRow(evidence_root=root, provider=provider, step=file.step, content_hash=content_hash))

    desk.store.write(note)


@router.get(
    "/evidence/{evidence_root}",
    responses=describe(404, 422) | {200: {"content": {"application/json": {}}}},
    response_class=FileResponse,
)
def get_evidence(evidence_root: HashPath, desk: DeskDep) -> FileResponse:
    """Return an evidence file as it was put."""
    root = parse_hash(evidence_root)
    name = desk.store.read(
        lambda session: session.scalars(
            select(EvidenceRow.content_hash).where(EvidenceRow.evidence_root == root).order_by(EvidenceRow.provider)
        ).first()
    )
    if name is None:
        raise Unavailable(f"no evidence {evidence_root} here")
    return file_response(desk, name, "application/json")
