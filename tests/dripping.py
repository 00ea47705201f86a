"""Servers that never finish an answer: they send a byte, or a small piece, as long as anybody listens."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import repeat

import pytest

PAUSE_S = 0.05
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\n"
_CHUNKED = _HEAD + b"transfer-encoding: chunked\r\n\r\n"
WAYS: dict[str, tuple[bytes, bytes]] = {
    "headers": (_HEAD + b"x-long: ", b"x"),
    "early hints": (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    "chunk sizes": (_CHUNKED + b"5;", b"x"),
    "chunks": (_CHUNKED, b"1\r\nx\r\n"),
    "body": (_HEAD + b"content-length: 1000000\r\n\r\n", b"x"),
    "nothing": (b"", b""),
}
"""What is sent at once, and what again and again."""
every_way = pytest.mark.parametrize("way", list(WAYS))


@contextmanager
def dripping(first: bytes, piece: bytes, *, reads: bool = True) -> Iterator[str]:
    """Serve one answer without an end on a local port; `reads` says whether the request is waited for."""
    over = threading.Event()

    def answer(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            if reads:
                connection.recv(1 << 16)
            connection.sendall(first)
            for _ in repeat(None):
                if over.wait(PAUSE_S):
                    return
                connection.sendall(piece)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)

        def accept() -> None:
            while not over.is_set():
                with contextlib.suppress(TimeoutError):
                    connection, _ = listener.accept()
                    connection.setblocking(True)
                    answers.append(threading.Thread(target=answer, args=(connection,)))
                    answers[-1].start()

        answers: list[threading.Thread] = []
        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            over.set()
            accepting.join()
            for thread in answers:
                thread.join()
