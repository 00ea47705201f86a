"""Fetching a policy step: chunks over HTTP from sources that nobody trusts, each checked before it is written.

A download resumes chunk by chunk, falls back to the whole file where a source ignores ranges, drops a source that sent
other bytes, and appears under its name only when it is whole.
"""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import httpx
from blake3 import blake3

from stannary.deadline import bounded, within
from stannary.errors import OperatorError, PeerError, PolicyError, Unavailable, Unreachable
from stannary.shardcast.folder import PARTIAL, check_policy_folder, settle
from stannary.shardcast.manifest import (
    CHUNK_BYTES,
    MAX_MANIFEST_BYTES,
    File,
    Manifest,
    chunk_length,
    describe_folder,
    parse_manifest,
)
from stannary.types import Hash, to_hex

TIMEOUT_S = 30.0
"""For one answer, and on top of it the time that its bytes take on a slow line."""
RUN_CHUNKS = 16
"""Chunks asked for in one request."""
MAX_FRUITLESS = 3
"""Requests in a row that brought no good chunk, after which a source is given up for this download."""
DEFAULT_MAX_BYTES = 1 << 40
_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,15})-([0-9]{1,15})/([0-9]{1,15}|\*)")

_log = logging.getLogger(__name__)


class SourceLied(PeerError):
    """A source sent bytes that are not those of the root on chain."""

    def __init__(self, source: str, what: str) -> None:
        super().__init__(f"{source} lied: {what}")
        self.source = source
        self.what = what


def weights_url(base_url: str, policy_step: int) -> str:
    """Return where a coordinator or relay serves a policy step."""
    return f"{base_url.rstrip('/')}/v1/weights/{policy_step}"


def fetch(
    sources: Sequence[str],
    expected_root: Hash,
    folder: Path,
    *,
    client: httpx.Client | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
    like: Path | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Path:
    """Make `folder` hold the policy step whose root is on chain; one that already does is kept.

    `sources` are addresses as `weights_url` gives them, the preferred first; `like` is a folder of the same policy that
    the tensors must match. A source has `timeout_s` for each answer, and the time that its bytes take on a slow line;
    a `client` that is handed in keeps to that only if it is a `bounded` one.
    Raises: Unreachable or Unavailable when no source serves it (now); SourceLied when the last source left sent wrong
    bytes; PolicyError when the root's own content must not be loaded; OperatorError when the disk refuses.
    """
    if folder.exists() and _holds(folder, expected_root):
        return folder
    if client is not None:
        return _Download(client, sources, expected_root, folder, max_bytes, timeout_s).run(like)
    with bounded(httpx.Client(timeout=timeout_s)) as own:
        return _Download(own, sources, expected_root, folder, max_bytes, timeout_s).run(like)


class _Download:
    def __init__(
        self,
        client: httpx.Client,
        sources: Sequence[str],
        root: Hash,
        folder: Path,
        max_bytes: int,
        timeout_s: float,
    ) -> None:
        self._client = client
        self._sources = list(sources)
        self._root = root
        self._folder = folder
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s
        self._work = folder.parent / f"{PARTIAL}{root.hex()[:32]}"

    def run(self, like: Path | None) -> Path:
        manifest = self._from_any(self._manifest)
        try:
            self._work.mkdir(parents=True, exist_ok=True)
            for file in manifest.files:
                self._file(file)
            check_policy_folder(self._work, like)
            settle(self._work, self._folder)
        except PolicyError:
            shutil.rmtree(self._work, ignore_errors=True)
            raise
        except OSError as error:
            raise OperatorError(f"cannot write {self._folder}: {error.strerror or error}") from error
        return self._folder

    def _from_any(self, ask: Callable[[str], Manifest]) -> Manifest:
        last: Exception | None = None
        for source in list(self._sources):
            try:
                return ask(source)
            except (SourceLied, Unreachable, Unavailable) as error:
                self._give_up(source, error)
                last = error
        raise last or Unavailable("no source of weights is configured")

    def _give_up(self, source: str, error: Exception) -> None:
        self._sources.remove(source)
        _log.warning("no longer using %s: %s", source, error)

    def _manifest(self, source: str) -> Manifest:
        data = bytearray()
        with within(self._timeout_s, MAX_MANIFEST_BYTES):
            for block in self._stream(source, "manifest.json", None):
                data += block
                if len(data) > MAX_MANIFEST_BYTES:
                    raise SourceLied(source, f"its manifest is longer than {MAX_MANIFEST_BYTES} bytes")
        try:
            manifest = parse_manifest(bytes(data))
        except PeerError as error:
            raise SourceLied(source, str(error)) from error
        if manifest.policy_root != self._root:
            raise SourceLied(
                source, f"its manifest has the root {to_hex(manifest.policy_root)}, {to_hex(self._root)} is on chain"
            )
        if manifest.size > self._max_bytes:
            raise OperatorError(f"the policy takes {manifest.size} bytes, this machine allows {self._max_bytes}")
        return manifest

    def _file(self, file: File) -> None:
        path = self._work / file.name
        path.touch()
        missing = _missing(path, file)
        fruitless = 0
        while missing:
            source = self._sources[0]
            try:
                gained = self._chunks(source, file, path, missing, ranged=fruitless % 2 == 0)
                failure = Unreachable(f"{source}: {file.name} did not arrive in {MAX_FRUITLESS} requests")
            except (SourceLied, Unavailable) as error:
                self._give_up(source, error)
                if not self._sources:
                    raise
                continue
            except Unreachable as error:
                gained, failure = 0, error
            missing = missing[gained:]
            fruitless = 0 if gained else fruitless + 1
            if fruitless >= MAX_FRUITLESS:
                self._give_up(source, failure)
                fruitless = 0
                if not self._sources:
                    raise failure

    def _chunks(self, source: str, file: File, path: Path, missing: Sequence[int], *, ranged: bool) -> int:
        """Ask for the first run of missing chunks; write those that check; return how many did."""
        first = last = missing[0]
        for index in missing[1:RUN_CHUNKS]:
            if index != last + 1:
                break
            last = index
        start = first * CHUNK_BYTES
        end = last * CHUNK_BYTES + chunk_length(file, last) - 1
        buffer = bytearray()
        gained, index = 0, first
        skip = 0 if ranged else start
        with path.open("r+b") as out, within(self._timeout_s, end + 1 - (start if ranged else 0)):
            for block in self._stream(source, f"files/{file.name}", (start, end, file.size) if ranged else None):
                buffer += block
                if skip:
                    dropped = min(skip, len(buffer))
                    del buffer[:dropped]
                    skip -= dropped
                while index <= last and len(buffer) >= (length := chunk_length(file, index)):
                    chunk = bytes(buffer[:length])
                    del buffer[:length]
                    if Hash(blake3(chunk).digest()) != file.chunks[index]:
                        raise SourceLied(source, f"chunk {index} of {file.name} has another hash")
                    out.seek(index * CHUNK_BYTES)
                    out.write(chunk)
                    gained += 1
                    index += 1
                if index > last:
                    break
        return gained

    def _stream(self, source: str, name: str, window: tuple[int, int, int] | None) -> Iterator[bytes]:
        """Yield the body of an answer that is what was asked for; a range that was not honoured yields nothing."""
        url = f"{source}/{name}"
        headers = {"accept-encoding": "identity"}
        if window is not None:
            headers["range"] = f"bytes={window[0]}-{window[1]}"
        try:
            with self._client.stream("GET", url, headers=headers, follow_redirects=False) as response:
                if response.status_code == 416 and window is not None:
                    return
                if response.status_code in (404, 410):
                    raise Unavailable(f"{url} is not there")
                if response.status_code not in (200, 206):
                    raise Unreachable(f"{url} answered {response.status_code}")
                is_whole = response.status_code == 200
                if window is not None and not is_whole and not _honours(response, window):
                    return
                if window is not None and is_whole and window[0] != 0:
                    return
                if window is None and not is_whole:
                    raise Unreachable(f"{url} answered with a part that was not asked for")
                # Raw bytes: a content encoding would let a small answer grow without bound.
                yield from response.iter_raw(CHUNK_BYTES)
        except httpx.HTTPError as error:
            raise Unreachable(f"{url}: {type(error).__name__}: {error}") from error


def _honours(response: httpx.Response, window: tuple[int, int, int]) -> bool:
    found = _CONTENT_RANGE.fullmatch(response.headers.get("content-range", ""))
    start, end, size = window
    if found is None:
        return False
    return (int(found[1]), int(found[2])) == (start, end) and found[3] in (str(size), "*")


def _missing(path: Path, file: File) -> list[int]:
    """Return the chunks that the file on disk does not hold (it may be partly written, or written wrong)."""
    missing = []
    if path.stat().st_size > file.size:
        with path.open("r+b") as handle:
            handle.truncate(file.size)
    with path.open("rb") as handle:
        for index, expected in enumerate(file.chunks):
            handle.seek(index * CHUNK_BYTES)
            if Hash(blake3(handle.read(chunk_length(file, index))).digest()) != expected:
                missing.append(index)
    return missing


def _holds(folder: Path, expected_root: Hash) -> bool:
    try:
        return describe_folder(folder).policy_root == expected_root
    except (PolicyError, OSError):
        return False
