"""SubmissionLedger: policies, steps, beacons, roots, votes and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass, fields

from stannary.chain.connection import Block, Mined
from stannary.chain.contract import Contract
from stannary.chain.names import SUBMISSION_LEDGER
from stannary.chain.sender import Sender
from stannary.structs import Submission
from stannary.types import Address, Hash, Outcome, Phase


@dataclass(frozen=True, slots=True)
class StepState:
    """Where one step stands. `…_at` in unix seconds of the chain, `…_block` a block number; 0 is not yet."""

    phase: Phase
    policy_step: int
    slots: int
    leaf_count: int
    opened_block: int
    opened_at: int
    seed_block: int
    """The block whose hash becomes the seed beacon."""
    seeded_at: int
    audit_block: int
    committed_at: int
    audited_at: int
    voted_at: int
    """When the last panel member voted."""
    finalized_at: int
    """When the step was finalized or cancelled."""
    seed_beacon: Hash
    audit_beacon: Hash
    submission_root: Hash
    slot_table_root: Hash


@dataclass(frozen=True, slots=True)
class LeafOpening:
    """A submission with the proof that it stands at `index` of the committed tree."""

    leaf: Submission
    index: int
    proof: tuple[Hash, ...]

    def as_struct(self) -> tuple[object, ...]:
        """Return the values in the contract's order."""
        leaf = tuple(getattr(self.leaf, spec.name) for spec in fields(self.leaf))
        return (leaf, self.index, list(self.proof))


@dataclass(frozen=True, slots=True)
class Vote:
    """One panel member's vote on a step."""

    outcomes: bytes
    """Two bits a leaf; empty if the member has not voted."""
    verdict_root: Hash
    evidence_root: Hash


class SubmissionLedger(Contract):
    """The ledger of steps."""

    NAME = SUBMISSION_LEDGER

    def step_of(self, pool: int, step: int, at: Block | None = None) -> StepState:
        """Return where a step stands; `Phase.NONE` if it was never opened."""
        phase, *numbers = self.read("stepOf", pool, step, at=at)
        counts, words = numbers[:12], [Hash(bytes(word)) for word in numbers[12:]]
        return StepState(Phase(phase), *counts, *words)

    def panel_of(self, pool: int, step: int, at: Block | None = None) -> list[Address]:
        """Return the drawn validators in the order of the draw, empty before the draw."""
        return [Address(found) for found in self.read("panelOf", pool, step, at=at)]

    def vote_of(self, pool: int, step: int, provider: Address, at: Block | None = None) -> Vote:
        """Return a panel member's vote."""
        outcomes, verdicts, evidence = self.read("voteOf", pool, step, provider, at=at)
        return Vote(bytes(outcomes), Hash(bytes(verdicts)), Hash(bytes(evidence)))

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

    def outcome_of(self, pool: int, step: int, index: int, at: Block | None = None) -> Outcome:
        """Return what was decided about a leaf of a finalized step; `Outcome.ABSTAIN` is undecided."""
        return Outcome(self.read("outcomeOf", pool, step, index, at=at))

    def has_voted(self, pool: int, step: int, provider: Address, at: Block | None = None) -> bool:
        """Say whether a panel member has voted."""
        return bool(self.read("hasVoted", pool, step, provider, at=at))

    def is_slashed(self, leaf_hash: Hash, at: Block | None = None) -> bool:
        """Say whether a leaf's provider was slashed for it."""
        return bool(self.read("isSlashed", leaf_hash, at=at))

    def leaf_hash(self, leaf: Submission, at: Block | None = None) -> Hash:
        """Return the contract's own hash of a leaf."""
        values = tuple(getattr(leaf, spec.name) for spec in fields(leaf))
        return Hash(bytes(self.read("leafHash", values, at=at)))

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

    def commit_root(
        self,
        sender: Sender,
        pool: int,
        step: int,
        submission_root: Hash,
        leaf_count: int,
        slot_table_root: Hash,
    ) -> Mined:
        """Commit all submissions of a step; only the coordinator."""
        return sender.send(self.encode("commitRoot", pool, step, submission_root, leaf_count, slot_table_root))

    def seal_audit_beacon(self, sender: Sender, pool: int, step: int) -> Mined:
        """Seal the audit beacon and draw the panel; draws a new block if that hash is gone."""
        return sender.send(self.encode("sealAuditBeacon", pool, step))

    def vote(
        self, sender: Sender, pool: int, step: int, outcomes: bytes, verdict_root: Hash, evidence_root: Hash
    ) -> Mined:
        """Vote on every leaf of a step; only a node of a panel member, once."""
        return sender.send(self.encode("vote", pool, step, outcomes, verdict_root, evidence_root))

    def finalize(self, sender: Sender, pool: int, step: int) -> Mined:
        """Count the votes for good; steps of a pool settle in order."""
        return sender.send(self.encode("finalize", pool, step))

    def cancel_step(self, sender: Sender, pool: int, step: int) -> Mined:
        """Cancel a step whose coordinator let the deadline pass."""
        return sender.send(self.encode("cancelStep", pool, step))

    def slash_leaf(self, sender: Sender, pool: int, step: int, opening: LeafOpening) -> Mined:
        """Slash the provider of a leaf that was found at fault."""
        return sender.send(self.encode("slashLeaf", pool, step, opening.as_struct()))
