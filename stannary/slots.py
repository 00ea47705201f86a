"""What a step's leaves come to, slot by slot: tree, pay table and slot table. Pure; equal to the contract's.

One slot holds one leaf. The tree has a word for each slot, zeros where none was delivered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, cast

from eth_abi.abi import encode
from eth_utils.crypto import keccak

from stannary.errors import Malformed
from stannary.merkle import merkle_root
from stannary.structs import Domain, Submission
from stannary.types import ZERO_HASH, Address, Hash

_SLOT = keccak(text="stannary.slot.v1")
_TAKEN = keccak(text="stannary.taken.v1")

ENTRIES_A_WORD = 5
"""Slots in one word of a pay table."""
MAX_PROVIDERS = 128
_ENTRY_BITS = 48
_PLACE_BITS = 16
_UNITS_BITS = 32
_GROUP_BIT = 128


def slot_words(leaves: Sequence[Submission], slots: int) -> list[Hash]:
    """Return the words of a step's tree: the hash of the leaf of each slot, zeros where there is none.

    Raises: Malformed for a slot that is outside or has two leaves.
    """
    words = [ZERO_HASH] * slots
    for slot, leaf in enumerate(_by_slot(leaves, slots)):
        if leaf is not None:
            words[slot] = leaf.struct_hash()
    return words


def submission_root(leaves: Sequence[Submission], slots: int) -> Hash:
    """Return the root of a step's tree. Raises: Malformed, as `slot_words`."""
    return merkle_root(slot_words(leaves, slots))


def slot_table_root(table: Sequence[tuple[Hash, Hash]]) -> Hash:
    """Return the Merkle root over (lease hash, leaf hash) of all slots in slot order, zeros where there is none."""
    kinds = ["bytes32", "uint32", "bytes32", "bytes32"]
    return merkle_root([Hash(keccak(encode(kinds, [_SLOT, slot, *entry]))) for slot, entry in enumerate(table)])


def taken_lease_hash(ledger: Domain, pool: int, step: int, slot: int, provider: Address) -> Hash:
    """Return what stands in a leaf for the lease of a slot that was taken on chain, where no lease was signed."""
    kinds = ["bytes32", "uint256", "address", "uint64", "uint32", "uint32", "address"]
    return Hash(keccak(encode(kinds, [_TAKEN, ledger.chain_id, ledger.contract, pool, step, slot, provider])))


@dataclass(frozen=True, slots=True)
class PayTable:
    """Who is paid for how much in a step: the leaves of its tree, as a settlement needs them."""

    providers: tuple[Address, ...]
    """Distinct, ascending as numbers."""
    totals: tuple[int, ...]
    """What all leaves of each provider come to: their number above bit 128, their units below."""
    words: tuple[int, ...]
    """Five slots a word, 48 bits each: one plus the place of the provider (0 is an empty slot), above it the units."""

    @classmethod
    def of(cls, leaves: Sequence[Submission], slots: int, max_units: int) -> Self:
        """Return the one table of these leaves; units count up to `max_units`, which a slot is paid at most.

        Raises: Malformed for a slot that is outside or has two leaves.
        """
        providers = sorted({leaf.provider for leaf in leaves}, key=lambda who: int(who, 16))
        if len(providers) > MAX_PROVIDERS:
            raise Malformed("providers", expected=f"at most {MAX_PROVIDERS}", got=len(providers))
        place = {provider: index + 1 for index, provider in enumerate(providers)}
        totals, words = [0] * len(providers), [0] * -(-slots // ENTRIES_A_WORD)
        for slot, leaf in enumerate(_by_slot(leaves, slots)):
            if leaf is not None:
                if not 0 <= leaf.units < 1 << _UNITS_BITS:
                    raise Malformed("units", expected=f"a number of {_UNITS_BITS} bits", got=leaf.units)
                units = min(leaf.units, max_units)
                entry = units << _PLACE_BITS | place[leaf.provider]
                totals[place[leaf.provider] - 1] += (1 << _GROUP_BIT) + units
                words[slot // ENTRIES_A_WORD] |= entry << _ENTRY_BITS * (slot % ENTRIES_A_WORD)
        return cls(tuple(providers), tuple(totals), tuple(words))

    def entries(self, slots: int) -> list[tuple[Address, int] | None]:
        """Return (provider, units) of each slot, None for an empty one. Raises: Malformed if it has no such number."""
        if len(self.words) != -(-slots // ENTRIES_A_WORD):
            raise Malformed("words", expected=f"{-(-slots // ENTRIES_A_WORD)} of them", got=len(self.words))
        found: list[tuple[Address, int] | None] = []
        for slot in range(slots):
            entry = self.words[slot // ENTRIES_A_WORD] >> _ENTRY_BITS * (slot % ENTRIES_A_WORD) & (1 << _ENTRY_BITS) - 1
            place, units = entry & (1 << _PLACE_BITS) - 1, entry >> _PLACE_BITS
            if place > len(self.providers):
                raise Malformed("words", expected=f"places up to {len(self.providers)}", got=place)
            found.append((self.providers[place - 1], units) if place else None)
        return found

    @property
    def leaf_count(self) -> int:
        """How many slots have an entry."""
        shifts = range(0, ENTRIES_A_WORD * _ENTRY_BITS, _ENTRY_BITS)
        return sum(1 for word in self.words for shift in shifts if word >> shift & (1 << _PLACE_BITS) - 1)

    def as_struct(self) -> tuple[object, ...]:
        """Return the values in the contract's order."""
        return (list(self.providers), list(self.totals), list(self.words))

    @classmethod
    def from_struct(cls, values: tuple[object, ...]) -> Self:
        """Return the table of a struct as the codec gives it."""
        providers, totals, words = cast(tuple[Sequence[Address], Sequence[int], Sequence[int]], values)
        return cls(tuple(providers), tuple(totals), tuple(words))

    def hash(self) -> Hash:
        """Return keccak256(abi.encode(table)), which the ledger keeps of it."""
        return Hash(keccak(encode(["(address[],uint256[],uint256[])"], [self.as_struct()])))


def _by_slot(leaves: Sequence[Submission], slots: int) -> list[Submission | None]:
    if slots < 1:
        raise Malformed("slots", expected="at least 1", got=slots)
    found: list[Submission | None] = [None] * slots
    for leaf in leaves:
        if not 0 <= leaf.slot < slots:
            raise Malformed("slot", expected=f"0 … {slots - 1}", got=leaf.slot)
        if found[leaf.slot] is not None:
            raise Malformed("slot", expected="one leaf a slot", got=leaf.slot)
        found[leaf.slot] = leaf
    return found
