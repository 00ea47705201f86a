"""Weights: the manifest of a policy step and its files, put by the trainer, given out only whole.

A file that comes after its manifest is verified chunk by chunk while it comes; one that came before is verified when
the manifest does. The manifest is given out once every file of it is there: nobody ever sees half a policy.
"""

from __future__ import annotations

from typing import Annotated

from blake3 import blake3
from fastapi import APIRouter, Depends
from fastapi.responses import FileResponse, Response
from sqlalchemy import select
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from coordinator import queries
from coordinator.auth import SignedUpload, signed_upload
from coordinator.desk import Desk, DeskDep
from coordinator.problems import SIGNED, describe
from coordinator.routes.parameters import FILE_BODY, IndexPath
from coordinator.routes.work import file_response
from coordinator.tables import PolicyRow, WeightsFileRow, WeightsRow
from stannary.errors import Malformed, Refused, Unavailable
from stannary.shardcast.manifest import (
    CHUNK_BYTES,
    MAX_MANIFEST_BYTES,
    SUFFIXES,
    File,
    Manifest,
    is_file_name,
    parse_manifest,
)
from stannary.types import Hash, to_hex

router = APIRouter(tags=["weights"], prefix="/weights/{policy_step}")

_PUT = describe(*SIGNED, 403, 404, 408, 507)
_GOT = describe(404, 416, 422) | {200: {"content": {"application/octet-stream": {}}}}


class ChunkCheck:
    """Checks a stream against the chunks of a manifest's file, so that a wrong upload ends at its first wrong chunk."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._pending = bytearray()
        self._index = 0

    def __call__(self, data: bytes) -> None:
        """Take the next bytes. Raises: Malformed at the first chunk that is not the manifest's."""
        self._pending += data
        while len(self._pending) >= CHUNK_BYTES:
            self._check(bytes(self._pending[:CHUNK_BYTES]))
            del self._pending[:CHUNK_BYTES]

    def end(self) -> None:
        """Note that there are no more bytes. Raises: Malformed if the last chunk is wrong or chunks are missing."""
        if self._pending:
            self._check(bytes(self._pending))
            self._pending.clear()
        if self._index != len(self._file.chunks):
            raise Malformed(f"{self._file.name} chunks", expected=str(len(self._file.chunks)), got=self._index)

    def _check(self, chunk: bytes) -> None:
        found = Hash(blake3(chunk).digest())
        expected = self._file.chunks[self._index] if self._index < len(self._file.chunks) else None
        if found != expected:
            raise Malformed(
                f"{self._file.name} chunk {self._index}",
                expected="no more chunks" if expected is None else to_hex(expected),
                got=to_hex(found),
            )
        self._index += 1


@router.put("/manifest.json", status_code=201, responses=_PUT, openapi_extra=FILE_BODY, response_class=Response)
async def put_manifest(
    policy_step: IndexPath, upload: Annotated[SignedUpload, Depends(signed_upload)], desk: DeskDep
) -> Response:
    """Take the manifest of a policy step; its files follow."""
    _require_trainer(desk, upload)
    data = b"".join([block async for block in upload.blocks(MAX_MANIFEST_BYTES)])
    await run_in_threadpool(_keep_manifest, desk, upload, policy_step, data)
    return Response(status_code=201)


def _keep_manifest(desk: Desk, upload: SignedUpload, policy_step: int, data: bytes) -> None:
    upload.require_hash(data)
    manifest = parse_manifest(data)
    _verify_kept(desk, policy_step, manifest)
    name = desk.files.put(data)
    digests = {file.name: file.digest for file in manifest.files}

    def note(session: Session) -> None:
        policy = session.get(PolicyRow, policy_step)
        if policy is not None and policy.policy_root != manifest.policy_root:
            raise Refused(
                "manifest",
                status=409,
                reason=f"the chain holds the root {to_hex(policy.policy_root)} for policy step {policy_step}, "
                f"this manifest has {to_hex(manifest.policy_root)}",
            )
        session.merge(WeightsRow(policy_step=policy_step, manifest_hash=name))
        for kept in session.scalars(select(WeightsFileRow).where(WeightsFileRow.policy_step == policy_step)):
            if digests.get(kept.name) != kept.content_hash:
                session.delete(kept)

    desk.store.write(note)


def _verify_kept(desk: Desk, policy_step: int, manifest: Manifest) -> None:
    """Hold files that came before the manifest against it."""
    kept = desk.store.read(lambda session: _kept_files(session, policy_step))
    for file in manifest.files:
        if kept.get(file.name) == file.digest:
            check = ChunkCheck(file)
            with desk.files.path_of(file.digest).open("rb") as stream:
                while block := stream.read(CHUNK_BYTES):
                    check(block)
            check.end()


def _kept_files(session: Session, policy_step: int) -> dict[str, Hash]:
    rows = session.scalars(select(WeightsFileRow).where(WeightsFileRow.policy_step == policy_step))
    return {row.name: row.content_hash for row in rows}


@router.put("/files/{name}", status_code=201, responses=_PUT, openapi_extra=FILE_BODY, response_class=Response)
async def put_file(
    policy_step: IndexPath, name: str, upload: Annotated[SignedUpload, Depends(signed_upload)], desk: DeskDep
) -> Response:
    """Take one file of a policy step; it must be the one of the manifest."""
    _require_trainer(desk, upload)
    if not is_file_name(name):
        raise Malformed("file name", expected=f"a plain name ending in {' '.join(SUFFIXES)}", got=name)
    manifest = await run_in_threadpool(_manifest_of, desk, policy_step)
    limit_bytes, check = desk.settings.max_weights_bytes, None
    if manifest is not None:
        file = next((file for file in manifest.files if file.name == name), None)
        if file is None or file.digest != upload.body:
            raise Refused("weights", status=409, reason=f"{name} is another one in the manifest that was put before")
        limit_bytes, check = min(file.size, limit_bytes), ChunkCheck(file)
    await desk.files.take(upload.blocks(limit_bytes), upload.body, limit_bytes, check)

    def note(session: Session) -> None:
        session.merge(WeightsFileRow(policy_step=policy_step, name=name, content_hash=upload.body))

    await run_in_threadpool(desk.store.write, note)
    return Response(status_code=201)


@router.get("/manifest.json", responses=_GOT, response_class=FileResponse)
def get_manifest(policy_step: IndexPath, desk: DeskDep) -> FileResponse:
    """Return the manifest of a policy step that is there as a whole."""
    manifest = _manifest_of(desk, policy_step)
    if manifest is None:
        raise Unavailable(f"no weights of policy step {policy_step} here")
    kept = desk.store.read(lambda session: _kept_files(session, policy_step))
    missing = [file.name for file in manifest.files if kept.get(file.name) != file.digest]
    if missing:
        raise Unavailable(
            f"{len(missing)} of {len(manifest.files)} files of policy step {policy_step} are still to come"
        )
    return file_response(desk, Hash(blake3(manifest.encode()).digest()), "application/json")


@router.get("/files/{name}", responses=_GOT, response_class=FileResponse)
def get_file(policy_step: IndexPath, name: str, desk: DeskDep) -> FileResponse:
    """Return a file of a policy step; ranges are served."""
    if not is_file_name(name):
        raise Unavailable(f"no such file of policy step {policy_step} here")
    row = desk.store.read(lambda session: session.get(WeightsFileRow, (policy_step, name)))
    if row is None or not desk.files.holds(row.content_hash):
        raise Unavailable(f"no such file of policy step {policy_step} here")
    return file_response(desk, row.content_hash)


def _require_trainer(desk: Desk, upload: SignedUpload) -> None:
    trainer = desk.store.read(queries.trainer)
    if upload.caller.address != trainer:
        raise Refused("weights", status=403, reason=f"only the trainer {trainer} puts weights")


def _manifest_of(desk: Desk, policy_step: int) -> Manifest | None:
    row = desk.store.read(lambda session: session.get(WeightsRow, policy_step))
    if row is None:
        return None
    return parse_manifest(desk.files.path_of(row.manifest_hash).read_bytes())
