"""The process in which strangers' files are read for `stannary.confined`: a loop from one pipe to another, in limits.

Owns the frames on both pipes and the limits. Must not know torch, vLLM or web3, nor what the files are: the function
that reads them is named by the parent. Imports nothing but the errors, so all that it holds is that function's.

A request is REQUEST and the file. An answer is ANSWER and so many bytes; those of a group are three u32 a rollout
(prompt tokens, completion tokens, bytes of proofs), all tokens as i32 of this machine (each rollout's prompt before its
completion), and all proofs.
"""

from __future__ import annotations

import signal
import struct
import sys
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Protocol

from stannary.errors import Malformed

REQUEST = struct.Struct("<QI")
"""Bytes of the file, group size."""
ANSWER = struct.Struct("<BQ")
"""What kind of answer, and how many bytes of it follow."""
TEXT = struct.Struct("<I")
"""Bytes of a text that follows in UTF-8."""
LENGTHS = struct.Struct("<III")
READY, GROUP, REFUSED, FAILED = range(4)
"""The child is set up (no bytes); a group; the file's fault, in three texts; this side's, in one."""
TEXT_CHARACTERS = 400
"""Longest text of an answer; the rest is cut off."""
TEXT_BYTES = TEXT.size + 4 * TEXT_CHARACTERS
_OPEN_FILES = 3
"""The two pipes and the one for last words: no other can be opened."""


class _Rollout(Protocol):
    @property
    def prompt(self) -> tuple[int, ...]: ...

    @property
    def completion(self) -> tuple[int, ...]: ...

    @property
    def proofs(self) -> tuple[bytes, ...]: ...


Parse = Callable[[bytes, int], Sequence[_Rollout]]


def serve(parse: str, memory_bytes: str, cpu_s: str) -> None:
    """Answer requests until there are no more; arguments as on a command line.

    `parse` is `module:function`, of a file and a group size. `memory_bytes` limits all address space of this process,
    `cpu_s` the processor time of one file in whole seconds, up to one second more.
    """
    try:
        module, _, function = parse.partition(":")
        read: Parse = getattr(import_module(module), function)
        _confine(int(memory_bytes))
    except BaseException as error:  # noqa: BLE001  whatever it is, the parent must hear of it
        _answer(FAILED, _told(error))
        return
    _answer(READY, b"")
    while head := sys.stdin.buffer.read(REQUEST.size):
        _allow_cpu(int(cpu_s))
        _answer(*_read(read, *REQUEST.unpack(head)))


def _confine(memory_bytes: int) -> None:
    """Give up for good what reading a file does not need.

    RLIMIT_NPROC counts all processes of a user, but what it is held against is each process's own limit: at 0 this one
    starts no process and no thread, and no other notices. The kernel does not hold root to it.
    """
    import resource  # not on Windows, where the parent reads this module all the same

    limits = {
        resource.RLIMIT_AS: memory_bytes,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_NOFILE: _OPEN_FILES,
        resource.RLIMIT_NPROC: 0,
    }
    for limit, most in limits.items():
        _, hard = resource.getrlimit(limit)
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(limit, (least, least))
    # What the parent ignores or blocks would be so here as well.
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _allow_cpu(seconds: int) -> None:
    """Let the kernel end this process when it has worked for so long from now on."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    end = int(time.process_time()) + 1 + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (end if hard == resource.RLIM_INFINITY else min(end, hard), hard))


def _read(parse: Parse, size_bytes: int, group_size: int) -> tuple[int, bytes]:
    try:
        return GROUP, b"".join(_packed(parse(sys.stdin.buffer.read(size_bytes), group_size)))
    except Malformed as error:
        return REFUSED, b"".join(map(_text, (error.field, error.expected, repr(error.got))))
    except BaseException as error:  # noqa: BLE001  lack of memory above all: it says nothing about the file
        return FAILED, _told(error)


def _packed(group: Sequence[_Rollout]) -> Iterator[bytes | array[int]]:
    for rollout in group:
        yield LENGTHS.pack(len(rollout.prompt), len(rollout.completion), sum(map(len, rollout.proofs)))
    for rollout in group:
        yield array("i", rollout.prompt)
        yield array("i", rollout.completion)
    for rollout in group:
        yield from rollout.proofs


def _told(error: BaseException) -> bytes:
    return _text(f"{type(error).__name__}: {error}")


def _text(text: str) -> bytes:
    data = text[:TEXT_CHARACTERS].encode(errors="backslashreplace")[: 4 * TEXT_CHARACTERS]
    return TEXT.pack(len(data)) + data


def _answer(kind: int, body: bytes) -> None:
    sys.stdout.buffer.write(ANSWER.pack(kind, len(body)))
    sys.stdout.buffer.write(body)
    sys.stdout.buffer.flush()
