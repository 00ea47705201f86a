"""coordinator.leases: which slot comes next, and that two leases of one slot never overlap."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.leases import Held, Moment, Window, is_free, next_slots, obstacle, room, window

UPLOAD_S = 60
ORDER = [3, 0, 2, 1]


def held(slot: int = 0, **changes: object) -> Held:
    lease = Held(slot=slot, issue=0, valid_until=160, expires_at=60.0)
    return replace(lease, **changes)  # type: ignore[arg-type]


def test_next_slots_without_leases_follows_the_beacons_order() -> None:
    assert next_slots(ORDER, {}, Moment(100, 0.0), UPLOAD_S, 3) == [3, 0, 2]


def test_next_slots_with_live_leases_skips_them() -> None:
    assert next_slots(ORDER, {3: held(3), 2: held(2)}, Moment(100, 0.0), UPLOAD_S, 9) == [0, 1]


@pytest.mark.parametrize(
    ("pool_time", "server_time", "free"),
    [(159, 1e9, False), (160, 59.9, False), (160, 60.0, True), (161, 61.0, True), (100, 0.0, False)],
)
def test_slot_is_free_only_after_both_clocks_have_passed(pool_time: int, server_time: float, free: bool) -> None:
    assert is_free(held(), Moment(pool_time, server_time), UPLOAD_S) is free


def test_slot_with_a_receipt_waits_for_its_bytes_then_is_free_again() -> None:
    receipted = held(received_at=150)
    assert not is_free(receipted, Moment(209, 1e9), UPLOAD_S)
    assert is_free(receipted, Moment(210, 1e9), UPLOAD_S)


def test_slot_with_its_bytes_is_never_free() -> None:
    assert not is_free(held(received_at=150, is_uploaded=True), Moment(10**9, 1e12), UPLOAD_S)


@pytest.mark.parametrize(
    ("pool_time", "expected"),
    [
        (1000, Window(1000, 1060)),
        (1090, Window(1090, 1120)),
        (1105, Window(1105, 1120)),
        (1106, None),
        (1120, None),
        (2000, None),
    ],
)
def test_window_is_cut_at_the_collect_deadline_and_never_tiny(pool_time: int, expected: Window | None) -> None:
    assert window(Moment(pool_time, 0.0), 60, 1120) == expected


def test_obstacle_names_what_is_missing() -> None:
    assert obstacle(is_open=True, is_paused=False, stake_wei=10, min_stake_wei=10) is None
    assert "open" in (obstacle(is_open=False, is_paused=False, stake_wei=10, min_stake_wei=10) or "")
    assert "clock" in (obstacle(is_open=True, is_paused=True, stake_wei=10, min_stake_wei=10) or "")
    assert "at least 10 wei" in (obstacle(is_open=True, is_paused=False, stake_wei=9, min_stake_wei=10) or "")


@pytest.mark.parametrize(
    ("cap", "promised", "price", "expected"),
    [(100, 0, 30, 3), (100, 70, 30, 1), (100, 71, 30, 0), (100, 101, 30, 0), (90, 0, 30, 3), (0, 0, 30, 0)],
)
def test_room_is_the_whole_slots_that_the_cap_still_pays(cap: int, promised: int, price: int, expected: int) -> None:
    assert room(cap, promised, price) == expected


def test_room_where_nothing_is_paid_is_endless() -> None:
    assert room(0, 0, 0) > 1 << 31


@dataclass(slots=True)
class Book:
    """All leases ever granted on one step, by the rules under test."""

    newest: dict[int, Held] = field(default_factory=dict)
    windows: dict[int, list[Window]] = field(default_factory=dict)


@given(
    st.lists(st.tuples(st.integers(0, 40), st.floats(0, 40), st.integers(1, 4), st.booleans()), min_size=1, max_size=60)
)
def test_leases_of_one_slot_never_overlap_whatever_the_clocks_do(
    events: list[tuple[int, float, int, bool]],
) -> None:
    book, pool_time, server_time = Book(), 0, 0.0
    for pool_passed, server_passed, count, delivers in events:
        pool_time += pool_passed
        server_time += server_passed
        now = Moment(pool_time, server_time)
        granted = window(now, 60, 600)
        if granted is None:
            continue
        for slot in next_slots(ORDER, book.newest, now, UPLOAD_S, count):
            for earlier in book.windows.get(slot, []):
                assert earlier.valid_until <= granted.valid_from
            book.windows.setdefault(slot, []).append(granted)
            book.newest[slot] = Held(
                slot,
                len(book.windows[slot]) - 1,
                granted.valid_until,
                server_time + 60,
                pool_time if delivers else None,
                delivers,
            )
    for slot, lease in book.newest.items():
        if lease.is_uploaded:
            assert len(book.windows[slot]) == lease.issue + 1
