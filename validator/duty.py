"""What a validator owes and when: commit, reveal, keep a case moving. Pure: no clock, no chain, no files.

A seat, on the panel of a step or on the jury of a case, goes judge -> commit -> wait for the reveal -> reveal -> done.
What it owes now follows from the chain and from what lies on disk alone, so a restart finds it again at any point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from stannary.types import CasePhase, Hash, Phase

BACK_OFF_FIRST_S = 0.5
BACK_OFF_LAST_S = 15.0
BACK_OFF_LATE_S = 2.0
"""Between two tries to commit once the time for judging is over."""
RESERVE_LAST_S = 20.0
"""Of the commit window, this much at most is kept for sending the commitment; a fifth of short windows."""
OWN_FAILURES = 3
"""Tries of a leaf on which this validator itself fails; what fails thrice fails again."""
PATIENCE_S = 2.0
"""A case is moved on by one validator after the other: each waits this much longer than the one before it in line."""
PUSHES = 4
"""Tries to move a case on from where it stands; afterwards it is left to others."""

Key = tuple[str, int, int]
"""What is owed: `step` or `case`, its number, and which of its windows: the end of the commit window, or the round."""


class Deed(Enum):
    """What a seat needs now."""

    JUDGE = "judge and commit"
    WAIT = "wait for the time to reveal"
    REVEAL = "reveal"
    MISSED = "nothing can be done any more"
    DONE = "done"


class Push(Enum):
    """What moves a case on."""

    DRAW = "draw the jury"
    RESOLVE = "resolve"


@dataclass(frozen=True, slots=True)
class Window:
    """When to commit and when to reveal. Units: seconds of the pool's clock; an end belongs to what follows."""

    commit_until: int
    reveal_from: int
    reveal_until: int


@dataclass(frozen=True, slots=True)
class Seat:
    """One seat of this validator."""

    window: Window
    is_committed: bool
    is_revealed: bool
    is_recorded: bool
    """Whether what was committed lies on this machine, with its salt."""


@dataclass(frozen=True, slots=True)
class StepView:
    """One unsettled step as the chain shows it to a validator."""

    step: int
    phase: Phase
    policy_step: int
    seat: Seat | None = None
    """None while this validator does not sit on the panel; a redraw may change that."""

    @property
    def key(self) -> Key:
        """The name of what is owed: a second round is another duty."""
        return "step", self.step, self.seat.window.commit_until if self.seat is not None else 0

    def __str__(self) -> str:
        return f"step {self.step}"


@dataclass(frozen=True, slots=True)
class CaseView:
    """One unresolved case on whose jury this validator sits."""

    case_id: int
    round: int
    step: int
    slot: int
    leaf_hash: Hash
    is_statistics: bool
    seat: Seat

    @property
    def key(self) -> Key:
        """The name of what is owed."""
        return "case", self.case_id, self.round

    def __str__(self) -> str:
        return f"case {self.case_id}"


@dataclass(frozen=True, slots=True)
class Agenda:
    """What is to be done now."""

    reveals: tuple[StepView | CaseView, ...]
    judges: tuple[StepView | CaseView, ...]
    """To be judged and committed, the one whose window ends first before the others."""
    missed: tuple[StepView | CaseView, ...]
    done: tuple[StepView | CaseView, ...]
    coming: StepView | None
    """The oldest step whose panel is not drawn: its policy can be fetched ahead."""


def deed(seat: Seat, now_s: int) -> Deed:
    """Return what a seat needs at a time of the pool's clock. Nothing else is ever committed after a commitment."""
    window = seat.window
    if seat.is_revealed:
        return Deed.DONE
    if not seat.is_committed:
        return Deed.JUDGE if now_s < window.commit_until else Deed.MISSED
    if not seat.is_recorded or now_s >= window.reveal_until:
        return Deed.MISSED
    return Deed.WAIT if now_s < window.reveal_from else Deed.REVEAL


def agenda(
    steps: Sequence[StepView], cases: Sequence[CaseView], now_s: int, given_up: frozenset[Key] = frozenset()
) -> Agenda:
    """Sort all that is owed; what was given up is left out."""
    by_deed: dict[Deed, list[tuple[int, StepView | CaseView]]] = {deed: [] for deed in Deed}
    views: list[StepView | CaseView] = [*steps, *cases]
    for view in views:
        if view.seat is not None and view.key not in given_up:
            by_deed[deed(view.seat, now_s)].append((view.seat.window.commit_until, view))
    judges = sorted(by_deed[Deed.JUDGE], key=lambda found: found[0])
    coming = (view for view in steps if view.phase in (Phase.SEEDED, Phase.COMMITTED))
    return Agenda(
        reveals=tuple(view for _, view in by_deed[Deed.REVEAL]),
        judges=tuple(view for _, view in judges),
        missed=tuple(view for _, view in by_deed[Deed.MISSED]),
        done=tuple(view for _, view in by_deed[Deed.DONE]),
        coming=next(coming, None),
    )


def turn(due: Sequence[StepView | CaseView], *, was_run: bool) -> StepView | CaseView | None:
    """Return which of the duties that are due is worked on next: the one whose window ends first.

    A run of leaves may be as long as its accuser likes: while anything else is due it gets every second turn at most.
    """
    if was_run:
        due = [view for view in due if not is_run(view)] or due
    return next(iter(due), None)


def is_run(view: StepView | CaseView) -> bool:
    """Say whether a duty is a case about a run of leaves."""
    return isinstance(view, CaseView) and view.is_statistics


def push(
    phase: CasePhase, *, block_number: int, jury_block: int, now_s: int, reveal_until: int, appeal_until: int
) -> Push | None:
    """Return what a case waits for anybody to do at a block and a time of the pool's clock."""
    match phase:
        case CasePhase.OPENED if block_number > jury_block:
            return Push.DRAW
        case CasePhase.VOTING if now_s >= reveal_until:
            return Push.RESOLVE
        case CasePhase.RULED if now_s >= appeal_until:
            return Push.RESOLVE
        case _:
            return None


def window_s(window: Window, vote_seconds: int, now_s: int) -> float:
    """Return how long judging may last from now, so that the commitment still gets through. Units: seconds."""
    return window.commit_until - now_s - min(RESERVE_LAST_S, vote_seconds / 5)


def back_off_s(failures: int) -> float:
    """Return the wait after so many failures in a row."""
    return min(BACK_OFF_LAST_S, BACK_OFF_FIRST_S * 2.0 ** max(0, min(failures, 32) - 1))
