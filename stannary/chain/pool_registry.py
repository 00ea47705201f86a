"""PoolRegistry: the pools and their frozen terms."""

from __future__ import annotations

from dataclasses import dataclass, fields

from stannary.chain.connection import Block, Mined
from stannary.chain.contract import Contract
from stannary.chain.names import POOL_REGISTRY
from stannary.chain.sender import Sender
from stannary.types import Address, Hash, PoolId


@dataclass(frozen=True, slots=True)
class PoolTerms:
    """Every rule of a pool, in the order of the contract's struct. Money in wei of its token."""

    payout_token: Address
    coordinator: Address
    """Signs leases and receipts, commits the submission root."""
    trainer: Address
    """Publishes policies, opens steps."""
    price_per_group: int
    price_per_token: int
    panel_fee: int
    """For one panel member and step."""
    min_worker_stake: int
    min_validator_stake: int
    group_size: int
    """Rollouts of one prompt."""
    max_completion_tokens: int
    max_slots: int
    max_lag: int
    """Step minus policy step."""
    panel_size: int
    quorum: int
    """More than half of the panel."""
    beacon_delay_blocks: int
    lease_seconds: int
    collect_seconds: int
    vote_seconds: int
    challenge_seconds: int
    unbonding_seconds: int
    fault_slash_bps: int
    temperature_milli: int
    protocol_version: int
    card_hash: Hash
    environment_hash: Hash

    def as_struct(self) -> tuple[object, ...]:
        """Return the values in the contract's order."""
        return tuple(getattr(self, spec.name) for spec in fields(self))

    @classmethod
    def from_struct(cls, values: tuple[object, ...]) -> PoolTerms:
        """Return the terms of a struct as the codec gives it."""
        return cls(*values)  # type: ignore[arg-type]

    @property
    def max_units(self) -> int:
        """Generated tokens of a group that are paid at most."""
        return self.group_size * self.max_completion_tokens

    @property
    def slot_price(self) -> int:
        """What one slot can cost the pool at most. Units: wei of the payout token."""
        return self.price_per_group + self.price_per_token * self.max_units

    def step_price(self, slots: int) -> int:
        """What a step of `slots` slots reserves: every slot at its dearest, and the panel's fees."""
        return slots * self.slot_price + self.panel_size * self.panel_fee


class PoolRegistry(Contract):
    """The registry of pools."""

    NAME = POOL_REGISTRY

    def terms_of(self, pool: int, at: Block | None = None) -> PoolTerms:
        """Return a pool's terms. Raises: Reverted if there is no such pool."""
        return PoolTerms.from_struct(tuple(self.read("termsOf", pool, at=at)))

    def terms_hash_of(self, pool: int, at: Block | None = None) -> Hash:
        """Return keccak256 of the encoded terms, which allocating stake agrees to."""
        return Hash(bytes(self.read("termsHashOf", pool, at=at)))

    def owner_of(self, pool: int, at: Block | None = None) -> Address:
        """Return who may fund, drain and close a pool."""
        return Address(self.read("ownerOf", pool, at=at))

    def is_open(self, pool: int, at: Block | None = None) -> bool:
        """Say whether steps can still be opened."""
        return bool(self.read("isOpen", pool, at=at))

    def pool_count(self, at: Block | None = None) -> int:
        """Return how many pools there are; they are numbered from 1."""
        return int(self.read("poolCount", at=at))

    def create_pool(self, sender: Sender, terms: PoolTerms) -> PoolId:
        """Create a pool owned by the sender and return its id."""
        call = self.encode("createPool", terms.as_struct())
        mined = sender.send(call)
        return PoolId(self.emitted(mined, "PoolCreated", "pool"))

    def close_pool(self, sender: Sender, pool: int) -> Mined:
        """Close a pool for good."""
        return sender.send(self.encode("closePool", pool))
