"""Files by their BLAKE3 hash in one folder: written whole or not at all, never changed. Knows no other names."""

from __future__ import annotations

import asyncio
import errno
import os
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

from blake3 import blake3

from stannary.errors import Malformed, OperatorError, Refused
from stannary.types import Hash, to_hex

WRITE_BYTES = 1 << 20
LEFTOVER_S = 3600.0
"""Unfinished uploads older than this are removed at start."""


class Check(Protocol):
    """Looks at a stream while it is written; raises to refuse it."""

    def __call__(self, data: bytes) -> None:
        """Take the next bytes."""
        ...

    def end(self) -> None:
        """Take note of the end."""
        ...


class FileStore:
    """The folder. A file's path follows from its hash alone, so no text from outside ever becomes a path."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._incoming = folder / "incoming"
        try:
            self._incoming.mkdir(parents=True, exist_ok=True)
            for leftover in self._incoming.iterdir():
                if time.time() - leftover.stat().st_mtime > LEFTOVER_S:
                    leftover.unlink(missing_ok=True)
        except OSError as error:
            raise OperatorError(f"cannot use the folder {folder}: {error.strerror or error}") from error

    def path_of(self, content_hash: Hash) -> Path:
        """Return where a file is, if it is there."""
        name = content_hash.hex()
        return self._folder / name[:2] / name

    def holds(self, content_hash: Hash) -> bool:
        """Say whether a file is there."""
        return self.path_of(content_hash).is_file()

    def put(self, data: bytes) -> Hash:
        """Keep a small file and return its hash. Raises: Refused with 507 when there is no space."""
        name = Hash(blake3(data).digest())
        draft = self._draft()
        try:
            with draft.open("xb") as file:
                file.write(data)
            self._settle(draft, name)
        except OSError as error:
            raise _disk_problem(error) from error
        finally:
            draft.unlink(missing_ok=True)
        return name

    async def take(
        self, blocks: AsyncIterator[bytes], expected: Hash, limit_bytes: int, check: Check | None = None
    ) -> int:
        """Keep a stream whose hash is `expected`; return its length. `check` sees the bytes as they come.

        Raises: Refused with 413 beyond the limit, with 507 without space; Malformed for another hash; as `check` does.
        """
        draft, hasher, size = self._draft(), blake3(), 0
        pending = bytearray()

        def flush(data: bytes) -> None:
            if check is not None:
                check(data)
            hasher.update(data)
            with draft.open("ab") as file:
                file.write(data)

        try:
            async for block in blocks:
                size += len(block)
                if size > limit_bytes:
                    raise Refused("upload", status=413, reason=f"at most {limit_bytes} bytes are taken")
                pending += block
                if len(pending) >= WRITE_BYTES:
                    await asyncio.to_thread(flush, bytes(pending))
                    pending.clear()
            await asyncio.to_thread(flush, bytes(pending))
            if check is not None:
                check.end()
            found = Hash(hasher.digest())
            if found != expected:
                raise Malformed("body", expected=f"bytes with the BLAKE3 hash {to_hex(expected)}", got=to_hex(found))
            await asyncio.to_thread(self._settle, draft, expected)
        except OSError as error:
            raise _disk_problem(error) from error
        finally:
            draft.unlink(missing_ok=True)
        return size

    def _draft(self) -> Path:
        return self._incoming / uuid.uuid4().hex

    def _settle(self, draft: Path, name: Hash) -> None:
        target = self.path_of(name)
        if target.exists():
            return
        target.parent.mkdir(exist_ok=True)
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(draft, target)


def _disk_problem(error: OSError) -> Exception:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Refused("upload", status=507, reason="no space left on the coordinator's disk")
    return error
