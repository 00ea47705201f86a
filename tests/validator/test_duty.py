"""What a seat owes at any time, and whose turn it is to move a case on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stannary.types import ZERO_HASH, CasePhase, Phase
from validator.duty import (
    BACK_OFF_LAST_S,
    CaseView,
    Deed,
    Push,
    Seat,
    StepView,
    Window,
    agenda,
    back_off_s,
    deed,
    push,
    turn,
    window_s,
)

WINDOW = Window(commit_until=1060, reveal_from=1060, reveal_until=1090)
NEW = Seat(WINDOW, is_committed=False, is_revealed=False, is_recorded=False)
COMMITTED = replace(NEW, is_committed=True, is_recorded=True)


def view(step: int, seat: Seat | None = NEW, phase: Phase = Phase.AUDITED) -> StepView:
    return StepView(step, phase, 0, seat)


def case(case_id: int, seat: Seat = NEW, round_number: int = 0) -> CaseView:
    return CaseView(case_id, round_number, 3, 1, ZERO_HASH, is_statistics=False, seat=seat)


@pytest.mark.parametrize(
    ("seat", "now_s", "expected"),
    [
        (NEW, 1000, Deed.JUDGE),
        (NEW, 1059, Deed.JUDGE),
        (NEW, 1060, Deed.MISSED),
        (COMMITTED, 1059, Deed.WAIT),
        (COMMITTED, 1060, Deed.REVEAL),
        (COMMITTED, 1089, Deed.REVEAL),
        (COMMITTED, 1090, Deed.MISSED),
        (replace(COMMITTED, is_recorded=False), 1060, Deed.MISSED),
        (replace(COMMITTED, is_revealed=True), 1060, Deed.DONE),
        (replace(COMMITTED, is_revealed=True, is_recorded=False), 2000, Deed.DONE),
    ],
)
def test_seat_goes_from_judging_to_the_reveal(seat: Seat, now_s: int, expected: Deed) -> None:
    assert deed(seat, now_s) is expected


def test_reveal_comes_earlier_once_all_have_committed() -> None:
    early = replace(COMMITTED, window=Window(1060, 1010, 1040))
    assert [deed(early, now) for now in (1009, 1010, 1039, 1040)] == [
        *(Deed.WAIT, Deed.REVEAL, Deed.REVEAL, Deed.MISSED)
    ]


def test_agenda_serves_first_whose_window_ends_first() -> None:
    late = replace(NEW, window=Window(1200, 1200, 1230))
    found = agenda([view(3, late), view(4, COMMITTED), view(5, None)], [case(1), case(2, late)], 1060 - 1)
    assert [str(each) for each in found.judges] == ["case 1", "step 3", "case 2"]
    assert found.reveals == ()
    found = agenda([view(3, late), view(4, COMMITTED)], [case(1)], 1060)
    assert [str(each) for each in found.reveals] == ["step 4"]
    assert [str(each) for each in found.missed] == ["case 1"]


def test_agenda_leaves_out_what_was_given_up_until_another_round_seats_us() -> None:
    given_up = frozenset({view(3).key, case(1).key})
    assert agenda([view(3)], [case(1)], 1000, given_up).judges == ()
    again = replace(NEW, window=Window(1200, 1200, 1230))
    found = agenda([view(3, again)], [case(1, again, round_number=1)], 1000, given_up)
    assert [str(each) for each in found.judges] == ["step 3", "case 1"]


def test_agenda_names_the_oldest_step_whose_panel_is_to_come() -> None:
    steps = [view(3), view(4, None, Phase.COMMITTED), view(5, None, Phase.SEEDED), view(6, None, Phase.OPEN)]
    assert agenda(steps, [], 1000).coming == steps[1]
    assert agenda([view(6, None, Phase.OPEN)], [], 1000).coming is None


def test_window_keeps_time_for_the_commitment() -> None:
    assert window_s(WINDOW, vote_seconds=60, now_s=1000) == 48
    assert window_s(replace(WINDOW, commit_until=4600), vote_seconds=3600, now_s=1000) == 3580
    assert window_s(WINDOW, vote_seconds=60, now_s=1060) < 0


@pytest.mark.parametrize(
    ("phase", "block_number", "now_s", "expected"),
    [
        (CasePhase.OPENED, 50, 0, None),
        (CasePhase.OPENED, 51, 0, Push.DRAW),
        (CasePhase.VOTING, 51, 99, None),
        (CasePhase.VOTING, 51, 100, Push.RESOLVE),
        (CasePhase.RULED, 51, 199, None),
        (CasePhase.RULED, 51, 200, Push.RESOLVE),
        (CasePhase.RESOLVED, 51, 300, None),
    ],
)
def test_case_is_moved_on_when_it_is_due(
    phase: CasePhase, block_number: int, now_s: int, expected: Push | None
) -> None:
    due = push(phase, block_number=block_number, jury_block=50, now_s=now_s, reveal_until=100, appeal_until=200)
    assert due is expected


def test_back_off_grows_and_is_bounded() -> None:
    waits = [back_off_s(failures) for failures in range(1, 50)]
    assert waits[:3] == [0.5, 1.0, 2.0]
    assert max(waits) == waits[-1] == BACK_OFF_LAST_S


def test_run_of_leaves_gets_every_second_turn_at_most_while_anything_else_is_due() -> None:
    run = replace(case(1), is_statistics=True)
    due = [run, view(3), case(2)]
    assert turn(due, was_run=False) == run
    assert turn(due, was_run=True) == view(3)
    assert turn([run], was_run=True) == run
    assert turn([view(3), run], was_run=False) == view(3)
    assert turn([], was_run=True) is None
