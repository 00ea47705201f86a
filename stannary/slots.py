"""The slot table of a step: what became of every slot, under one root on chain."""

from __future__ import annotations

from collections.abc import Sequence

from eth_abi.abi import encode
from eth_utils.crypto import keccak

from stannary.merkle import merkle_root
from stannary.types import Hash

_SLOT = keccak(text="stannary.slot.v1")


def slot_table_root(table: Sequence[tuple[Hash, Hash]]) -> Hash:
    """Return the Merkle root over (lease hash, leaf hash) of all slots in slot order, zeros where there is none."""
    kinds = ["bytes32", "uint32", "bytes32", "bytes32"]
    return merkle_root([Hash(keccak(encode(kinds, [_SLOT, slot, *entry]))) for slot, entry in enumerate(table)])
