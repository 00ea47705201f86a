"""Which step is owed, and how long work on it may last."""

from __future__ import annotations

from stannary.types import Address, Phase
from validator.duty import StepView, back_off_s, watch, window_s

ME, OTHER = Address("0x" + "11" * 20), Address("0x" + "22" * 20)


def view(step: int, phase: Phase, *, mine: bool = True, voted: bool = False) -> StepView:
    panel = ((ME if mine else OTHER),) if phase is Phase.AUDITED else ()
    return StepView(step, phase, 0, panel, voted, audited_at=1000)


def test_oldest_audited_step_of_mine_is_owed() -> None:
    steps = [view(3, Phase.FINALIZED), view(4, Phase.AUDITED), view(5, Phase.AUDITED), view(6, Phase.SEEDED)]
    seen = watch(steps, 3, ME, frozenset())
    assert seen.first_open == 4
    assert seen.owed is not None
    assert seen.owed.step == 4
    assert seen.coming is not None
    assert seen.coming.step == 6


def test_step_of_another_panel_or_with_my_vote_is_not_owed() -> None:
    steps = [view(0, Phase.AUDITED, mine=False), view(1, Phase.AUDITED, voted=True), view(2, Phase.CANCELLED)]
    seen = watch(steps, 0, ME, frozenset())
    assert (seen.first_open, seen.owed, seen.coming) == (3, None, None)


def test_step_given_up_is_not_owed() -> None:
    assert watch([view(0, Phase.AUDITED)], 0, ME, frozenset({0})).owed is None


def test_open_step_keeps_the_cursor_behind_it() -> None:
    seen = watch([view(0, Phase.OPEN), view(1, Phase.AUDITED)], 0, ME, frozenset())
    assert seen.first_open == 0
    assert seen.owed is not None
    assert seen.owed.step == 1


def test_window_keeps_time_for_the_vote() -> None:
    assert window_s(view(0, Phase.AUDITED), vote_seconds=60, now_s=1000) == 48
    assert window_s(view(0, Phase.AUDITED), vote_seconds=3600, now_s=1000) == 3580
    assert window_s(view(0, Phase.AUDITED), vote_seconds=60, now_s=1060) < 0


def test_back_off_grows_and_is_bounded() -> None:
    waits = [back_off_s(failures) for failures in range(1, 50)]
    assert waits[:3] == [0.5, 1.0, 2.0]
    assert max(waits) == waits[-1] == 15.0
