"""A validator's votes: what is committed, what is revealed, what is published, and the files that survive a restart.

A file is written before its commitment is sent, and is read instead of judging anew: a salt that is lost cannot be
revealed, and a seat without a revealed vote is fined. It must not know how judgements were made.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Self

from eth_account.signers.local import LocalAccount
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stannary import wire
from stannary.commitments import new_salt
from stannary.errors import Malformed
from stannary.evidence import EvidenceFile
from stannary.structs import Domain
from stannary.types import ZERO_HASH, Address, Hash, Outcome, Ruling, parse_address, parse_hash, to_hex
from stannary.verdict import outcomes_by_slot, pack_outcomes, verdict_root
from validator.judgement import Judgement
from validator.records import Records

log = logging.getLogger(__name__)

_SHOWN = 16
"""Digits of a commitment in a file's name; which file is meant is told by what is in it."""


class _StoredVote(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    submission_root: wire.HashText
    outcomes: Annotated[str, Field(pattern=r"^(?:[0-9a-f]{2})*$")]
    salt: wire.HashText
    verdicts: list[wire.VerdictMessage]
    evidence: str | None


class _StoredRuling(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    ruling: Annotated[int, Field(ge=0, le=max(Ruling))]
    salt: wire.HashText


@dataclass(frozen=True, slots=True)
class Vote:
    """One validator's vote on a step with all that stands behind it."""

    submission_root: Hash
    """Of the leaves that it is about, as committed on chain."""
    outcomes: bytes
    """Two bits a slot."""
    salt: Hash
    verdicts: tuple[wire.VerdictMessage, ...] = ()
    """Of the leaves, in slot order."""
    evidence: EvidenceFile | None = None
    """None for a vote that abstains on the whole step: there is nothing to show."""

    @property
    def verdict_root(self) -> Hash:
        """Root over the verdicts, zero without any."""
        return verdict_root([verdict.verdict() for verdict in self.verdicts]) if self.verdicts else ZERO_HASH

    @property
    def evidence_root(self) -> Hash:
        """Root over the evidence, zero without any."""
        return ZERO_HASH if self.evidence is None else self.evidence.root()

    @classmethod
    def of(
        cls,
        judgements: Mapping[int, Judgement],
        *,
        positions: int,
        submission_root: Hash,
        pool: int,
        step: int,
        policy_step: int,
        card_hash: Hash,
        compute: str,
        account: LocalAccount,
        domain: Domain,
    ) -> Self:
        """Sign the verdicts on a step's leaves, by slot, and write down the evidence."""
        node: Address = parse_address(str(account.address))
        ordered = [judgements[slot] for slot in sorted(judgements)]
        verdicts = []
        for judgement in ordered:
            verdict = judgement.verdict(pool, step)
            verdicts.append(wire.VerdictMessage.of(verdict, node, verdict.sign(account, domain)))
        evidence = EvidenceFile(
            pool=pool,
            step=step,
            policy_step=policy_step,
            node=node,
            card_hash=card_hash,
            compute=compute,
            leaves=tuple(judgement.evidence() for judgement in ordered),
        )
        decided = {slot: judgement.finding.outcome for slot, judgement in judgements.items()}
        packed = pack_outcomes(outcomes_by_slot(decided, positions))
        return cls(submission_root, packed, new_salt(), tuple(verdicts), evidence)

    @classmethod
    def blank(cls, positions: int, submission_root: Hash) -> Self:
        """Abstain on a whole step: silence would be fined."""
        return cls(submission_root, pack_outcomes([Outcome.ABSTAIN] * positions), new_salt())

    def to_bytes(self) -> bytes:
        """Return the file that survives a restart."""
        stored = _StoredVote(
            submission_root=to_hex(self.submission_root),
            outcomes=self.outcomes.hex(),
            salt=to_hex(self.salt),
            verdicts=list(self.verdicts),
            evidence=None if self.evidence is None else self.evidence.to_bytes().decode(),
        )
        return stored.model_dump_json().encode()

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read such a file. Raises: Malformed."""
        try:
            stored = _StoredVote.model_validate_json(data)
        except ValidationError as error:
            raise Malformed("stored vote", expected="a file of this validator", got=str(error)) from error
        return cls(
            parse_hash(stored.submission_root),
            bytes.fromhex(stored.outcomes),
            parse_hash(stored.salt),
            tuple(stored.verdicts),
            None if stored.evidence is None else EvidenceFile.parse(stored.evidence.encode()),
        )


@dataclass(frozen=True, slots=True)
class JurorVote:
    """One juror's vote on a case."""

    ruling: Ruling
    salt: Hash

    def to_bytes(self) -> bytes:
        """Return the file that survives a restart."""
        return _StoredRuling(ruling=int(self.ruling), salt=to_hex(self.salt)).model_dump_json().encode()

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read such a file. Raises: Malformed."""
        try:
            stored = _StoredRuling.model_validate_json(data)
        except ValidationError as error:
            raise Malformed("stored ruling", expected="a file of this validator", got=str(error)) from error
        return cls(Ruling(stored.ruling), parse_hash(stored.salt))


class Attempts:
    """Leaves whose judging was begun and not ended, on disk: a leaf that kills this process must not do so for ever."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def begun(self, leaf_hash: Hash) -> int:
        """Return how often judging this leaf began and did not end."""
        found = self._records.read(self._name(leaf_hash)) or b""
        return int(found) if found.isdigit() else 0

    @contextmanager
    def counted(self, leaf_hash: Hash) -> Iterator[None]:
        """Count what is done with the leaf as begun until it ends, by an exception too. Raises: OperatorError."""
        self._records.write(self._name(leaf_hash), b"%d" % (self.begun(leaf_hash) + 1))
        try:
            yield
        finally:
            self._records.remove(self._name(leaf_hash))

    def _name(self, leaf_hash: Hash) -> str:
        return f"{leaf_hash.hex()}.judging"


class VoteStore:
    """The votes of a validator on disk. A step may have several: one of them is committed, none is ever overwritten.

    `<step>-<commitment>.vote` waits to be revealed or published, `.published` needs nothing more.
    """

    def __init__(self, records: Records, seal: Callable[[int, Vote], Hash]) -> None:
        """Use `records`, and `seal` to get the commitment of a vote on a step."""
        self._records = records
        self.attempts = Attempts(records)
        self._seal = seal
        self._read: dict[str, tuple[Hash, Vote] | None] = {}

    def commitment(self, step: int, vote: Vote) -> Hash:
        """Return what is committed for a vote."""
        return self._seal(step, vote)

    def put(self, step: int, vote: Vote) -> None:
        """Write a vote, whole or not at all; one that is there already is left. Raises: OperatorError."""
        commitment = self._seal(step, vote)
        if self.find(step, commitment) is None:
            name = f"{step:08d}-{commitment.hex()[:_SHOWN]}.vote"
            self._records.write(name, vote.to_bytes())
            self._read[name] = commitment, vote

    def find(self, step: int, commitment: Hash) -> Vote | None:
        """Return the vote behind a commitment, None if it is not here."""
        return next((vote for found, vote in self._of(step) if found == commitment), None)

    def prepared(self, step: int, submission_root: Hash) -> Vote | None:
        """Return a vote on these leaves that was written down and may have been sent."""
        return next((vote for _, vote in self._of(step) if vote.submission_root == submission_root), None)

    def matching(self, step: int, outcomes: bytes, verdict_root: Hash, evidence_root: Hash) -> Vote | None:
        """Return the vote that these were revealed of."""
        revealed = (outcomes, verdict_root, evidence_root)
        votes = (vote for _, vote in self._of(step))
        return next((v for v in votes if (v.outcomes, v.verdict_root, v.evidence_root) == revealed), None)

    def unpublished(self) -> list[int]:
        """Return the steps of votes that are not done with."""
        steps = (name.partition("-")[0] for name in self._records.names("*.vote"))
        return sorted({int(step) for step in steps if step.isdigit()})

    def close(self, step: int) -> None:
        """Note that nothing is left to do for a step; its files stay as a record. Raises: OperatorError."""
        for name in self._names(step, ".vote"):
            self._records.rename(name, name.removesuffix(".vote") + ".published")
            self._read.pop(name, None)

    def _of(self, step: int) -> list[tuple[Hash, Vote]]:
        found = []
        for name in self._names(step, ".vote") + self._names(step, ".published"):
            if name not in self._read:
                self._read[name] = self._parse(step, name)
            stored = self._read[name]
            if stored is not None:
                found.append(stored)
        return found

    def _names(self, step: int, suffix: str) -> list[str]:
        return self._records.names(f"{step:08d}-*{suffix}")

    def _parse(self, step: int, name: str) -> tuple[Hash, Vote] | None:
        data = self._records.read(name)
        if data is None:
            return None
        try:
            vote = Vote.parse(data)
        except Malformed as error:
            log.error("%s cannot be used: %s", name, error)
            return None
        return self._seal(step, vote), vote


class RulingStore:
    """A juror's votes on disk: one for each case, round and leaf, never overwritten while it can be read."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def put(self, case_id: int, round_number: int, leaf_hash: Hash, vote: JurorVote) -> None:
        """Write a vote, whole or not at all. Raises: OperatorError when the disk refuses."""
        self._records.write(self._name(case_id, round_number, leaf_hash), vote.to_bytes())

    def find(self, case_id: int, round_number: int, leaf_hash: Hash) -> JurorVote | None:
        """Return the vote that was written down; a damaged file is none."""
        name = self._name(case_id, round_number, leaf_hash)
        data = self._records.read(name)
        if data is None:
            return None
        try:
            return JurorVote.parse(data)
        except Malformed as error:
            log.error("%s cannot be used: %s", name, error)
            return None

    @staticmethod
    def _name(case_id: int, round_number: int, leaf_hash: Hash) -> str:
        # The leaf is part of the name: after a fork, or on a new devnet, a case of the same number is another one.
        return f"case-{case_id:08d}-{round_number}-{leaf_hash.hex()[:_SHOWN]}.ruling"
