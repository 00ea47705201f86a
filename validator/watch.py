"""Watching a pool from outside its panels: judge a sample of each step's leaves again, and dispute what is wrong.

Anyone may watch: it takes fees, payout tokens for bonds, and a machine that can run the policy. What this machine
cannot judge it leaves alone. Whole runs of leaves are left to `validator.accuser`.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from stannary.chain import Block, StepHistory
from stannary.disputes import panel_outcome
from stannary.errors import ChainError, NetworkError, OperatorError, PeerError, Reverted
from stannary.types import CaseKind, Outcome, Phase
from stannary.waiting import Waiting
from validator.accuser import Accuser
from validator.budget import Budget
from validator.inspection import Inspector, Work
from validator.judgement import Judgement
from validator.panel import delivered_leaves, served_leaves
from validator.parts import Parts

log = logging.getLogger(__name__)

WARN_S = 60
"""So long before the end of a challenge window what is still to be done is said."""


@dataclass(frozen=True, slots=True)
class Stakes:
    """What the pool's rules and the watcher's purse make of a dispute."""

    quorum: int
    challenge_seconds: int
    bond_wei: int
    budget: Budget


@dataclass(slots=True)
class _Watched:
    """One step whose window is open."""

    slots: list[int]
    work: Work
    done: set[int] = field(default_factory=set)
    is_warned: bool = False


def sample(slots: Sequence[int], share: float, draw: random.Random) -> list[int]:
    """Return which slots are judged again: each with that chance, one at least."""
    chosen = [slot for slot in slots if draw.random() < share]
    return chosen or ([draw.choice(list(slots))] if slots else [])


def dispute_of(panel: Outcome, found: Judgement) -> CaseKind | None:
    """Return what is to be done about a leaf that the panel decided so and this machine judged so, None for nothing.

    What lies in the grey band of the card is left alone: a jury would settle it for the worker.
    """
    if not found.is_decided or found.is_grey:
        return None
    is_good = found.finding.outcome is Outcome.ACCEPT
    if panel is Outcome.ACCEPT:
        return None if is_good else CaseKind.CHALLENGE
    return CaseKind.APPEAL if is_good else None


class Watcher:
    """Judges samples, and disputes and accuses within a budget."""

    def __init__(
        self,
        parts: Parts,
        inspector: Inspector,
        open_case: Callable[[int, int, CaseKind], int],
        stakes: Stakes,
        *,
        share: float,
        poll_s: float,
        stop: threading.Event,
        accuser: Accuser | None = None,
        seed: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._parts = parts
        self._open_case = open_case
        self._stakes = stakes
        self._share = share
        self._poll_s = poll_s
        self._stop = stop
        self._accuser = accuser
        self._clock = clock
        # Nobody must foresee the sample, unless it is asked to repeat one.
        self._draw = random.SystemRandom() if seed is None else random.Random(seed)  # noqa: S311
        self._inspector = inspector
        self._waiting = Waiting(log)
        self._watched: dict[int, _Watched] = {}

    def run(self) -> None:
        """Watch until asked to stop; a chain or coordinator that is away is waited for."""
        while not self._stop.is_set():
            try:
                is_busy = self.tick()
                self._waiting.over()
            except (NetworkError, PeerError, ChainError) as error:
                self._waiting.on(str(error))
                is_busy = False
            if not is_busy:
                self._stop.wait(self._poll_s)

    def tick(self) -> bool:
        """Do one slice of work; say whether there is more of it."""
        at = self._parts.ledger.frozen()
        self._stakes.budget.settle(lambda case_id: self._parts.court.case(case_id, at))
        clock = self._parts.ledger.clock(at)
        is_busy = False
        steps = self._parts.ledger.unsettled(at)
        for step in [step for step in self._watched if step not in steps]:
            del self._watched[step]
        for step in steps:
            if self._parts.ledger.step(step, at).phase is not Phase.AUDITED:
                continue
            times = self._parts.ledger.panel_times(step, at)
            left = times.reveal_until + self._stakes.challenge_seconds - clock
            if clock < times.reveal_until or left <= 0:
                continue
            is_busy |= self._look(step, left, at)
        return is_busy or (self._accuser is not None and self._accuser.tick(at))

    def _look(self, step: int, left_s: int, at: Block) -> bool:
        history = self._parts.ledger.history(step, at)
        watched = self._watched.get(step) or self._begin(step, history, left_s)
        state = self._parts.ledger.step(step, at)
        rules, facts = self._inspector.rules(state, at), self._inspector.facts(step, state, history.taken_beacons)
        self._inspector.inspect(watched.work, rules, facts, at, is_jury=True)
        for slot in [slot for slot in watched.work.judgements if slot not in watched.done]:
            watched.done.add(slot)
            self._act(history, slot, panel_outcome(history, slot, self._stakes.quorum), watched.work.judgements[slot])
        missing = len(watched.slots) - len(watched.done)
        if missing and left_s < WARN_S and not watched.is_warned:
            watched.is_warned = True
            log.warning(
                "step %d: %d of %d sampled leaves are not judged, the window closes in %d s: %s",
                step, missing, len(watched.slots), left_s, watched.work.failure or "no time",
            )  # fmt: skip
        return watched.work.is_sliced

    def _begin(self, step: int, history: StepHistory, left_s: int) -> _Watched:
        leaves = [*served_leaves(self._parts, step), *delivered_leaves(history)]
        slots = sample([leaf.submission.slot for leaf in leaves], self._share, self._draw)
        chosen = tuple(leaf for leaf in leaves if leaf.submission.slot in slots)
        now = self._clock()
        work = Work(("watch", step, 0), now + left_s, 0, now, chosen, history.taken_beacons)
        self._watched[step] = _Watched(slots, work)
        log.info("step %d: judges %d of %d leaves again", step, len(slots), len(leaves))
        return self._watched[step]

    def _act(self, history: StepHistory, slot: int, panel: Outcome, found: Judgement) -> None:
        kind = dispute_of(panel, found)
        if kind is None or slot in history.held:
            return
        said = f"step {history.step}, slot {slot}: the panel says {panel.name.lower()}, {found.finding.explanation}"
        if not self._stakes.budget.take(self._stakes.bond_wei):
            log.error("%s; not disputed, the cap on bonds is reached", said)
            return
        try:
            case = self._open_case(history.step, slot, kind)
        except (Reverted, OperatorError) as error:
            self._stakes.budget.give_back(self._stakes.bond_wei)
            log.error("%s; the %s failed: %s", said, kind.name.lower(), error)
            return
        self._stakes.budget.hold(case, self._stakes.bond_wei)
        log.warning("%s; case %d opened", said, case)
