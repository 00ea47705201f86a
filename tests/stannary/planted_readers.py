"""Readers for the child of a `ConfinedReader` that break what they may not: a file says what its reading does.

Imports next to nothing, so that a child with one of them starts in little time and memory.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
import zlib
from collections.abc import Callable
from typing import NamedTuple

from stannary.confined_child import ANSWER
from stannary.errors import Malformed

PLANTED = "tests.stannary.planted_readers:planted"


class Row(NamedTuple):
    """As much of a rollout as is answered."""

    prompt: tuple[int, ...]
    completion: tuple[int, ...]
    proofs: tuple[bytes, ...]


def planted(data: bytes, group_size: int) -> list[Row]:
    """Do what the file says, by its first word, and return rollouts of one token that the file's bytes make."""
    word, _, rest = data.partition(b" ")
    found = DEEDS.get(word.decode(errors="replace"))
    if found is not None:
        found(rest)
    return [Row((), (zlib.crc32(data) >> 1,), ())] * group_size


def _grow(_rest: bytes) -> None:
    held = []
    while True:
        held.append(bytes(1 << 20))


def _loop(_rest: bytes) -> None:
    while True:
        pass


def _try(what: str, deed: Callable[[], object]) -> None:
    """Refuse the file with what came of a deed."""
    try:
        deed()
    except (OSError, RuntimeError) as error:
        raise Malformed(what, expected="no", got=f"{type(error).__name__}: {error}") from None
    raise Malformed(what, expected="no", got="done")


def _fork() -> None:
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)


def _write(path: bytes) -> None:
    """Make room for a file that may be open, and write to it."""
    os.close(2)
    os.write(os.open(path, os.O_WRONLY | os.O_CREAT), b"x")


def _leave(words: bytes) -> None:
    os.write(2, words)
    os._exit(7)


def _stall(words: bytes) -> None:
    os.write(1, words)
    time.sleep(60)


def _extra(rest: bytes) -> None:
    """Answer as asked, and say something more a little later."""
    signal.signal(signal.SIGALRM, lambda _number, _frame: os.write(1, ANSWER.pack(1, 0)))
    signal.setitimer(signal.ITIMER_REAL, float(rest))


def _refuse(error: Malformed) -> None:
    raise error


DEEDS: dict[str, Callable[[bytes], object]] = {
    "bomb": lambda _rest: bytearray(8 << 30),
    "grow": _grow,
    "loop": _loop,
    "sleep": lambda rest: time.sleep(float(rest)),
    "signal": lambda rest: os.kill(os.getpid(), int(rest)),
    "leave": _leave,
    "wrong": lambda rest: {}[rest],
    "nest": lambda rest: DEEDS["nest"](rest),
    "say": lambda rest: os.write(1, rest),
    "stall": _stall,
    "extra": _extra,
    "fork": lambda _rest: _try("fork", _fork),
    "thread": lambda _rest: _try("thread", lambda: threading.Thread(target=int).start()),
    "open": lambda rest: _try("open", lambda: os.open(rest, os.O_RDONLY)),
    "write": lambda rest: _try("write", lambda: _write(rest)),
    "socket": lambda _rest: _try("socket", socket.socket),
    "environment": lambda _rest: _refuse(Malformed("environment", expected="little", got=sorted(os.environ))),
    "long": lambda _rest: _refuse(Malformed("f" * 10_000, expected="e" * 10_000, got="g" * 10_000)),
    "odd": lambda _rest: _refuse(Malformed("\ud800", expected="\U0001f600", got="\udfff…é")),
}
