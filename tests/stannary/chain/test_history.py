"""A step as its events tell it: the last word on each thing, of this step alone, and what finalizing needs."""

from __future__ import annotations

import pytest

from stannary.chain import StepHistory, events
from stannary.errors import Unavailable
from stannary.slots import PayTable
from stannary.structs import Submission
from stannary.types import ZERO_HASH, Address, Hash, Outcome
from stannary.verdict import pack_outcomes

POOL, STEP, SLOTS = 7, 3, 2
ANN, BOB, CAT, DAN = (Address(f"0x{number:040x}") for number in range(1, 5))
A, R, X = Outcome.ACCEPT, Outcome.REJECT, Outcome.ABSTAIN
LEAF = Submission(POOL, STEP, 0, ANN, ANN, 9, Hash(b"c" * 32), Hash(b"l" * 32))
TABLE = PayTable.of([LEAF], SLOTS, 128)


def place(number: int) -> events.Place:
    return events.Place(number, ZERO_HASH, 0, ZERO_HASH)


def revealed(number: int, who: Address, outcomes: list[Outcome], step: int = STEP) -> events.VoteRevealed:
    return events.VoteRevealed(place(number), POOL, step, who, pack_outcomes(outcomes), ZERO_HASH, ZERO_HASH)


OPENED = events.StepOpened(place(1), POOL, STEP, 0, SLOTS, 0, 2)
COMMITTED = events.RootCommitted(place(3), POOL, STEP, Hash(b"r" * 32), ZERO_HASH, TABLE, 4)
DRAWN = events.AuditBeaconSealed(place(5), POOL, STEP, Hash(b"b" * 32), (ANN, BOB, CAT), ANN)


def test_votes_come_seat_by_seat_and_empty_for_a_silent_one() -> None:
    history = StepHistory.of([OPENED, COMMITTED, DRAWN, revealed(6, CAT, [A, X]), revealed(7, ANN, [R, X])], POOL, STEP)
    assert history.votes_by_seat() == [pack_outcomes([R, X]), b"", pack_outcomes([A, X])]
    assert history.pay_table == TABLE
    assert history.outcomes() is None


def test_panel_after_a_redraw_is_the_new_one_with_the_votes_that_stay() -> None:
    redrawn = events.PanelRedrawn(place(8), POOL, STEP, (BOB, CAT), (ANN, DAN))
    found = [OPENED, COMMITTED, DRAWN, revealed(6, ANN, [A, X]), redrawn, revealed(9, DAN, [R, X])]
    history = StepHistory.of(found, POOL, STEP)
    assert history.panel == (ANN, DAN)
    assert history.votes_by_seat() == [pack_outcomes([A, X]), pack_outcomes([R, X])]


def test_slots_taken_on_chain_are_counted_after_the_others() -> None:
    taken = [
        events.SlotTaken(place(2), POOL, STEP, SLOTS, BOB, 3),
        events.TakenSlotSealed(place(4), POOL, STEP, SLOTS, Hash(b"t" * 32)),
    ]
    final = events.StepFinalized(place(9), POOL, STEP, pack_outcomes([A, X, R]), 1, 1, 0, 0)
    history = StepHistory.of([OPENED, *taken, COMMITTED, DRAWN, final], POOL, STEP)
    assert (history.positions, history.taken_beacons) == (3, {SLOTS: b"t" * 32})
    assert history.outcomes() == [A, X, R]


def test_what_belongs_to_other_steps_and_pools_is_passed_over() -> None:
    foreign = events.RootCommitted(place(3), POOL + 1, STEP, ZERO_HASH, ZERO_HASH, TABLE, 4)
    history = StepHistory.of([OPENED, DRAWN, foreign, revealed(6, ANN, [A, X], step=STEP + 1)], POOL, STEP)
    assert history.votes_by_seat() == [b"", b"", b""]
    with pytest.raises(Unavailable, match="root of step 3"):
        _ = history.pay_table


def test_step_that_is_not_open_has_no_positions() -> None:
    with pytest.raises(Unavailable, match="step 3"):
        _ = StepHistory.of([], POOL, STEP).positions
