"""The contracts' events, typed, in the order of the chain: what the coordinator's mirror and reports are built from."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import contracts
from contracts import CONTRACT_NAMES, ContractName
from stannary.chain.abi import decode_event, topic
from stannary.chain.connection import Connection, NodeRefused
from stannary.chain.deployment import Deployment
from stannary.chain.dispute_court import Case
from stannary.chain.names import (
    DISPUTE_COURT,
    PAYOUT_VAULT,
    PLANTED_FAULTS,
    POOL_REGISTRY,
    STAKE_MANAGER,
    SUBMISSION_LEDGER,
    VOTING_PANEL,
)
from stannary.chain.pool_registry import Offer, PoolTerms
from stannary.slots import PayTable
from stannary.structs import Submission
from stannary.types import Address, Hash

BLOCKS_A_READ = 2000
"""Blocks asked for at once; halved as long as the node refuses."""
REREAD_BLOCKS = 64
"""Newest blocks that are read again at each look, as a chain may still replace them."""

_FIELD_NAMES = {"from": "payer"}
"""Arguments whose names Python keeps for itself."""

_STRUCTS: dict[str, Callable[[Any], object]] = {
    "terms": PoolTerms.from_struct,
    "offer": Offer.from_struct,
    "pay_table": PayTable.from_struct,
    "details": Case.from_struct,
    "leaf": lambda values: Submission(*values),
}
"""How an argument that is a struct becomes ours."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where on the chain an event stands."""

    block_number: int
    block_hash: Hash
    log_index: int
    transaction: Hash


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events; a subclass names its contract and has the event's arguments as fields, in order."""

    CONTRACT: ClassVar[ContractName]
    NAME: ClassVar[str] = ""
    """The event's name in the contract, where the class has another."""
    place: Place

    @classmethod
    def name(cls) -> str:
        """Return the event's name in the contract."""
        return cls.NAME or cls.__name__


@dataclass(frozen=True, slots=True)
class Deposited(Event):
    """Tokens became idle stake."""

    CONTRACT: ClassVar[ContractName] = STAKE_MANAGER
    provider: Address
    amount: int


@dataclass(frozen=True, slots=True)
class Withdrawn(Event):
    """Idle stake went home."""

    CONTRACT: ClassVar[ContractName] = STAKE_MANAGER
    provider: Address
    to: Address
    amount: int


@dataclass(frozen=True, slots=True)
class Allocated(Event):
    """Idle stake went into a pool."""

    CONTRACT: ClassVar[ContractName] = STAKE_MANAGER
    pool: int
    role: int
    provider: Address
    amount: int
    shares: int


@dataclass(frozen=True, slots=True)
class ExitStarted(Event):
    """Shares of a position began to leave; still slashable."""

    CONTRACT: ClassVar[ContractName] = STAKE_MANAGER
    exit_id: int
    pool: int
    role: int
    provider: Address
    shares: int
    release_at: int


@dataclass(frozen=True, slots=True)
class ExitFinished(Event):
    """Shares that had left became idle stake."""

    CONTRACT: ClassVar[ContractName] = STAKE_MANAGER
    exit_id: int
    provider: Address
    amount: int


@dataclass(frozen=True, slots=True)
class NodeAdded(Event):
    """A node may act for a provider."""

    CONTRACT: ClassVar[ContractName] = STAKE_MANAGER
    node: Address
    provider: Address


@dataclass(frozen=True, slots=True)
class NodeRemoved(Event):
    """A node may no longer act for a provider."""

    CONTRACT: ClassVar[ContractName] = STAKE_MANAGER
    node: Address
    provider: Address


@dataclass(frozen=True, slots=True)
class ControllerOffered(Event):
    """Control of a provider was offered to another key."""

    CONTRACT: ClassVar[ContractName] = STAKE_MANAGER
    provider: Address
    to: Address


@dataclass(frozen=True, slots=True)
class ControllerChanged(Event):
    """Another key controls a provider."""

    CONTRACT: ClassVar[ContractName] = STAKE_MANAGER
    provider: Address
    controller: Address


@dataclass(frozen=True, slots=True)
class PayeeChanged(Event):
    """A provider's payouts in a pool go elsewhere."""

    CONTRACT: ClassVar[ContractName] = STAKE_MANAGER
    pool: int
    provider: Address
    payee: Address


@dataclass(frozen=True, slots=True)
class Slashed(Event):
    """A position lost tokens for an offence."""

    CONTRACT: ClassVar[ContractName] = STAKE_MANAGER
    pool: int
    role: int
    provider: Address
    offence: Hash
    bps: int
    amount: int
    beneficiary: Address
    reward: int


@dataclass(frozen=True, slots=True)
class Suspended(Event):
    """A position counts for nothing until it is reinstated."""

    CONTRACT: ClassVar[ContractName] = STAKE_MANAGER
    pool: int
    role: int
    provider: Address
    until: int


@dataclass(frozen=True, slots=True)
class Reinstated(Event):
    """A suspension is over."""

    CONTRACT: ClassVar[ContractName] = STAKE_MANAGER
    pool: int
    role: int
    provider: Address


@dataclass(frozen=True, slots=True)
class AbsenceRecorded(Event):
    """A validator did not decide with the others."""

    CONTRACT: ClassVar[ContractName] = STAKE_MANAGER
    pool: int
    provider: Address
    absences: int


@dataclass(frozen=True, slots=True)
class HoldChanged(Event):
    """A dispute about a position was opened or closed."""

    CONTRACT: ClassVar[ContractName] = STAKE_MANAGER
    pool: int
    role: int
    provider: Address
    holds: int


@dataclass(frozen=True, slots=True)
class StakeBurned(Event):
    """Slashed stake went to nobody."""

    CONTRACT: ClassVar[ContractName] = STAKE_MANAGER
    NAME: ClassVar[str] = "Burned"
    amount: int


@dataclass(frozen=True, slots=True)
class PoolCreated(Event):
    """A pool exists under terms that never change."""

    CONTRACT: ClassVar[ContractName] = POOL_REGISTRY
    pool: int
    owner: Address
    terms_hash: Hash
    terms: PoolTerms


@dataclass(frozen=True, slots=True)
class PoolClosed(Event):
    """A pool opens no more steps."""

    CONTRACT: ClassVar[ContractName] = POOL_REGISTRY
    pool: int


@dataclass(frozen=True, slots=True)
class OwnershipOffered(Event):
    """A pool was offered to another owner."""

    CONTRACT: ClassVar[ContractName] = POOL_REGISTRY
    pool: int
    to: Address


@dataclass(frozen=True, slots=True)
class OwnershipAccepted(Event):
    """A pool has another owner."""

    CONTRACT: ClassVar[ContractName] = POOL_REGISTRY
    pool: int
    owner: Address


@dataclass(frozen=True, slots=True)
class OfferAnnounced(Event):
    """The next offer of a pool is known."""

    CONTRACT: ClassVar[ContractName] = POOL_REGISTRY
    pool: int
    number: int
    offer: Offer
    effective_at: int


@dataclass(frozen=True, slots=True)
class OfferWithdrawn(Event):
    """An offer that was not in force was taken back."""

    CONTRACT: ClassVar[ContractName] = POOL_REGISTRY
    pool: int
    number: int


@dataclass(frozen=True, slots=True)
class CardAttested(Event):
    """A validator measured what a card states."""

    CONTRACT: ClassVar[ContractName] = POOL_REGISTRY
    pool: int
    card_hash: Hash
    provider: Address


@dataclass(frozen=True, slots=True)
class Paused(Event):
    """A pool's clock stands."""

    CONTRACT: ClassVar[ContractName] = POOL_REGISTRY
    pool: int
    since: int
    until: int


@dataclass(frozen=True, slots=True)
class Unpaused(Event):
    """A pool's clock runs again."""

    CONTRACT: ClassVar[ContractName] = POOL_REGISTRY
    pool: int
    clock: int


@dataclass(frozen=True, slots=True)
class PolicyPublished(Event):
    """A policy step's root is on chain."""

    CONTRACT: ClassVar[ContractName] = SUBMISSION_LEDGER
    pool: int
    policy_step: int
    policy_root: Hash
    consumed_root: Hash


@dataclass(frozen=True, slots=True)
class StepOpened(Event):
    """A round of slots is open; its seed beacon is the hash of a block to come."""

    CONTRACT: ClassVar[ContractName] = SUBMISSION_LEDGER
    pool: int
    step: int
    policy_step: int
    slots: int
    offer: int
    seed_block: int


@dataclass(frozen=True, slots=True)
class SeedBeaconSealed(Event):
    """The seeds of a step are fixed."""

    CONTRACT: ClassVar[ContractName] = SUBMISSION_LEDGER
    pool: int
    step: int
    beacon: Hash
    sealer: Address


@dataclass(frozen=True, slots=True)
class SlotTaken(Event):
    """A worker took a slot without the coordinator."""

    CONTRACT: ClassVar[ContractName] = SUBMISSION_LEDGER
    pool: int
    step: int
    slot: int
    provider: Address
    beacon_block: int


@dataclass(frozen=True, slots=True)
class TakenSlotSealed(Event):
    """The beacon of a taken slot is fixed."""

    CONTRACT: ClassVar[ContractName] = SUBMISSION_LEDGER
    pool: int
    step: int
    slot: int
    beacon: Hash


@dataclass(frozen=True, slots=True)
class TakenSlotDelivered(Event):
    """The work of a taken slot is on chain."""

    CONTRACT: ClassVar[ContractName] = SUBMISSION_LEDGER
    pool: int
    step: int
    provider: Address
    leaf: Submission
    signature: bytes
    location: str


@dataclass(frozen=True, slots=True)
class RootCommitted(Event):
    """All submissions of a step are fixed, and who is paid for how much."""

    CONTRACT: ClassVar[ContractName] = SUBMISSION_LEDGER
    pool: int
    step: int
    submission_root: Hash
    slot_table_root: Hash
    pay_table: PayTable
    audit_block: int


@dataclass(frozen=True, slots=True)
class AuditBeaconSealed(Event):
    """The panel of a step is drawn."""

    CONTRACT: ClassVar[ContractName] = VOTING_PANEL
    pool: int
    step: int
    beacon: Hash
    panel: tuple[Address, ...]
    sealer: Address


@dataclass(frozen=True, slots=True)
class AuditBlockDrawn(Event):
    """No slot of a step can be taken any more: its audit beacon is the hash of a block to come."""

    CONTRACT: ClassVar[ContractName] = SUBMISSION_LEDGER
    pool: int
    step: int
    audit_block: int


@dataclass(frozen=True, slots=True)
class BeaconRedrawn(Event):
    """A beacon's block was too old; a later one takes its place."""

    CONTRACT: ClassVar[ContractName] = SUBMISSION_LEDGER
    pool: int
    step: int
    is_audit: bool
    beacon_block: int


@dataclass(frozen=True, slots=True)
class VoteCommitted(Event):
    """A panel member committed to its vote."""

    CONTRACT: ClassVar[ContractName] = VOTING_PANEL
    pool: int
    step: int
    provider: Address
    node: Address
    commitment: Hash


@dataclass(frozen=True, slots=True)
class VoteRevealed(Event):
    """A panel member's vote is known."""

    CONTRACT: ClassVar[ContractName] = VOTING_PANEL
    pool: int
    step: int
    provider: Address
    outcomes: bytes
    verdict_root: Hash
    evidence_root: Hash


@dataclass(frozen=True, slots=True)
class PanelRedrawn(Event):
    """Silent members of a panel lost their seats to others."""

    CONTRACT: ClassVar[ContractName] = VOTING_PANEL
    pool: int
    step: int
    silent: tuple[Address, ...]
    panel: tuple[Address, ...]


@dataclass(frozen=True, slots=True)
class SlotHeld(Event):
    """A dispute keeps a slot out of the settlement."""

    CONTRACT: ClassVar[ContractName] = VOTING_PANEL
    pool: int
    step: int
    slot: int
    leaf_hash: Hash
    outcome: int


@dataclass(frozen=True, slots=True)
class StepFinalized(Event):
    """The votes of a step are counted for good; the outcomes are kept nowhere else."""

    CONTRACT: ClassVar[ContractName] = VOTING_PANEL
    pool: int
    step: int
    outcomes: bytes
    accepted: int
    rejected: int
    faulted: int
    held: int


@dataclass(frozen=True, slots=True)
class StepCancelled(Event):
    """A step lapsed."""

    CONTRACT: ClassVar[ContractName] = SUBMISSION_LEDGER
    pool: int
    step: int


@dataclass(frozen=True, slots=True)
class LeafSlashed(Event):
    """A leaf's provider was slashed for it."""

    CONTRACT: ClassVar[ContractName] = VOTING_PANEL
    pool: int
    step: int
    slot: int
    provider: Address
    leaf_hash: Hash
    amount: int


@dataclass(frozen=True, slots=True)
class Funded(Event):
    """A pool got money."""

    CONTRACT: ClassVar[ContractName] = PAYOUT_VAULT
    pool: int
    payer: Address
    amount: int


@dataclass(frozen=True, slots=True)
class Drained(Event):
    """Free money left a pool."""

    CONTRACT: ClassVar[ContractName] = PAYOUT_VAULT
    pool: int
    to: Address
    amount: int


@dataclass(frozen=True, slots=True)
class Burned(Event):
    """Locked money of a closed pool went to nobody."""

    CONTRACT: ClassVar[ContractName] = PAYOUT_VAULT
    pool: int
    amount: int


@dataclass(frozen=True, slots=True)
class Reserved(Event):
    """Money was set aside for a step."""

    CONTRACT: ClassVar[ContractName] = PAYOUT_VAULT
    pool: int
    step: int
    from_free: int
    from_locked: int


@dataclass(frozen=True, slots=True)
class Released(Event):
    """Money that a step did not need was given back or locked."""

    CONTRACT: ClassVar[ContractName] = PAYOUT_VAULT
    pool: int
    step: int
    to_free: int
    to_locked: int


@dataclass(frozen=True, slots=True)
class Earned(Event):
    """A provider may claim more."""

    CONTRACT: ClassVar[ContractName] = PAYOUT_VAULT
    pool: int
    step: int
    provider: Address
    amount: int


@dataclass(frozen=True, slots=True)
class Settled(Event):
    """The workers and the panel of a step may claim more; some perhaps nothing."""

    CONTRACT: ClassVar[ContractName] = PAYOUT_VAULT
    pool: int
    step: int
    providers: tuple[Address, ...]
    amounts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Claimed(Event):
    """What a provider had earned was paid to its payee."""

    CONTRACT: ClassVar[ContractName] = PAYOUT_VAULT
    pool: int
    provider: Address
    payee: Address
    amount: int


@dataclass(frozen=True, slots=True)
class Fined(Event):
    """Free money of a pool was locked."""

    CONTRACT: ClassVar[ContractName] = PAYOUT_VAULT
    pool: int
    amount: int


@dataclass(frozen=True, slots=True)
class BondTaken(Event):
    """Someone put money down."""

    CONTRACT: ClassVar[ContractName] = PAYOUT_VAULT
    pool: int
    payer: Address
    amount: int


@dataclass(frozen=True, slots=True)
class BondSpent(Event):
    """Bonded money went to a provider, or back."""

    CONTRACT: ClassVar[ContractName] = PAYOUT_VAULT
    pool: int
    provider: Address
    amount: int


@dataclass(frozen=True, slots=True)
class BondLocked(Event):
    """Bonded money was locked."""

    CONTRACT: ClassVar[ContractName] = PAYOUT_VAULT
    pool: int
    amount: int


@dataclass(frozen=True, slots=True)
class CaseOpened(Event):
    """A leaf or a run of leaves is disputed."""

    CONTRACT: ClassVar[ContractName] = DISPUTE_COURT
    case_id: int
    pool: int
    provider: Address
    details: Case
    location: str


@dataclass(frozen=True, slots=True)
class CaseAppealed(Event):
    """A ruling on a run goes to a second jury."""

    CONTRACT: ClassVar[ContractName] = DISPUTE_COURT
    case_id: int
    appellant: Address
    bond: int
    jury_block: int


@dataclass(frozen=True, slots=True)
class JuryDrawn(Event):
    """The jury of a case is drawn."""

    CONTRACT: ClassVar[ContractName] = DISPUTE_COURT
    case_id: int
    round: int
    jury: tuple[Address, ...]
    beacon: Hash


@dataclass(frozen=True, slots=True)
class JuryRedrawn(Event):
    """The jury of a case will be drawn from a later block."""

    CONTRACT: ClassVar[ContractName] = DISPUTE_COURT
    case_id: int
    jury_block: int


@dataclass(frozen=True, slots=True)
class JurorCommitted(Event):
    """A juror committed to its vote."""

    CONTRACT: ClassVar[ContractName] = DISPUTE_COURT
    case_id: int
    provider: Address
    commitment: Hash


@dataclass(frozen=True, slots=True)
class JurorRevealed(Event):
    """A juror's vote is known."""

    CONTRACT: ClassVar[ContractName] = DISPUTE_COURT
    case_id: int
    provider: Address
    ruling: int


@dataclass(frozen=True, slots=True)
class CaseRuled(Event):
    """A jury has ruled on a run; the ruling can be appealed."""

    CONTRACT: ClassVar[ContractName] = DISPUTE_COURT
    case_id: int
    ruling: int
    appeal_until: int


@dataclass(frozen=True, slots=True)
class CaseResolved(Event):
    """A dispute is over."""

    CONTRACT: ClassVar[ContractName] = DISPUTE_COURT
    case_id: int
    ruling: int
    outcome: int
    is_bond_lost: bool
    paid: int
    slashed: int


@dataclass(frozen=True, slots=True)
class Planted(Event):
    """Someone will show later that a leaf was a planted fault."""

    CONTRACT: ClassVar[ContractName] = PLANTED_FAULTS
    commitment: Hash
    pool: int
    step: int
    planter: Address
    bond: int


@dataclass(frozen=True, slots=True)
class PlantRevealed(Event):
    """A leaf was a planted fault."""

    CONTRACT: ClassVar[ContractName] = PLANTED_FAULTS
    commitment: Hash
    pool: int
    step: int
    slot: int
    leaf_hash: Hash


@dataclass(frozen=True, slots=True)
class PlantSettled(Event):
    """The bond of a planted fault went back or was locked."""

    CONTRACT: ClassVar[ContractName] = PLANTED_FAULTS
    commitment: Hash
    was_fault: bool
    fined: int


@dataclass(frozen=True, slots=True)
class OverlapProved(Event):
    """The coordinator gave a slot twice."""

    CONTRACT: ClassVar[ContractName] = SUBMISSION_LEDGER
    pool: int
    step: int
    slot: int
    provider: Address
    amount: int


def read_events(
    connection: Connection,
    deployment: Deployment,
    from_block: int,
    to_block: int,
    *,
    only: Sequence[ContractName] = CONTRACT_NAMES,
    topics: Sequence[bytes | None] = (),
) -> list[Event]:
    """Return all events of the contracts in a range, both ends included, in (block, log index) order.

    `only` and `topics` narrow it to some contracts and to what is indexed.
    Raises: Unreachable; NodeRefused if the node refuses even a single block.
    """
    decoders = _decoders()
    contract_at = {
        deployment.addresses[kind.CONTRACT]: kind.CONTRACT for kind in event_kinds().values() if kind.CONTRACT in only
    }
    found = []
    for log in _logs(connection, list(contract_at), from_block, to_block, topics):
        words = [bytes(word) for word in log["topics"]]
        decoder = decoders.get((contract_at[log["address"]], words[0]))
        if decoder is not None:
            found.append(decoder.decode(log, words))
    return sorted(found, key=lambda event: (event.place.block_number, event.place.log_index))


def block_ranges(first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield the blocks from the first to the last in ranges that are asked for at once, both ends included."""
    for start in range(first, last + 1, BLOCKS_A_READ):
        yield start, min(start + BLOCKS_A_READ - 1, last)


class BlockCursor:
    """How far events are read, range by range: what is broken off goes on from there, and the newest are read again."""

    def __init__(self, first: int) -> None:
        self._first = self._next = first

    def ranges(self, head: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges that are to be read up to a block, one at least, which may be empty.

        Each counts as read when the next is asked for.
        """
        start = min(self._next, head + 1)
        for begin, end in [*block_ranges(start, head)] or [(start, head)]:
            yield begin, end
            self._next = max(self._first, min(end, head - REREAD_BLOCKS) + 1)


def credits_of(event: Event) -> Sequence[tuple[Address, int]]:
    """Return who may claim how much more after an event. Units: wei of the payout token."""
    match event:
        case Settled():
            return tuple(zip(event.providers, event.amounts, strict=True))
        case Earned() | BondSpent():
            return ((event.provider, event.amount),)
        case _:
            return ()


def credited(found: Iterable[Event]) -> Counter[Address]:
    """Return what events let each account claim in all. Units: wei of the payout token."""
    sums: Counter[Address] = Counter()
    for event in found:
        for account, amount in credits_of(event):
            sums[account] += amount
    return sums


@cache
def event_kinds() -> Mapping[str, type[Event]]:
    """Return all classes of events by their names."""
    # A dataclass with slots is made anew, so that each is a subclass twice; the later one is the one that is used.
    return {kind.__name__: kind for kind in Event.__subclasses__()}


def event_items(contract: ContractName) -> list[dict[str, Any]]:
    """Return the ABI items of the events that a contract declares."""
    return [item for item in contracts.abi(contract) if item["type"] == "event"]


def field_name(argument: str) -> str:
    """Return the field of an event's argument, such as `policy_step` for `policyStep`."""
    if argument in _FIELD_NAMES:
        return _FIELD_NAMES[argument]
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", argument).lower()


@dataclass(frozen=True, slots=True)
class _Decoder:
    kind: type[Event]
    item: dict[str, Any]

    def decode(self, log: Any, topics: list[bytes]) -> Event:
        place = Place(
            int(log["blockNumber"]),
            Hash(bytes(log["blockHash"])),
            int(log["logIndex"]),
            Hash(bytes(log["transactionHash"])),
        )
        arguments = decode_event(self.item, topics, bytes(log["data"]))
        values = {field_name(name): value for name, value in arguments.items()}
        for name, value in values.items():
            if isinstance(value, tuple) and name in _STRUCTS:
                values[name] = _STRUCTS[name](value)
        return self.kind(place, **values)


def _logs(
    connection: Connection, watched: list[Address], from_block: int, to_block: int, topics: Sequence[bytes | None]
) -> Iterator[Any]:
    size, start = BLOCKS_A_READ, from_block
    while start <= to_block:
        end = min(start + size - 1, to_block)
        try:
            logs = connection.logs(watched, start, end, topics)
        except NodeRefused:
            if start == end:
                raise
            size = max(1, (end - start + 1) // 2)
            continue
        yield from logs
        start = end + 1


@cache
def _decoders() -> dict[tuple[ContractName, bytes], _Decoder]:
    table = {}
    for kind in event_kinds().values():
        item = next(item for item in event_items(kind.CONTRACT) if item["name"] == kind.name())
        table[kind.CONTRACT, topic(item)] = _Decoder(kind, item)
    return table
