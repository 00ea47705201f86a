"""VotingPanel: the panel of each step, its votes, what they decide, and the settlement that follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stannary.chain.connection import Block, Mined
from stannary.chain.contract import Contract
from stannary.chain.names import VOTING_PANEL
from stannary.chain.sender import Sender
from stannary.chain.submission_ledger import LeafOpening
from stannary.slots import PayTable
from stannary.types import Address, Hash, Outcome


@dataclass(frozen=True, slots=True)
class PanelTimes:
    """When a panel acts, on the pool's clock; `reveal_from` and `reveal_until` come earlier when all have acted."""

    commit_until: int
    reveal_from: int
    reveal_until: int
    was_redrawn: bool


@dataclass(frozen=True, slots=True)
class Ballot:
    """How far a panel member has come with its vote."""

    is_committed: bool
    is_revealed: bool
    word: Hash
    """keccak256 of what it revealed; its commitment before."""


class VotingPanel(Contract):
    """The panels of all steps."""

    NAME = VOTING_PANEL

    def panel_of(self, pool: int, step: int, at: Block | None = None) -> list[Address]:
        """Return the drawn validators seat by seat, empty before the draw."""
        return [Address(found) for found in self.read("panelOf", pool, step, at=at)]

    def dismissed_of(self, pool: int, step: int, at: Block | None = None) -> list[Address]:
        """Return the members that were silent and lost their seat in a redraw."""
        return [Address(found) for found in self.read("dismissedOf", pool, step, at=at)]

    def panel_times_of(self, pool: int, step: int, at: Block | None = None) -> PanelTimes:
        """Return when the panel of a step acts."""
        return PanelTimes(*self.read("panelTimesOf", pool, step, at=at))

    def ballot_of(self, pool: int, step: int, provider: Address, at: Block | None = None) -> Ballot:
        """Return how far a panel member has come; what it revealed is in the `VoteRevealed` event."""
        is_committed, is_revealed, word = self.read("ballotOf", pool, step, provider, at=at)
        return Ballot(is_committed, is_revealed, Hash(bytes(word)))

    def vote_commitment(
        self,
        pool: int,
        step: int,
        provider: Address,
        outcomes: bytes,
        verdict_root: Hash,
        evidence_root: Hash,
        salt: Hash,
        at: Block | None = None,
    ) -> Hash:
        """Return the contract's own commitment to a vote."""
        arguments = (pool, step, provider, outcomes, verdict_root, evidence_root, salt)
        return Hash(bytes(self.read("voteCommitment", *arguments, at=at)))

    def is_held(self, pool: int, step: int, slot: int, at: Block | None = None) -> bool:
        """Say whether a dispute keeps, or kept, a slot out of the settlement."""
        return bool(self.read("isHeld", pool, step, slot, at=at))

    def ballots_at(self, pool: int, step: int, slot: int, votes: Sequence[bytes], at: Block | None = None) -> int:
        """Return what the panel said of a slot: two bits a seat, seat 0 lowest. Raises: Reverted for other votes."""
        return int(self.read("ballotsAt", pool, step, slot, list(votes), at=at))

    def outcome_at(self, pool: int, step: int, slot: int, outcomes: bytes, at: Block | None = None) -> Outcome:
        """Return what was decided about a slot of a finalized step. Raises: Reverted for other outcomes."""
        return Outcome(self.read("outcomeAt", pool, step, slot, outcomes, at=at))

    def held_count_of(self, pool: int, step: int, at: Block | None = None) -> int:
        """Return how many slots of a step wait for the court."""
        return int(self.read("heldCountOf", pool, step, at=at))

    def seal_audit_beacon(self, sender: Sender, pool: int, step: int) -> Mined:
        """Seal the audit beacon and draw the panel; draws its block if there is none yet, or the hash is gone."""
        return sender.send(self.encode("sealAuditBeacon", pool, step))

    def commit_vote(self, sender: Sender, pool: int, step: int, commitment: Hash) -> Mined:
        """Commit to a vote; only a panel member or its node."""
        return sender.send(self.encode("commitVote", pool, step, commitment))

    def reveal_vote(
        self,
        sender: Sender,
        pool: int,
        step: int,
        provider: Address,
        outcomes: bytes,
        verdict_root: Hash,
        evidence_root: Hash,
        salt: Hash,
    ) -> Mined:
        """Show what a panel member committed to; anyone may send it."""
        arguments = (provider, outcomes, verdict_root, evidence_root, salt)
        return sender.send(self.encode("revealVote", pool, step, *arguments))

    def redraw_panel(self, sender: Sender, pool: int, step: int) -> Mined:
        """Fine the silent members of a panel that misses its quorum and fill their seats anew, once."""
        return sender.send(self.encode("redrawPanel", pool, step))

    def finalize(self, sender: Sender, pool: int, step: int, votes: Sequence[bytes], pay_table: PayTable) -> Mined:
        """Count the revealed votes, seat by seat, empty for a silent one; steps of a pool settle in order."""
        return sender.send(self.encode("finalize", pool, step, list(votes), pay_table.as_struct()))

    def slash_leaf(self, sender: Sender, pool: int, step: int, opening: LeafOpening, outcomes: bytes) -> Mined:
        """Slash the provider of a leaf at fault; `outcomes` are all of the step, as it was finalized."""
        return sender.send(self.encode("slashLeaf", pool, step, opening.as_struct(), outcomes))
