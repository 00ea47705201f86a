"""Which leaves are audited: the same for everyone, the right share of them, and nested by the rate."""

from __future__ import annotations

import math

import pytest
from eth_abi.abi import encode
from eth_utils.crypto import keccak
from hypothesis import given, settings
from hypothesis import strategies as st

from stannary.audit_choice import audited_slots, is_audited
from stannary.errors import Malformed
from stannary.types import ZERO_HASH, Hash

BEACON = Hash(keccak(text="a beacon"))
MANY = 100_000
GOLDEN_TICKET = 9_215
GOLDEN_SLOTS = {0, 2, 5, 6, 8, 10, 16, 20, 25, 29, 31}
BEACONS = st.binary(min_size=32, max_size=32).filter(any).map(Hash)
SLOTS = st.integers(0, (1 << 32) - 1)


def ticket(beacon: bytes, slot: int) -> int:
    """The text of docs/protocol.md, written again."""
    tag = keccak(b"stannary.audit.choice.v1")
    return int(keccak(encode(["bytes32", "bytes32", "uint32"], [tag, beacon, slot])).hex(), 16) % 10_000


def test_golden_vector() -> None:
    # keccak256 of three words of 32 bytes, each written out: the tag's hash, the beacon, the slot.
    words = keccak(b"stannary.audit.choice.v1") + bytes(range(32)) + bytes(28) + b"\x00\x00\x00\x07"
    assert int.from_bytes(keccak(words)) % 10_000 == ticket(bytes(range(32)), 7) == GOLDEN_TICKET
    assert is_audited(Hash(bytes(range(32))), 7, GOLDEN_TICKET + 1)
    assert not is_audited(Hash(bytes(range(32))), 7, GOLDEN_TICKET)
    assert audited_slots(Hash(bytes(range(32))), range(32), 2_500) == GOLDEN_SLOTS


@given(BEACONS, SLOTS, st.integers(1, 10_000))
def test_choice_is_that_of_the_protocol(beacon: Hash, slot: int, rate_bps: int) -> None:
    assert is_audited(beacon, slot, rate_bps) == (ticket(beacon, slot) < rate_bps)


@pytest.mark.parametrize("rate_bps", [30, 1_000, 5_000])
def test_share_is_the_rate(rate_bps: int) -> None:
    share = rate_bps / 10_000
    expected, deviation = MANY * share, math.sqrt(MANY * share * (1 - share))
    assert abs(len(audited_slots(BEACON, range(MANY), rate_bps)) - expected) < 4 * deviation


@settings(deadline=None)
@given(BEACONS, st.lists(SLOTS, max_size=20))
def test_everything_is_audited_at_the_full_rate(beacon: Hash, slots: list[int]) -> None:
    assert audited_slots(beacon, slots, 10_000) == set(slots)


@settings(deadline=None)  # many hashes a case, on a busy machine
@given(BEACONS, st.integers(1, 10_000), st.integers(1, 10_000))
def test_whoever_is_audited_at_a_rate_is_audited_at_a_higher_one(beacon: Hash, one: int, other: int) -> None:
    lower, higher = sorted((one, other))
    assert audited_slots(beacon, range(32), lower) <= audited_slots(beacon, range(32), higher)


def test_steps_have_choices_of_their_own() -> None:
    other = Hash(keccak(BEACON))
    both = audited_slots(BEACON, range(4_000), 5_000) & audited_slots(other, range(4_000), 5_000)
    assert 850 < len(both) < 1_150


@pytest.mark.parametrize("beacon", [ZERO_HASH, b"\x01" * 31, b"\x01" * 33, "0x" + "11" * 32, None])
def test_step_without_a_beacon_has_no_choice(beacon: Hash) -> None:
    with pytest.raises(Malformed, match="audit_beacon") as refused:
        is_audited(beacon, 0, 10_000)
    assert (refused.value.field, refused.value.got) == ("audit_beacon", beacon)
    with pytest.raises(Malformed, match="audit_beacon"):
        audited_slots(beacon, [], 10_000)


@pytest.mark.parametrize("rate_bps", [0, -1, 10_001, 0.5, True, None])
def test_rate_out_of_range_is_refused(rate_bps: int) -> None:
    with pytest.raises(Malformed, match="rate_bps") as refused:
        is_audited(BEACON, 0, rate_bps)
    assert refused.value.expected == "a whole number, 1 … 10000"
    with pytest.raises(Malformed, match="rate_bps"):
        audited_slots(BEACON, [], rate_bps)


@pytest.mark.parametrize("slot", [-1, 1 << 32, 1.0, True])
def test_slot_out_of_range_is_refused(slot: int) -> None:
    with pytest.raises(Malformed, match="slot"):
        is_audited(BEACON, slot, 1)
    with pytest.raises(Malformed, match="slot"):
        audited_slots(BEACON, [0, slot], 1)
