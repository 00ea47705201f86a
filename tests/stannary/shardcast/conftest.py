"""Small policy folders and sources that misbehave over real HTTP."""

from __future__ import annotations

import contextlib
import json
import struct
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

Answer = tuple[int, dict[str, str], bytes]
Rule = Callable[[str, str | None], Answer | None]


def write_safetensors(path: Path, tensors: dict[str, np.ndarray]) -> None:
    """Write float arrays as bf16 by cutting their low halves off."""
    header, data = {}, b""
    for name, values in tensors.items():
        raw = (values.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
        header[name] = {"dtype": "BF16", "shape": list(values.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    write_raw(path, json.dumps(header).encode(), data)


def write_raw(path: Path, header: bytes, data: bytes) -> None:
    """Write any header before any data."""
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """A policy folder of 3.5 MiB of weights: four chunks, the last short."""
    folder = tmp_path / "policy"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "llama"}')
    (folder / "generation_config.json").write_text('{"eos_token_id": 1}')
    (folder / "tokenizer.json").write_text("{}")
    values = np.random.default_rng(0).normal(size=(7 << 18,))
    write_safetensors(folder / "model.safetensors", {"a.weight": values.astype("f4")})
    return folder


class Source:
    """A source that serves a published folder honestly but where `rule` answers otherwise."""

    def __init__(self, root: Path, rule: Rule = lambda path, window: None) -> None:
        self.requests: list[tuple[str, str | None]] = []
        source = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                window = self.headers.get("range")
                source.requests.append((self.path, window))
                status, headers, body = rule(self.path, window) or honest(root, self.path, window)
                self.send_response(status)
                for name, value in ({"content-length": str(len(body))} | headers).items():
                    self.send_header(name, value)
                self.end_headers()
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1/weights/0"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def honest(root: Path, path: str, window: str | None) -> Answer:
    """Answer as a correct source does."""
    file = root / path.removeprefix("/v1/weights/0/")
    if not file.is_file():
        return 404, {}, b""
    data = file.read_bytes()
    if window is None:
        return 200, {}, data
    start, end = (int(part) for part in window.removeprefix("bytes=").split("-"))
    return 206, {"content-range": f"bytes {start}-{end}/{len(data)}"}, data[start : end + 1]


@pytest.fixture
def serve() -> Iterator[Callable[..., Source]]:
    """Start sources that end with the test."""
    running: list[Source] = []

    def start(root: Path, rule: Rule = lambda path, window: None) -> Source:
        running.append(Source(root, rule))
        return running[-1]

    yield start
    for source in running:
        source.close()
