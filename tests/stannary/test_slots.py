"""The slot table's root names what became of every slot."""

from __future__ import annotations

from stannary.slots import slot_table_root
from stannary.types import ZERO_HASH, Hash

LEASED = (Hash(b"\x01" * 32), ZERO_HASH)
FILLED = (Hash(b"\x01" * 32), Hash(b"\x02" * 32))
EMPTY = (ZERO_HASH, ZERO_HASH)


def test_root_tells_filled_leased_and_empty_slots_apart() -> None:
    assert len({slot_table_root([slot, EMPTY]) for slot in (LEASED, FILLED, EMPTY)}) == 3


def test_root_binds_the_slot_to_its_place() -> None:
    assert slot_table_root([FILLED, EMPTY]) != slot_table_root([EMPTY, FILLED])
