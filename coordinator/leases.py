"""Which slot is leased next, to whom, and until when. Pure: no clock, no database, no chain.

A lease is valid in pool time, the pool's clock on chain, from `valid_from` up to, but not at, `valid_until`. A slot is
free again only when its lease has run out by pool time *and* by the server's clock, so a re-issue never overlaps a
lease that still counts. Nobody is given work beyond what its stake lets one step pay it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

MIN_LEASE_DIVISOR = 4
"""No lease is granted that would last less than this part of the pool's leaseSeconds."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Now, by both clocks."""

    pool_time: int
    server_time: float


@dataclass(frozen=True, slots=True)
class Held:
    """The newest lease of a slot, and what became of it."""

    slot: int
    issue: int
    valid_until: int
    expires_at: float
    received_at: int | None = None
    """Pool time of the receipt."""
    is_uploaded: bool = False


@dataclass(frozen=True, slots=True)
class Window:
    """From when to when a lease is valid, in pool time."""

    valid_from: int
    valid_until: int


def is_awaited(held: Held, now: Moment, upload_seconds: int) -> bool:
    """Say whether the bytes of a receipted leaf may still come."""
    return held.received_at is not None and not held.is_uploaded and now.pool_time < held.received_at + upload_seconds


def is_free(held: Held | None, now: Moment, upload_seconds: int) -> bool:
    """Say whether a slot can be leased (again)."""
    if held is None:
        return True
    if held.is_uploaded or is_awaited(held, now, upload_seconds):
        return False
    return now.pool_time >= held.valid_until and now.server_time >= held.expires_at


def next_slots(
    order: Sequence[int], held: Mapping[int, Held], now: Moment, upload_seconds: int, count: int
) -> list[int]:
    """Return the first `count` free slots in the order that the beacon gives."""
    return list(islice((slot for slot in order if is_free(held.get(slot), now, upload_seconds)), count))


def window(now: Moment, lease_seconds: int, collect_deadline: int) -> Window | None:
    """Return the validity of a lease granted now, None if too little of the collect time is left."""
    valid_until = min(now.pool_time + lease_seconds, collect_deadline)
    if (valid_until - now.pool_time) * MIN_LEASE_DIVISOR < lease_seconds:
        return None
    return Window(now.pool_time, valid_until)


def obstacle(*, is_open: bool, is_paused: bool, stake_wei: int, min_stake_wei: int) -> str | None:
    """Return what a provider must wait for before it is given leases, None if nothing stands in the way."""
    if not is_open:
        return "the pool to be open"
    if is_paused:
        return "the pool's clock to run again"
    if stake_wei < min_stake_wei:
        return f"a worker stake of at least {min_stake_wei} wei in the pool (active now: {stake_wei})"
    return None


def room(cap_wei: int, promised_wei: int, slot_price_wei: int) -> int:
    """Return how many more slots a provider's stake lets one step pay it at the dearest."""
    left = cap_wei - promised_wei
    if left < 0:
        return 0
    return left // slot_price_wei if slot_price_wei else 1 << 32
