"""The background work: mirror the chain, do what it waits for, say what is waited for. One thread of the server."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from coordinator.mirror import Mirror
from coordinator.poster import Poster
from stannary.errors import ChainError, NetworkError

log = logging.getLogger(__name__)

LAST_PAUSE_S = 30.0


@dataclass(slots=True)
class WaitBoard:
    """What the coordinator waits for and since when; written by the background thread, read by the health route."""

    clock: Callable[[], float]
    _since: dict[str, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def show(self, waits: list[str]) -> None:
        """Replace what is waited for; what is still there keeps its beginning. News are logged."""
        now = self.clock()
        with self._lock:
            news = [what for what in waits if what not in self._since]
            self._since = {what: self._since.get(what, now) for what in waits}
        for what in news:
            log.info("waiting for %s", what)

    def read(self) -> list[str]:
        """Return the waits, each with the seconds since it began."""
        now = self.clock()
        with self._lock:
            return [f"{what}, since {now - since:.0f} s" for what, since in self._since.items()]


class Background:
    """Runs mirror and poster until it is stopped. A chain that does not answer is asked again with growing pauses."""

    def __init__(self, mirror: Mirror, poster: Poster | None, board: WaitBoard, poll_s: float) -> None:
        self._mirror = mirror
        self._poster = poster
        self._board = board
        self._poll_s = poll_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="background", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout_s: float = 30.0) -> None:
        """Ask the thread to end and wait for it; a transaction under way is waited for."""
        self._stopping.set()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            log.warning("the background work did not end within %.0f s", timeout_s)

    def tick(self) -> None:
        """Look at the chain once. Raises: NetworkError, ChainError."""
        head = self._mirror.advance()
        waits = self._poster.tick(head) if self._poster is not None else []
        self._board.show(waits)

    def _run(self) -> None:
        pause_s = self._poll_s
        while not self._stopping.is_set():
            try:
                self.tick()
                pause_s = self._poll_s
            except (NetworkError, ChainError) as error:
                self._board.show(["the chain to answer"])
                pause_s = min(max(2 * pause_s, 1.0), LAST_PAUSE_S)
                log.warning("%s: %s; again in %.0f s", type(error).__name__, error, pause_s)
            except Exception:
                # A fault of ours must show and must not end the mirror: leases stop by themselves when it stays behind.
                self._board.show(["a fault in the background work to be mended (see the log)"])
                pause_s = min(max(2 * pause_s, 1.0), LAST_PAUSE_S)
                log.exception("background work failed; again in %.0f s", pause_s)
            self._stopping.wait(pause_s)
