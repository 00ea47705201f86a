"""DisputeCourt: disputes before a jury."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from stannary.chain.connection import Block, Mined
from stannary.chain.contract import Contract, struct_of
from stannary.chain.names import DISPUTE_COURT
from stannary.chain.sender import Sender
from stannary.chain.submission_ledger import LeafOpening
from stannary.types import Address, CaseKind, CasePhase, Hash, Outcome, Ruling, Wei


@dataclass(frozen=True, slots=True)
class Case:
    """One dispute. `…_until` on the pool's clock, `…_block` a block number."""

    kind: CaseKind
    phase: CasePhase
    pool: int
    step: int
    """Of the leaf; the last of a run."""
    slot: int
    """Of the leaf."""
    first_step: int
    """Of a run."""
    provider: Address
    """Whose leaf or run it is."""
    disputant: Address
    appellant: Address
    """Who appealed a ruling on a run, or the zero address."""
    snapshot_block: int
    """Whose stakes the jury is drawn by."""
    jury_block: int
    """Whose hash draws the jury."""
    barred: int
    """Who of the pool's validators cannot be drawn, a bit a place: fixed when the block is chosen."""
    appeal_until: int
    units: int
    ballots: int
    """What the panel said of the leaf: two bits a seat, seat 0 lowest."""
    round: int
    """0, 1 after a redraw; 2 and 3 alike when a ruling on a run was appealed."""
    outcome: Outcome
    """What the panel decided; once resolved, what holds."""
    ruling: Ruling
    bond: Wei
    appeal_bond: Wei
    leaf_hash: Hash
    """For statistics: keccak256 of the list of leaves."""
    evidence_hash: Hash

    @classmethod
    def from_struct(cls, values: tuple[Any, ...]) -> Self:
        """Return the case of a struct as the codec gives it."""
        return struct_of(cls, values, _CASE_KINDS)


@dataclass(frozen=True, slots=True)
class JuryTimes:
    """When a jury acts, on the pool's clock."""

    commit_until: int
    reveal_from: int
    reveal_until: int


@dataclass(frozen=True, slots=True)
class JurorBallot:
    """How far a juror has come with its vote."""

    is_committed: bool
    is_revealed: bool
    ruling: Ruling


_CASE_KINDS: dict[str, Callable[[Any], object]] = {
    "kind": CaseKind,
    "phase": CasePhase,
    "outcome": Outcome,
    "ruling": Ruling,
    "leaf_hash": bytes,
    "evidence_hash": bytes,
}


class DisputeCourt(Contract):
    """The court."""

    NAME = DISPUTE_COURT

    def case_of(self, case_id: int, at: Block | None = None) -> Case | None:
        """Return a case, None if there is none of that number."""
        found = Case.from_struct(self.read("caseOf", case_id, at=at))
        return None if found.phase is CasePhase.NONE else found

    def case_count(self, at: Block | None = None) -> int:
        """Return how many cases were opened; they are numbered from 1."""
        return int(self.read("caseCount", at=at))

    def case_of_slot(self, pool: int, step: int, slot: int, at: Block | None = None) -> int | None:
        """Return the number of the case about a slot, None if there is none."""
        return int(self.read("caseOfSlot", pool, step, slot, at=at)) or None

    def jury_of(self, case_id: int, at: Block | None = None) -> list[Address]:
        """Return the jury that sits, or sat last."""
        return [Address(found) for found in self.read("juryOf", case_id, at=at)]

    def jury_times_of(self, case_id: int, at: Block | None = None) -> JuryTimes:
        """Return when the jury of a case acts."""
        return JuryTimes(*self.read("juryTimesOf", case_id, at=at))

    def ruling_of(self, case_id: int, provider: Address, at: Block | None = None) -> JurorBallot:
        """Return how far a juror has come, and its vote once shown."""
        is_committed, is_revealed, ruling = self.read("rulingOf", case_id, provider, at=at)
        return JurorBallot(is_committed, is_revealed, Ruling(ruling))

    def bond_of(self, pool: int, at: Block | None = None) -> Wei:
        """Return what a dispute costs at first. Units: wei of the payout token."""
        return Wei(self.read("bondOf", pool, at=at))

    def juror_commitment(
        self, case_id: int, provider: Address, ruling: Ruling, salt: Hash, at: Block | None = None
    ) -> Hash:
        """Return the contract's own commitment to a juror's vote, in the round that sits."""
        return Hash(bytes(self.read("jurorCommitment", case_id, provider, int(ruling), salt, at=at)))

    def judged_up_to(self, pool: int, provider: Address, at: Block | None = None) -> int:
        """Return the step after the last one that a ruling on a run of this worker has covered."""
        return int(self.read("judgedUpTo", pool, provider, at=at))

    def challenge(
        self,
        sender: Sender,
        pool: int,
        step: int,
        opening: LeafOpening,
        votes: Sequence[bytes],
        evidence_hash: Hash,
        location: str,
    ) -> int:
        """Say that an accepted leaf is bad, for an approved bond, and return the case's number."""
        arguments = (opening.as_struct(), list(votes), evidence_hash, location)
        return self._open(sender, "challenge", pool, step, *arguments)

    def appeal(
        self,
        sender: Sender,
        pool: int,
        step: int,
        opening: LeafOpening,
        votes: Sequence[bytes],
        evidence_hash: Hash,
        location: str,
    ) -> int:
        """Say that a leaf that was not accepted is good, for an approved bond, and return the case's number."""
        arguments = (opening.as_struct(), list(votes), evidence_hash, location)
        return self._open(sender, "appeal", pool, step, *arguments)

    def accuse(
        self,
        sender: Sender,
        pool: int,
        provider: Address,
        first_step: int,
        last_step: int,
        list_hash: Hash,
        evidence_hash: Hash,
        location: str,
    ) -> int:
        """Say that a worker's leaves over a run of settled steps are bad as a whole; return the case's number."""
        arguments = (provider, first_step, last_step, list_hash, evidence_hash, location)
        return self._open(sender, "accuse", pool, *arguments)

    def draw_jury(self, sender: Sender, case_id: int) -> Mined:
        """Draw the jury of a case once its block is behind; anyone may."""
        return sender.send(self.encode("drawJury", case_id))

    def commit_ruling(self, sender: Sender, case_id: int, commitment: Hash) -> Mined:
        """Commit to a juror's vote; only a juror or its node."""
        return sender.send(self.encode("commitRuling", case_id, commitment))

    def reveal_ruling(self, sender: Sender, case_id: int, provider: Address, ruling: Ruling, salt: Hash) -> Mined:
        """Show what a juror committed to; anyone may send it."""
        return sender.send(self.encode("revealRuling", case_id, provider, int(ruling), salt))

    def resolve(self, sender: Sender, case_id: int) -> Mined:
        """Count the jury and act on its ruling, or draw a larger one, once; anyone may."""
        return sender.send(self.encode("resolve", case_id))

    def appeal_ruling(self, sender: Sender, case_id: int) -> Mined:
        """Take a ruling against a run of leaves to a second jury, for an approved bond."""
        return sender.send(self.encode("appealRuling", case_id))

    def _open(self, sender: Sender, function: str, *arguments: object) -> int:
        mined = sender.send(self.encode(function, *arguments))
        return int(self.emitted(mined, "CaseOpened", "caseId"))
