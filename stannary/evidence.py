"""Evidence: what stands behind a validator's votes on one step, one canonical JSON file, bound to the vote by its root.

Verdicts sign only what all honest validators agree on to the bit; measured numbers and explanations go here. This
module owns the form; it must not know how anything was measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from pydantic_core import from_json

from stannary.documents import canonical, document_hash
from stannary.errors import Malformed
from stannary.merkle import merkle_root
from stannary.types import Address, Hash, Outcome, Reason, parse_address, parse_hash, to_hex
from stannary.wire import MAX_LEAVES

EVIDENCE_FORMAT = "stannary.evidence.v1"
MAX_EVIDENCE_BYTES = 16 << 20
MAX_EXPLANATION = 500
MAX_MEASURES = 64
"""Of a leaf; validators write some two dozen. Each costs its reader far more than its bytes."""
MAX_REWARDS = 1024
"""Of a leaf: one a rollout of its group."""
C = TypeVar("C", list[Any], dict[str, Any])


@dataclass(frozen=True, slots=True)
class Measure:
    """One number and the limit it was held against; None where there is no limit, or no finite number."""

    value: float | None
    limit: float | None = None

    @classmethod
    def of(cls, value: float, limit: float | None = None) -> Self:
        """Return a measure; a number that is not finite becomes None, as JSON has no word for it."""
        return cls(float(value) if math.isfinite(value) else None, None if limit is None else float(limit))

    @property
    def share(self) -> float:
        """Which part of its limit this is: above 1 it is beyond, and what has no limit is none of it."""
        if self.limit is None:
            return 0.0
        value = math.inf if self.value is None else self.value
        if self.limit == 0:
            return math.inf if value > 0 else 0.0
        return value / self.limit


@dataclass(frozen=True, slots=True)
class LeafEvidence:
    """The evidence on one leaf."""

    leaf_hash: Hash
    outcome: Outcome
    reason: Reason
    explanation: str
    measures: Mapping[str, Measure]
    rewards: tuple[float, ...]
    """One a rollout, as the validator's environment gave them; empty unless the leaf was accepted."""

    def document(self) -> dict[str, object]:
        """Return the entry whose hash is a leaf of the evidence root."""
        return {
            "leaf_hash": to_hex(self.leaf_hash),
            "outcome": int(self.outcome),
            "reason": int(self.reason),
            "explanation": self.explanation[:MAX_EXPLANATION],
            "measures": {name: [measure.value, measure.limit] for name, measure in self.measures.items()},
            "rewards": list(self.rewards),
        }

    def hash(self) -> Hash:
        """Return the evidence hash of this leaf."""
        return document_hash(self.document())


@dataclass(frozen=True, slots=True)
class EvidenceFile:
    """A validator's evidence on all leaves of a step, in slot order."""

    pool: int
    step: int
    policy_step: int
    node: Address
    card_hash: Hash
    compute: str
    """What recomputed the states, such as `transformers 5.19.0 float32 on cpu`."""
    leaves: tuple[LeafEvidence, ...]

    def root(self) -> Hash:
        """Return the evidence root that the vote on chain carries."""
        return evidence_root(self.leaves)

    def to_bytes(self) -> bytes:
        """Return the canonical JSON."""
        return canonical(
            {
                "format": EVIDENCE_FORMAT,
                "pool": self.pool,
                "step": self.step,
                "policy_step": self.policy_step,
                "node": self.node,
                "card_hash": to_hex(self.card_hash),
                "compute": self.compute,
                "leaves": [leaf.document() for leaf in self.leaves],
            }
        )

    @classmethod
    def parse(cls, data: bytes, max_leaves: int = MAX_LEAVES) -> Self:
        """Read an evidence file of at most so many leaves; any other spelling of the same content is refused.

        Raises: Malformed.
        """
        if len(data) > MAX_EVIDENCE_BYTES:
            raise Malformed("evidence", expected=f"at most {MAX_EVIDENCE_BYTES} bytes", got=len(data))
        try:
            # pydantic's reader bounds the nesting whatever the recursion limit of this process is.
            found: Any = from_json(data, allow_inf_nan=False)
            file = cls(
                pool=_whole(found["pool"], "pool", bits=63),
                step=_whole(found["step"], "step", bits=32),
                policy_step=_whole(found["policy_step"], "policy_step", bits=32),
                node=parse_address(found["node"], "node"),
                card_hash=parse_hash(found["card_hash"], "card_hash"),
                compute=_text(found["compute"], "compute"),
                leaves=tuple(_leaf(leaf) for leaf in _few(found["leaves"], list, "leaves", most=max_leaves)),
            )
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise Malformed("evidence", expected=EVIDENCE_FORMAT, got=str(error)) from error
        if file.to_bytes() != data:
            raise Malformed("evidence", expected="the canonical encoding", got=data[:40])
        return file


def evidence_root(leaves: Sequence[LeafEvidence]) -> Hash:
    """Return the Merkle root over the evidence hashes, in slot order of their leaves."""
    return merkle_root([leaf.hash() for leaf in leaves])


def _leaf(found: Any) -> LeafEvidence:
    return LeafEvidence(
        leaf_hash=parse_hash(found["leaf_hash"], "leaf_hash"),
        outcome=Outcome(found["outcome"]),
        reason=Reason(found["reason"]),
        explanation=_text(found["explanation"], "explanation"),
        measures={
            name: Measure(_number(value), _number(limit))
            for name, (value, limit) in _few(found["measures"], dict, "measures", most=MAX_MEASURES).items()
        },
        rewards=tuple(_reward(reward) for reward in _few(found["rewards"], list, "rewards", most=MAX_REWARDS)),
    )


def _few(value: Any, kind: type[C], field: str, *, most: int) -> C:
    """Return what was read as a list or an object, if it is not too long to make anything of it."""
    if not isinstance(value, kind):
        raise Malformed(field, expected=f"a {kind.__name__}", got=type(value).__name__)
    if len(value) > most:
        raise Malformed(field, expected=f"at most {most}", got=len(value))
    return value


def _whole(value: object, field: str, *, bits: int) -> int:
    if type(value) is not int or not 0 <= value < 1 << bits:
        raise Malformed(field, expected=f"a whole number of at most {bits} bits", got=value)
    return value


def _text(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise Malformed(field, expected="text", got=value)
    return value


def _number(value: object) -> float | None:
    if value is not None and type(value) is not float:
        raise Malformed("measure", expected="a number with a decimal point", got=value)
    return value


def _reward(value: object) -> float:
    number = _number(value)
    if number is None:
        raise Malformed("reward", expected="a number", got=None)
    return number
