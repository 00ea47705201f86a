"""Who this coordinator is, what it waits for, and the documents that the pool's terms name."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

import stannary
from coordinator import queries
from coordinator.desk import DeskDep
from coordinator.problems import describe
from coordinator.routes.parameters import HashPath
from stannary import wire
from stannary.errors import Unavailable
from stannary.types import parse_hash

router = APIRouter(tags=["health"])


@router.get("/health", responses=describe(503))
def get_health(desk: DeskDep) -> wire.HealthOut:
    """Say whether the coordinator works, and what it waits for."""
    waiting = desk.board.read()
    try:
        now = desk.store.read(queries.now)
    except Unavailable:
        now = queries.Now(block=0, pool_time=0, seen_at=0.0, is_open=False, is_paused=False)
    is_fresh = desk.clock() - now.seen_at <= desk.settings.stale_after_s
    return wire.HealthOut(
        status="ok" if is_fresh else "behind the chain",
        protocol_version=stannary.PROTOCOL_VERSION,
        chain_id=desk.domain.chain_id,
        ledger=desk.domain.contract,
        pool=desk.pool,
        coordinator=desk.coordinator,
        block=now.block,
        waiting=waiting,
    )


@router.get(
    "/documents/{document_hash}",
    responses=describe(404, 422) | {200: {"content": {"application/json": {}}}},
    response_class=Response,
)
def get_document(document_hash: HashPath, desk: DeskDep) -> Response:
    """Return the canonical JSON of a card or environment."""
    data = desk.documents.get(parse_hash(document_hash))
    if data is None:
        raise Unavailable(f"no document {document_hash} here")
    return Response(data, media_type="application/json", headers={"cache-control": "public, immutable"})
