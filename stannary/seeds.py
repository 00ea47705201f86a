"""Beacons and seeds: derived from the chain, chosen by nobody, bound to no identity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from eth_abi.abi import encode
from eth_utils.crypto import keccak

from stannary.structs import Domain
from stannary.types import Hash

_SEED_BEACON = keccak(text="stannary.beacon.seed.v1")
_AUDIT_BEACON = keccak(text="stannary.beacon.audit.v1")
_TAKEN_BEACON = keccak(text="stannary.beacon.taken.v1")
_REDRAW_BEACON = keccak(text="stannary.beacon.redraw.v1")
_SLOT_SEED = keccak(text="stannary.seed.slot.v1")
_ROLLOUT_SEED = keccak(text="stannary.seed.rollout.v1")
_SLOT_ORDER = keccak(text="stannary.slot.order.v1")


@dataclass(frozen=True, slots=True)
class StepSeeds:
    """What all seeds of one step derive from."""

    ledger: Domain
    pool: int
    step: int
    seed_beacon: Hash
    taken_beacons: Mapping[int, Hash] = field(default_factory=dict, hash=False)
    """Of slots that were taken on chain: their own beacons, by slot."""

    def slot_seed(self, slot: int) -> Hash:
        """Return the seed that chooses the slot's problem: of the step's beacon, or of the slot's own if it has one."""
        return Hash(
            keccak(
                encode(
                    ["bytes32", "uint256", "address", "uint64", "uint32", "bytes32", "uint32"],
                    [
                        _SLOT_SEED,
                        self.ledger.chain_id,
                        self.ledger.contract,
                        self.pool,
                        self.step,
                        self.taken_beacons.get(slot, self.seed_beacon),
                        slot,
                    ],
                )
            )
        )

    def rollout_seed(self, slot: int, rollout: int) -> Hash:
        """Return the seed of the sampling noise of one rollout."""
        return Hash(keccak(encode(["bytes32", "bytes32", "uint32"], [_ROLLOUT_SEED, self.slot_seed(slot), rollout])))

    def slot_order(self, slots: int) -> list[int]:
        """Return the order in which slots are leased: by keccak256(tag, beacon, slot), so that nobody chooses it."""
        kinds = ["bytes32", "bytes32", "uint32"]
        return sorted(range(slots), key=lambda slot: keccak(encode(kinds, [_SLOT_ORDER, self.seed_beacon, slot])))


def seed_beacon(ledger: Domain, pool: int, step: int, block_hash: bytes) -> Hash:
    """Return the seed beacon that the ledger seals from a block's hash."""
    return _beacon(_SEED_BEACON, ledger, pool, step, block_hash)


def audit_beacon(ledger: Domain, pool: int, step: int, block_hash: bytes) -> Hash:
    """Return the audit beacon that the ledger seals from a block's hash."""
    return _beacon(_AUDIT_BEACON, ledger, pool, step, block_hash)


def redraw_beacon(audit_beacon: Hash) -> Hash:
    """Return the beacon that draws new members for the seats of silent ones."""
    return Hash(keccak(encode(["bytes32", "bytes32"], [_REDRAW_BEACON, audit_beacon])))


def taken_beacon(ledger: Domain, pool: int, step: int, slot: int, block_hash: bytes) -> Hash:
    """Return the beacon that the ledger seals for a slot taken on chain from a block's hash."""
    kinds = ["bytes32", "uint256", "address", "uint64", "uint32", "uint32", "bytes32"]
    return Hash(keccak(encode(kinds, [_TAKEN_BEACON, ledger.chain_id, ledger.contract, pool, step, slot, block_hash])))


def _beacon(tag: bytes, ledger: Domain, pool: int, step: int, block_hash: bytes) -> Hash:
    kinds = ["bytes32", "uint256", "address", "uint64", "uint32", "bytes32"]
    return Hash(keccak(encode(kinds, [tag, ledger.chain_id, ledger.contract, pool, step, block_hash])))
