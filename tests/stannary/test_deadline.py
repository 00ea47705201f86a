"""stannary.deadline: an exchange ends in time whichever part of it drips, and one that moves on is waited for."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

import httpx
import pytest

from stannary.deadline import BYTES_PER_S, bounded, within
from tests.dripping import WAYS, dripping, every_way

DEADLINE_S = 0.6


def ends_in_time(act: Callable[[], object]) -> None:
    begun = time.monotonic()
    with pytest.raises(httpx.TimeoutException):
        act()
    assert DEADLINE_S * 0.8 < time.monotonic() - begun < DEADLINE_S + 1.5


@every_way
def test_answer_that_drips_ends_at_the_deadline(way: str) -> None:
    with dripping(*WAYS[way]) as host, bounded(httpx.Client(timeout=30)) as client:

        def get() -> None:
            with within(DEADLINE_S, moving_bytes=1 << 20):
                client.get(f"http://{host}/")

        ends_in_time(get)


def test_handshake_that_drips_ends_at_the_deadline() -> None:
    with (
        dripping(b"\x16\x03\x03\x40\x00", b"\x00", reads=False) as host,
        bounded(httpx.Client(timeout=30)) as client,
    ):

        def get() -> None:
            with within(DEADLINE_S):
                client.get(f"https://{host}/")

        ends_in_time(get)


def test_request_that_nobody_reads_ends_at_the_deadline() -> None:
    with dripping(b"", b"", reads=False) as host, bounded(httpx.Client(timeout=30)) as client:

        def put() -> None:
            with within(DEADLINE_S):
                client.put(f"http://{host}/", content=bytes(64 << 20))

        ends_in_time(put)


def test_name_that_is_not_resolved_ends_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: over.wait(30) and [])
    try:
        with bounded(httpx.Client(timeout=30)) as client:

            def get() -> None:
                with within(DEADLINE_S):
                    client.get("http://slow.example/")

            ends_in_time(get)
    finally:
        over.set()


def test_connection_that_was_used_before_keeps_the_next_deadline_too() -> None:
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
    with dripping(answer, b"") as host, bounded(httpx.Client(timeout=30)) as client:
        with within(DEADLINE_S):
            assert client.get(f"http://{host}/").text == "ok"

        def get() -> None:
            with within(DEADLINE_S):
                client.get(f"http://{host}/")

        ends_in_time(get)


def test_answer_that_moves_on_is_waited_for() -> None:
    pieces, size = 12, BYTES_PER_S // 8
    head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (pieces * size)
    with dripping(head, bytes(size)) as host:
        with bounded(httpx.Client(timeout=30)) as client, within(0.3, moving_bytes=pieces * size + 4096):
            assert len(client.get(f"http://{host}/").content) == pieces * size
        with bounded(httpx.Client(timeout=30)) as client, pytest.raises(httpx.TimeoutException), within(0.3):
            client.get(f"http://{host}/")


def test_client_outside_a_deadline_is_as_before() -> None:
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
    with dripping(answer, b"") as host, bounded(httpx.Client(timeout=5)) as client:
        assert client.get(f"http://localhost:{host.split(':')[1]}/").text == "ok"
