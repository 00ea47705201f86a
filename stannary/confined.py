"""Reads strangers' submission files in a process of its own, with hard limits of memory, time, files and processes.

Owns that process: its start, its end, and what may come back from it. Must not know what a file means, nor judge it.
It limits what reading can cost this process. It is no sandbox: a parser that is taken over has this user's rights.

`decode_group` bounds its own time and memory, so a child that dies or is stopped says nothing about the file: that is
a `Confinement`, on which a validator abstains.
"""

from __future__ import annotations

import math
import os
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Self

import numpy as np

from stannary.confined_child import ANSWER, FAILED, GROUP, LENGTHS, READY, REFUSED, REQUEST, TEXT, TEXT_BYTES
from stannary.errors import Confinement, Malformed, OperatorError
from stannary.rollout import MAX_SUBMISSION_BYTES, Rollout, decode_group
from stannary.toploc.proof import PROOF_BYTES

_ROOT = Path(__file__).resolve().parents[1]
_COMMAND = (
    "import sys\n"
    "sys.path[:0] = {sys.argv[1]}.difference(sys.path)\n"
    "from stannary.confined_child import serve\n"
    "serve(*sys.argv[2:])"
)
_KEPT_VARIABLES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""All that the child gets of this process's environment, in which secrets may stand."""
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Each thread of a pool would take address space."""
_DYING_S = 1.0
"""How long a child that closed its pipe may take to end by itself, so that the reason is known."""
_LAST_WORDS_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Limits:
    """What the child may take: twice and twenty times what the dearest file of 16 MiB takes on two slow cores."""

    memory_bytes: int = 1 << 30
    """Address space in all; before the first file it is some 300 MiB, of which 80 are memory."""
    cpu_s: int = 10
    """Processor time of one file, up to a second more."""
    wall_s: float = 30.0
    """From sending a file to the whole answer."""
    start_s: float = 60.0


@dataclass(slots=True)
class Counts:
    """What a reader has done since it was made."""

    starts: int = 0
    """Child processes."""
    read: int = 0
    refused: int = 0
    failed: int = 0
    """Files on which the child died, was stopped or failed by itself."""


class ConfinedReader:
    """Reads files in one long-lived child, begun at the first file and again after each death.

    Safe for several threads, which wait for each other. To be closed; a file after that starts another child.
    """

    def __init__(self, limits: Limits | None = None, parse: str = "stannary.rollout:decode_group") -> None:
        """Start nothing yet. `parse` is `module:function`, with the arguments and the result of `decode_group`.

        Raises: OperatorError where processes cannot be limited.
        """
        if find_spec("resource") is None:
            raise OperatorError(
                f"strangers' files are read in a process with limits, which {sys.platform} does not have: "
                "use Linux or another Unix"
            )
        self._limits = limits or Limits()
        self._parse = parse
        self._child: _Child | None = None
        self._counts = Counts()
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @property
    def counts(self) -> Counts:
        """A copy of what was counted so far."""
        return replace(self._counts)

    @property
    def pid(self) -> int | None:
        """The child's process id, None while there is none."""
        child = self._child
        return child.pid if child else None

    def close(self) -> None:
        """End the child, if there is one."""
        with self._lock:
            self._stop()

    def decode_group(self, data: bytes, group_size: int) -> list[Rollout]:
        """Read a submission file strictly, as `stannary.rollout.decode_group` does.

        Raises: Malformed with the same words, `got` as text; Confinement if the child died, was stopped at a limit,
        or answered what no file of this size holds. The next file gets a fresh one.
        """
        if len(data) > MAX_SUBMISSION_BYTES:
            return decode_group(data, group_size)  # refuses it by its size alone
        with self._lock:
            try:
                group = self._ready_child().read(data, group_size, self._limits.wall_s)
            except Malformed:
                self._counts.refused += 1
                raise
            except BaseException as error:  # an interrupt, too, leaves an answer behind that nobody waits for
                self._stop()
                self._counts.failed += isinstance(error, Confinement)
                raise
            self._counts.read += 1
            return group

    def _ready_child(self) -> _Child:
        if self._child is not None and not self._child.is_idle:
            self._stop()  # ended between two files, or said more than it was asked: no concern of this file
        if self._child is None:
            self._counts.starts += 1
            self._child = _Child(self._parse, self._limits)
            self._child.start(self._limits.start_s)
        return self._child

    def _stop(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.stop()


class _Child:
    """One child process. Every method but `stop` and `is_idle` raises Confinement, after which it is of no more use."""

    def __init__(self, parse: str, limits: Limits) -> None:
        self._cpu_s = limits.cpu_s
        kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        command = [sys.executable, "-I", "-c", _COMMAND, str(_ROOT), parse, str(limits.memory_bytes), str(self._cpu_s)]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                cwd="/",
                env=kept | _ONE_THREAD,
                process_group=0,  # an interrupt from the terminal is for this process to act on
            )
        except OSError as error:
            raise Confinement(f"cannot be started: {error}") from error
        process = self._process
        self._pipes = [pipe for pipe in (process.stdin, process.stdout, process.stderr) if pipe is not None]
        self._requests, self._answers, self._errors = (pipe.fileno() for pipe in self._pipes)
        for pipe in self._pipes:
            os.set_blocking(pipe.fileno(), False)
        self._deadline, self._late = 0.0, ""

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_idle(self) -> bool:
        """Whether it waits for a file: its pipe of answers is open and empty."""
        return not _is_ready(self._answers, select.POLLIN, 0)

    def start(self, seconds: float) -> None:
        """Wait until it is set up."""
        self._deadline, self._late = time.monotonic() + seconds, f"was not set up within {seconds:g} s"
        kind, size_bytes = self._head()
        if kind == FAILED:
            raise self._own_failure(size_bytes)
        if (kind, size_bytes) != (READY, 0):
            raise Confinement(f"began with an answer of kind {kind} and {size_bytes} bytes")

    def read(self, data: bytes, group_size: int, seconds: float) -> list[Rollout]:
        """Let it read one file. Raises: Malformed, too."""
        self._deadline, self._late = time.monotonic() + seconds, f"gave no answer within {seconds:g} s"
        self._send(REQUEST.pack(len(data), group_size))
        self._send(data)
        kind, size_bytes = self._head()
        if kind == GROUP:
            # Each token takes four bytes of the file, each byte of a proof one.
            lengths_bytes = LENGTHS.size * group_size
            if not lengths_bytes <= size_bytes <= lengths_bytes + len(data):
                raise Confinement(f"answered {size_bytes} bytes of {group_size} rollouts, in a file of {len(data)}")
            return _group(self._receive(size_bytes), group_size)
        if kind == REFUSED:
            field, expected, got = self._texts(3, size_bytes)
            raise Malformed(field, expected=expected, got=_Shown(got))
        if kind == FAILED:
            raise self._own_failure(size_bytes)
        raise Confinement(f"gave an answer of kind {kind}")

    def stop(self) -> None:
        """End it, and leave nothing of it behind."""
        self._process.kill()
        self._process.wait()
        for pipe in self._pipes:
            pipe.close()

    def _send(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            try:
                left = left[os.write(self._requests, left) :]
            except BlockingIOError:
                self._wait(self._requests, select.POLLOUT)
            except BrokenPipeError:
                raise self._ended() from None

    def _receive(self, size_bytes: int) -> bytearray:
        """Return the next bytes. The caller knows that so many are to be had."""
        found = bytearray(size_bytes)
        left = memoryview(found)
        while left:
            try:
                count = os.readv(self._answers, [left])
            except BlockingIOError:
                self._wait(self._answers, select.POLLIN)
                continue
            if not count:
                raise self._ended()
            left = left[count:]
        return found

    def _wait(self, pipe: int, event: int) -> None:
        left_s = self._deadline - time.monotonic()
        if left_s <= 0 or not _is_ready(pipe, event, math.ceil(1000 * left_s)):
            raise Confinement(self._late)

    def _head(self) -> tuple[int, int]:
        kind, size_bytes = ANSWER.unpack(self._receive(ANSWER.size))
        return kind, size_bytes

    def _texts(self, count: int, size_bytes: int) -> list[str]:
        if size_bytes > count * TEXT_BYTES:
            raise Confinement(f"answered {size_bytes} bytes for {count} texts")
        body = self._receive(size_bytes)
        found, at = [], 0
        try:
            for _ in range(count):
                (length,) = TEXT.unpack_from(body, at)
                at += TEXT.size + length
                found.append(body[at - length : at].decode())
        except (struct.error, UnicodeDecodeError) as error:
            raise Confinement(f"answered texts that are none: {error}") from error
        if at != size_bytes:
            raise Confinement(f"answered {size_bytes} bytes of texts that take {at}")
        return found

    def _own_failure(self, size_bytes: int) -> Confinement:
        (what,) = self._texts(1, size_bytes)
        return Confinement(f"failed: {what}")

    def _ended(self) -> Confinement:
        """Return the error for a child that has closed its pipe, with why as far as it can be known."""
        try:
            status = self._process.wait(_DYING_S)
        except subprocess.TimeoutExpired:
            return Confinement("closed its pipe and goes on")
        if status == -signal.SIGXCPU:
            return Confinement(f"took more than {self._cpu_s} s of processor time")
        how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        try:
            words = os.read(self._errors, _LAST_WORDS_BYTES).decode(errors="replace").strip()
        except BlockingIOError:
            words = ""
        return Confinement(f"{how}: {words.splitlines()[-1][:200]}" if words else how)


class _Shown(str):
    """What a child said that it got: already as it is to be shown."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _group(body: bytearray, group_size: int) -> list[Rollout]:
    """Return the group of an answer, which is not shorter than its lengths. Raises: Confinement if these are wrong."""
    lengths = np.frombuffer(body, "<u4", 3 * group_size).reshape(group_size, 3).tolist()
    tokens_bytes = 4 * sum(prompt + completion for prompt, completion, _ in lengths)
    proofs_bytes = sum(proofs for *_, proofs in lengths)
    start = LENGTHS.size * group_size
    if start + tokens_bytes + proofs_bytes != len(body) or any(proofs % PROOF_BYTES for *_, proofs in lengths):
        raise Confinement(f"answered {len(body)} bytes, of them {tokens_bytes} of tokens and {proofs_bytes} of proofs")
    tokens = np.frombuffer(body, "i4", tokens_bytes // 4, start)
    at, place, group = 0, start + tokens_bytes, []
    for prompt, completion, proofs in lengths:
        middle, end = at + prompt, at + prompt + completion
        own = tuple(bytes(body[cut : cut + PROOF_BYTES]) for cut in range(place, place + proofs, PROOF_BYTES))
        group.append(Rollout(tuple(tokens[at:middle].tolist()), tuple(tokens[middle:end].tolist()), own))
        at, place = end, place + proofs
    return group


def _is_ready(pipe: int, event: int, milliseconds: int) -> bool:
    poll = select.poll()
    poll.register(pipe, event)
    return bool(poll.poll(milliseconds))
