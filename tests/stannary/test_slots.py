"""What a step's leaves come to by slot: tree, pay table, slot table, and what stands in for a lease."""

from __future__ import annotations

import pytest
from eth_utils.address import to_checksum_address
from hypothesis import given
from hypothesis import strategies as st

from stannary.errors import Malformed
from stannary.merkle import merkle_proof, verify_proof
from stannary.slots import PayTable, slot_table_root, slot_words, submission_root, taken_lease_hash
from stannary.structs import Domain, Submission
from stannary.types import ZERO_HASH, Address, Hash

MAX_UNITS = 10_000
LEASED = (Hash(b"\x01" * 32), ZERO_HASH)
FILLED = (Hash(b"\x01" * 32), Hash(b"\x02" * 32))
EMPTY = (ZERO_HASH, ZERO_HASH)
LEDGER = Domain(31337, Address("0xCf7Ed3AccA5a467e9e704C703E8D87F634fB0Fc9"))


def provider(number: int) -> Address:
    return Address(to_checksum_address(number.to_bytes(20)))


def leaf(slot: int, owner: int = 1, units: int = 5) -> Submission:
    return Submission(7, 3, slot, provider(owner), provider(owner), units, Hash(b"\x03" * 32), Hash(b"\x04" * 32))


@st.composite
def steps(draw: st.DrawFn) -> tuple[list[Submission], int]:
    slots = draw(st.integers(1, 40))
    chosen = draw(st.lists(st.integers(0, slots - 1), unique=True, max_size=slots))
    owners, units = st.integers(1, (1 << 160) - 1), st.integers(0, (1 << 32) - 1)
    return [leaf(slot, draw(owners), draw(units)) for slot in chosen], slots


@given(steps())
def test_tree_and_table_show_each_leaf_at_its_slot_and_nothing_else(step: tuple[list[Submission], int]) -> None:
    leaves, slots = step
    words, table = slot_words(leaves, slots), PayTable.of(leaves, slots, MAX_UNITS)
    by_slot = {one.slot: one for one in leaves}
    assert table.leaf_count == len(leaves)
    assert list(table.providers) == sorted({one.provider for one in leaves}, key=lambda who: int(who, 16))
    for who, total in zip(table.providers, table.totals, strict=True):
        theirs = [min(one.units, MAX_UNITS) for one in leaves if one.provider == who]
        assert total == (len(theirs) << 128) + sum(theirs)
    for slot, entry in enumerate(table.entries(slots)):
        found = by_slot.get(slot)
        assert entry == (None if found is None else (found.provider, min(found.units, MAX_UNITS)))
        proof = merkle_proof(words, slot)
        assert words[slot] == (ZERO_HASH if found is None else found.struct_hash())
        assert verify_proof(submission_root(leaves, slots), words[slot], slot, slots, proof) == (found is not None)


@given(steps(), st.randoms())
def test_tree_and_table_depend_on_no_order_of_the_leaves(step: tuple[list[Submission], int], random: object) -> None:
    leaves, slots = step
    shuffled = list(leaves)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert PayTable.of(shuffled, slots, MAX_UNITS) == PayTable.of(leaves, slots, MAX_UNITS)
    assert submission_root(shuffled, slots) == submission_root(leaves, slots)


@pytest.mark.parametrize(("leaves", "slots"), [([leaf(0), leaf(0)], 2), ([leaf(2)], 2), ([], 0)])
def test_leaves_outside_or_twice_are_refused(leaves: list[Submission], slots: int) -> None:
    with pytest.raises(Malformed, match="slot"):
        slot_words(leaves, slots)
    with pytest.raises(Malformed, match="slot"):
        PayTable.of(leaves, slots, MAX_UNITS)


@pytest.mark.parametrize(("words", "slots"), [((), 1), ((1,), 6), ((2,), 1)])
def test_table_of_other_slots_or_with_an_unknown_provider_is_refused(words: tuple[int, ...], slots: int) -> None:
    with pytest.raises(Malformed, match="words"):
        PayTable((provider(1),), (0,), words).entries(slots)


def test_table_changes_its_hash_with_every_unit() -> None:
    one, other = PayTable.of([leaf(0, units=5)], 1, MAX_UNITS), PayTable.of([leaf(0, units=6)], 1, MAX_UNITS)
    assert one.hash() != other.hash()
    assert PayTable.from_struct(one.as_struct()) == one


def test_root_tells_filled_leased_and_empty_slots_apart() -> None:
    assert len({slot_table_root([slot, EMPTY]) for slot in (LEASED, FILLED, EMPTY)}) == 3


def test_root_binds_the_slot_to_its_place() -> None:
    assert slot_table_root([FILLED, EMPTY]) != slot_table_root([EMPTY, FILLED])


def test_taken_lease_of_another_slot_provider_step_pool_or_ledger_is_another() -> None:
    other = Domain(31338, LEDGER.contract)
    found = {
        taken_lease_hash(LEDGER, 7, 3, 8, provider(1)),
        taken_lease_hash(LEDGER, 7, 3, 9, provider(1)),
        taken_lease_hash(LEDGER, 7, 3, 8, provider(2)),
        taken_lease_hash(LEDGER, 7, 4, 8, provider(1)),
        taken_lease_hash(LEDGER, 8, 3, 8, provider(1)),
        taken_lease_hash(other, 7, 3, 8, provider(1)),
    }
    assert len(found) == 6
