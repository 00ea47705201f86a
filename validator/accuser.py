"""Watching providers over whole runs of steps: accuse those whose leaves together are beyond honest work.

What panels published says whom to look at. Before a bond is put down the leaves are measured here as a juror would
measure them: whoever publishes false numbers makes nobody accuse.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stannary.accusation import Accusation
from stannary.chain import Block, Case
from stannary.chain.events import CaseOpened
from stannary.errors import ChainError, NetworkError, PeerError, Reverted, StannaryError, Unavailable
from stannary.provider_record import Reader, Record, Sources, Steps, suspects
from stannary.types import Address, CaseKind, CasePhase, Outcome, Ruling
from validator.budget import Budget, again_s, may_be_sent
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


@dataclass(slots=True)
class _Heard:
    """An accusation that is being measured, or that is to be sent."""

    accusation: Accusation
    hearing: Hearing
    work: Work
    is_sent: bool = False
    """Whether it may be on its way into a block; its bond is counted."""
    failure: str = ""
    """Why it was not sent at the last try."""
    try_at: float = 0.0
    """When it is tried again."""


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
        cases: Callable[[Address, Block], Sequence[CaseOpened]],
        quorum: int,
        bond_wei: int,
        challenge_seconds: int,
        clock: Callable[[], float],
        forget: Callable[[Accusation], None] = lambda _: None,
    ) -> None:
        """`open_case` serves and sends an accusation, `forget` is told of each that needs nothing more.

        `cases` returns the cases of the pool about a provider as they were opened, up to a block. Units: wei of the
        payout token, seconds.
        """
        self._parts = parts
        self._inspector = inspector
        self._sources = sources
        self._open_case = open_case
        self._budget = budget
        self._cases = cases
        self._forget = forget
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
        self._resolved: dict[int, Case] = {}
        """Cases about suspects that change no more."""
        self._waited: dict[Address, int] = {}
        """The case of somebody else that was waited for since a provider became suspect."""

    def tick(self, at: Block) -> bool:
        """Do one slice of work; say whether there is more of it. Raises: NetworkError, ChainError."""
        settled = self._parts.ledger.unsettled(at).start
        if self._next is None:
            self._next = max(0, settled - LOOK_BACK)
        if self._next < settled:
            self._unread |= set(range(self._next, settled))
            self._next = settled
        now, last = self._clock(), settled - 1
        due = sorted(step for step in self._unread if self._read_at.get(step, now) <= now)
        failed: StannaryError | None = None
        # What is away for one of them must not keep the others waiting.
        if due:
            failed = _failure(self._read, due[-1])
        for provider in sorted(self._suspects - set(self._heard)):
            if self._looked.get(provider) != last or self._look_at.get(provider, math.inf) <= now:
                failed = _failure(self._look, provider, last, at) or failed
        for provider in sorted(self._heard):
            failed = _failure(self._hear, provider, at) or failed
        if failed is not None:
            raise failed
        return len(due) > 1 or any(heard.work.is_sliced for heard in self._heard.values())

    def _read(self, step: int) -> None:
        """Note the providers that a step's leaves speak against; what cannot be read is tried again, for a while."""
        history = Steps.of(self._sources.events()).history(self._parts.rules.pool, step)
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
        # What fails on the way is tried again, even if no step settles any more.
        self._look_at[provider] = self._clock() + AGAIN_S
        try:
            record = reader.read(last)
            accusation = None if record is None else record.accusation(self._parts.rules.pool)
        except PeerError as error:
            log.warning("the record of %s cannot be read: %s", provider, error)
            return
        is_waiting = record is not None and self._weigh(record, accusation, at)
        if record is None or not (record.missing or is_waiting):
            del self._look_at[provider]

    def _weigh(self, record: Record, accusation: Accusation | None, at: Block) -> bool:
        """Have a provider's leaves measured if its record suffices; say whether a case must end before that."""
        provider, last = record.provider, record.last
        found = record.standing.log10 if accusation is None else record.as_juror(accusation)
        said = f"what panels published of {provider} up to step {last} is evidence of 10^{found:.2f}"
        if accusation is None or found < record.rules.slash_log10:
            log.info("%s; 10^%g may be slashed", said, record.rules.slash_log10)
            if not record.missing:
                self._drop(provider)
            return False
        open_case = self._open_case_to_wait_for(provider, at)
        if open_case is not None:
            log.info("%s; case %d about it is open already", said, open_case)
            return True
        if self._may_accuse(record, said, at):
            log.warning("%s; measuring its leaves again", said)
            now = self._clock()
            hearing = Hearing(self._parts, self._inspector, self._clock, accusation, first=record.first)
            work = Work(("accusation", last, 0), now + self._challenge_seconds, 0, now)
            self._heard[provider] = _Heard(accusation, hearing, work)
        return False

    def _may_accuse(self, record: Record, said: str, at: Block) -> bool:
        # What others brought without success may have been brought so that it fails.
        own = (case for _, case in self._cases_about(record.provider, at) if case.disputant == self._parts.provider)
        lost = next((case for case in own if case.outcome is not Outcome.FAULT), None)
        if lost is not None and not _is_new(record, lost):
            log.warning("%s; not accused, a jury has heard this from here and did not convict", said)
            self._drop(record.provider)
            return False
        if self._budget.left < self._bond_wei:
            log.error("%s; not accused, the cap on bonds is reached", said)
            return False
        return True

    def _open_case_to_wait_for(self, provider: Address, at: Block) -> int | None:
        """Return the case after which a provider is looked at again, None if it may be accused now.

        Others' cases may be meant to fail. So of those, only the first that is met while the suspicion lasts is waited
        for, and what has convicted already: an accusation beside that one slashes nobody.
        """
        found = {number: case for number, case in self._cases_about(provider, at) if number not in self._resolved}
        for number, case in found.items():
            if case.disputant == self._parts.provider or case.phase is CasePhase.RULED:
                return number
        if not found:
            return None
        first = self._waited.setdefault(provider, min(found))
        return first if first in found else None

    def _cases_about(self, provider: Address, at: Block) -> list[tuple[int, Case]]:
        """Return the accusations of a provider and their numbers, the newest first."""
        about = []
        for number in sorted((event.case_id for event in self._accusations(provider, at)), reverse=True):
            case = self._resolved.get(number) or self._parts.court.case(number, at)
            if case is None:
                continue
            if case.phase is CasePhase.RESOLVED:
                self._resolved[number] = case
            about.append((number, case))
        return about

    def _accusations(self, provider: Address, at: Block) -> list[CaseOpened]:
        return [event for event in self._cases(provider, at) if event.details.kind is CaseKind.STATISTICS]

    def _drop(self, provider: Address) -> None:
        """Suspect a provider no more, until another leaf speaks against it."""
        self._suspects.discard(provider)
        self._waited.pop(provider, None)

    def _hear(self, provider: Address, at: Block) -> None:
        """Measure one slice, and accuse once that is enough for a conviction."""
        heard = self._heard[provider]
        ruling = take_turn(heard.hearing, heard.work, at, self._clock)
        if ruling is None:
            return
        said = f"{provider} up to step {heard.accusation.last_step}: {heard.hearing.tell()}"
        if ruling is Ruling.FAULT:
            self._send(heard, said, at)
            return
        self._end(heard)
        log.warning("%s; not accused%s", said, heard.work.failure and f": {heard.work.failure}")
        # What could not be measured says nothing of the provider.
        if ruling is Ruling.ACCEPT:
            self._drop(provider)

    def _send(self, heard: _Heard, said: str, at: Block) -> None:
        """Accuse; what fails is tried again within the window, and what may have been sent is looked for first."""
        if heard.is_sent and self._has_found(heard, said, at):
            return
        now, is_over = self._clock(), bool(heard.failure) and self._clock() >= heard.work.until
        if now < heard.try_at and not is_over:
            return
        if is_over:
            log.error("%s; not accused in time: %s", said, heard.failure)
            self._give_up(heard)
            return
        if not heard.is_sent and not self._budget.take(self._bond_wei):
            log.error("%s; not accused, the cap on bonds is reached", said)
            self._end(heard)
            return
        try:
            number = self._open_case(heard.accusation)
        except Reverted as error:
            if heard.is_sent and self._has_found(heard, said, self._parts.ledger.frozen()):
                return
            log.error("%s; the accusation failed: %s", said, error)
            self._give_up(heard, is_taken=True)
        except StannaryError as error:
            heard.is_sent = heard.is_sent or may_be_sent(error)
            if not heard.is_sent:
                self._budget.give_back(self._bond_wei)
            if str(error) != heard.failure:
                log.error("%s; the accusation failed, and is tried again: %s", said, error)
            heard.failure, heard.try_at = str(error), self._clock() + again_s(error, self._challenge_seconds)
        else:
            self._opened(heard, said, number)

    def _has_found(self, heard: _Heard, said: str, at: Block) -> bool:
        """Say whether an accusation that may have been sent is on chain; if so it is held."""
        accused, own = heard.accusation, self._parts.provider
        numbers = [
            event.case_id
            for event in self._accusations(accused.provider, at)
            if event.details.disputant == own and event.details.evidence_hash == accused.evidence_hash()
        ]
        if numbers:
            self._opened(heard, said, max(numbers))
        return bool(numbers)

    def _opened(self, heard: _Heard, said: str, number: int) -> None:
        self._budget.hold(number, self._bond_wei)
        log.warning("%s; case %d opened", said, number)
        self._end(heard)

    def _give_up(self, heard: _Heard, *, is_taken: bool = False) -> None:
        if is_taken or heard.is_sent:
            self._budget.give_back(self._bond_wei)
        self._end(heard)

    def _end(self, heard: _Heard) -> None:
        del self._heard[heard.accusation.provider]
        self._forget(heard.accusation)


def _failure(act: Callable[..., None], *arguments: object) -> StannaryError | None:
    """Return what kept something from being done, if anything."""
    try:
        act(*arguments)
    except (NetworkError, PeerError, ChainError) as error:
        return error
    return None


def _is_new(record: Record, case: Case) -> bool:
    """Say whether there is more than a case was about: the leaves after it suffice by themselves."""
    later = record.accusation(case.pool, case.step + 1) if case.step < record.last else None
    return later is not None and record.as_juror(later) >= record.rules.slash_log10
