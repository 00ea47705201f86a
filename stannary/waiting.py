"""Says what a process waits for and since when: once at the start, then every half minute, and when it is over."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

REMIND_S = 30.0


@dataclass(slots=True)
class Waiting:
    """One process's current wait."""

    log: logging.Logger
    clock: Callable[[], float] = time.monotonic
    what: str | None = None
    _since: float = 0.0
    _said: float = field(default=0.0)

    def on(self, what: str) -> None:
        """Note that the process waits for `what`; says so when it is news or half a minute has passed."""
        now = self.clock()
        if what != self.what:
            self.what, self._since, self._said = what, now, now
            self.log.info("waiting for %s", what)
        elif now - self._said >= REMIND_S:
            self._said = now
            self.log.info("still waiting for %s, since %.0f s", what, now - self._since)

    def over(self) -> None:
        """Note that the wait, if any, has ended."""
        if self.what is not None:
            waited = self.clock() - self._since
            if waited >= REMIND_S:
                self.log.info("no longer waiting for %s after %.0f s", self.what, waited)
            self.what = None
