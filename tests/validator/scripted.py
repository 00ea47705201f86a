"""A chain and a coordinator by script: what the validator's loop sees of the world, in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from eth_utils.crypto import keccak

from stannary import wire
from stannary.chain import (
    Ballot,
    Block,
    Case,
    JurorBallot,
    JuryTimes,
    Mined,
    Offer,
    PanelTimes,
    StepHistory,
    StepState,
    events,
)
from stannary.commitments import ruling_commitment, vote_commitment
from stannary.errors import Reverted, StannaryError, Unavailable
from stannary.slots import PayTable, submission_root
from stannary.structs import Domain
from stannary.types import (
    ZERO_HASH,
    Address,
    CaseKind,
    CasePhase,
    Hash,
    Outcome,
    Phase,
    Ruling,
    Wei,
    parse_address,
    to_hex,
)
from tests.validator.conftest import CARD_HASH, COORDINATOR, DOMAIN, FACTS, RULES, Made, address, provider_of
from validator.judgement import Computes
from validator.votes import Vote

AUDITED_AT = 2000
VOTE_SECONDS = 60
REVEAL_SECONDS = 30
VALIDATOR_PROVIDER = Address("0x" + "44" * 20)
OTHERS = tuple(Address("0x" + digit * 40) for digit in "567")
COURT_DOMAIN = Domain(DOMAIN.chain_id, parse_address("0x" + "99" * 20))
MINED = Mined(Hash(b"\x03" * 32), 5, 50_000, 1, True, None)
PLACE = events.Place(1, Hash(b"\x04" * 32), 0, Hash(b"\x05" * 32))


CASE = Case(
    kind=CaseKind.CHALLENGE,
    phase=CasePhase.VOTING,
    pool=RULES.pool,
    step=FACTS.step,
    slot=0,
    first_step=0,
    provider=OTHERS[0],
    disputant=OTHERS[1],
    appellant=OTHERS[1],
    snapshot_block=1,
    jury_block=AUDITED_AT,
    barred=0,
    appeal_until=0,
    units=1,
    ballots=0,
    round=0,
    outcome=Outcome.ACCEPT,
    ruling=Ruling.NONE,
    bond=Wei(1),
    appeal_bond=Wei(0),
    leaf_hash=ZERO_HASH,
    evidence_hash=ZERO_HASH,
)
"""A case before a jury."""


def seal(step: int, vote: Vote) -> Hash:
    return vote_commitment(
        DOMAIN,
        RULES.pool,
        step,
        VALIDATOR_PROVIDER,
        vote.outcomes,
        vote.verdict_root,
        vote.evidence_root,
        vote.salt,
    )


@dataclass(slots=True)
class Box:
    """A ballot box as the contracts have it; the other members commit and reveal when the test says so."""

    opened_at: int = AUDITED_AT
    all_commit: bool = True
    """Whether the others have committed by the time that we do."""
    committed: Hash | None = None
    sealed_at: int = 0
    was_redrawn: bool = False

    @property
    def times(self) -> PanelTimes:
        until = self.opened_at + VOTE_SECONDS
        start = self.sealed_at or until
        return PanelTimes(until, start, start + REVEAL_SECONDS, self.was_redrawn)

    def commit(self, word: Hash, now: int) -> None:
        if self.committed is not None:
            raise Reverted("commit", "AlreadyCommitted")
        if now >= self.times.commit_until:
            raise Reverted("commit", "CommitOver")
        self.committed = word
        if self.all_commit:
            self.sealed_at = now

    def reveal(self, word: Hash, now: int) -> None:
        if self.committed != word:
            raise Reverted("reveal", "CommitmentMismatch")
        if not self.times.reveal_from <= now < self.times.reveal_until:
            raise Reverted("reveal", "RevealClosed")


@dataclass(slots=True)
class ScriptedLedger:
    """Steps of one pool; `FACTS.step` is audited and its panel is ours, all before are finalized."""

    made: Sequence[Made]
    now: int = AUDITED_AT + 1
    box: Box = field(default_factory=Box)
    votes: list[Vote] = field(default_factory=list)
    """What was revealed."""
    fails: list[StannaryError] = field(default_factory=list)
    """What the next commitments raise."""
    reveal_fails: list[StannaryError] = field(default_factory=list)
    panel_members: tuple[Address, ...] = (VALIDATOR_PROVIDER, *OTHERS[:2])
    phase: Phase = Phase.AUDITED
    pay_table_hash: Hash | None = None
    delivered: Mapping[int, tuple[Made, Hash, str]] = field(default_factory=dict)
    """Slots taken on chain: what was delivered, their beacon, and where the file is served."""
    paused_s: int = 0
    looks: int = 0

    def frozen(self) -> Block:
        return Block(self.now, Hash(keccak(self.now.to_bytes(32))), self.now)

    def clock(self, at: Block) -> int:
        self.looks += 1
        return at.timestamp - self.paused_s

    def unsettled(self, at: Block) -> range:
        is_over = self.phase in (Phase.FINALIZED, Phase.CANCELLED)
        return range(FACTS.step + is_over, FACTS.step + 1)

    def step(self, step: int, at: Block) -> StepState:
        leaves = [made.leaf.submission for made in self.made]
        return StepState(
            policy_step=FACTS.policy_step,
            slots=FACTS.slots,
            taken=len(self.delivered),
            reserved=len(self.delivered),
            offer=0,
            opened_block=1,
            seed_block=2,
            phase=self.phase if step == FACTS.step else Phase.FINALIZED,
            seeded_at=FACTS.seeded_at,
            audit_block=3,
            committed_at=1900,
            finalized_at=0,
            seed_beacon=FACTS.seeds.seed_beacon,
            audit_beacon=Hash(b"\x02" * 32),
            submission_root=submission_root(leaves, FACTS.slots),
            settlement_hash=self.pay_table_hash or PayTable.of(leaves, FACTS.slots, RULES.max_units).hash(),
        )

    def history(self, step: int, at: Block) -> StepHistory:
        found: list[events.Event] = []
        for slot, (made, beacon, location) in self.delivered.items():
            leaf = made.leaf.submission
            found.append(events.SlotTaken(PLACE, RULES.pool, step, slot, leaf.provider, 7))
            found.append(events.TakenSlotSealed(PLACE, RULES.pool, step, slot, beacon))
            found.append(
                events.TakenSlotDelivered(PLACE, RULES.pool, step, leaf.provider, leaf, made.leaf.signature, location)
            )
        found += [
            events.VoteRevealed(
                PLACE, RULES.pool, step, VALIDATOR_PROVIDER, vote.outcomes, vote.verdict_root, vote.evidence_root
            )
            for vote in self.votes
        ]
        return StepHistory.of(found, RULES.pool, step)

    def settled_histories(self, steps: range, at: Block) -> Iterator[StepHistory]:
        return (self.history(step, at) for step in steps)

    def panel(self, step: int, at: Block) -> list[Address]:
        return list(self.panel_members)

    def panel_times(self, step: int, at: Block) -> PanelTimes:
        return self.box.times

    def own_ballot(self, step: int, at: Block) -> Ballot:
        word = self.box.committed or ZERO_HASH
        return Ballot(self.box.committed is not None, bool(self.votes), word)

    def policy_root(self, policy_step: int, at: Block) -> Hash:
        return Hash(bytes([policy_step + 1]) * 32)

    def provider_of(self, node: Address, at: Block) -> Address:
        return provider_of(node)

    def has_acted_for(self, node: Address, provider: Address, at: Block) -> bool:
        return provider_of(node) == provider

    def offer(self, number: int, at: Block) -> Offer:
        return Offer(address(COORDINATOR), OTHERS[0], 1, 1, CARD_HASH)

    def validators(self, at: Block) -> list[Address]:
        return [VALIDATOR_PROVIDER, *OTHERS]

    def commit_vote(self, step: int, commitment: Hash) -> Mined:
        if self.fails:
            raise self.fails.pop(0)
        self.box.commit(commitment, self.now - self.paused_s)
        return MINED

    def reveal_vote(self, step: int, vote: Vote) -> Mined:
        if self.reveal_fails:
            raise self.reveal_fails.pop(0)
        self.box.reveal(seal(step, vote), self.now - self.paused_s)
        self.votes.append(vote)
        return MINED


@dataclass(slots=True)
class ScriptedCourt:
    """One case about a slot of `FACTS.step` or a run up to it, or none."""

    ledger: ScriptedLedger
    leaf_hash: Hash | None = None
    """Of the leaf that the case is about."""
    slot: int = 3
    kind: CaseKind = CaseKind.CHALLENGE
    phase: CasePhase = CasePhase.VOTING
    jury_block: int = AUDITED_AT
    jurors: tuple[Address, ...] = (OTHERS[2], VALIDATOR_PROVIDER)
    where: str = ""
    provider: Address = OTHERS[0]
    first_step: int = 0
    judged: int = 0
    """The step after the last run for which the provider was convicted."""
    evidence_hash: Hash = ZERO_HASH
    plants: set[Hash] = field(default_factory=set)
    """Leaves that were shown to be planted faults."""
    box: Box = field(default_factory=Box)
    rulings: list[Ruling] = field(default_factory=list)
    """What was revealed."""
    pushes: list[str] = field(default_factory=list)
    push_fails: list[StannaryError] = field(default_factory=list)

    def case_count(self, at: Block) -> int:
        return 0 if self.leaf_hash is None else 1

    def case(self, case_id: int, at: Block) -> Case | None:
        if self.leaf_hash is None:
            return None
        return replace(
            CASE,
            kind=self.kind,
            phase=self.phase,
            slot=self.slot,
            first_step=self.first_step,
            provider=self.provider,
            jury_block=self.jury_block,
            leaf_hash=self.leaf_hash,
            evidence_hash=self.evidence_hash,
        )

    def location(self, case_id: int, case: Case) -> str:
        return self.where

    def judged_up_to(self, provider: Address, at: Block) -> int:
        return self.judged

    def is_plant(self, leaf_hash: Hash, at: Block) -> bool:
        return leaf_hash in self.plants

    def jury(self, case_id: int, at: Block) -> list[Address]:
        return list(self.jurors)

    def jury_times(self, case_id: int, at: Block) -> JuryTimes:
        times = self.box.times
        return JuryTimes(times.commit_until, times.reveal_from, times.reveal_until)

    def own_ruling(self, case_id: int, at: Block) -> JurorBallot:
        found = self.rulings[-1] if self.rulings else Ruling.NONE
        return JurorBallot(self.box.committed is not None, bool(self.rulings), found)

    def commit_ruling(self, case_id: int, commitment: Hash) -> Mined:
        self.box.commit(commitment, self.ledger.now)
        return MINED

    def reveal_ruling(self, case_id: int, ruling: Ruling, salt: Hash) -> Mined:
        self.box.reveal(ruling_commitment(COURT_DOMAIN, case_id, 0, VALIDATOR_PROVIDER, ruling, salt), self.ledger.now)
        self.rulings.append(ruling)
        return MINED

    def draw_jury(self, case_id: int) -> Mined:
        return self._push("draw")

    def resolve(self, case_id: int) -> Mined:
        return self._push("resolve")

    def _push(self, what: str) -> Mined:
        self.pushes.append(what)
        if self.push_fails:
            raise self.push_fails.pop(0)
        self.phase = CasePhase.VOTING if what == "draw" else CasePhase.RESOLVED
        return MINED


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
    computes: Computes
    fails: StannaryError | None = None
    loads: int = 0
    fetches: int = 0

    def fetch(self, policy_step: int, policy_root: Hash) -> Path:
        self.fetches += 1
        if self.fails is not None:
            raise self.fails
        return self.folder

    def load(self, policy_step: int, policy_root: Hash, before_root: Hash | None) -> tuple[Path, Computes]:
        self.loads += 1
        if self.fails is not None:
            raise self.fails
        return self.folder, self.computes


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
