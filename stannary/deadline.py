"""A deadline for a whole HTTP exchange: name, connection, TLS, request, headers and body.

The timeouts of httpx count anew with every packet, so that whoever sends a byte now and then holds the caller for as
long as he likes. A client that is `bounded` also looks at the deadline of the block `within` which it is used.
"""

from __future__ import annotations

import queue
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import httpcore
import httpx

BYTES_PER_S = 64 << 10
"""What a line must carry on average, however much there is to move."""
_PIECE_BYTES = 16 << 10
"""Sent at once: the deadline is looked at in between."""


@dataclass(slots=True)
class _Deadline:
    end: float
    latest: float


_current: ContextVar[_Deadline | None] = ContextVar("deadline", default=None)


@contextmanager
def within(seconds: float, moving_bytes: int = 0) -> Iterator[None]:
    """Let what bounded clients do inside the block in this thread end `seconds` from now.

    Each byte that is moved puts the end off by its time at `BYTES_PER_S`, up to `moving_bytes` in all: who sends
    quickly enough is waited for, who only drips is not.
    """
    end = time.monotonic() + seconds
    token = _current.set(_Deadline(end, end + moving_bytes / BYTES_PER_S))
    try:
        yield
    finally:
        _current.reset(token)


def bounded(client: httpx.Client) -> httpx.Client:
    """Make a client that keeps deadlines of one that does not; it is the same object."""
    for transport in (client._transport, *client._mounts.values()):
        if isinstance(transport, httpx.HTTPTransport):
            # httpx hands no network backend on to the pool, which has a place for one.
            transport._pool._network_backend = _Backend(transport._pool._network_backend)
    return client


class _Backend(httpcore.NetworkBackend):
    def __init__(self, inner: httpcore.NetworkBackend) -> None:
        self._inner = inner

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        options = None if socket_options is None else list(socket_options)
        failure: Exception = httpcore.ConnectError(f"{host} has no address")
        # One by one: a name may have many addresses, and the timeout would count anew for each.
        for address in _addresses(host, port, _left(timeout, httpcore.ConnectTimeout)):
            try:
                left = _left(timeout, httpcore.ConnectTimeout)
                return _Stream(self._inner.connect_tcp(address, port, left, local_address, options))
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure

    def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        left = _left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._inner.connect_unix_socket(path, left, socket_options))

    def sleep(self, seconds: float) -> None:
        self._inner.sleep(seconds)


class _Stream(httpcore.NetworkStream):
    def __init__(self, inner: httpcore.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data = self._inner.read(max_bytes, _left(timeout, httpcore.ReadTimeout))
        _put_off(len(data))
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), _PIECE_BYTES):
            piece = buffer[start : start + _PIECE_BYTES]
            self._inner.write(piece, _left(timeout, httpcore.WriteTimeout))
            _put_off(len(piece))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left = _left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, left))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def _left(timeout: float | None, late: type[httpcore.TimeoutException]) -> float | None:
    """Return how long the next operation may take. Raises: `late` if there is no time left."""
    deadline = _current.get()
    if deadline is None:
        return timeout
    left = deadline.end - time.monotonic()
    if left <= 0:
        raise late("no whole answer in time")
    return left if timeout is None else min(timeout, left)


def _put_off(moved_bytes: int) -> None:
    deadline = _current.get()
    if deadline is not None:
        deadline.end = min(deadline.latest, deadline.end + moved_bytes / BYTES_PER_S)


def _addresses(host: str, port: int, timeout: float | None) -> list[str]:
    """Look a name up in a thread of its own: the system's resolver takes no timeout, and ends by itself some time."""
    answers: queue.SimpleQueue[list[str] | Exception] = queue.SimpleQueue()

    def look_up() -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            answers.put([str(address[0]) for *_, address in found])
        except Exception as error:  # noqa: BLE001  handed over to the thread that asks
            answers.put(error)

    threading.Thread(target=look_up, name="resolver", daemon=True).start()
    try:
        answer = answers.get(timeout=timeout)
    except queue.Empty:
        raise httpcore.ConnectTimeout(f"{host} was not resolved in time") from None
    if isinstance(answer, Exception):
        raise httpcore.ConnectError(str(answer)) from answer
    return answer
