"""A validator's vote on one step: what is signed, what is published, and the file that survives a restart.

The file is written before the vote is sent and read instead of judging anew, so that what is published always is what
was voted. It must not know how judgements were made.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from eth_account.signers.local import LocalAccount
from pydantic import BaseModel, ConfigDict, ValidationError

from stannary import wire
from stannary.errors import Malformed, OperatorError
from stannary.evidence import EvidenceFile
from stannary.merkle import merkle_root
from stannary.structs import Domain
from stannary.types import Address, Hash, Outcome, parse_address
from stannary.verdict import pack_outcomes, verdict_root
from validator.judgement import Judgement

log = logging.getLogger(__name__)


class _Stored(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    verdicts: list[wire.VerdictMessage]
    evidence: str


@dataclass(frozen=True, slots=True)
class Ballot:
    """One validator's vote on a step with all that stands behind it."""

    verdicts: tuple[wire.VerdictMessage, ...]
    evidence: EvidenceFile

    @property
    def outcomes(self) -> bytes:
        """Two bits a leaf."""
        return pack_outcomes([Outcome(verdict.outcome) for verdict in self.verdicts])

    @property
    def submission_root(self) -> Hash:
        """Root over the leaves that were judged."""
        return merkle_root([verdict.verdict().leaf_hash for verdict in self.verdicts])

    @property
    def verdict_root(self) -> Hash:
        """Root over the verdicts."""
        return verdict_root([verdict.verdict() for verdict in self.verdicts])

    @property
    def evidence_root(self) -> Hash:
        """Root over the evidence."""
        return self.evidence.root()

    @classmethod
    def of(
        cls,
        judgements: Sequence[Judgement],
        *,
        pool: int,
        step: int,
        policy_step: int,
        card_hash: Hash,
        compute: str,
        account: LocalAccount,
        domain: Domain,
    ) -> Self:
        """Sign the verdicts of a step and write down the evidence."""
        node: Address = parse_address(str(account.address))
        verdicts = []
        for judgement in judgements:
            verdict = judgement.verdict(pool, step)
            verdicts.append(wire.VerdictMessage.of(verdict, node, verdict.sign(account, domain)))
        evidence = EvidenceFile(
            pool=pool,
            step=step,
            policy_step=policy_step,
            node=node,
            card_hash=card_hash,
            compute=compute,
            leaves=tuple(judgement.evidence() for judgement in judgements),
        )
        return cls(tuple(verdicts), evidence)

    def to_bytes(self) -> bytes:
        """Return the file that survives a restart."""
        stored = _Stored(verdicts=list(self.verdicts), evidence=self.evidence.to_bytes().decode())
        return stored.model_dump_json().encode()

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read such a file. Raises: Malformed."""
        try:
            stored = _Stored.model_validate_json(data)
        except ValidationError as error:
            raise Malformed("stored vote", expected="a file of this validator", got=str(error)) from error
        return cls(tuple(stored.verdicts), EvidenceFile.parse(stored.evidence.encode()))


class BallotBox:
    """The votes of a validator on disk: prepared ones, and those that were published."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def prepared(self, step: int) -> Ballot | None:
        """Return the vote that was written for a step and is not published yet; a damaged file is none."""
        path = self._path(step)
        try:
            return Ballot.parse(path.read_bytes()) if path.is_file() else None
        except (OSError, Malformed) as error:
            log.error("%s cannot be used: %s", path, error)
            return None

    def unpublished(self) -> list[int]:
        """Return the steps whose votes were written and not published."""
        return sorted(int(path.stem) for path in self._folder.glob("*.vote") if path.stem.isdigit())

    def put(self, step: int, ballot: Ballot) -> None:
        """Write a vote, whole or not at all. Raises: OperatorError when the disk refuses."""
        path = self._path(step)
        draft = path.with_suffix(".draft")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with draft.open("wb") as file:
                file.write(ballot.to_bytes())
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        except OSError as error:
            raise OperatorError(f"cannot write {path}: {error.strerror or error}") from error

    def mark_published(self, step: int) -> None:
        """Note that nothing is left to do for a step; the file stays as a record."""
        self._path(step).rename(self._path(step).with_suffix(".published"))

    def discard(self, step: int) -> None:
        """Forget a vote that can no longer count."""
        self._path(step).unlink(missing_ok=True)

    def _path(self, step: int) -> Path:
        return self._folder / f"{step:08d}.vote"
