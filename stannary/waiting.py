"""Says what a process waits for and since when: once at the start, then every half minute, and when it is over.

`until_answered` waits so for a chain or coordinator that is away.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from stannary.errors import NetworkError

REMIND_S = 30.0
RETRY_S = 2.0
T = TypeVar("T")


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


class StopRequested(Exception):
    """The operator asked to stop while something was still waited for."""


def until_answered(act: Callable[[], T], log: logging.Logger, stop: threading.Event) -> T:
    """Do something as often as it takes for the other side to answer, saying what is waited for.

    Raises: StopRequested once `stop` is set; what `act` raises, but for NetworkError.
    """
    waiting = Waiting(log)
    while True:
        try:
            result = act()
        except NetworkError as error:
            waiting.on(str(error))
            if stop.wait(RETRY_S):
                raise StopRequested from None
        else:
            waiting.over()
            return result
