"""Which step a validator owes a vote on, and how long it may take over it. Pure: no clock, no chain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stannary.types import Address, Phase

BACK_OFF_FIRST_S = 0.5
BACK_OFF_LAST_S = 15.0
RESERVE_LAST_S = 20.0
"""Of the vote window, this much at most is kept for sending the vote; a fifth of short windows."""
OWN_FAILURES = 3
"""Tries of a leaf on which this validator itself fails; what fails thrice fails again."""


@dataclass(frozen=True, slots=True)
class StepView:
    """One step as the chain shows it to a validator."""

    step: int
    phase: Phase
    policy_step: int
    panel: tuple[Address, ...]
    has_voted: bool
    audited_at: int


@dataclass(frozen=True, slots=True)
class Watch:
    """What follows from a look at the chain."""

    first_open: int
    """No step before this one will ever need this validator again."""
    owed: StepView | None
    """The oldest step that waits for this validator's vote."""
    coming: StepView | None
    """The oldest step that may: its policy can be loaded ahead."""


def watch(steps: Sequence[StepView], first: int, provider: Address, given_up: frozenset[int]) -> Watch:
    """Sort steps, in their order from `first` on, into what is owed and what may come."""
    first_open, owed, coming = first, None, None
    for view in steps:
        is_over = view.phase in (Phase.FINALIZED, Phase.CANCELLED)
        is_mine = provider in view.panel
        is_done = is_over or view.has_voted or view.step in given_up or (view.phase is Phase.AUDITED and not is_mine)
        if is_done and view.step == first_open:
            first_open += 1
        if is_done:
            continue
        if view.phase is Phase.AUDITED:
            owed = owed or view
        elif view.phase is not Phase.NONE:
            coming = coming or view
    return Watch(first_open, owed, coming)


def window_s(view: StepView, vote_seconds: int, now_s: int) -> float:
    """Return how long work on a step may last from now, so that the vote still gets through. Units: seconds."""
    reserve = min(RESERVE_LAST_S, vote_seconds / 5)
    return view.audited_at + vote_seconds - now_s - reserve


def back_off_s(failures: int) -> float:
    """Return the wait after so many failures in a row."""
    return min(BACK_OFF_LAST_S, BACK_OFF_FIRST_S * 2.0 ** max(0, min(failures, 32) - 1))
