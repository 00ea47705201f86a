"""Watching providers over whole runs of steps: accuse those whose leaves together are beyond honest work.

What panels published says whom to look at. Before a bond is put down the leaves are measured here as a juror would
measure them: whoever publishes false numbers makes nobody accuse.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from stannary.accusation import Accusation
from stannary.chain import Block, Case, StepHistory
from stannary.errors import OperatorError, PeerError, Reverted, Unavailable
from stannary.provider_record import Reader, Record, Sources, suspects
from stannary.types import Address, CaseKind, CasePhase, Outcome, Ruling
from validator.budget import Budget
from validator.hearing import Hearing, take_turn
from validator.inspection import Inspector, Work
from validator.parts import Parts

log = logging.getLogger(__name__)

LOOK_BACK = 64
"""Settled steps that a start looks through for suspects; the records of those hold all steps."""
AGAIN_S = 30.0
"""After so long what could not be read is asked for again."""
TRIES = 10
"""How often."""


@dataclass(frozen=True, slots=True)
class _Heard:
    """An accusation that is being measured."""

    accusation: Accusation
    hearing: Hearing
    work: Work


class Accuser:
    """Reads what panels publish step by step, measures what is suspicious, and accuses within a budget."""

    def __init__(
        self,
        parts: Parts,
        inspector: Inspector,
        sources: Sources,
        open_case: Callable[[Accusation], int],
        budget: Budget,
        *,
        quorum: int,
        bond_wei: int,
        challenge_seconds: int,
        clock: Callable[[], float],
    ) -> None:
        """`open_case` serves and sends an accusation. Units: wei of the payout token, seconds."""
        self._parts = parts
        self._inspector = inspector
        self._sources = sources
        self._open_case = open_case
        self._budget = budget
        self._quorum = quorum
        self._bond_wei = bond_wei
        self._challenge_seconds = challenge_seconds
        self._clock = clock
        self._next: int | None = None
        """The first step that had not settled yet."""
        self._readers: dict[Address, Reader] = {}
        """Of the providers that a leaf speaks against; their records hold all the steps before."""
        self._unread: set[int] = set()
        """Settled steps whose leaves were not looked through, the newest first to be."""
        self._read_at: dict[int, float] = {}
        """When those that could not be read are tried again."""
        self._tries: Counter[int] = Counter()
        self._suspects: set[Address] = set()
        """Those that are still to be looked at."""
        self._looked: dict[Address, int] = {}
        """Up to which step each of them was."""
        self._look_at: dict[Address, float] = {}
        """When what was missing is asked for again."""
        self._heard: dict[Address, _Heard] = {}

    def tick(self, at: Block) -> bool:
        """Do one slice of work; say whether there is more of it. Raises: NetworkError, ChainError."""
        settled = self._parts.ledger.unsettled(at).start
        if self._next is None:
            self._next = max(0, settled - LOOK_BACK)
        if self._next < settled:
            self._unread |= set(range(self._next, settled))
            self._next = settled
        now = self._clock()
        due = sorted(step for step in self._unread if self._read_at.get(step, now) <= now)
        if due:
            self._read(due[-1])
        for provider in sorted(self._suspects - set(self._heard)):
            if self._looked.get(provider) != settled - 1 or self._look_at.get(provider, math.inf) <= now:
                self._look(provider, settled - 1, at)
        for provider in sorted(self._heard):
            self._hear(provider, at)
        return len(due) > 1 or any(heard.work.is_sliced for heard in self._heard.values())

    def _read(self, step: int) -> None:
        """Note the providers that a step's leaves speak against; what cannot be read is tried again, for a while."""
        history = StepHistory.of(self._sources.events(), self._parts.rules.pool, step)
        missing = ""
        try:
            if history.opened is not None and not history.is_cancelled:
                card = self._sources.card(self._sources.card_hash(history.opened.offer))
                found, missing = suspects(self._sources, history, card.evidence)
                self._suspects |= found
        except (Unavailable, PeerError) as error:
            missing = str(error)
        if missing:
            self._tries[step] += 1
            if self._tries[step] < TRIES:
                self._read_at[step] = self._clock() + AGAIN_S
                return
            log.warning("step %d: what its panel published cannot be read: %s", step, missing)
        self._unread.discard(step)

    def _look(self, provider: Address, last: int, at: Block) -> None:
        reader = self._readers.setdefault(provider, Reader(self._sources, provider, self._quorum))
        self._looked[provider] = last
        self._look_at.pop(provider, None)
        try:
            record = reader.read(last)
            accusation = None if record is None else record.accusation(self._parts.rules.pool)
        except PeerError as error:
            log.warning("the record of %s cannot be read: %s", provider, error)
            return
        if record is None:
            return
        if record.missing:
            self._look_at[provider] = self._clock() + AGAIN_S
        found = record.standing.log10 if accusation is None else record.as_juror(accusation)
        said = f"what panels published of {provider} up to step {last} is evidence of 10^{found:.2f}"
        if accusation is None or found < record.rules.slash_log10:
            log.info("%s; 10^%g may be slashed", said, record.rules.slash_log10)
            if not record.missing:
                self._suspects.discard(provider)
        elif self._may_accuse(record, said, at):
            log.warning("%s; measuring its leaves again", said)
            now = self._clock()
            hearing = Hearing(self._parts, self._inspector, self._clock, accusation, first=record.first)
            work = Work(("accusation", last, 0), now + self._challenge_seconds, 0, now)
            self._heard[provider] = _Heard(accusation, hearing, work)

    def _may_accuse(self, record: Record, said: str, at: Block) -> bool:
        case = self._newest_case(record.provider, at)
        if case is not None and case.phase is not CasePhase.RESOLVED:
            log.info("%s; it is accused already", said)
            return False
        # What others brought without success may have been brought so that it fails.
        if case is not None and case.disputant == self._parts.provider and not _is_new(record, case):
            log.warning("%s; not accused, a jury has heard this from here and did not convict", said)
            self._suspects.discard(record.provider)
            return False
        if self._budget.left < self._bond_wei:
            log.error("%s; not accused, the cap on bonds is reached", said)
            return False
        return True

    def _hear(self, provider: Address, at: Block) -> None:
        """Measure one slice, and accuse once that is enough for a conviction."""
        heard = self._heard[provider]
        ruling = take_turn(heard.hearing, heard.work, at, self._clock)
        if ruling is None:
            return
        del self._heard[provider]
        said = f"{provider} up to step {heard.accusation.last_step}: {heard.hearing.tell()}"
        if ruling is not Ruling.FAULT:
            log.warning("%s; not accused%s", said, heard.work.failure and f": {heard.work.failure}")
            self._suspects.discard(provider)
            return
        if not self._budget.take(self._bond_wei):
            log.error("%s; not accused, the cap on bonds is reached", said)
            return
        try:
            number = self._open_case(heard.accusation)
        except (Reverted, OperatorError) as error:
            self._budget.give_back(self._bond_wei)
            log.error("%s; the accusation failed: %s", said, error)
            return
        self._budget.hold(number, self._bond_wei)
        log.warning("%s; case %d opened", said, number)

    def _newest_case(self, provider: Address, at: Block) -> Case | None:
        """Return the last accusation of a provider, whoever brought it."""
        court = self._parts.court
        cases = (court.case(number, at) for number in range(court.case_count(at), 0, -1))
        wanted = (case for case in cases if case is not None and case.kind is CaseKind.STATISTICS)
        return next((case for case in wanted if case.provider == provider), None)


def _is_new(record: Record, case: Case) -> bool:
    """Say whether there is more than a case was about: it convicted, or the leaves after it suffice by themselves."""
    if case.outcome is Outcome.FAULT:
        return True
    later = record.accusation(case.pool, case.step + 1) if case.step < record.last else None
    return later is not None and record.as_juror(later) >= record.rules.slash_log10
