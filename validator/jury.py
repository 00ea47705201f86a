"""A seat on the jury of a case: judge the leaf or the run again, commit to a ruling, reveal it; and keep cases moving.

Leaves are judged as on a panel, but every one is looked at. A juror rules `Unavailable` only when what the disputant
must serve, the leaf's file or the accusation, is served nowhere, and nothing (`None`) when it cannot decide for reasons
of its own.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from eth_utils.crypto import keccak

from stannary.accusation import Accusation
from stannary.chain import Block, Case
from stannary.commitments import new_salt, ruling_commitment
from stannary.errors import (
    ChainError,
    Malformed,
    NetworkError,
    OperatorError,
    PeerError,
    Reverted,
    Unavailable,
    Unmined,
)
from stannary.types import Address, CaseKind, CasePhase, Outcome, Ruling, to_hex
from stannary.waiting import Waiting
from validator import duty
from validator.duty import CaseView, Key, Push, Seat, Window
from validator.hearing import Hearing, take_turn
from validator.inspection import Inspector, Work
from validator.judgement import Judgement
from validator.panel import SETTLING_S, delivered_leaves, served_leaves
from validator.parts import Parts
from validator.votes import JurorVote

log = logging.getLogger(__name__)

LOOK_BACK = 256
"""Cases behind the newest that a start looks at."""


@dataclass(frozen=True, slots=True)
class OpenCase:
    """A case of this pool that is not resolved."""

    case_id: int
    case: Case
    jury: tuple[Address, ...]
    window: Window
    view: CaseView | None
    """None while this validator does not sit on the jury."""


class JuryDuty:
    """What a validator does about cases; the work in hand is the loop's."""

    def __init__(self, parts: Parts, inspector: Inspector, waiting: Waiting, clock: Callable[[], float]) -> None:
        self._parts = parts
        self._inspector = inspector
        self._waiting = waiting
        self._clock = clock
        self._over: set[int] = set()
        """Cases that need nothing more; only those from `_first` on are kept."""
        self._first: int | None = None
        self._pushes: Counter[tuple[int, CasePhase, int]] = Counter()
        self._push_at: dict[tuple[int, CasePhase, int], float] = {}
        self._hearings: dict[Key, CaseHearing] = {}

    def look(self, at: Block) -> list[OpenCase]:
        """Return the unresolved cases of this pool, oldest first."""
        court, count = self._parts.court, self._parts.court.case_count(at)
        if self._first is None:
            self._first = max(1, count - LOOK_BACK + 1)
        found = []
        for case_id in range(self._first, count + 1):
            if case_id in self._over:
                continue
            case = court.case(case_id, at)
            if case is None or case.phase is CasePhase.RESOLVED:
                self._over.add(case_id)
                continue
            found.append(self._open(case_id, case, at))
        while self._first in self._over:
            self._over.discard(self._first)
            self._first += 1
        keys = {case.view.key for case in found if case.view is not None}
        self._hearings = {key: hearing for key, hearing in self._hearings.items() if key in keys}
        return found

    def serve(self, view: CaseView, work: Work, at: Block) -> bool:
        """Judge, write down and commit; say whether nothing is left to commit."""
        vote = self._parts.rulings.find(view.case_id, view.round, view.leaf_hash)
        if vote is None:
            ruling = self._rule(view, work, at)
            if ruling is None:
                if not work.is_sliced:
                    work.back_off(self._clock())
                return False
            vote = JurorVote(ruling, new_salt())
            try:
                self._parts.rulings.put(view.case_id, view.round, view.leaf_hash, vote)
            except OperatorError as error:
                self._waiting.on(str(error))
                work.back_off(self._clock())
                return False
        return self._commit(view, work, vote)

    def reveal(self, view: CaseView) -> bool:
        """Reveal what was committed; say whether that is done.

        Raises: NetworkError, ChainError when the chain does not answer.
        """
        court = self._parts.court
        vote = self._parts.rulings.find(view.case_id, view.round, view.leaf_hash)
        if vote is None:
            return False
        try:
            mined = court.reveal_ruling(view.case_id, vote.ruling, vote.salt)
        except Reverted as error:
            if court.own_ruling(view.case_id, self._parts.ledger.frozen()).is_revealed:
                return True
            log.warning("case %d: the ruling cannot be revealed now: %s", view.case_id, error.reason)
            return False
        except (ChainError, OperatorError) as error:
            self._waiting.on(f"the reveal of case {view.case_id}: {error}")
            return False
        log.info("case %d: ruling %s revealed, %d gas", view.case_id, vote.ruling.name.lower(), mined.gas_used)
        return True

    def push(self, found: OpenCase, at: Block, now_s: int) -> None:
        """Move a case on if it waits for anybody and it is this validator's turn; losing the race is normal."""
        case = found.case
        due = duty.push(
            case.phase,
            block_number=at.number,
            jury_block=case.jury_block,
            now_s=now_s,
            reveal_until=found.window.reveal_until,
            appeal_until=case.appeal_until,
        )
        if due is None:
            return
        stage = (found.case_id, case.phase, case.jury_block)
        now = self._clock()
        if stage not in self._push_at:
            self._push_at[stage] = now + duty.PATIENCE_S * self._rank(found, at)
        if now < self._push_at[stage] or self._pushes[stage] >= duty.PUSHES:
            return
        self._pushes[stage] += 1
        self._push_at[stage] = now + duty.back_off_s(self._pushes[stage] + 1)
        court = self._parts.court
        try:
            mined = court.draw_jury(found.case_id) if due is Push.DRAW else court.resolve(found.case_id)
        except Reverted as error:
            # Somebody else was first, as a rule. The next look tells what is left to do.
            log.info("case %d: %s was not ours to do: %s", found.case_id, due.value, error.reason)
        except (ChainError, OperatorError) as error:
            log.warning("case %d: %s: %s", found.case_id, due.value, error)
        else:
            log.info("case %d: %s, %d gas", found.case_id, due.value, mined.gas_used)

    def _open(self, case_id: int, case: Case, at: Block) -> OpenCase:
        court = self._parts.court
        if case.phase is CasePhase.OPENED:
            return OpenCase(case_id, case, (), Window(0, 0, 0), None)
        jury, times = tuple(court.jury(case_id, at)), court.jury_times(case_id, at)
        window = Window(times.commit_until, times.reveal_from, times.reveal_until)
        if case.phase is not CasePhase.VOTING or self._parts.provider not in jury:
            return OpenCase(case_id, case, jury, window, None)
        ballot = court.own_ruling(case_id, at)
        is_open = ballot.is_committed and not ballot.is_revealed
        is_recorded = is_open and self._parts.rulings.find(case_id, case.round, case.leaf_hash) is not None
        seat = Seat(window, ballot.is_committed, ballot.is_revealed, is_recorded)
        is_statistics = case.kind is CaseKind.STATISTICS
        return OpenCase(
            case_id,
            case,
            jury,
            window,
            CaseView(case_id, case.round, case.step, case.slot, case.leaf_hash, is_statistics, seat),
        )

    def _rank(self, found: OpenCase, at: Block) -> int:
        """Return how many are before this validator in line: jurors first, the others by an order of the case."""
        own = self._parts.provider
        if own in found.jury:
            return found.jury.index(own)
        validators = self._parts.ledger.validators(at)
        place = validators.index(own) if own in validators else len(validators)
        return len(found.jury) + (place + found.case_id) % max(1, len(validators))

    def _rule(self, view: CaseView, work: Work, at: Block) -> Ruling | None:
        """Return the ruling once the leaf is judged or the window closes."""
        if view.is_statistics:
            return self._rule_run(view, work, at)
        self._inspect(view, work, at)
        judgement = work.judgements.get(view.slot)
        if judgement is None and self._clock() < work.until:
            if not work.is_sliced:
                self._waiting.on(f"the leaf of case {view.case_id}: {work.failure}")
            return None
        ruling = ruling_of(judgement, is_absent=bool(work.absent))
        why = judgement.finding.explanation if judgement is not None else work.failure
        log.info("case %d, step %d, slot %d: %s: %s", view.case_id, view.step, view.slot, ruling.name.lower(), why)
        self._waiting.over()
        return ruling

    def _rule_run(self, view: CaseView, work: Work, at: Block) -> Ruling | None:
        """Return the ruling on a run once it hangs on no leaf that is left, or the window closes."""
        hearing = self._hearings.setdefault(
            view.key, CaseHearing(self._parts, self._inspector, self._clock, view.case_id)
        )
        ruling = take_turn(hearing, work, at, self._clock)
        if ruling is None:
            if not work.is_sliced:
                self._waiting.on(f"the run of case {view.case_id}: {work.failure}")
            return None
        log.info("case %d: %s: %s", view.case_id, ruling.name.lower(), hearing.tell() or work.failure)
        self._waiting.over()
        return ruling

    def _inspect(self, view: CaseView, work: Work, at: Block) -> None:
        ledger, inspector = self._parts.ledger, self._inspector
        state = ledger.step(view.step, at)
        if work.leaves is None:
            try:
                self._take_leaf(view, state.slots, work, at)
            except (NetworkError, PeerError) as error:
                work.failure = str(error)
                return
        facts = inspector.facts(view.step, state, work.taken_beacons)
        inspector.inspect(work, inspector.rules(state, at), facts, at, is_jury=True)

    def _take_leaf(self, view: CaseView, slots: int, work: Work, at: Block) -> None:
        """Note the leaf that the case is about. Raises: NetworkError, PeerError."""
        court = self._parts.court
        case = court.case(view.case_id, at)
        assert case is not None
        if view.slot < slots:
            leaves = served_leaves(self._parts, view.step)
        else:
            history = self._parts.ledger.history(view.step, at)
            leaves, work.taken_beacons = delivered_leaves(history), history.taken_beacons
        leaf = next((leaf for leaf in leaves if leaf.submission.struct_hash() == view.leaf_hash), None)
        if leaf is None:
            raise Unavailable(f"nobody serves the leaf of case {view.case_id}")
        work.leaves = (replace(leaf, location=court.location(view.case_id, case) or leaf.location),)

    def _commit(self, view: CaseView, work: Work, vote: JurorVote) -> bool:
        court = self._parts.court
        commitment = ruling_commitment(
            self._parts.court_domain, view.case_id, view.round, self._parts.provider, vote.ruling, vote.salt
        )
        try:
            mined = court.commit_ruling(view.case_id, commitment)
        except Unmined as error:
            self._waiting.on(f"the commitment of case {view.case_id}: {error}")
            work.next_try = self._clock() + SETTLING_S
            return False
        except Reverted as error:
            if court.own_ruling(view.case_id, self._parts.ledger.frozen()).is_committed:
                return True
            log.error("case %d: the commitment was refused: %s", view.case_id, error.reason)
            work.back_off(self._clock())
            return False
        except (NetworkError, ChainError, OperatorError) as error:
            self._waiting.on(f"the commitment of case {view.case_id}: {error}")
            work.back_off(self._clock())
            return False
        log.info("case %d: ruling committed, %d gas", view.case_id, mined.gas_used)
        return True


class CaseHearing:
    """The hearing of a case, once the accusation is read and found to be what the case names."""

    def __init__(self, parts: Parts, inspector: Inspector, clock: Callable[[], float], case_id: int) -> None:
        self._parts = parts
        self._inspector = inspector
        self._clock = clock
        self._case_id = case_id
        self._is_absent = False
        """Whether the accusation was to be had nowhere at the last try."""
        self._refuted = ""
        """Why the accusation is false as it stands."""
        self._where = ""
        self._hearing: Hearing | None = None

    def go_on(self, work: Work, at: Block) -> None:
        """Do one slice of work. Raises: NetworkError, PeerError, ChainError for what may be there at the next try."""
        if self._hearing is None:
            self._hearing = self._read(at)
        if self._hearing is not None:
            self._hearing.go_on(work, at)

    def ruling(self, *, is_last: bool = False) -> Ruling | None:
        """Return the ruling that nothing which is left can change, None if there is none."""
        if self._refuted:
            return Ruling.ACCEPT
        if is_last and self._is_absent:
            return Ruling.UNAVAILABLE
        if self._hearing is None:
            return Ruling.NONE if is_last else None
        return self._hearing.ruling(is_last=is_last)

    def tell(self) -> str:
        """Say how far it has come."""
        return self._refuted or ("" if self._hearing is None else self._hearing.tell())

    def _read(self, at: Block) -> Hearing | None:
        """Return the hearing, None if the accusation is false as it stands.

        Raises: NetworkError, PeerError, ChainError if it cannot be had.
        """
        case = self._parts.court.case(self._case_id, at)
        assert case is not None
        self._where = self._where or self._parts.court.location(self._case_id, case)
        self._is_absent = True
        data = self._parts.fetch(self._where)
        if (data_hash := keccak(data)) != case.evidence_hash:
            expected = to_hex(case.evidence_hash)
            raise Malformed(f"accusation at {self._where}", expected=expected, got=to_hex(data_hash))
        self._is_absent = False
        ledger = self._parts.ledger
        card_hash = self._inspector.rules(ledger.step(case.step, at), at).card_hash
        named = (case.pool, case.provider, case.first_step, case.step, card_hash, case.leaf_hash)
        try:
            found = Accusation.parse(data)
        except Malformed as error:
            self._refuted = str(error)
            return None
        own = (found.pool, found.provider, found.first_step, found.last_step, found.card_hash, found.list_hash())
        for name, wanted, got in zip(_ACCUSED, named, own, strict=True):
            if wanted != got:
                self._refuted = f"{name} of the accusation: expected {_show(wanted)}, got {_show(got)}"
                return None
        # A run that was convicted since the case was opened changes nothing here: then this one slashes nobody.
        first = min(self._parts.court.judged_up_to(case.provider, at), case.first_step)
        return Hearing(self._parts, self._inspector, self._clock, found, first=first, where=self._where)


_ACCUSED = ("pool", "provider", "first step", "last step", "card", "list of leaves")


def _show(value: object) -> object:
    return to_hex(value) if isinstance(value, bytes) else value


def ruling_of(judgement: Judgement | None, *, is_absent: bool) -> Ruling:
    """Return what a juror says of a leaf: no judgement when time is up is `Unavailable` only without the file."""
    if judgement is None:
        return Ruling.UNAVAILABLE if is_absent else Ruling.NONE
    match judgement.finding.outcome:
        case Outcome.ACCEPT:
            return Ruling.ACCEPT
        case Outcome.FAULT:
            return Ruling.FAULT
        case Outcome.REJECT:
            return Ruling.GREY if judgement.is_grey else Ruling.REJECT
        case _:
            return Ruling.NONE
