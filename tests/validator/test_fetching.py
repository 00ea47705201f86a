"""Fetching from a stranger's address: what is taken, what is refused, and how long it may take."""

from __future__ import annotations

import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

import pytest

from stannary.errors import Malformed, Unavailable, Unreachable
from validator.fetching import fetch


@contextmanager
def served(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """Serve one kind of answer on a local port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, *_: object) -> None:
            pass

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/file"
        finally:
            server.shutdown()
            thread.join()


def respond(status: int, body: bytes = b"", **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def test_file_is_returned_as_it_is() -> None:
    with served(respond(200, b"bytes")) as url:
        assert fetch(url) == b"bytes"


def test_answer_beyond_the_limit_is_refused() -> None:
    with served(respond(200, b"x" * 1001)) as url, pytest.raises(Malformed, match="at most 1000 bytes"):
        fetch(url, limit_bytes=1000)


@pytest.mark.parametrize("status", [204, 301, 404, 500])
def test_answer_that_is_no_file_is_none(status: int) -> None:
    with served(respond(status, location="http://127.0.0.1:1/")) as url, pytest.raises(Unavailable, match=str(status)):
        fetch(url)


def test_encoded_answer_is_not_decoded() -> None:
    with served(respond(200, b"\x1f\x8b", **{"content-encoding": "gzip"})) as url:
        assert fetch(url) == b"\x1f\x8b"


def test_answer_that_drips_is_cut_off() -> None:
    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        for _ in range(100):
            try:
                handler.wfile.write(b"x")
            except OSError:
                return
            time.sleep(0.05)

    begun = time.monotonic()
    with served(drip) as url, pytest.raises(Unreachable, match="did not answer within"):
        fetch(url, timeout_s=0.3)
    assert time.monotonic() - begun < 3


def test_nobody_listening_is_unreachable() -> None:
    with pytest.raises(Unreachable):
        fetch("http://127.0.0.1:1/file", timeout_s=1)


@pytest.mark.parametrize(
    "url",
    [
        *("", "file:///etc/passwd", "ftp://127.0.0.1/x", "//127.0.0.1/x", "http://", "http://[", "http:///x"),
        *("http://user:secret@127.0.0.1/x", "http://127.0.0.1/a\nb", "http://127.0.0.1/" + "x" * 3000, "\x00"),
    ],
)
def test_address_that_is_no_plain_one_is_refused(url: str) -> None:
    with pytest.raises(Malformed):
        fetch(url)
