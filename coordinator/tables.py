"""The database's tables. Portable SQL; no logic beyond the conversion between rows and protocol structs.

Two kinds of rows. *Mirrored* rows (cursor, blocks, events, steps, stakes, taken slots, panels, votes, cases, policies,
positions, nodes) can be rebuilt from the chain alone. *Own* rows (nonces, leases, submissions, commitments,
heartbeats, verdicts, evidence, weights) are what the coordinator has promised or been given.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlalchemy import (
    BigInteger,
    Dialect,
    Float,
    ForeignKey,
    Index,
    LargeBinary,
    MetaData,
    String,
    Text,
    TypeDecorator,
    UniqueConstraint,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from stannary.structs import Lease, Submission, Verdict
from stannary.types import Address, Hash, Wei

_WEI_DIGITS = 78  # of 2^256 - 1


class WeiColumn(TypeDecorator[Wei]):
    """An amount up to 2^256 - 1 as text of fixed width: exact, and sorted as numbers are, in every database."""

    impl = String(_WEI_DIGITS)
    cache_ok = True

    def process_bind_param(self, value: Wei | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Return the padded digits. Raises: ValueError for an amount that is no uint256."""
        if value is None:
            return None
        if not 0 <= value < 1 << 256:
            raise ValueError(f"an amount must be a uint256, got {value}")
        return f"{value:0{_WEI_DIGITS}d}"

    def process_result_value(self, value: Any | None, dialect: Dialect) -> Wei | None:  # noqa: ARG002
        """Return the amount."""
        return None if value is None else Wei(int(value))


class AddressColumn(TypeDecorator[Address]):
    """An account in its checksum form."""

    impl = String(42)
    cache_ok = True

    def process_result_value(self, value: Any | None, dialect: Dialect) -> Address | None:  # noqa: ARG002
        """Return the address."""
        return None if value is None else Address(value)


class HashColumn(TypeDecorator[Hash]):
    """32 bytes."""

    impl = LargeBinary(32)
    cache_ok = True

    def process_result_value(self, value: Any | None, dialect: Dialect) -> Hash | None:  # noqa: ARG002
        """Return the bytes."""
        return None if value is None else Hash(bytes(value))


class Base(DeclarativeBase):
    """Base of all rows. Integers are 64-bit everywhere: a uint32 does not fit PostgreSQL's integer."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(column_0_label)s",
            "uq": "uq_%(table_name)s_%(column_0_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        int: BigInteger,
        float: Float(53),
        Address: AddressColumn,
        Hash: HashColumn,
        Wei: WeiColumn,
        bytes: LargeBinary,
        str: Text,
    }


class CursorRow(Base):
    """One row: which pool this database is of, and up to which block the chain is mirrored."""

    __tablename__ = "cursor"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    chain_id: Mapped[int]
    ledger: Mapped[Address]
    pool: Mapped[int]
    block_number: Mapped[int]
    block_hash: Mapped[Hash]
    chain_time: Mapped[int]
    """Timestamp of that block."""
    pool_time: Mapped[int]
    """The pool's clock when that block was found to be the newest."""
    seen_at: Mapped[float]
    """Server time at which that block was found to be the newest."""
    is_open: Mapped[bool]
    is_paused: Mapped[bool]
    trainer: Mapped[Address | None]
    """Of the offer in force."""


class BlockRow(Base):
    """A block at which a mirrored range ended: where a re-organisation is looked for."""

    __tablename__ = "blocks"
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    hash: Mapped[Hash]


class EventRow(Base):
    """An event of this pool, of a node, or of a case."""

    __tablename__ = "events"
    block_number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    log_index: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    block_hash: Mapped[Hash]
    transaction: Mapped[Hash]
    name: Mapped[str] = mapped_column(String(64))
    step: Mapped[int | None] = mapped_column(index=True)
    """The step it is about, if it is about one."""
    slot: Mapped[int | None]
    """The slot it is about, if it is about one."""
    arguments: Mapped[str]
    """JSON; numbers as strings, bytes as hexadecimal."""
    stale_key: Mapped[str] = mapped_column(String(96))
    """The key of the `StaleRow` that it makes, kept for the day it is rolled back."""


class StaleRow(Base):
    """Something on chain that has changed since it was last read, such as `step/4`."""

    __tablename__ = "stale"
    key: Mapped[str] = mapped_column(String(96), primary_key=True)


class StepRow(Base):
    """A step as it stood on chain when the mirror last read it; times on the pool's clock."""

    __tablename__ = "steps"
    step: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    phase: Mapped[int]
    policy_step: Mapped[int]
    slots: Mapped[int]
    taken: Mapped[int]
    opened_block: Mapped[int]
    seed_block: Mapped[int]
    seeded_at: Mapped[int]
    audit_block: Mapped[int]
    committed_at: Mapped[int]
    audit_from: Mapped[int]
    """Before it a slot may still be taken or delivered on chain: no panel is drawn."""
    reveal_until: Mapped[int]
    """When the votes are all in, or can no longer come."""
    was_redrawn: Mapped[bool]
    finalized_at: Mapped[int]
    seed_beacon: Mapped[Hash]
    submission_root: Mapped[Hash]
    leaf_count: Mapped[int]
    """Entries of the committed pay table."""
    outcomes: Mapped[bytes | None]
    """Two bits a slot, once finalized."""
    coordinator: Mapped[Address]
    """This and the next three are of the offer that the step was opened under."""
    card_hash: Mapped[Hash]
    price_per_group: Mapped[Wei]
    price_per_token: Mapped[Wei]


class StakeRow(Base):
    """A worker's active stake just before a step was opened: what its pay in that step is capped by."""

    __tablename__ = "stakes"
    step: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    provider: Mapped[Address] = mapped_column(primary_key=True)
    active: Mapped[Wei]


class TakenRow(Base):
    """A slot that a worker took on chain."""

    __tablename__ = "taken"
    step: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    slot: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    provider: Mapped[Address]
    leaf_hash: Mapped[Hash | None]
    """Once its work is delivered."""


class CaseRow(Base):
    """A dispute about a leaf, or about a worker's run of leaves, where `slot` says nothing."""

    __tablename__ = "cases"
    case_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    step: Mapped[int] = mapped_column(index=True)
    slot: Mapped[int]
    provider: Mapped[Address]
    kind: Mapped[int]
    phase: Mapped[int]
    ruling: Mapped[int]


class PanelRow(Base):
    """A seat of a step's panel."""

    __tablename__ = "panels"
    step: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    place: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    provider: Mapped[Address] = mapped_column(index=True)


class VoteRow(Base):
    """A panel member's vote, once revealed."""

    __tablename__ = "votes"
    step: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    provider: Mapped[Address] = mapped_column(primary_key=True)
    outcomes: Mapped[bytes]
    verdict_root: Mapped[Hash]
    evidence_root: Mapped[Hash] = mapped_column(index=True)


class PolicyRow(Base):
    """A published policy step."""

    __tablename__ = "policies"
    policy_step: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    policy_root: Mapped[Hash]


class PositionRow(Base):
    """A provider's active stake in this pool; 0 while it is suspended or below the pool's minimum."""

    __tablename__ = "positions"
    provider: Mapped[Address] = mapped_column(primary_key=True)
    role: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    active: Mapped[Wei]


class NodeRow(Base):
    """A node or controller and whom it acts for; None once it acts for nobody."""

    __tablename__ = "nodes"
    node: Mapped[Address] = mapped_column(primary_key=True)
    provider: Mapped[Address | None]


class NonceRow(Base):
    """A signed request that was taken; kept until it could not be taken again anyway."""

    __tablename__ = "nonces"
    address: Mapped[Address] = mapped_column(primary_key=True)
    nonce: Mapped[str] = mapped_column(String(64), primary_key=True)
    expires_at: Mapped[float] = mapped_column(index=True)


class LeaseRow(Base):
    """A lease that was signed. `issue` counts the leases of one slot, so that none can be issued twice at once."""

    __tablename__ = "leases"
    __table_args__ = (UniqueConstraint("step", "slot", "issue"), Index("ix_leases_node_step", "node", "step"))
    lease_hash: Mapped[Hash] = mapped_column(primary_key=True)
    step: Mapped[int]
    slot: Mapped[int]
    issue: Mapped[int]
    pool: Mapped[int]
    policy_step: Mapped[int]
    provider: Mapped[Address]
    node: Mapped[Address]
    valid_from: Mapped[int]
    valid_until: Mapped[int]
    max_units: Mapped[int]
    card_hash: Mapped[Hash]
    protocol_version: Mapped[int]
    signature: Mapped[bytes]
    expires_at: Mapped[float]
    """Server time before which the slot is not issued again."""

    def lease(self) -> Lease:
        """Return the lease."""
        return Lease(
            self.pool,
            self.step,
            self.policy_step,
            self.slot,
            self.provider,
            self.node,
            self.valid_from,
            self.valid_until,
            self.max_units,
            self.card_hash,
            self.protocol_version,
        )


class SubmissionRow(Base):
    """A leaf for which a receipt was given."""

    __tablename__ = "submissions"
    leaf_hash: Mapped[Hash] = mapped_column(primary_key=True)
    lease_hash: Mapped[Hash] = mapped_column(ForeignKey("leases.lease_hash"), unique=True)
    pool: Mapped[int]
    step: Mapped[int] = mapped_column(index=True)
    slot: Mapped[int]
    provider: Mapped[Address]
    node: Mapped[Address] = mapped_column(index=True)
    units: Mapped[int]
    content_hash: Mapped[Hash] = mapped_column(index=True)
    signature: Mapped[bytes]
    received_at: Mapped[int]
    """Pool time."""
    receipt_signature: Mapped[bytes]
    uploaded_at: Mapped[int | None]
    """Pool time at which the bytes were there and had the right hash."""
    is_committed: Mapped[bool]
    """Whether it is among the leaves that were frozen."""

    def submission(self) -> Submission:
        """Return the leaf."""
        return Submission(
            self.pool,
            self.step,
            self.slot,
            self.provider,
            self.node,
            self.units,
            self.content_hash,
            self.lease_hash,
        )


class CommitmentRow(Base):
    """A step whose leaves are frozen: written before the root is sent, never changed after."""

    __tablename__ = "commitments"
    step: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    submission_root: Mapped[Hash]
    leaf_count: Mapped[int]
    slot_table_root: Mapped[Hash]


class HeartbeatRow(Base):
    """A node as it was last heard of."""

    __tablename__ = "heartbeats"
    node: Mapped[Address] = mapped_column(primary_key=True)
    provider: Mapped[Address]
    engine: Mapped[str] = mapped_column(String(64))
    state: Mapped[str] = mapped_column(String(64))
    policy_step: Mapped[int | None]
    tokens_per_s: Mapped[float | None]
    last_seen_at: Mapped[float]


class VerdictRow(Base):
    """A signed verdict of a panel member."""

    __tablename__ = "verdicts"
    step: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    node: Mapped[Address] = mapped_column(primary_key=True)
    slot: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    pool: Mapped[int]
    leaf_hash: Mapped[Hash]
    outcome: Mapped[int]
    reason: Mapped[int]
    rewards_hash: Mapped[Hash]
    signature: Mapped[bytes]

    def verdict(self) -> Verdict:
        """Return the verdict."""
        return Verdict(self.pool, self.step, self.leaf_hash, self.outcome, self.reason, self.rewards_hash)


class EvidenceRow(Base):
    """An evidence file that a panel member published under a root."""

    __tablename__ = "evidence"
    evidence_root: Mapped[Hash] = mapped_column(primary_key=True)
    provider: Mapped[Address] = mapped_column(primary_key=True)
    step: Mapped[int]
    content_hash: Mapped[Hash]


class WeightsRow(Base):
    """The manifest of a policy step."""

    __tablename__ = "weights"
    policy_step: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    manifest_hash: Mapped[Hash]
    """BLAKE3, the name in the file store."""


class WeightsFileRow(Base):
    """A file of a policy step that is there, whole and verified."""

    __tablename__ = "weights_files"
    policy_step: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    content_hash: Mapped[Hash]


SINGLE_ROW = 1
"""The key of the one row of `cursor`."""
