"""Signs of life to the coordinator from a thread of its own, so that they go on while the engine works."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from stannary.errors import NetworkError, PeerError
from stannary.waiting import Waiting
from stannary.wire import HeartbeatIn

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Status:
    """What the worker does, as others may know it."""

    state: str = "waiting"
    """`waiting`, `loading`, `generating` or `uploading`."""
    policy_step: int | None = None
    tokens_per_s: float | None = None


class Heartbeat:
    """Sends the current status every `interval_s`, and says when the coordinator does not take it."""

    def __init__(self, send: Callable[[HeartbeatIn], None], engine: str, interval_s: float) -> None:
        self.status = Status()
        self._send = send
        self._engine = engine
        self._interval_s = interval_s
        self._ended = threading.Event()
        self._waiting = Waiting(log)
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; an answer that is outstanding is not waited for long."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(timeout=1.0)

    def beat(self) -> None:
        """Send one sign of life."""
        status = self.status
        message = HeartbeatIn(
            engine=self._engine,
            state=status.state,
            policy_step=status.policy_step,
            tokens_per_s=status.tokens_per_s,
        )
        try:
            self._send(message)
            self._waiting.over()
        except (NetworkError, PeerError) as error:
            self._waiting.on(f"an answer to heartbeats ({error})")

    def _run(self) -> None:
        while not self._ended.is_set():
            self.beat()
            self._ended.wait(self._interval_s)
