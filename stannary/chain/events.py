"""The contracts' events, typed, in the order of the chain: what the coordinator's mirror and reports are built from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, cast

import contracts
from contracts import ContractName
from stannary.chain.abi import decode_event, topic
from stannary.chain.connection import Connection, NodeRefused
from stannary.chain.deployment import Deployment
from stannary.chain.names import PAYOUT_VAULT, POOL_REGISTRY, STAKE_MANAGER, SUBMISSION_LEDGER
from stannary.chain.pool_registry import PoolTerms
from stannary.types import Address, Hash

BLOCKS_A_READ = 2000
"""Blocks asked for at once; halved as long as the node refuses."""

_FIELD_NAMES = {"from": "payer"}
"""Arguments whose names Python keeps for itself."""


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
    place: Place


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
class Slashed(Event):
    """A position lost tokens for an offence."""

    CONTRACT: ClassVar[ContractName] = STAKE_MANAGER
    pool: int
    role: int
    provider: Address
    offence: Hash
    bps: int
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
    seed_block: int


@dataclass(frozen=True, slots=True)
class SeedBeaconSealed(Event):
    """The seeds of a step are fixed."""

    CONTRACT: ClassVar[ContractName] = SUBMISSION_LEDGER
    pool: int
    step: int
    beacon: Hash


@dataclass(frozen=True, slots=True)
class RootCommitted(Event):
    """All submissions of a step are fixed."""

    CONTRACT: ClassVar[ContractName] = SUBMISSION_LEDGER
    pool: int
    step: int
    root: Hash
    leaf_count: int
    slot_table_root: Hash
    audit_block: int


@dataclass(frozen=True, slots=True)
class AuditBeaconSealed(Event):
    """The panel of a step is drawn."""

    CONTRACT: ClassVar[ContractName] = SUBMISSION_LEDGER
    pool: int
    step: int
    beacon: Hash
    panel: tuple[Address, ...]


@dataclass(frozen=True, slots=True)
class BeaconRedrawn(Event):
    """A beacon's block was too old; a later one takes its place."""

    CONTRACT: ClassVar[ContractName] = SUBMISSION_LEDGER
    pool: int
    step: int
    is_audit: bool
    beacon_block: int


@dataclass(frozen=True, slots=True)
class Voted(Event):
    """A panel member voted."""

    CONTRACT: ClassVar[ContractName] = SUBMISSION_LEDGER
    pool: int
    step: int
    provider: Address
    node: Address
    outcomes: bytes
    verdict_root: Hash
    evidence_root: Hash


@dataclass(frozen=True, slots=True)
class StepFinalized(Event):
    """The votes of a step are counted for good."""

    CONTRACT: ClassVar[ContractName] = SUBMISSION_LEDGER
    pool: int
    step: int
    accepted: int
    rejected: int
    faulted: int
    undecided: int


@dataclass(frozen=True, slots=True)
class StepCancelled(Event):
    """A step lapsed."""

    CONTRACT: ClassVar[ContractName] = SUBMISSION_LEDGER
    pool: int
    step: int


@dataclass(frozen=True, slots=True)
class LeafSlashed(Event):
    """A leaf's provider was slashed for it."""

    CONTRACT: ClassVar[ContractName] = SUBMISSION_LEDGER
    pool: int
    step: int
    index: int
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
class Claimed(Event):
    """A slot was paid."""

    CONTRACT: ClassVar[ContractName] = PAYOUT_VAULT
    pool: int
    step: int
    slot: int
    provider: Address
    units: int
    amount: int


@dataclass(frozen=True, slots=True)
class FeeClaimed(Event):
    """A panel member was paid."""

    CONTRACT: ClassVar[ContractName] = PAYOUT_VAULT
    pool: int
    step: int
    provider: Address
    amount: int


def read_events(connection: Connection, deployment: Deployment, from_block: int, to_block: int) -> list[Event]:
    """Return all events of the contracts in a range, both ends included, in (block, log index) order.

    Raises: Unreachable; NodeRefused if the node refuses even a single block.
    """
    decoders = _decoders()
    contract_at = {deployment.addresses[kind.CONTRACT]: kind.CONTRACT for kind in Event.__subclasses__()}
    found = []
    for log in _logs(connection, list(contract_at), from_block, to_block):
        topics = [bytes(word) for word in log["topics"]]
        decoder = decoders.get((contract_at[log["address"]], topics[0]))
        if decoder is not None:
            found.append(decoder.decode(log, topics))
    return sorted(found, key=lambda event: (event.place.block_number, event.place.log_index))


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
        if self.kind is PoolCreated:
            values["terms"] = PoolTerms.from_struct(cast(tuple[object, ...], values["terms"]))
        return self.kind(place, **values)


def _logs(connection: Connection, watched: list[Address], from_block: int, to_block: int) -> Iterator[Any]:
    size, start = BLOCKS_A_READ, from_block
    while start <= to_block:
        end = min(start + size - 1, to_block)
        try:
            logs = connection.logs(watched, start, end)
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
    for kind in Event.__subclasses__():
        item = next(item for item in event_items(kind.CONTRACT) if item["name"] == kind.__name__)
        table[kind.CONTRACT, topic(item)] = _Decoder(kind, item)
    return table
