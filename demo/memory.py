"""How much memory the demo takes: the proportional set sizes of its sessions, summed and sampled over time (Linux)."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path
from types import TracebackType
from typing import Self

INTERVAL_S = 1.0
COST_SHARE = 0.03
"""Sampling walks every mapping of every process; it may take this share of the time at most."""
_PROC = Path("/proc")
_SESSION_FIELD = 3
"""Of /proc/PID/stat after the command's name: state, parent, group, session."""


class MemoryPeak:
    """Samples in a thread of its own while the `with` block runs.

    `sessions` is asked at each sample; this process counts too.
    """

    def __init__(self, sessions: Callable[[], Collection[int]], *, interval_s: float = INTERVAL_S) -> None:
        self.peak_kb = 0
        self._sessions = sessions
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def peak_mb(self) -> int:
        """The highest sum so far in MiB, rounded up; 0 where /proc has no such figures."""
        return -(-self.peak_kb // 1024)

    def _run(self) -> None:
        wait_s = 0.0
        while not self._stop.wait(wait_s):
            began = time.monotonic()
            self.peak_kb = max(self.peak_kb, summed_pss_kb(self._sessions()))
            wait_s = max(self._interval_s, (time.monotonic() - began) / COST_SHARE)


def summed_pss_kb(sessions: Collection[int]) -> int:
    """Return the summed proportional set size of this process and of all members of some sessions.

    Units: KiB.
    """
    total = pss_kb(os.getpid())
    if not _PROC.is_dir():
        return total
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid() and _session_of(entry) in sessions:
            total += pss_kb(int(entry.name))
    return total


def pss_kb(pid: int) -> int:
    """Return a process's proportional set size, 0 if it is gone or not ours to see. Units: KiB."""
    try:
        text = (_PROC / str(pid) / "smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")), 0)


def _session_of(entry: Path) -> int | None:
    try:
        text = (entry / "stat").read_text()
    except OSError:
        return None
    return int(text.rpartition(")")[2].split()[_SESSION_FIELD])
