"""The validator's daemon: looks at the chain, reveals what is due, judges what is owed first, publishes the evidence.

It decides nothing itself: what is owed comes from `duty`, judgements from `judgement`. Seats on panels and juries are
served by `panel` and `jury`; this loop holds the work in hand and gives each its turn.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from stannary.chain import Block
from stannary.errors import (
    ChainError,
    Malformed,
    NetworkError,
    OperatorError,
    PeerError,
    Refused,
)
from stannary.waiting import Waiting
from stannary.wire import VerdictsIn
from validator import duty
from validator.duty import CaseView, Key, StepView
from validator.inspection import Inspector, Work
from validator.jury import JuryDuty
from validator.panel import PanelDuty
from validator.parts import Parts
from validator.votes import Vote

log = logging.getLogger(__name__)

MAX_PUBLISH_TRIES = 40
T = TypeVar("T")


class Validator:
    """One validator: the work in hand, the parts to act with, and what it waits for."""

    def __init__(
        self,
        parts: Parts,
        poll_s: float = 0.5,
        stop: threading.Event | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.parts = parts
        self.stop = stop or threading.Event()
        self.waiting = Waiting(log, clock)
        self._poll_s = poll_s
        self._clock = clock
        self._inspector = Inspector(parts, clock, self.stop)
        self._panel = PanelDuty(parts, self._inspector, self.waiting, clock)
        self._jury = JuryDuty(parts, self._inspector, self.waiting, clock)
        self._seen: Block | None = None
        """The block at which nothing was left to do at once."""
        self._works: dict[Key, Work] = {}
        self._was_run = False
        """Whether the last turn was that of a run of leaves."""
        self._fetched: int | None = None
        """The step whose policy was fetched ahead."""
        self._given_up: set[Key] = set()
        self._reveal_tries: Counter[Key] = Counter()
        self._reveal_at: dict[Key, float] = {}
        self._unpublished = set(parts.votes.unpublished())
        """Steps whose votes were written and are not done with."""
        self._revealed: set[int] = set()
        """Of those, the ones that are revealed, or settled and never will be."""
        self._publish_tries: Counter[int] = Counter()
        self._publish_at = 0.0

    def run(self) -> None:
        """Work until asked to stop. Raises: OperatorError when going on would be of no use."""
        failures = 0
        while not self.stop.is_set():
            try:
                self.tick()
                failures = 0
            except (NetworkError, ChainError, PeerError) as error:
                self.waiting.on(f"the chain: {error}")
            except OperatorError:
                raise
            except Exception:
                failures += 1
                log.exception("the look at the chain failed in a way that nobody foresaw, %d times in a row", failures)
                self.stop.wait(duty.back_off_s(failures))
            if not any(work.is_sliced for work in self._works.values()):
                self.stop.wait(self._poll_s)
        for step in sorted(self._unpublished - self._revealed):
            log.warning("step %d: its vote is committed and not revealed: start again before it is fined", step)
        log.info("stopped")

    def tick(self) -> None:
        """Look at the chain once and do what is due. Raises: NetworkError, ChainError if the chain does not answer."""
        at = self.parts.ledger.frozen()
        if self._seen is not None and at.hash == self._seen.hash and not self._works:
            self._publish()
            return
        self._seen = None
        now_s = self.parts.ledger.clock(at)
        steps, cases = self._panel.look(at), self._jury.look(at)
        views = [case.view for case in cases if case.view is not None]
        agenda = duty.agenda(steps, views, now_s, frozenset(self._given_up))
        for view in agenda.missed:
            self._give_up(view)
        is_left = self._reveal(agenda.reveals, at)
        shown = {view.step for view in agenda.done if isinstance(view, StepView)}
        self._revealed |= self._unpublished & (shown | self._unpublished - {view.step for view in steps})
        for case in cases:
            self._tried(f"case {case.case_id}", partial(self._jury.push, case, at, now_s))
        self._works = {view.key: self._work_of(view, at, now_s) for view in agenda.judges}
        if not self._serve(agenda.judges, at):
            self._rest(agenda.coming, steps, at)
        self._publish()
        if not is_left and not cases:
            self._seen = at

    def _rest(self, coming: StepView | None, steps: list[StepView], at: Block) -> None:
        if coming is not None and coming.step != self._fetched:
            self._fetch(coming, at)
        self.waiting.on("a seat on a panel" if steps else "a step to open")

    def _fetch(self, view: StepView, at: Block) -> None:
        """Fetch a policy ahead; what fails here is tried again when it counts."""
        try:
            self.parts.weights.fetch(view.policy_step, self.parts.ledger.policy_root(view.policy_step, at))
            self._fetched = view.step
        except Exception as error:  # noqa: BLE001  a policy that nobody can take must not end this process
            log.debug("policy step %d cannot be fetched yet: %s", view.policy_step, error)

    def _work_of(self, view: StepView | CaseView, at: Block, now_s: int) -> Work:
        """Return the work on a duty, new unless it was begun; its end moves with a pool whose clock stands."""
        assert view.seat is not None
        now, paused_s = self._clock(), at.timestamp - now_s
        work = self._works.get(view.key)
        if work is None:
            window = duty.window_s(view.seat.window, self.parts.vote_seconds, now_s)
            return Work(view.key, until=now + window, paused_s=paused_s, started=now)
        work.until += paused_s - work.paused_s
        work.paused_s = paused_s
        return work

    def _serve(self, owed: tuple[StepView | CaseView, ...], at: Block) -> bool:
        """Give the first duty that is not to wait its turn; say whether there was any duty."""
        due = [view for view in owed if self._clock() >= self._works[view.key].next_try]
        view = duty.turn(due, was_run=self._was_run)
        if view is None:
            return bool(owed)
        self._was_run = duty.is_run(view)
        work = self._works[view.key]
        if isinstance(view, StepView):
            is_done = self._tried(view, partial(self._panel.serve, view, work, at))
        else:
            is_done = self._tried(view, partial(self._jury.serve, view, work, at))
        if is_done is None:
            work.back_off(self._clock())
        if is_done:
            del self._works[view.key]
            if isinstance(view, StepView):
                self._unpublished.add(view.step)
        return True

    def _reveal(self, due: tuple[StepView | CaseView, ...], at: Block) -> bool:
        """Reveal what is due; say whether something is to be tried again."""
        is_left = False
        for view in due:
            if self._clock() < self._reveal_at.get(view.key, 0.0):
                is_left = True
                continue
            if isinstance(view, StepView):
                is_done = self._tried(view, partial(self._panel.reveal, view, at))
            else:
                is_done = self._tried(view, partial(self._jury.reveal, view))
            if is_done and isinstance(view, StepView):
                self._revealed.add(view.step)
            if not is_done:
                is_left = True
                self._reveal_tries[view.key] += 1
                self._reveal_at[view.key] = self._clock() + duty.back_off_s(self._reveal_tries[view.key])
        return is_left

    def _tried(self, what: object, act: Callable[[], T]) -> T | None:
        """Return what a duty comes to, None if it fails in a way that nobody foresaw: the others have their turns.

        Raises: NetworkError, ChainError, OperatorError.
        """
        try:
            return act()
        except (NetworkError, ChainError, OperatorError):
            raise
        except Exception:
            log.exception("%s: failed in a way that nobody foresaw, to be tried again", what)
            return None

    def _give_up(self, view: StepView | CaseView) -> None:
        assert view.seat is not None
        why = "its window is over"
        if view.seat.is_committed and not view.seat.is_recorded:
            why = "what was committed does not lie on this machine"
        log.error("%s: no vote of this validator counts: %s", view, why)
        self._given_up.add(view.key)

    def _publish(self) -> None:
        """Publish what was revealed and is not published yet, one step a call."""
        if not self._revealed or self._clock() < self._publish_at:
            return
        step = min(self._revealed, key=lambda step: (self._publish_tries[step], step))
        vote = self._vote_shown(step, self.parts.ledger.frozen())
        try:
            if vote is not None and vote.evidence is not None:
                self.parts.coordinator.put_evidence(vote.evidence_root, vote.evidence.to_bytes())
                self.parts.coordinator.post_verdicts(VerdictsIn(verdicts=list(vote.verdicts)))
        except Exception as error:  # noqa: BLE001  whatever a coordinator does, votes are still to be revealed
            self._publish_tries[step] += 1
            self._publish_at = self._clock() + duty.back_off_s(self._publish_tries[step])
            if self._publish_tries[step] < MAX_PUBLISH_TRIES and not _is_final(error):
                log.warning("step %d: evidence not published yet: %s", step, error)
                return
            log.error("step %d: the evidence stays unpublished: %s", step, error)
        self._revealed.discard(step)
        self._unpublished.discard(step)
        self._close(step)

    def _vote_shown(self, step: int, at: Block) -> Vote | None:
        """Return the vote of this validator that was revealed for a step, None if none of those here was."""
        ledger = self.parts.ledger
        if not ledger.own_ballot(step, at).is_revealed:
            return None
        event = ledger.history(step, at).votes.get(self.parts.provider)
        if event is None:
            return None
        return self.parts.votes.matching(step, event.outcomes, event.verdict_root, event.evidence_root)

    def _close(self, step: int) -> None:
        try:
            self.parts.votes.close(step)
        except OperatorError as error:  # published all the same
            log.error("%s", error)


def _is_final(error: Exception) -> bool:
    """Say whether a coordinator's refusal will not change: it may lag behind the chain, which 403 and 409 can mean."""
    return isinstance(error, Malformed) or (isinstance(error, Refused) and error.status not in (403, 408, 409, 429))
