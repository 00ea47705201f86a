"""PoolRegistry: the pools, their frozen terms, their offers and their clocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from eth_abi.abi import encode
from eth_utils.crypto import keccak

from stannary.chain.connection import Block, Mined
from stannary.chain.contract import Contract
from stannary.chain.names import POOL_REGISTRY
from stannary.chain.sender import Sender
from stannary.types import Address, Hash, PoolId

_NOBODY = Address("0x" + "0" * 40)
_KINDS = {"Address": "address", "Hash": "bytes32", "int": "uint256"}
_GROUP_SIZES = (4, 5, 4, 10, 5, 8, 8)
"""Members of the groups that the contract's struct consists of, in order; what is left stands by itself."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What the owner of a pool may change with notice, for steps opened afterwards."""

    coordinator: Address
    trainer: Address
    price_per_group: int
    price_per_token: int
    card_hash: Hash

    def as_struct(self) -> tuple[object, ...]:
        """Return the values in the contract's order."""
        return tuple(getattr(self, spec.name) for spec in fields(self))

    @classmethod
    def from_struct(cls, values: tuple[Any, ...]) -> Self:
        """Return the offer of a struct as the codec gives it."""
        coordinator, trainer, price_per_group, price_per_token, card_hash = values
        return cls(coordinator, trainer, price_per_group, price_per_token, Hash(bytes(card_hash)))


@dataclass(frozen=True, slots=True)
class PendingOffer:
    """An offer that is announced and not in force."""

    offer: Offer
    effective_at: int
    """On the pool's clock; earliest."""
    is_attested: bool
    """Whether enough validators have attested its card, or it has the card in force."""


@dataclass(frozen=True, slots=True)
class PoolTerms:
    """Every rule of a pool, in the order of the contract's struct, which groups them. Money in wei of its token."""

    payout_token: Address
    pauser: Address
    """Stops the pool's clock."""
    unpauser: Address
    """Lets it run again; never the pauser."""
    notice_seconds: int
    """From the announcement of an offer to the first step under it."""
    coordinator: Address
    """Signs leases and receipts, commits the submission root."""
    trainer: Address
    """Publishes policies, opens steps."""
    price_per_group: int
    price_per_token: int
    card_hash: Hash
    panel_fee: int
    """For one panel member and step."""
    juror_fee: int
    """For one juror and case."""
    seal_fee: int
    """For whoever seals a beacon."""
    lease_bond: int
    """Of each step, for workers whose lease the coordinator gave twice."""
    min_worker_stake: int
    pay_cap_bps: int
    """Of a worker's stake: the most that one step pays it."""
    max_open_steps: int
    """Opened and not settled."""
    group_size: int
    """Rollouts of one prompt."""
    max_completion_tokens: int
    max_slots: int
    reserved_slots: int
    """That workers may take on chain, beyond those of the coordinator."""
    max_lag: int
    """Step minus policy step."""
    temperature_milli: int
    protocol_version: int
    min_validator_stake: int
    panel_size: int
    quorum: int
    """More than half of the panel."""
    jury_size: int
    max_absences: int
    """In a row, before a validator leaves the draw."""
    beacon_delay_blocks: int
    lease_seconds: int
    collect_seconds: int
    take_seconds: int
    """After the seed beacon, for taking slots on chain."""
    vote_seconds: int
    """For commitments."""
    reveal_seconds: int
    challenge_seconds: int
    unbonding_seconds: int
    fault_slash_bps: int
    """Worker, for a leaf at fault."""
    statistics_slash_bps: int
    """Worker, for a run of leaves that honest numerics cannot explain."""
    silence_slash_bps: int
    """Validator, for a seat without a revealed vote."""
    wrong_vote_slash_bps: int
    """Validator, for a vote that a jury overturned."""
    plant_slash_bps: int
    """Validator, for accepting a planted fault."""
    max_slash_bps: int
    """Of all these together within one window."""
    slash_window_seconds: int
    reward_bps: int
    """Of a slash, to whoever brought it before a jury."""
    environment_hash: Hash

    def as_struct(self) -> tuple[object, ...]:
        """Return the values in the contract's order, group by group."""
        values = iter(self._values())
        return (*(tuple(next(values) for _ in range(size)) for size in _GROUP_SIZES), *values)

    @classmethod
    def from_struct(cls, values: tuple[Any, ...]) -> Self:
        """Return the terms of a struct as the codec gives it."""
        return cls(*_flat(values))

    def hash(self) -> Hash:
        """Return keccak256(abi.encode(terms)), which allocating stake agrees to."""
        kinds = [_KINDS[str(spec.type)] for spec in fields(self)]
        return Hash(keccak(encode(kinds, self._values())))

    @property
    def offer(self) -> Offer:
        """The part that an offer can replace."""
        return Offer(*(getattr(self, spec.name) for spec in fields(Offer)))

    def under(self, offer: Offer) -> Self:
        """Return the terms with another offer in place."""
        return replace(self, **{spec.name: getattr(offer, spec.name) for spec in fields(offer)})

    @property
    def max_units(self) -> int:
        """Generated tokens of a group that are paid at most."""
        return self.group_size * self.max_completion_tokens

    @property
    def slot_price(self) -> int:
        """What one slot can cost the pool at most. Units: wei of the payout token."""
        return self.payout(self.max_units)

    @property
    def jury_cost(self) -> int:
        """What is set aside for the jurors of one slot: both rounds. Units: wei of the payout token."""
        return (2 * self.jury_size + 2) * self.juror_fee

    def payout(self, units: int) -> int:
        """Return what an accepted group of that many generated tokens is paid. Units: wei of the payout token."""
        return self.price_per_group + self.price_per_token * min(units, self.max_units)

    def pay_cap(self, stake_wei: int) -> int:
        """Return the most that one step pays a worker with that active stake. Units: wei of the payout token."""
        return stake_wei * self.pay_cap_bps // 10_000

    def step_price(self, slots: int) -> int:
        """Return what a step reserves: each slot at its dearest, both panels, both beacons, and the lease bond."""
        return (
            (slots + self.reserved_slots) * (self.slot_price + self.jury_cost)
            + 2 * self.panel_size * self.panel_fee
            + 2 * self.seal_fee
            + self.lease_bond
        )

    def _values(self) -> list[object]:
        return [getattr(self, spec.name) for spec in fields(self)]


class PoolRegistry(Contract):
    """The registry of pools."""

    NAME = POOL_REGISTRY

    def terms_of(self, pool: int, at: Block | None = None) -> PoolTerms:
        """Return a pool's terms as it was created. Raises: Reverted if there is no such pool."""
        return PoolTerms.from_struct(tuple(self.read("termsOf", pool, at=at)))

    def terms_under(self, pool: int, number: int, at: Block | None = None) -> PoolTerms:
        """Return a pool's terms with one of its offers in place. Raises: Reverted."""
        terms = self.terms_of(pool, at)
        return terms.under(self.offer_of(pool, number, at)) if number else terms

    def terms_in_force(self, pool: int, at: Block | None = None) -> PoolTerms:
        """Return a pool's terms for a step opened now. Raises: Reverted if there is no such pool."""
        return self.terms_under(pool, self.offer_number_of(pool, at), at)

    def terms_hash_of(self, pool: int, at: Block | None = None) -> Hash:
        """Return keccak256 of the encoded terms, which allocating stake agrees to."""
        return Hash(bytes(self.read("termsHashOf", pool, at=at)))

    def offer_number_of(self, pool: int, at: Block | None = None) -> int:
        """Return the number of the offer for a step opened now; 0 is that of the terms."""
        return int(self.read("offerNumberOf", pool, at=at))

    def offer_of(self, pool: int, number: int, at: Block | None = None) -> Offer:
        """Return an offer that is or was in force. Raises: Reverted (UnknownOffer)."""
        return Offer.from_struct(self.read("offerOf", pool, number, at=at))

    def pending_offer_of(self, pool: int, at: Block | None = None) -> PendingOffer | None:
        """Return the offer that waits for its notice or its attestations, None if none does."""
        offer, effective_at, is_attested = self.read("pendingOfferOf", pool, at=at)
        found = PendingOffer(Offer.from_struct(offer), int(effective_at), bool(is_attested))
        return None if found.offer.coordinator == _NOBODY else found

    def owner_of(self, pool: int, at: Block | None = None) -> Address:
        """Return who may drain and close a pool and make offers."""
        return Address(self.read("ownerOf", pool, at=at))

    def is_open(self, pool: int, at: Block | None = None) -> bool:
        """Say whether the pool exists and is not closed."""
        return bool(self.read("isOpen", pool, at=at))

    def is_paused(self, pool: int, at: Block | None = None) -> bool:
        """Say whether the pool's clock stands: no new step and no new lease."""
        return bool(self.read("isPaused", pool, at=at))

    def clock_of(self, pool: int, at: Block | None = None) -> int:
        """Return the pool's clock: chain time less all the time for which it stood. Units: seconds."""
        return int(self.read("clockOf", pool, at=at))

    def pool_count(self, at: Block | None = None) -> int:
        """Return how many pools there are; they are numbered from 1."""
        return int(self.read("poolCount", at=at))

    def create_pool(self, sender: Sender, terms: PoolTerms) -> PoolId:
        """Create a pool owned by the sender and return its id."""
        mined = sender.send(self.encode("createPool", terms.as_struct()))
        return PoolId(self.emitted(mined, "PoolCreated", "pool"))

    def close_pool(self, sender: Sender, pool: int) -> Mined:
        """Close a pool for good."""
        return sender.send(self.encode("closePool", pool))

    def offer_ownership(self, sender: Sender, pool: int, to: Address) -> Mined:
        """Offer a pool to another owner; the zero address takes the offer back. Only its owner."""
        return sender.send(self.encode("offerOwnership", pool, to))

    def accept_ownership(self, sender: Sender, pool: int) -> Mined:
        """Take a pool that was offered to the sender."""
        return sender.send(self.encode("acceptOwnership", pool))

    def announce_offer(self, sender: Sender, pool: int, offer: Offer) -> int:
        """Announce the next offer and return its number. Only the pool's owner."""
        mined = sender.send(self.encode("announceOffer", pool, offer.as_struct()))
        return int(self.emitted(mined, "OfferAnnounced", "number"))

    def withdraw_offer(self, sender: Sender, pool: int) -> Mined:
        """Take back an offer that is not in force. Only the pool's owner."""
        return sender.send(self.encode("withdrawOffer", pool))

    def attest_card(self, sender: Sender, pool: int, card_hash: Hash) -> Mined:
        """Say, as a validator or its node, that one measured the honest drift that a card states."""
        return sender.send(self.encode("attestCard", pool, card_hash))

    def pause(self, sender: Sender, pool: int) -> Mined:
        """Stop the pool's clock. Only its pauser."""
        return sender.send(self.encode("pause", pool))

    def unpause(self, sender: Sender, pool: int) -> Mined:
        """Let the pool's clock run again. Only its unpauser."""
        return sender.send(self.encode("unpause", pool))


def _flat(values: tuple[Any, ...]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, tuple):
            yield from _flat(value)
        else:
            yield value
