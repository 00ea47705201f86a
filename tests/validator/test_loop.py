"""The daemon over a scripted chain: it votes once, abstains on its own failures, and publishes what it voted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from stannary.environments import Environment
from stannary.errors import OperatorError, Refused, Reverted, Unavailable, Unmined, Unreachable
from stannary.evidence import EvidenceFile
from stannary.types import Outcome, Phase, Reason
from stannary.verdict import unpack_outcomes
from tests.validator.conftest import (
    CARD_HASH,
    DOMAIN,
    FACTS,
    NODE,
    RULES,
    STRANGER,
    Bench,
    Made,
    address,
    generate,
    leaf_of,
    prove,
)
from tests.validator.scripted import (
    AUDITED_AT,
    VALIDATOR_PROVIDER,
    Clock,
    ScriptedCoordinator,
    ScriptedLedger,
    ScriptedWeights,
    without_lease_signature,
)
from validator.judgement import Recompute
from validator.loop import Parts, Validator
from validator.prefill import Prefill
from validator.votes import Ballot, BallotBox

VOTE_SECONDS = 60


@dataclass
class World:
    """A validator and all that it touches."""

    ledger: ScriptedLedger
    coordinator: ScriptedCoordinator
    weights: ScriptedWeights
    parts: Parts
    clock: Clock
    validator: Validator

    def restart(self) -> None:
        self.validator = Validator(self.parts, clock=self.clock)

    def ticks(self, count: int, seconds: float = 1.0) -> None:
        for _ in range(count):
            self.validator.tick()
            self.clock.now += seconds
            self.ledger.now += int(seconds)

    @property
    def outcomes(self) -> list[Outcome]:
        (ballot,) = self.ledger.votes
        return unpack_outcomes(ballot.outcomes, len(self.ledger.made))

    @property
    def reasons(self) -> list[Reason]:
        return [leaf.reason for leaf in self.ledger.votes[0].evidence.leaves]


@pytest.fixture
def made(bench: Bench, bf16: Prefill) -> list[Made]:
    """Slot 1 at a wrong prompt, slot 3 honest, slot 4 with edited tokens."""
    problem = bench.judge.environment.problem(FACTS.seeds.slot_seed(4)).prompt
    seeds = [FACTS.seeds.rollout_seed(4, rollout) for rollout in range(4)]
    tokens, _ = generate(bf16, problem, seeds, 48)
    edited = [(*own[:3], 4, *own[4:]) for own in tokens]
    lie = prove(problem, edited, bf16.states(problem, edited))
    return [leaf_of(bench.rollouts, 1), leaf_of(bench.rollouts, 3), leaf_of(lie, 4)]


def make_world(made: Sequence[Made], bench: Bench, folder: Path, policy: Recompute | None = None) -> World:
    ledger, coordinator = ScriptedLedger(made), ScriptedCoordinator(made)
    weights = ScriptedWeights(folder / "policy", policy or bench.judge.policy)
    clock = Clock()
    parts = Parts(
        rules=RULES,
        vote_seconds=VOTE_SECONDS,
        provider=VALIDATOR_PROVIDER,
        account=STRANGER,
        card=bench.judge.card,
        ledger=ledger,
        coordinator=coordinator,
        weights=weights,
        open_environment=lambda _: bench.judge.environment,
        compute="test",
        box=BallotBox(folder / "votes"),
    )
    return World(ledger, coordinator, weights, parts, clock, Validator(parts, clock=clock))


@pytest.fixture
def world(made: list[Made], bench: Bench, tmp_path: Path) -> World:
    return make_world(made, bench, tmp_path)


def test_step_is_judged_voted_and_published_once(world: World) -> None:
    world.ticks(5)
    assert world.outcomes == [Outcome.FAULT, Outcome.ACCEPT, Outcome.FAULT]
    assert world.reasons == [Reason.PROMPT, Reason.NONE, Reason.SAMPLING_BOUND]
    (ballot,) = world.ledger.votes
    (data,) = world.coordinator.evidence.values()
    evidence = EvidenceFile.parse(data)
    assert evidence.root() == ballot.evidence_root == next(iter(world.coordinator.evidence))
    assert (evidence.card_hash, evidence.node, evidence.policy_step) == (CARD_HASH, address(STRANGER), 1)
    gap = evidence.leaves[1].measures["largest_gap"]
    assert gap.value is not None
    assert gap.limit == world.parts.card.thresholds.gap_bound
    (published,) = world.coordinator.verdicts
    for message, made in zip(published.verdicts, world.ledger.made, strict=True):
        message.verdict().require_signer(bytes.fromhex(message.signature[2:]), DOMAIN, address(STRANGER))
        assert message.verdict().leaf_hash == made.leaf.submission.struct_hash()


def test_step_of_another_panel_is_left_alone(world: World) -> None:
    world.ledger.panel_members = (address(NODE),)
    world.ticks(3)
    assert world.ledger.votes == []
    assert world.weights.loads == 0


def test_step_that_is_not_audited_yet_has_its_policy_loaded_ahead(world: World) -> None:
    world.ledger.phase = Phase.SEEDED
    world.ticks(1)
    assert world.ledger.votes == []
    assert world.weights.loads == 1
    world.ledger.phase = Phase.AUDITED
    world.ticks(1)
    assert len(world.ledger.votes) == 1


def test_missing_weights_are_waited_for_and_end_in_abstention(world: World) -> None:
    world.weights.fails = Unavailable("policy step 1 is not there")
    world.ticks(30)
    assert world.ledger.votes == []
    world.ticks(20)
    assert world.outcomes == [Outcome.ABSTAIN] * 3
    assert set(world.reasons) == {Reason.UNAVAILABLE}
    assert 3 < world.weights.loads < 20, "retried, with back-off"
    assert "policy step 1 is not there" in world.ledger.votes[0].evidence.leaves[0].explanation


def test_missing_weights_that_come_in_time_do_no_harm(world: World) -> None:
    world.weights.fails = Unreachable("no relay answers")
    world.ticks(10)
    world.weights.fails = None
    world.ticks(10)
    assert world.outcomes[1] is Outcome.ACCEPT


def test_wrong_environment_of_this_machine_is_no_verdict(world: World) -> None:
    def refuse(_: Path) -> Environment:
        raise OperatorError("environment: the pool's document says Python 3.12")

    world.validator.parts = replace(world.parts, open_environment=refuse)
    world.ticks(60)
    assert world.outcomes == [Outcome.ABSTAIN] * 3


def test_policy_that_no_loader_takes_is_no_verdict_and_ends_no_validator(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*_: object) -> tuple[Path, Recompute]:
        raise RuntimeError("size mismatch for lm_head.weight")

    monkeypatch.setattr(ScriptedWeights, "load", load)
    world.ledger.phase = Phase.SEEDED
    world.ticks(1)
    world.ledger.phase = Phase.AUDITED
    world.ticks(60)
    assert world.outcomes == [Outcome.ABSTAIN] * 3
    assert "size mismatch" in world.ledger.votes[0].evidence.leaves[0].explanation


def test_file_that_is_away_leaves_the_other_leaves_decided(world: World) -> None:
    world.coordinator.away.add(world.ledger.made[1].leaf.submission.content_hash)
    world.coordinator.made = world.ledger.made
    world.ticks(60)
    outcomes = world.outcomes
    # Slots 1 and 3 share one file here, so both wait for it.
    assert outcomes == [Outcome.ABSTAIN, Outcome.ABSTAIN, Outcome.FAULT]


class FailsOnSlotThree:
    """A policy whose forward pass fails for one group."""

    def __init__(self, real: Recompute, tokens: Sequence[Sequence[int]]) -> None:
        self._real, self._tokens, self.calls = real, [tuple(own) for own in tokens], 0
        self.vocabulary, self.hidden_size, self.end_ids = real.vocabulary, real.hidden_size, real.end_ids
        self.head_rows = real.head_rows

    def states(self, prompt: Sequence[int], completions: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        if [tuple(own) for own in completions] == self._tokens:
            self.calls += 1
            raise RuntimeError("out of memory")
        return self._real.states(prompt, completions)

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        return self._real.logits(states)


def test_exception_inside_a_check_abstains_on_that_leaf_only(made: list[Made], bench: Bench, tmp_path: Path) -> None:
    broken = FailsOnSlotThree(bench.judge.policy, bench.tokens)
    world = make_world(made, bench, tmp_path, broken)
    world.ticks(10)
    assert world.outcomes == [Outcome.FAULT, Outcome.ABSTAIN, Outcome.FAULT]
    assert broken.calls == 3, "tried again, but not for ever"
    assert "out of memory" in world.ledger.votes[0].evidence.leaves[1].explanation


def test_leaves_of_another_root_are_no_vote(world: World) -> None:
    world.coordinator.served = lambda leaves: leaves[:2]
    world.ticks(90)
    assert world.ledger.votes == []


def test_spoiled_lease_signature_is_rejected_and_not_slashed(world: World) -> None:
    world.coordinator.served = without_lease_signature
    world.ticks(3)
    assert world.outcomes[0] is Outcome.REJECT
    assert world.reasons[0] is Reason.LEASE


def test_restart_after_the_vote_publishes_the_same_evidence_and_votes_no_more(world: World) -> None:
    world.coordinator.fails = [Unreachable("down")]
    world.ticks(1)
    assert world.coordinator.evidence == {}
    root = world.ledger.votes[0].evidence_root
    world.restart()
    world.ticks(3)
    assert len(world.ledger.votes) == 1
    assert list(world.coordinator.evidence) == [root]


def test_restart_before_the_vote_takes_the_prepared_one(world: World) -> None:
    world.ledger.fails = [Unmined("vote", "0x1", waited_s=30)]
    world.ticks(1)
    (prepared,) = (world.parts.box.prepared(FACTS.step),)
    assert prepared is not None
    world.restart()
    world.weights.fails = Unavailable("gone meanwhile")
    world.ticks(2)
    assert [ballot.evidence_root for ballot in world.ledger.votes] == [prepared.evidence_root]


def test_prepared_vote_on_other_leaves_is_judged_anew(world: World) -> None:
    world.ledger.fails = [Unmined("vote", "0x1", waited_s=30)]
    world.ticks(1)
    stale = world.parts.box.prepared(FACTS.step)
    assert stale is not None
    world.ledger.made = world.coordinator.made = tuple(reversed(world.ledger.made))
    world.restart()
    world.ticks(2)
    (ballot,) = world.ledger.votes
    assert ballot.evidence_root != stale.evidence_root
    assert world.reasons == [Reason.SAMPLING_BOUND, Reason.NONE, Reason.PROMPT]


def test_vote_that_is_refused_because_it_is_there_already_is_no_error(world: World) -> None:
    world.ticks(1)
    world.restart()
    world.ticks(3)
    assert len(world.ledger.votes) == 1


def test_vote_that_is_refused_for_good_is_given_up(world: World) -> None:
    world.ledger.fails = [Reverted("vote", "DeadlinePassed")] * 200
    world.ticks(90)
    assert world.ledger.votes == []
    assert world.parts.box.unpublished() == []
    assert len(world.ledger.fails) + 9 > 190


def test_evidence_that_a_coordinator_refuses_for_now_is_published_later(world: World) -> None:
    world.coordinator.fails = [Refused("evidence", status=403, reason="the panel is not drawn"), Unreachable("down")]
    world.ticks(10)
    assert len(world.coordinator.evidence) == 1
    assert len(world.coordinator.verdicts) == 1


def test_window_is_of_chain_time(world: World) -> None:
    world.ledger.now = AUDITED_AT + VOTE_SECONDS - 5
    world.weights.fails = Unavailable("policy step 1 is not there")
    world.ticks(1)
    assert world.outcomes == [Outcome.ABSTAIN] * 3


def test_full_disk_is_waited_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    real, refusals = BallotBox.put, [OperatorError("cannot write: no space left on device")] * 2

    def put(box: BallotBox, step: int, ballot: Ballot) -> None:
        if refusals:
            raise refusals.pop()
        real(box, step, ballot)

    monkeypatch.setattr(BallotBox, "put", put)
    world.ticks(1)
    assert world.ledger.votes == []
    assert "no space left" in str(world.validator.waiting.what)
    world.ticks(6)
    assert len(world.ledger.votes) == 1
    assert len(world.coordinator.evidence) == 1


def test_damaged_record_of_a_vote_is_made_anew(world: World) -> None:
    world.ledger.fails = [Unmined("vote", "0x1", waited_s=30)]
    world.ticks(1)
    (path,) = (world.weights.folder.parent / "votes").glob("*.vote")
    path.write_bytes(path.read_bytes()[:100])
    world.restart()
    world.ticks(2)
    assert world.outcomes[1] is Outcome.ACCEPT
