"""Verdicts: how votes are packed, hashed and tallied. The tally equals the contract's, so that anyone can check it."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from eth_utils.crypto import keccak

from stannary.errors import Malformed
from stannary.merkle import merkle_root
from stannary.structs import Verdict
from stannary.types import Hash, Outcome

REWARD_QUANTUM = 1_000_000
"""Rewards are signed as whole millionths."""


def outcomes_by_slot(decided: Mapping[int, Outcome], positions: int) -> list[Outcome]:
    """Return the outcome of every slot of a step, those taken on chain after the others; abstain where none is decided.

    Raises: Malformed for a slot outside.
    """
    outside = [slot for slot in decided if not 0 <= slot < positions]
    if outside:
        raise Malformed("slot", expected=f"0 … {positions - 1}", got=outside[0])
    return [decided.get(slot, Outcome.ABSTAIN) for slot in range(positions)]


def pack_outcomes(outcomes: Sequence[Outcome]) -> bytes:
    """Return two bits a slot, slot i in bits 2·(i mod 4) of byte i // 4; spare bits are zero."""
    packed = bytearray((len(outcomes) + 3) // 4)
    for slot, outcome in enumerate(outcomes):
        packed[slot >> 2] |= int(outcome) << 2 * (slot & 3)
    return bytes(packed)


def unpack_outcomes(packed: bytes, positions: int) -> list[Outcome]:
    """Return the outcome of each slot. Raises: Malformed on a wrong length or a spare bit that is set."""
    if len(packed) != (positions + 3) // 4:
        raise Malformed("outcomes", expected=f"{(positions + 3) // 4} bytes", got=len(packed))
    outcomes = [Outcome(packed[i >> 2] >> 2 * (i & 3) & 3) for i in range(len(packed) * 4)]
    if any(outcomes[positions:]):
        raise Malformed("outcomes", expected="zero spare bits", got="0x" + packed.hex())
    return outcomes[:positions]


def tally(votes: Sequence[Outcome], quorum: int) -> Outcome:
    """Return what a panel's votes on one leaf come to; `Outcome.ABSTAIN` = undecided, unpaid and unslashed."""
    if sum(vote == Outcome.ACCEPT for vote in votes) >= quorum:
        return Outcome.ACCEPT
    if sum(vote == Outcome.FAULT for vote in votes) >= quorum:
        return Outcome.FAULT
    if sum(vote in (Outcome.REJECT, Outcome.FAULT) for vote in votes) >= quorum:
        return Outcome.REJECT
    return Outcome.ABSTAIN


def is_decided(votes: Sequence[Outcome], quorum: int, outstanding: int) -> bool:
    """Say whether votes still outstanding can no longer change whether a leaf is accepted."""
    accepts = sum(vote == Outcome.ACCEPT for vote in votes)
    return accepts >= quorum or accepts + outstanding < quorum


def rewards_hash(rewards: Sequence[float]) -> Hash:
    """Return keccak256 of the rewards of a group as big-endian int32 millionths.

    Raises: Malformed if a reward is not in [-2000, 2000].
    """
    quanta = []
    for reward in rewards:
        if not -2000 <= reward <= 2000:
            raise Malformed("reward", expected="a number in [-2000, 2000]", got=reward)
        quanta.append(round(reward * REWARD_QUANTUM))
    return Hash(keccak(struct.pack(f">{len(quanta)}i", *quanta)))


def verdict_root(verdicts: Sequence[Verdict]) -> Hash:
    """Return the Merkle root over the verdicts' struct hashes, in slot order of their leaves."""
    return merkle_root([verdict.struct_hash() for verdict in verdicts])
