"""The demo's processes: starts each in a group of its own, watches them, and ends every one, however the demo ends.

It knows of commands and log files. It must not know what a role does.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

from stannary.errors import OperatorError

GRACE_S = 8.0
"""Time that a process has between SIGTERM and SIGKILL."""
POLL_S = 0.05
LAST_LINES = 15
_LOG_TAIL_BYTES = 16 << 10

QUIET_CPU = {
    "OMP_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "PASSIVE",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "PYTHONUNBUFFERED": "1",
}
"""What lets a dozen processes share two cores: one thread each, no spinning, a small cache, nothing fetched."""


class ProcessEnded(OperatorError):
    """A process of the demo ended before its time."""

    def __init__(self, name: str, *, status: int, log: Path) -> None:
        how = f"signal {-status}" if status < 0 else f"exit status {status}"
        self.lines = last_lines(log)
        """The end of its log."""
        why = self.lines[-1] if self.lines else "it wrote nothing"
        super().__init__(f"{name} ended ({how}), {log} says: {why}")
        self.name = name
        self.status = status
        self.log = log


class Stopped(BaseException):
    """A signal asked the demo to stop. Like KeyboardInterrupt, no `except Exception` may swallow it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@dataclass(slots=True)
class Started:
    """One process that this demo started; its group and its session carry its process id."""

    name: str
    pid: int
    log: Path
    popen: subprocess.Popen[bytes]
    may_finish: bool
    """Whether it is meant to end by itself, with success."""

    def status(self) -> int | None:
        """Return how the process ended, negative for a signal, None while it runs.

        The process stays unreaped, so that its id cannot pass to a stranger before its group has been ended.
        """
        if self.popen.returncode is not None:
            return self.popen.returncode
        found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status


class Processes:
    """All processes of one run. Use as a context manager: leaving it ends every group that it started."""

    def __init__(self, logs: Path, *, grace_s: float = GRACE_S) -> None:
        self.logs = logs
        self.grace_s = grace_s
        self._started: list[Started] = []

    def __enter__(self) -> Self:
        self.logs.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def sessions(self) -> frozenset[int]:
        """The sessions whose members belong to the demo."""
        return frozenset(started.pid for started in self._started)

    def start(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        may_finish: bool = False,
    ) -> Started:
        """Start a command in a session of its own, its output in `<logs>/<name>.log`.

        Settings of the caller's shell with our prefix are not handed down: each role gets exactly what the demo gives.
        """
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("STANNARY_")}
        log = self.logs / f"{name}.log"
        with log.open("wb") as output:
            popen = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**inherited, **QUIET_CPU, **(environment or {})},
                start_new_session=True,
            )
        started = Started(name, popen.pid, log, popen, may_finish)
        self._started.append(started)
        return started

    def check(self) -> None:
        """Raises: ProcessEnded for a process that has ended although nobody ended it."""
        for started in self._started:
            status = started.status()
            if status is not None and not (status == 0 and started.may_finish):
                raise ProcessEnded(started.name, status=status, log=started.log)

    def finish(self, started: Started, *, timeout_s: float) -> None:
        """Wait for a process that ends by itself, watching the others. Raises: ProcessEnded if it fails or is late."""
        deadline = time.monotonic() + timeout_s
        while started.status() is None:
            if time.monotonic() > deadline:
                _signal_group(started, signal.SIGKILL)
            self.check()
            time.sleep(POLL_S)
        self.check()
        self.end(started)

    def named(self, name: str) -> Started:
        """Return a process by its name."""
        return next(started for started in self._started if started.name == name)

    def end(self, started: Started) -> None:
        """End one process and its group."""
        self._started.remove(started)
        _end([started], self.grace_s)

    def close(self) -> None:
        """End all groups: SIGTERM, then SIGKILL to whatever is left. A second Ctrl-C does not cut this short."""
        with _deaf():
            _end(self._started, self.grace_s)
            self._started.clear()


@contextlib.contextmanager
def stop_on_signals() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into `Stopped`, so that the context managers of the main thread unwind.

    SIGINT interrupts also where a shell that started us in its background has it ignored.
    """

    def stop(number: int, _: FrameType | None) -> None:
        raise Stopped(number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def last_lines(log: Path, count: int = LAST_LINES) -> list[str]:
    """Return the last lines of a log, empty if there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _LOG_TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return []
    return [line for line in text.splitlines() if line.strip()][-count:]


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    try:
        before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    except ValueError:  # not the main thread, which alone receives signals
        before = {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(started: Sequence[Started], grace_s: float) -> None:
    for one in started:
        _signal_group(one, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while any(one.status() is None for one in started) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    for one in started:
        _signal_group(one, signal.SIGKILL)
    for one in started:
        one.popen.wait()


def _signal_group(started: Started, number: signal.Signals) -> None:
    if started.popen.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, number)
