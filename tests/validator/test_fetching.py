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
from tests.dripping import WAYS, dripping, every_way
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


@every_way
def test_answer_without_an_end_is_cut_off_at_the_deadline(way: str) -> None:
    begun = time.monotonic()
    with dripping(*WAYS[way]) as host:
        with pytest.raises(Unreachable, match="did not answer within"):
            fetch(f"http://{host}/file", timeout_s=0.6)
        assert time.monotonic() - begun < 2.5


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


@pytest.mark.parametrize("port", ["99999999999999999999", "65536", "0", "-1", "x", "1e3", "\u0661"])
def test_port_that_is_none_is_refused(port: str) -> None:
    with pytest.raises(Malformed):
        fetch(f"http://127.0.0.1:{port}/")


@pytest.mark.parametrize(
    "url",
    [
        *("http://" + "a" * 64 + ".invalid/", "http://a..invalid/", "http://.invalid/", "http://-/", "http://xn--/"),
        *("http://xn--a/", "http://[::1/", "http://[v1.x]/", "http://[::ffff]:1/", "http://[fe80::1%25zz]:1/"),
        *("http://999.999.999.999/", "http://0x7f.1:1/", "http://127.0.0.1:1:1/", "http://127.0.0.1:1/%", "http://%/"),
        *("http://%00/", "http://127.0.0.1:1/\ud800", "http://\u2100.invalid/", "http://\u00df\u0130.invalid:1/"),
        *("http://127.0.0.1\\x:1/", "http://a b.invalid/", "http://*/", "https://127.0.0.1:1/", "http://127.0.0.1:1?#"),
        *("http://\U0001f4a9.invalid/", "http://" + "a." * 1000 + "invalid/", "http://@127.0.0.1:1/", "HTTP://:@:/"),
    ],
)
def test_no_address_ends_the_caller(url: str) -> None:
    with pytest.raises((Malformed, Unavailable, Unreachable)):
        fetch(url, timeout_s=2)


@pytest.mark.parametrize(
    "answer",
    [
        *(b"", b"\x00", b"HTTP/9.9 200 OK\r\n\r\n", b"HTTP/1.1 999 \r\n\r\n", b"HTTP/1.1 200 OK\r\n\xff: \xff\r\n\r\n"),
        *(b"HTTP/1.1 101 Switching\r\n\r\n", b"HTTP/1.1 302 Found\r\nlocation: http://[\r\n\r\n"),
        b"HTTP/1.1 302 Found\r\nlocation: http://a:99999999999999999999/\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffffffffff\r\n",
    ],
)
def test_no_answer_ends_the_caller(answer: bytes) -> None:
    with dripping(answer, b"") as host, pytest.raises((Malformed, Unavailable, Unreachable)):
        fetch(f"http://{host}/file", timeout_s=0.5)
