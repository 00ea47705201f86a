"""The HTTP messages between roles and a coordinator. Shape only: what a message means is decided elsewhere.

Paths, all under /v1:
    GET  /health                             HealthOut
    GET  /documents/{hash}                   the canonical JSON of a card or environment
    POST /heartbeats                         HeartbeatIn -> 204                     signed by a node
    POST /leases                             LeasesIn -> LeasesOut                  signed by a node
    POST /submissions                        SubmissionIn -> ReceiptOut             signed by the node of the lease
    PUT  /submissions/{content_hash}         the submission file -> 201             signed by the node of the receipt
    GET  /submissions/{content_hash}         the submission file
    GET  /steps, /steps/{step}               StepsOut, StepOut
    GET  /steps/{step}/leaves                LeavesOut, in slot order
    POST /verdicts                           VerdictsIn -> 204                      signed by a panel member's node
    GET  /steps/{step}/verdicts              VerdictsOut
    PUT  /evidence/{evidence_root}           canonical JSON EvidenceFile -> 201     signed by a panel member's node
    GET  /evidence/{evidence_root}           the same bytes
    PUT  /weights/{policy_step}/manifest.json, /weights/{policy_step}/files/{name}  signed by the trainer
    GET  the same, with Range
    GET  /nodes                              NodesOut
"""

from __future__ import annotations

from typing import Annotated, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, FailFast, Field, model_validator
from pydantic_core import from_json

from stannary.errors import Malformed
from stannary.structs import Lease, Receipt, Submission, Verdict
from stannary.types import Address, CaseKind, CasePhase, Phase, Ruling, parse_address, parse_hash, to_hex


def _address(value: str) -> str:
    try:
        return parse_address(value)
    except Malformed as error:
        raise ValueError(str(error)) from error


def _hash(value: str) -> str:
    try:
        return to_hex(parse_hash(value))
    except Malformed as error:
        raise ValueError(str(error)) from error


AddressText = Annotated[str, AfterValidator(_address)]
HashText = Annotated[str, AfterValidator(_hash)]
SignatureText = Annotated[str, Field(pattern=r"^0x[0-9a-f]{130}$")]
U8 = Annotated[int, Field(ge=0, lt=1 << 8)]
U16 = Annotated[int, Field(ge=0, lt=1 << 16)]
U32 = Annotated[int, Field(ge=0, lt=1 << 32)]
U64 = Annotated[int, Field(ge=0, lt=1 << 63)]
ShortText = Annotated[str, Field(max_length=64)]
MAX_LEASES = 64
"""In one answer; each costs its reader the recovery of a signature."""
MAX_LEAVES = 4096 + 16
"""Of a step: its slots, and those taken on chain, as the contracts bound them."""
MAX_UNKNOWN_FIELDS = 16
"""How many of a message's unknown fields are refused by name, one by one."""
Item = TypeVar("Item")
Items = Annotated[list[Item], FailFast()]
"""A list that is refused at its first wrong item: an error for each would take far more memory than the message."""


class Message(BaseModel):
    """Base of all messages: unknown fields are refused, types are not coerced."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @classmethod
    def read(cls, data: bytes) -> Self:
        """Return the message that some JSON is. Raises: ValueError, of which pydantic's ValidationError is one."""
        # Read as Python's own values first: pydantic's own form of JSON takes a hundredfold of some bytes' size.
        return cls.model_validate(from_json(data, allow_inf_nan=False))

    @model_validator(mode="before")
    @classmethod
    def _refuse_crowds(cls, found: object) -> object:
        # Each unknown field is an error of its own that names it; a crowd of them would fill the memory.
        if isinstance(found, dict) and len(found) > len(cls.model_fields) + MAX_UNKNOWN_FIELDS:
            raise ValueError(f"expected {len(cls.model_fields)} fields, got {len(found)}")
        return found


class HealthOut(Message):
    """Whether the coordinator can work, and what it waits for."""

    status: ShortText
    protocol_version: U32
    chain_id: U64
    ledger: AddressText
    pool: U64
    coordinator: AddressText
    block: U64
    """The newest block that the coordinator has mirrored."""
    waiting: Items[str]


class HeartbeatIn(Message):
    """A node's sign of life."""

    engine: ShortText
    state: ShortText
    """What the node is doing: `waiting`, `loading`, `generating`, `uploading`."""
    policy_step: U32 | None = None
    tokens_per_s: Annotated[float, Field(ge=0, lt=1e9)] | None = None


class LeaseMessage(Message):
    """A lease with the coordinator's signature."""

    pool: U64
    step: U32
    policy_step: U32
    slot: U32
    provider: AddressText
    node: AddressText
    valid_from: U64
    valid_until: U64
    max_units: U32
    card_hash: HashText
    protocol_version: U32
    signature: SignatureText

    @classmethod
    def of(cls, lease: Lease, signature: bytes) -> Self:
        """Return the message of a signed lease."""
        return cls(
            pool=lease.pool,
            step=lease.step,
            policy_step=lease.policy_step,
            slot=lease.slot,
            provider=lease.provider,
            node=lease.node,
            valid_from=lease.valid_from,
            valid_until=lease.valid_until,
            max_units=lease.max_units,
            card_hash=to_hex(lease.card_hash),
            protocol_version=lease.protocol_version,
            signature=to_hex(signature),
        )

    def lease(self) -> Lease:
        """Return the lease."""
        return Lease(
            self.pool,
            self.step,
            self.policy_step,
            self.slot,
            Address(self.provider),
            Address(self.node),
            self.valid_from,
            self.valid_until,
            self.max_units,
            parse_hash(self.card_hash),
            self.protocol_version,
        )


class LeasesIn(Message):
    """A node asks for up to `count` slots."""

    count: Annotated[int, Field(ge=1, le=MAX_LEASES)]


class LeasesOut(Message):
    """The leases granted; when there are none, `waiting` says for what."""

    leases: Annotated[Items[LeaseMessage], Field(max_length=MAX_LEASES)]
    waiting: str | None = None


class SubmissionMessage(Message):
    """A submission's leaf with the node's signature."""

    pool: U64
    step: U32
    slot: U32
    provider: AddressText
    node: AddressText
    units: U32
    content_hash: HashText
    lease_hash: HashText
    signature: SignatureText

    @classmethod
    def of(cls, submission: Submission, signature: bytes) -> Self:
        """Return the message of a signed submission."""
        return cls(
            pool=submission.pool,
            step=submission.step,
            slot=submission.slot,
            provider=submission.provider,
            node=submission.node,
            units=submission.units,
            content_hash=to_hex(submission.content_hash),
            lease_hash=to_hex(submission.lease_hash),
            signature=to_hex(signature),
        )

    def submission(self) -> Submission:
        """Return the leaf."""
        return Submission(
            self.pool,
            self.step,
            self.slot,
            Address(self.provider),
            Address(self.node),
            self.units,
            parse_hash(self.content_hash),
            parse_hash(self.lease_hash),
        )


class SubmissionIn(Message):
    """A leaf, and the lease that it fulfils."""

    submission: SubmissionMessage
    lease: LeaseMessage


class ReceiptOut(Message):
    """The coordinator's signed receipt of a leaf."""

    leaf_hash: HashText
    received_at: U64
    signature: SignatureText

    def receipt(self) -> Receipt:
        """Return the receipt."""
        return Receipt(parse_hash(self.leaf_hash), self.received_at)


class LeafOut(Message):
    """One leaf of a committed step with all that its check needs."""

    submission: SubmissionMessage
    lease: LeaseMessage


class LeavesOut(Message):
    """The leaves of a committed step, in slot order; slots taken on chain are in its events."""

    step: U32
    submission_root: HashText
    leaves: Annotated[Items[LeafOut], Field(max_length=MAX_LEAVES)]


class DisputeOut(Message):
    """A case about a leaf of a step."""

    case_id: U64
    slot: U32
    provider: AddressText
    kind: Annotated[int, Field(ge=0, le=max(CaseKind))]
    phase: Annotated[int, Field(ge=0, le=max(CasePhase))]
    ruling: Annotated[int, Field(ge=0, le=max(Ruling))]


class StepOut(Message):
    """A step as the coordinator sees it."""

    step: U32
    policy_step: U32
    phase: Annotated[int, Field(ge=0, le=max(Phase))]
    slots: U32
    leased: U32
    received: U32
    uploaded: U32
    taken: U32
    """Slots that workers took on chain, numbered after the others."""
    leaf_count: U32
    """Leaves under the root."""
    submission_root: HashText | None
    disputes: Items[DisputeOut]


class StepsOut(Message):
    """The newest steps, newest first."""

    steps: Items[StepOut]


class VerdictMessage(Message):
    """A verdict with the signature of the validator's node."""

    pool: U64
    step: U32
    leaf_hash: HashText
    outcome: Annotated[int, Field(ge=0, le=3)]
    reason: U16
    rewards_hash: HashText
    node: AddressText
    signature: SignatureText

    @classmethod
    def of(cls, verdict: Verdict, node: Address, signature: bytes) -> Self:
        """Return the message of a signed verdict."""
        return cls(
            pool=verdict.pool,
            step=verdict.step,
            leaf_hash=to_hex(verdict.leaf_hash),
            outcome=verdict.outcome,
            reason=verdict.reason,
            rewards_hash=to_hex(verdict.rewards_hash),
            node=node,
            signature=to_hex(signature),
        )

    def verdict(self) -> Verdict:
        """Return the verdict."""
        return Verdict(
            self.pool,
            self.step,
            parse_hash(self.leaf_hash),
            self.outcome,
            self.reason,
            parse_hash(self.rewards_hash),
        )


class VerdictsIn(Message):
    """All verdicts of one validator on one step, in slot order of the leaves."""

    verdicts: Annotated[Items[VerdictMessage], Field(min_length=1, max_length=MAX_LEAVES)]


class VerdictsOut(Message):
    """The verdicts on a step, by validator node."""

    step: U32
    verdicts: Items[VerdictMessage]


class NodeOut(Message):
    """A node as the coordinator has last heard of it."""

    node: AddressText
    provider: AddressText
    engine: ShortText
    state: ShortText
    policy_step: U32 | None
    tokens_per_s: float | None
    last_seen_at: float
    leased: U32
    received: U32


class NodesOut(Message):
    """All nodes heard of."""

    nodes: Items[NodeOut]


class ProblemOut(Message):
    """An error body (application/problem+json)."""

    title: str
    detail: str
    status: int
