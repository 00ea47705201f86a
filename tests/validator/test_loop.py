"""The daemon over a scripted chain: it commits to one vote, reveals it, and abstains on its own failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import torch

from stannary.environments import Environment
from stannary.errors import Malformed, OperatorError, Refused, Reverted, Unavailable, Unmined, Unreachable
from stannary.evidence import EvidenceFile
from stannary.rollout import decode_group
from stannary.seeds import StepSeeds
from stannary.slots import taken_lease_hash
from stannary.types import ZERO_HASH, Hash, Outcome, Phase, Reason
from stannary.verdict import unpack_outcomes
from tests.validator.conftest import (
    CARD_HASH,
    DOMAIN,
    FACTS,
    NODE,
    PROVIDER,
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
    COURT_DOMAIN,
    OTHERS,
    REVEAL_SECONDS,
    VALIDATOR_PROVIDER,
    VOTE_SECONDS,
    Box,
    Clock,
    ScriptedCoordinator,
    ScriptedCourt,
    ScriptedLedger,
    ScriptedWeights,
    seal,
    without_lease_signature,
)
from validator.judgement import Computes, Recompute
from validator.loop import Validator
from validator.parts import Parts
from validator.prefill import Prefill
from validator.records import Records
from validator.votes import RulingStore, Vote, VoteStore

SLOT, EDITED_SLOT, PROMPT_SLOT = 3, 4, 1


@dataclass
class World:
    """A validator and all that it touches."""

    ledger: ScriptedLedger
    court: ScriptedCourt
    coordinator: ScriptedCoordinator
    weights: ScriptedWeights
    parts: Parts
    clock: Clock
    validator: Validator
    elsewhere: dict[str, bytes] = field(default_factory=dict)
    """What is served at other addresses."""

    def restart(self, **changes: object) -> None:
        """Start the validator anew on what its disk holds."""
        folder = self.weights.folder.parent / "votes"
        parts = replace(self.parts, votes=VoteStore(Records(folder), seal), rulings=RulingStore(Records(folder)))
        self.parts = replace(parts, **changes)  # type: ignore[arg-type]
        self.validator = Validator(self.parts, clock=self.clock)

    def ticks(self, count: int, seconds: float = 1.0) -> None:
        for _ in range(count):
            self.validator.tick()
            self.clock.now += seconds
            self.ledger.now += int(seconds)

    def until(self, now_s: int) -> None:
        """Tick until the chain's time is reached."""
        while self.ledger.now < now_s:
            self.ticks(1)

    @property
    def prepared(self) -> Vote | None:
        """The vote on the committed leaves that lies on disk."""
        root = self.ledger.step(FACTS.step, self.ledger.frozen()).submission_root
        return self.parts.votes.prepared(FACTS.step, root)

    @property
    def vote(self) -> Vote:
        """The one vote that was revealed."""
        (vote,) = self.ledger.votes
        return vote

    @property
    def by_slot(self) -> list[Outcome]:
        return unpack_outcomes(self.vote.outcomes, FACTS.slots + len(self.ledger.delivered))

    @property
    def outcomes(self) -> list[Outcome]:
        """Of the leaves, in slot order."""
        return [self.by_slot[made.leaf.submission.slot] for made in self.ledger.made]

    @property
    def evidence(self) -> EvidenceFile:
        assert self.vote.evidence is not None
        return self.vote.evidence

    @property
    def reasons(self) -> list[Reason]:
        return [leaf.reason for leaf in self.evidence.leaves]


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
    court = ScriptedCourt(ledger)
    weights = ScriptedWeights(
        folder / "policy", bench.judge.computes if policy is None else Computes(policy, lambda: policy)
    )
    clock = Clock()
    records = Records(folder / "votes")
    elsewhere: dict[str, bytes] = {}

    def fetch(url: str) -> bytes:
        if url not in elsewhere:
            raise Unavailable(f"{url} answered 404")
        return elsewhere[url]

    parts = Parts(
        rules=RULES,
        court_domain=COURT_DOMAIN,
        vote_seconds=VOTE_SECONDS,
        provider=VALIDATOR_PROVIDER,
        account=STRANGER,
        card_of=lambda _: bench.judge.card,
        ledger=ledger,
        court=court,
        coordinator=coordinator,
        fetch=fetch,
        read_submission=decode_group,
        weights=weights,
        open_environment=lambda _: bench.judge.environment,
        compute="test",
        votes=VoteStore(records, seal),
        rulings=RulingStore(records),
    )
    return World(ledger, court, coordinator, weights, parts, clock, Validator(parts, clock=clock), elsewhere)


@pytest.fixture
def world(made: list[Made], bench: Bench, tmp_path: Path) -> World:
    return make_world(made, bench, tmp_path)


def test_step_is_judged_committed_revealed_and_published_once(world: World) -> None:
    world.ticks(6)
    assert world.outcomes == [Outcome.FAULT, Outcome.ACCEPT, Outcome.FAULT]
    assert [slot for slot, outcome in enumerate(world.by_slot) if outcome] == [PROMPT_SLOT, SLOT, EDITED_SLOT]
    assert world.reasons == [Reason.PROMPT, Reason.NONE, Reason.SAMPLING_BOUND]
    (data,) = world.coordinator.evidence.values()
    evidence = EvidenceFile.parse(data)
    assert evidence.root() == world.vote.evidence_root == next(iter(world.coordinator.evidence))
    assert (evidence.card_hash, evidence.node, evidence.policy_step) == (CARD_HASH, address(STRANGER), 1)
    gap = evidence.leaves[1].measures["largest_gap"]
    assert gap.value is not None
    assert gap.limit == world.parts.card_of(CARD_HASH).thresholds.gap_bound
    (published,) = world.coordinator.verdicts
    for message, made in zip(published.verdicts, world.ledger.made, strict=True):
        message.verdict().require_signer(bytes.fromhex(message.signature[2:]), DOMAIN, address(STRANGER))
        assert message.verdict().leaf_hash == made.leaf.submission.struct_hash()


def test_vote_lies_on_disk_before_its_commitment_is_sent(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    real = ScriptedLedger.commit_vote

    def commit_vote(ledger: ScriptedLedger, step: int, commitment: Hash) -> object:
        seen.append(VoteStore(Records(world.weights.folder.parent / "votes"), seal).find(step, commitment) is not None)
        return real(ledger, step, commitment)

    monkeypatch.setattr(ScriptedLedger, "commit_vote", commit_vote)
    world.ticks(3)
    assert seen == [True]


def test_nothing_is_shown_before_the_reveal(world: World) -> None:
    world.ledger.box.all_commit = False
    world.until(AUDITED_AT + VOTE_SECONDS)
    assert world.ledger.box.committed is not None
    assert world.ledger.votes == []
    assert world.coordinator.evidence == {}
    world.ticks(3)
    assert len(world.ledger.votes) == len(world.coordinator.evidence) == 1


def test_crash_at_any_point_ends_in_the_same_vote(world: World) -> None:
    """A new process takes over before each look at the chain: nothing is judged or committed twice."""
    world.ledger.box.all_commit = False
    world.ticks(1)
    committed, loads = world.ledger.box.committed, world.weights.loads
    while world.ledger.now < AUDITED_AT + VOTE_SECONDS + 10:
        world.restart()
        world.ticks(1)
    assert world.ledger.box.committed == committed
    assert world.weights.loads == loads
    assert seal(FACTS.step, world.vote) == committed
    assert list(world.coordinator.evidence) == [world.vote.evidence_root]


def test_lost_record_of_a_commitment_is_said_and_nothing_else_is_committed(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.ledger.box.all_commit = False
    world.ticks(1)
    for path in (world.weights.folder.parent / "votes").iterdir():
        path.unlink()
    committed = world.ledger.box.committed
    world.restart()
    world.until(AUDITED_AT + VOTE_SECONDS + REVEAL_SECONDS)
    assert world.ledger.box.committed == committed
    assert world.ledger.votes == []
    assert caplog.text.count("does not lie on this machine") == 1


def test_reveal_that_is_refused_is_tried_again_and_not_for_ever(world: World) -> None:
    world.ledger.reveal_fails = [Reverted("reveal", "RevealClosed"), Unreachable("down")]
    with pytest.raises(Unreachable):
        world.ticks(10)
    world.ticks(10)
    assert len(world.ledger.votes) == 1


def test_reveal_that_got_through_unseen_is_no_error(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.ticks(1)
    vote = world.prepared
    assert vote is not None
    world.ledger.reveal_fails = [Reverted("reveal", "AlreadyRevealed")]
    world.ledger.votes.append(vote)
    world.ticks(5)
    assert len(world.ledger.votes) == 1
    assert list(world.coordinator.evidence) == [vote.evidence_root]
    assert "cannot be revealed" not in caplog.text


def test_seat_of_a_second_round_is_noticed(world: World) -> None:
    world.ledger.panel_members = OTHERS
    world.until(AUDITED_AT + VOTE_SECONDS + REVEAL_SECONDS + 5)
    assert world.ledger.box.committed is None
    world.ledger.panel_members = (OTHERS[0], VALIDATOR_PROVIDER)
    world.ledger.box = Box(opened_at=world.ledger.now, was_redrawn=True)
    world.ticks(4)
    assert world.outcomes[1] is Outcome.ACCEPT


def test_seat_that_was_missed_is_given_up_until_a_second_round(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.ledger.now = AUDITED_AT + VOTE_SECONDS
    world.ticks(20)
    assert world.ledger.box.committed is None
    assert caplog.text.count("step 2: no vote of this validator counts: its window is over") == 1
    world.ledger.box = Box(opened_at=world.ledger.now, was_redrawn=True)
    world.ticks(4)
    assert len(world.ledger.votes) == 1


def test_pay_table_of_others_is_an_abstention_on_the_whole_step(world: World) -> None:
    world.ledger.pay_table_hash = Hash(b"\x77" * 32)
    world.until(AUDITED_AT + VOTE_SECONDS + 5)
    assert world.by_slot == [Outcome.ABSTAIN] * FACTS.slots
    assert (world.vote.verdict_root, world.vote.evidence_root) == (ZERO_HASH, ZERO_HASH)
    assert world.coordinator.evidence == {}
    assert world.parts.votes.unpublished() == []


def test_idle_validator_asks_the_chain_once_a_block(world: World) -> None:
    world.ledger.panel_members = OTHERS
    for _ in range(5):
        world.validator.tick()
    assert world.ledger.looks == 1
    world.ledger.now += 1
    world.validator.tick()
    assert world.ledger.looks == 2


def test_time_for_judging_grows_while_the_pools_clock_stands(world: World) -> None:
    world.weights.fails = Unavailable("policy step 1 is not there")
    world.ticks(10)
    world.ledger.paused_s = 300
    world.ledger.now += 300
    world.clock.now += 300
    world.ticks(30)
    assert world.ledger.box.committed is None
    world.ticks(20)
    assert world.outcomes == [Outcome.ABSTAIN] * 3


def taken(bench: Bench, bf16: Prefill, slot: int, beacon: Hash) -> Made:
    """Make an honest group for a slot taken on chain."""
    seeds = StepSeeds(DOMAIN, RULES.pool, FACTS.step, FACTS.seeds.seed_beacon, {slot: beacon})
    prompt = bench.judge.environment.problem(seeds.slot_seed(slot)).prompt
    tokens, states = generate(bf16, prompt, [seeds.rollout_seed(slot, index) for index in range(RULES.group_size)], 48)
    lease_hash = taken_lease_hash(DOMAIN, RULES.pool, FACTS.step, slot, PROVIDER)
    return leaf_of(prove(prompt, tokens, states), slot, lease_hash=lease_hash)


def test_slot_taken_on_chain_is_judged_by_its_own_beacon_from_where_its_file_is(
    world: World, bench: Bench, bf16: Prefill
) -> None:
    slot, beacon, where = FACTS.slots, Hash(b"\x0c" * 32), "http://worker.example/file"
    made = taken(bench, bf16, slot, beacon)
    world.ledger.delivered = {slot: (made, beacon, where)}
    world.coordinator.away.add(made.leaf.submission.content_hash)
    world.elsewhere[where] = made.data
    world.ticks(4)
    assert world.by_slot[slot] is Outcome.ACCEPT
    assert len(world.vote.verdicts) == 4


def test_slot_taken_on_chain_whose_file_is_nowhere_is_abstained_on(world: World, bench: Bench, bf16: Prefill) -> None:
    slot, beacon = FACTS.slots, Hash(b"\x0c" * 32)
    made = taken(bench, bf16, slot, beacon)
    world.ledger.delivered = {slot: (made, beacon, "http://worker.example/file")}
    world.coordinator.away.add(made.leaf.submission.content_hash)
    world.elsewhere["http://worker.example/file"] = made.data + b"\0"
    world.until(AUDITED_AT + VOTE_SECONDS + 5)
    assert world.by_slot[slot] is Outcome.ABSTAIN
    assert world.outcomes[1] is Outcome.ACCEPT


def test_step_of_another_panel_is_left_alone(world: World) -> None:
    world.ledger.panel_members = (address(NODE),)
    world.ticks(3)
    assert world.ledger.box.committed is None
    assert world.weights.loads == 0


def test_step_that_is_not_audited_yet_has_its_policy_fetched_ahead_and_not_loaded(world: World) -> None:
    world.ledger.phase = Phase.SEEDED
    world.ticks(3)
    assert world.ledger.votes == []
    assert (world.weights.fetches, world.weights.loads) == (1, 0)
    world.ledger.phase = Phase.AUDITED
    world.ticks(3)
    assert len(world.ledger.votes) == 1


def test_missing_weights_are_waited_for_and_end_in_abstention(world: World) -> None:
    world.weights.fails = Unavailable("policy step 1 is not there")
    world.ticks(30)
    assert world.ledger.votes == []
    world.ticks(20)
    assert world.outcomes == [Outcome.ABSTAIN] * 3
    assert set(world.reasons) == {Reason.UNAVAILABLE}
    assert 3 < world.weights.loads < 20, "retried, with back-off"
    assert "policy step 1 is not there" in world.evidence.leaves[0].explanation


def test_missing_weights_that_come_in_time_do_no_harm(world: World) -> None:
    world.weights.fails = Unreachable("no relay answers")
    world.ticks(10)
    world.weights.fails = None
    world.ticks(10)
    assert world.outcomes[1] is Outcome.ACCEPT


def test_wrong_environment_of_this_machine_is_no_verdict(world: World) -> None:
    def refuse(_: Path) -> Environment:
        raise OperatorError("environment: the pool's document says Python 3.12")

    world.restart(open_environment=refuse)
    world.ticks(60)
    assert world.outcomes == [Outcome.ABSTAIN] * 3


def test_policy_that_no_loader_takes_is_no_verdict_and_ends_no_validator(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*_: object) -> tuple[Path, Computes]:
        raise RuntimeError("size mismatch for lm_head.weight")

    monkeypatch.setattr(ScriptedWeights, "load", load)
    world.ledger.phase = Phase.SEEDED
    world.ticks(1)
    world.ledger.phase = Phase.AUDITED
    world.ticks(60)
    assert world.outcomes == [Outcome.ABSTAIN] * 3
    assert "size mismatch" in world.evidence.leaves[0].explanation


def test_file_that_is_away_leaves_the_other_leaves_decided(world: World) -> None:
    world.coordinator.away.add(world.ledger.made[1].leaf.submission.content_hash)
    world.coordinator.made = world.ledger.made
    world.ticks(60)
    outcomes = world.outcomes
    # Slots 1 and 3 share one file here, so both wait for it.
    assert outcomes == [Outcome.ABSTAIN, Outcome.ABSTAIN, Outcome.FAULT]


def test_address_that_breaks_the_fetch_abstains_on_that_leaf_only(world: World, bench: Bench, bf16: Prefill) -> None:
    def fetch(_: str) -> bytes:
        raise OverflowError("port must be 0-65535")

    slot, beacon = FACTS.slots, Hash(b"\x0c" * 32)
    made = taken(bench, bf16, slot, beacon)
    world.ledger.delivered = {slot: (made, beacon, "http://worker.example:99999999999999999999/")}
    world.coordinator.away.add(made.leaf.submission.content_hash)
    world.restart(fetch=fetch)
    world.ticks(60)
    assert world.by_slot[slot] is Outcome.ABSTAIN
    assert world.outcomes[:3] == [Outcome.FAULT, Outcome.ACCEPT, Outcome.FAULT]


def test_reveal_that_breaks_is_tried_again(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.ledger.reveal_fails = [RuntimeError("nobody foresaw this"), Malformed("x", expected="y", got="z")]
    world.ticks(20)
    assert len(world.ledger.votes) == 1
    assert "nobody foresaw this" in caplog.text


def test_commitment_that_breaks_is_tried_again(world: World) -> None:
    world.ledger.fails = [RuntimeError("nobody foresaw this"), Malformed("x", expected="y", got="z")]
    world.ticks(20)
    assert len(world.ledger.votes) == 1


def test_evidence_that_breaks_the_coordinators_client_is_published_later(world: World) -> None:
    world.coordinator.fails = [RuntimeError("nobody foresaw this")]
    world.ticks(20)
    assert len(world.coordinator.evidence) == 1


def test_look_that_breaks_ends_no_validator(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures: list[Exception] = [RuntimeError("nobody foresaw this"), Malformed("block", expected="one", got="<html>")]
    real = ScriptedLedger.frozen

    def frozen(ledger: ScriptedLedger) -> object:
        if failures:
            raise failures.pop(0)
        world.validator.stop.set()
        return real(ledger)

    monkeypatch.setattr(ScriptedLedger, "frozen", frozen)
    world.validator.run()
    assert failures == []
    assert "nobody foresaw this" in caplog.text


class FailsOnSlotThree:
    """A policy whose forward pass fails for one group."""

    def __init__(self, real: Recompute, tokens: Sequence[Sequence[int]]) -> None:
        self._real, self._tokens, self.calls = real, [tuple(own) for own in tokens], 0
        self.vocabulary, self.hidden_size, self.tokens = real.vocabulary, real.hidden_size, real.tokens
        self.head_rows, self.compute, self.is_exact = real.head_rows, real.compute, real.is_exact

    def states(self, prompt: Sequence[int], completions: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        return [own.bfloat16() for own in self.unrounded_states(prompt, completions)]

    def unrounded_states(self, prompt: Sequence[int], completions: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        if [tuple(own) for own in completions] == self._tokens:
            self.calls += 1
            raise RuntimeError("out of memory")
        return self._real.unrounded_states(prompt, completions)

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        return self._real.logits(states)


def test_exception_inside_a_check_abstains_on_that_leaf_only(made: list[Made], bench: Bench, tmp_path: Path) -> None:
    broken = FailsOnSlotThree(bench.judge.computes.first, bench.tokens)
    world = make_world(made, bench, tmp_path, broken)
    world.ticks(10)
    assert world.outcomes == [Outcome.FAULT, Outcome.ABSTAIN, Outcome.FAULT]
    assert broken.calls == 3, "tried again, but not for ever"
    assert "out of memory" in world.evidence.leaves[1].explanation


def test_leaves_of_another_root_are_an_abstention_on_the_whole_step(world: World) -> None:
    world.coordinator.served = lambda leaves: leaves[:2]
    world.until(AUDITED_AT + VOTE_SECONDS - 12)
    assert world.ledger.box.committed is None
    world.ticks(20)
    assert world.by_slot == [Outcome.ABSTAIN] * FACTS.slots
    assert world.vote.evidence is None


def test_spoiled_lease_signature_is_rejected_and_not_slashed(world: World) -> None:
    world.coordinator.served = without_lease_signature
    world.ticks(3)
    assert world.outcomes[0] is Outcome.REJECT
    assert world.reasons[0] is Reason.LEASE


def test_restart_after_the_reveal_publishes_the_same_evidence_and_votes_no_more(world: World) -> None:
    world.coordinator.fails = [Unreachable("down")]
    world.ticks(2)
    assert world.coordinator.evidence == {}
    root = world.vote.evidence_root
    world.restart()
    world.ticks(3)
    assert len(world.ledger.votes) == 1
    assert list(world.coordinator.evidence) == [root]


def test_restart_before_the_commitment_takes_the_prepared_vote(world: World) -> None:
    world.ledger.fails = [Unmined("commit", "0x1", waited_s=30)]
    world.ticks(1)
    prepared = world.prepared
    assert prepared is not None
    world.restart()
    world.weights.fails = Unavailable("gone meanwhile")
    world.ticks(3)
    assert world.vote == prepared


def test_prepared_vote_on_other_leaves_is_judged_anew_and_kept(world: World, bench: Bench) -> None:
    world.ledger.fails = [Unmined("commit", "0x1", waited_s=30)]
    world.ticks(1)
    stale = world.prepared
    assert stale is not None
    world.ledger.made = world.coordinator.made = world.ledger.made[1:]
    world.restart()
    world.ticks(3)
    assert world.vote != stale
    assert world.reasons == [Reason.NONE, Reason.SAMPLING_BOUND]
    assert world.parts.votes.find(FACTS.step, seal(FACTS.step, stale)) == stale


def test_commitment_that_got_through_unseen_is_revealed(world: World) -> None:
    """The answer was lost, the transaction was not: the same commitment is refused and is the one that counts."""
    world.ledger.fails = [Unmined("commit", "0x1", waited_s=30)]
    world.ticks(1)
    vote = world.prepared
    assert vote is not None
    world.ledger.box.commit(seal(FACTS.step, vote), world.ledger.now)
    world.ticks(3)
    assert world.vote == vote


def test_commitment_that_is_refused_for_good_is_given_up(world: World) -> None:
    world.ledger.fails = [Reverted("commit", "NotMember")] * 200
    world.ticks(90)
    assert world.ledger.votes == []
    assert len(world.ledger.fails) > 180, "not sent at every look"


def test_evidence_that_a_coordinator_refuses_for_now_is_published_later(world: World) -> None:
    world.coordinator.fails = [Refused("evidence", status=403, reason="the panel is not drawn"), Unreachable("down")]
    world.ticks(10)
    assert len(world.coordinator.evidence) == 1
    assert len(world.coordinator.verdicts) == 1


def test_evidence_that_a_coordinator_refuses_for_good_is_let_be(world: World) -> None:
    world.coordinator.fails = [Malformed("evidence", expected="another", got="this")]
    world.ticks(10)
    assert world.coordinator.evidence == {}
    assert world.parts.votes.unpublished() == []


def test_window_is_of_the_pools_clock(world: World) -> None:
    world.ledger.now = AUDITED_AT + VOTE_SECONDS - 5
    world.weights.fails = Unavailable("policy step 1 is not there")
    world.ticks(3)
    assert world.outcomes == [Outcome.ABSTAIN] * 3


def test_full_disk_is_waited_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    real, refusals = Records.write, [OperatorError("cannot write: no space left on device")] * 2

    def write(records: Records, name: str, data: bytes) -> None:
        if refusals:
            raise refusals.pop()
        real(records, name, data)

    monkeypatch.setattr(Records, "write", write)
    world.ticks(1)
    assert world.ledger.box.committed is None
    assert "no space left" in str(world.validator.waiting.what)
    world.ticks(6)
    assert len(world.ledger.votes) == 1
    assert len(world.coordinator.evidence) == 1


def test_damaged_record_of_a_vote_that_was_not_sent_is_made_anew(world: World) -> None:
    world.ledger.fails = [Unmined("commit", "0x1", waited_s=30)]
    world.ticks(1)
    (path,) = (world.weights.folder.parent / "votes").glob("*.vote")
    path.write_bytes(path.read_bytes()[:100])
    world.restart()
    world.ticks(3)
    assert world.outcomes[1] is Outcome.ACCEPT
