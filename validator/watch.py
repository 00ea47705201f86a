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
from functools import partial

from stannary.chain import Block, StepHistory, StepState
from stannary.chain.events import CaseOpened
from stannary.disputes import panel_outcome
from stannary.errors import Reverted, StannaryError
from stannary.types import Address, CaseKind, Outcome, Phase
from stannary.waiting import Waiting
from validator.accuser import Accuser
from validator.budget import RETRY_S, Budget, again_s, may_be_sent
from validator.checks import Leaf, check_commitment
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
    committed: Sequence[Leaf]
    """All leaves under the step's root: what is disputed is proved with them."""
    done: set[int] = field(default_factory=set)
    """Slots that need nothing more."""
    sent: set[int] = field(default_factory=set)
    """Slots whose dispute may be on its way into a block; its bond is counted."""
    failures: dict[int, str] = field(default_factory=dict)
    """Why slots were not disputed at the last try."""
    try_at: dict[int, float] = field(default_factory=dict)
    """When those are tried again."""
    is_warned: bool = False

    def leaf(self, slot: int) -> Leaf:
        """Return the leaf of a slot."""
        return next(leaf for leaf in self.work.leaves or () if leaf.submission.slot == slot)


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
        open_case: Callable[[Leaf, Sequence[Leaf], CaseKind], int],
        stakes: Stakes,
        *,
        cases: Callable[[Address, Block], Sequence[CaseOpened]],
        share: float,
        poll_s: float,
        stop: threading.Event,
        accuser: Accuser | None = None,
        seed: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        forget: Callable[[Leaf], None] = lambda _: None,
    ) -> None:
        """`open_case` serves and disputes a leaf, given all under the root of its step; `forget` is told of each leaf
        that needs nothing more.

        `cases` returns the cases of the pool about a provider as they were opened, up to a block.
        """
        self._parts = parts
        self._open_case = open_case
        self._cases = cases
        self._forget = forget
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
        self._begin_at: dict[int, float] = {}
        """When the leaves of steps that are not served as they were committed are asked for again."""

    def run(self) -> None:
        """Watch until asked to stop; a chain or coordinator that is away is waited for."""
        while not self._stop.is_set():
            try:
                is_busy = self.tick()
                self._waiting.over()
            except StannaryError as error:
                self._waiting.on(str(error))
                is_busy = False
            if not is_busy:
                self._stop.wait(self._poll_s)

    def tick(self) -> bool:
        """Do one slice of work on each step, and one on accusing; say whether there is more of it.

        What fails for one of them keeps none of the others waiting. Raises: StannaryError, the first of them.
        """
        at = self._parts.ledger.frozen()
        failed: list[StannaryError] = []
        is_busy = False
        for turn in self._turns(at):
            try:
                is_busy |= turn()
            except StannaryError as error:
                failed.append(error)
        if failed:
            raise failed[0]
        return is_busy

    def _turns(self, at: Block) -> list[Callable[[], bool]]:
        """Return what there is to do; each says whether there is more of it."""
        steps = self._parts.ledger.unsettled(at)
        self._begin_at = {step: begin_at for step, begin_at in self._begin_at.items() if step in steps}
        turns: list[Callable[[], bool]] = [partial(self._settle, at)]
        turns += [partial(self._leave, step, at) for step in self._watched if step not in steps]
        turns += [partial(self._visit, step, at) for step in steps]
        if self._accuser is not None:
            turns.append(partial(self._accuser.tick, at))
        return turns

    def _settle(self, at: Block) -> bool:
        self._stakes.budget.settle(lambda case_id: self._parts.court.case(case_id, at))
        return False

    def _leave(self, step: int, at: Block) -> bool:
        """Watch a step no more: what is not on chain by now never will be."""
        watched = self._watched[step]
        self._find_sent(step, watched, at)
        for _ in watched.sent:
            self._stakes.budget.give_back(self._stakes.bond_wei)
        for leaf in watched.work.leaves or ():
            self._forget(leaf)
        del self._watched[step]
        return False

    def _visit(self, step: int, at: Block) -> bool:
        """Look at a step if its challenge window is open."""
        if self._parts.ledger.step(step, at).phase is not Phase.AUDITED:
            return False
        clock, times = self._parts.ledger.clock(at), self._parts.ledger.panel_times(step, at)
        left = times.reveal_until + self._stakes.challenge_seconds - clock
        if clock < times.reveal_until or left <= 0:
            return False
        return self._look(step, left, at)

    def _look(self, step: int, left_s: int, at: Block) -> bool:
        history, state = self._parts.ledger.history(step, at), self._parts.ledger.step(step, at)
        watched = self._watched.get(step) or self._begin(state, history, left_s)
        if watched is None:
            return False
        rules, facts = self._inspector.rules(state, at), self._inspector.facts(step, state, history.taken_beacons)
        self._inspector.inspect(watched.work, rules, facts, at, is_jury=True)
        self._find_sent(step, watched, at)
        for slot in [slot for slot in watched.work.judgements if slot not in watched.done]:
            self._act(watched, history, slot)
        missing = watched.work.missing
        if missing and left_s < WARN_S and not watched.is_warned:
            watched.is_warned = True
            log.warning(
                "step %d: %d of %d sampled leaves are not judged, the window closes in %d s: %s",
                step, len(missing), len(watched.slots), left_s, watched.work.failure or "no time",
            )  # fmt: skip
        return watched.work.is_sliced

    def _begin(self, state: StepState, history: StepHistory, left_s: int) -> _Watched | None:
        """Choose a sample of a step's leaves; None while others are served than those that were committed."""
        step, now = history.step, self._clock()
        if now < self._begin_at.get(step, now):
            return None
        served = served_leaves(self._parts, step)
        found = check_commitment(
            served, state.slots, self._parts.rules.max_units, state.submission_root, state.settlement_hash
        )
        if not found.is_fine:
            log.error("step %d: nothing of it can be watched: %s", step, found.explanation)
            self._begin_at[step] = now + RETRY_S
            return None
        self._begin_at.pop(step, None)
        leaves = [*served, *delivered_leaves(history)]
        slots = sample([leaf.submission.slot for leaf in leaves], self._share, self._draw)
        chosen = tuple(leaf for leaf in leaves if leaf.submission.slot in slots)
        work = Work(("watch", step, 0), now + left_s, 0, now, chosen, history.taken_beacons)
        self._watched[step] = _Watched(slots, work, served)
        log.info("step %d: judges %d of %d leaves again", step, len(slots), len(leaves))
        return self._watched[step]

    def _act(self, watched: _Watched, history: StepHistory, slot: int) -> None:
        """Dispute a leaf if it must be; what cannot be sent is tried again while the window lasts."""
        found, leaf = watched.work.judgements[slot], watched.leaf(slot)
        panel = panel_outcome(history, slot, self._stakes.quorum)
        kind = dispute_of(panel, found)
        if kind is None or slot in history.held:
            if slot in watched.sent:
                self._stakes.budget.give_back(self._stakes.bond_wei)
            self._end(watched, slot)
            return
        now = self._clock()
        if now < watched.try_at.get(slot, now):
            return
        said = f"step {history.step}, slot {slot}: the panel says {panel.name.lower()}, {found.finding.explanation}"
        if slot not in watched.sent and not self._stakes.budget.take(self._stakes.bond_wei):
            self._fail(watched, slot, f"{said}; not disputed, the cap on bonds is reached", RETRY_S)
            return
        try:
            case = self._open_case(leaf, watched.committed, kind)
        except Reverted as error:
            if slot in watched.sent:
                self._find_sent(history.step, watched, self._parts.ledger.frozen())
            if slot not in watched.done:
                self._stakes.budget.give_back(self._stakes.bond_wei)
                self._end(watched, slot)
                log.error("%s; the %s failed: %s", said, kind.name.lower(), error)
        except StannaryError as error:
            if slot not in watched.sent and not may_be_sent(error):
                self._stakes.budget.give_back(self._stakes.bond_wei)
            else:
                watched.sent.add(slot)
            told = f"{said}; the {kind.name.lower()} failed, and is tried again: {error}"
            self._fail(watched, slot, told, again_s(error, self._stakes.challenge_seconds))
        else:
            self._opened(watched, slot, case)
            log.warning("%s; case %d opened", said, case)

    def _find_sent(self, step: int, watched: _Watched, at: Block) -> None:
        """Hold the cases of disputes that may have been sent and turn out to be on chain."""
        for slot in sorted(watched.sent):
            number = self._own_case(step, watched.leaf(slot), at)
            if number is not None:
                self._opened(watched, slot, number)
                log.warning("step %d, slot %d: case %d is open after all", step, slot, number)

    def _own_case(self, step: int, leaf: Leaf, at: Block) -> int | None:
        """Return the case about a leaf that was opened from here, None if there is none."""
        wanted = (step, leaf.submission.slot, self._parts.provider)
        for event in self._cases(leaf.submission.provider, at):
            case = event.details
            if case.kind is not CaseKind.STATISTICS and (case.step, case.slot, case.disputant) == wanted:
                return event.case_id
        return None

    def _opened(self, watched: _Watched, slot: int, case: int) -> None:
        self._stakes.budget.hold(case, self._stakes.bond_wei)
        self._end(watched, slot)

    def _end(self, watched: _Watched, slot: int) -> None:
        """Note that a slot needs nothing more."""
        watched.sent.discard(slot)
        watched.done.add(slot)
        self._forget(watched.leaf(slot))

    def _fail(self, watched: _Watched, slot: int, told: str, wait_s: float) -> None:
        """Say why a slot is not disputed, once, and note when it is tried again."""
        if watched.failures.get(slot) != told:
            log.error("%s", told)
        watched.failures[slot], watched.try_at[slot] = told, self._clock() + wait_s
