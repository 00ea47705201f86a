"""A chain and a coordinator by script: what the validator's loop sees of the world, in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stannary import wire
from stannary.chain import Block, Mined, StepState, Vote
from stannary.errors import Reverted, StannaryError, Unavailable
from stannary.merkle import merkle_root
from stannary.types import ZERO_HASH, Address, Hash, Phase, to_hex
from tests.validator.conftest import FACTS, Made, provider_of
from validator.judgement import Recompute
from validator.votes import Ballot

AUDITED_AT = 2000
VALIDATOR_PROVIDER = Address("0x" + "44" * 20)


@dataclass(slots=True)
class ScriptedLedger:
    """Steps of one pool; `FACTS.step` is audited and its panel is ours, all before are finalized."""

    made: Sequence[Made]
    now: int = AUDITED_AT + 1
    votes: list[Ballot] = field(default_factory=list)
    fails: list[StannaryError] = field(default_factory=list)
    panel_members: tuple[Address, ...] = (VALIDATOR_PROVIDER,)
    phase: Phase = Phase.AUDITED

    def frozen(self) -> Block:
        return Block(1, Hash(b"\x01" * 32), self.now)

    def step_count(self, at: Block) -> int:
        return FACTS.step + 1

    def step(self, step: int, at: Block) -> StepState:
        phase = self.phase if step == FACTS.step else Phase.FINALIZED
        root = merkle_root([made.leaf.submission.struct_hash() for made in self.made])
        return StepState(
            phase=phase,
            policy_step=FACTS.policy_step,
            slots=FACTS.slots,
            leaf_count=len(self.made),
            opened_block=1,
            opened_at=900,
            seed_block=2,
            seeded_at=FACTS.seeded_at,
            audit_block=3,
            committed_at=1900,
            audited_at=AUDITED_AT,
            voted_at=0,
            finalized_at=0,
            seed_beacon=FACTS.seeds.seed_beacon,
            audit_beacon=Hash(b"\x02" * 32),
            submission_root=root,
            slot_table_root=ZERO_HASH,
        )

    def panel(self, step: int, at: Block) -> list[Address]:
        return list(self.panel_members)

    def own_vote(self, step: int, at: Block) -> Vote:
        if not self.votes:
            return Vote(b"", ZERO_HASH, ZERO_HASH)
        return Vote(self.votes[-1].outcomes, self.votes[-1].verdict_root, self.votes[-1].evidence_root)

    def policy_root(self, policy_step: int, at: Block) -> Hash:
        return Hash(bytes([policy_step + 1]) * 32)

    def provider_of(self, node: Address, at: Block) -> Address:
        return provider_of(node)

    def vote(self, step: int, ballot: Ballot) -> Mined:
        if self.fails:
            raise self.fails.pop(0)
        if self.votes:
            raise Reverted("vote", "AlreadyVoted")
        self.votes.append(ballot)
        return Mined(Hash(b"\x03" * 32), 5, 50_000, 1, True, None)


@dataclass(slots=True)
class ScriptedCoordinator:
    """Serves leaves and files, keeps what is published."""

    made: Sequence[Made]
    away: set[Hash] = field(default_factory=set)
    """Files that it does not serve."""
    fails: list[StannaryError] = field(default_factory=list)
    """What the next calls that publish raise."""
    evidence: dict[Hash, bytes] = field(default_factory=dict)
    verdicts: list[wire.VerdictsIn] = field(default_factory=list)
    served: Callable[[list[wire.LeafOut]], list[wire.LeafOut]] = lambda leaves: leaves

    def leaves(self, step: int) -> wire.LeavesOut:
        leaves = [
            wire.LeafOut(
                submission=wire.SubmissionMessage.of(made.leaf.submission, made.leaf.signature),
                lease=wire.LeaseMessage.of(made.leaf.lease, made.leaf.lease_signature),
            )
            for made in self.made
        ]
        return wire.LeavesOut(step=step, submission_root=to_hex(ZERO_HASH), leaves=self.served(leaves))

    def submission_file(self, expected: Hash) -> bytes:
        if expected in self.away:
            raise Unavailable("the file is not here")
        return next(made.data for made in self.made if made.leaf.submission.content_hash == expected)

    def put_evidence(self, evidence_root: Hash, data: bytes) -> None:
        if self.fails:
            raise self.fails.pop(0)
        self.evidence[evidence_root] = data

    def post_verdicts(self, verdicts: wire.VerdictsIn) -> None:
        self.verdicts.append(verdicts)


@dataclass(slots=True)
class ScriptedWeights:
    """Gives one policy, or fails."""

    folder: Path
    policy: Recompute
    fails: StannaryError | None = None
    loads: int = 0

    def load(self, policy_step: int, policy_root: Hash) -> tuple[Path, Recompute]:
        self.loads += 1
        if self.fails is not None:
            raise self.fails
        return self.folder, self.policy


class Clock:
    """Time by hand, in seconds."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def without_lease_signature(leaves: list[wire.LeafOut]) -> list[wire.LeafOut]:
    """Spoil the first lease's signature, as a coordinator could."""
    spoiled = leaves[0].lease.model_copy(update={"signature": "0x" + "11" * 65})
    return [leaves[0].model_copy(update={"lease": spoiled}), *leaves[1:]]


def in_order(made: Sequence[Made]) -> list[Made]:
    return sorted(made, key=lambda each: each.leaf.submission.slot)
