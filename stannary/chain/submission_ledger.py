"""SubmissionLedger: policies, steps, their seed beacons, slots taken on chain, roots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

from stannary.chain.connection import Block, Mined
from stannary.chain.contract import Contract, struct_of
from stannary.chain.names import SUBMISSION_LEDGER
from stannary.chain.sender import Sender
from stannary.errors import Malformed
from stannary.merkle import merkle_proof
from stannary.slots import PayTable, slot_words
from stannary.structs import Lease, Submission
from stannary.types import Address, Hash, Phase

_NOBODY = "0x" + "0" * 40


@dataclass(frozen=True, slots=True)
class StepState:
    """Where one step stands. `…_at` in seconds of the pool's clock, `…_block` a block number; 0 is not yet."""

    policy_step: int
    slots: int
    taken: int
    """Slots taken on chain: numbers `slots` … `slots + taken - 1`."""
    reserved: int
    """Slots that workers may take on chain."""
    offer: int
    """Which offer of the pool it was opened under."""
    opened_block: int
    seed_block: int
    """The block whose hash becomes the seed beacon."""
    phase: Phase
    seeded_at: int
    audit_block: int
    committed_at: int
    finalized_at: int
    """When the step was finalized or cancelled."""
    seed_beacon: Hash
    audit_beacon: Hash
    submission_root: Hash
    settlement_hash: Hash
    """keccak256 of the pay table; once finalized, of the packed outcomes."""

    @property
    def positions(self) -> int:
        """How many slots are voted on: those of the tree, then those taken on chain."""
        return self.slots + self.taken


@dataclass(frozen=True, slots=True)
class LeafOpening:
    """A submission with the proof that it stands at its slot of the committed tree; no proof if taken on chain."""

    leaf: Submission
    proof: tuple[Hash, ...]

    @classmethod
    def of(cls, leaves: Sequence[Submission], slots: int, slot: int) -> Self:
        """Open the leaf of a slot among all leaves of a step's tree. Raises: Malformed if the slot has none."""
        found = [leaf for leaf in leaves if leaf.slot == slot]
        if len(found) != 1:
            raise Malformed("slot", expected="one with a leaf", got=slot)
        return cls(found[0], tuple(merkle_proof(slot_words(leaves, slots), slot)))

    def as_struct(self) -> tuple[object, ...]:
        """Return the values in the contract's order."""
        return (_values(self.leaf), list(self.proof))


@dataclass(frozen=True, slots=True)
class TakenSlot:
    """A slot that a worker took on chain: its record is its lease."""

    provider: Address
    taken_at: int
    """On the pool's clock."""
    beacon_block: int
    units: int
    beacon: Hash
    """Zero until it is sealed."""
    leaf_hash: Hash
    """Zero until the work is delivered."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What a step pays, under the offer that it was opened under. Units: wei of the payout token."""

    slot_cap: int
    """The most that one slot is paid."""
    unit_cap: int
    """Generated tokens of a group that are paid at most."""
    price_per_group: int
    price_per_token: int
    pay_cap_bps: int
    """Of a worker's stake."""


class SubmissionLedger(Contract):
    """The ledger of steps."""

    NAME = SUBMISSION_LEDGER

    def step_of(self, pool: int, step: int, at: Block | None = None) -> StepState:
        """Return where a step stands; `Phase.NONE` if it was never opened."""
        return struct_of(StepState, self.read("stepOf", pool, step, at=at), {"phase": Phase})

    def policy_root_of(self, pool: int, policy_step: int, at: Block | None = None) -> Hash:
        """Return a policy step's root. Raises: Reverted (UnknownPolicy) if it was not published."""
        return Hash(bytes(self.read("policyRootOf", pool, policy_step, at=at)))

    def step_count_of(self, pool: int, at: Block | None = None) -> int:
        """Return how many steps were opened."""
        return int(self.read("stepCountOf", pool, at=at))

    def settled_count_of(self, pool: int, at: Block | None = None) -> int:
        """Return how many steps are finalized or cancelled: all below this number are, and it is the next."""
        return int(self.read("settledCountOf", pool, at=at))

    def policy_count_of(self, pool: int, at: Block | None = None) -> int:
        """Return how many policy steps were published."""
        return int(self.read("policyCountOf", pool, at=at))

    def taken_slot_of(self, pool: int, step: int, slot: int, at: Block | None = None) -> TakenSlot | None:
        """Return the record of a slot that was taken on chain, None if it was not."""
        provider, taken_at, beacon_block, units, beacon, leaf_hash = self.read("takenSlotOf", pool, step, slot, at=at)
        if provider == _NOBODY:
            return None
        words = (Hash(bytes(beacon)), Hash(bytes(leaf_hash)))
        return TakenSlot(Address(provider), taken_at, beacon_block, units, *words)

    def audit_from(self, pool: int, step: int, at: Block | None = None) -> int:
        """Return when the panel of a step may be drawn: no slot can be taken or delivered on chain any more."""
        return int(self.read("auditFrom", pool, step, at=at))

    def rates_of(self, pool: int, step: int, at: Block | None = None) -> Rates:
        """Return what a step pays."""
        return Rates(*self.read("ratesOf", pool, step, at=at))

    def is_opened_by(self, pool: int, step: int, block_number: int, at: Block | None = None) -> bool:
        """Say whether a step was opened in that block or before."""
        return bool(self.read("isOpenedBy", pool, step, block_number, at=at))

    def finalized_at_of(self, pool: int, step: int, at: Block | None = None) -> int:
        """Return when a step was finalized or cancelled, 0 if it was not yet."""
        return int(self.read("finalizedAtOf", pool, step, at=at))

    def check_leaf(self, pool: int, step: int, opening: LeafOpening, at: Block | None = None) -> Hash:
        """Return the hash of a leaf that stands where its opening says. Raises: Reverted if it does not."""
        return Hash(bytes(self.read("checkLeaf", pool, step, opening.as_struct(), at=at)))

    def leaf_hash(self, leaf: Submission, at: Block | None = None) -> Hash:
        """Return the contract's own hash of a leaf."""
        return Hash(bytes(self.read("leafHash", _values(leaf), at=at)))

    def submission_digest(self, leaf: Submission, at: Block | None = None) -> Hash:
        """Return the contract's own digest of what a node signs of a leaf."""
        return Hash(bytes(self.read("submissionDigest", _values(leaf), at=at)))

    def lease_digest(self, lease: Lease, at: Block | None = None) -> Hash:
        """Return the contract's own digest of what a coordinator signs of a lease."""
        return Hash(bytes(self.read("leaseDigest", _values(lease), at=at)))

    def publish_policy(
        self, sender: Sender, pool: int, policy_step: int, policy_root: Hash, consumed_root: Hash
    ) -> Mined:
        """Publish a policy step; only the trainer, one after the other from 0."""
        return sender.send(self.encode("publishPolicy", pool, policy_step, policy_root, consumed_root))

    def open_step(self, sender: Sender, pool: int, step: int, policy_step: int, slots: int) -> Mined:
        """Open a step; only the trainer, one after the other from 0."""
        return sender.send(self.encode("openStep", pool, step, policy_step, slots))

    def seal_seed_beacon(self, sender: Sender, pool: int, step: int) -> Mined:
        """Seal the seed beacon once its block is behind; draws a new block if that hash is gone."""
        return sender.send(self.encode("sealSeedBeacon", pool, step))

    def take_slot(self, sender: Sender, pool: int, step: int) -> int:
        """Take a slot without the coordinator, for an approved bond, and return its number; a worker, once a step."""
        mined = sender.send(self.encode("takeSlot", pool, step))
        return int(self.emitted(mined, "SlotTaken", "slot"))

    def seal_taken_slot(self, sender: Sender, pool: int, step: int, slot: int) -> Mined:
        """Seal the beacon of a taken slot once its block is behind."""
        return sender.send(self.encode("sealTakenSlot", pool, step, slot))

    def deliver_taken(
        self, sender: Sender, pool: int, step: int, leaf: Submission, signature: bytes, location: str
    ) -> Mined:
        """Deliver the work of a taken slot; its bytes are served at `location` until the step is finalized."""
        return sender.send(self.encode("deliverTaken", pool, step, _values(leaf), signature, location))

    def commit_root(
        self,
        sender: Sender,
        pool: int,
        step: int,
        submission_root: Hash,
        slot_table_root: Hash,
        pay_table: PayTable,
    ) -> Mined:
        """Commit all submissions of a step; only the coordinator."""
        arguments = (submission_root, slot_table_root, pay_table.as_struct())
        return sender.send(self.encode("commitRoot", pool, step, *arguments))

    def cancel_step(self, sender: Sender, pool: int, step: int) -> Mined:
        """Cancel a step whose coordinator let the deadline pass."""
        return sender.send(self.encode("cancelStep", pool, step))

    def prove_overlap(
        self, sender: Sender, first: Lease, first_signature: bytes, second: Lease, second_signature: bytes
    ) -> Mined:
        """Show two leases of one slot with overlapping times; the step's lease bond pays the later one's provider."""
        arguments = (_values(first), first_signature, _values(second), second_signature)
        return sender.send(self.encode("proveOverlap", *arguments))


def _values(struct: Submission | Lease) -> tuple[Any, ...]:
    return tuple(getattr(struct, spec.name) for spec in fields(struct))
