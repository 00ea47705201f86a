"""Jury duty over a scripted court: the leaf is judged again, the ruling committed and revealed, the case moved on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import torch
from eth_account import Account
from eth_utils.crypto import keccak

from stannary.accusation import Accusation
from stannary.audit_choice import audited_slots
from stannary.cards import evidence_rules
from stannary.chain import Block, Offer, StepHistory, StepState, events
from stannary.documents import canonical
from stannary.e_process import NOTHING, Scores
from stannary.errors import NetworkError, Reverted, Unavailable, Unreachable
from stannary.evidence import Measure
from stannary.slots import PayTable, submission_root, taken_lease_hash
from stannary.standing import SCORES, ScoredLeaf
from stannary.structs import Submission
from stannary.types import (
    ZERO_HASH,
    Address,
    CaseKind,
    CasePhase,
    Hash,
    Outcome,
    Phase,
    Reason,
    Ruling,
    to_hex,
)
from stannary.verdict import outcomes_by_slot, pack_outcomes
from stannary.wire import LeavesOut
from tests.validator.conftest import (
    CARD_HASH,
    FACTS,
    PROVIDER,
    RULES,
    Bench,
    Made,
    address,
    bench,
    bf16,
    card,
    environment,
    fp32,
    judge,
    leaf_of,
    lease_of,
    toy,
)
from tests.validator.scripted import (
    AUDITED_AT,
    OTHERS,
    PLACE,
    VALIDATOR_PROVIDER,
    VOTE_SECONDS,
    Box,
    Clock,
    ScriptedCoordinator,
    ScriptedLedger,
    without_lease_signature,
)
from tests.validator.test_loop import EDITED_SLOT, PROMPT_SLOT, SLOT, World, made, make_world, taken
from validator.checks import Finding
from validator.hearing import juror_scores
from validator.inspection import SLICE_S, abstention
from validator.judgement import Judgement, Recompute
from validator.jury import ruling_of
from validator.prefill import Prefill

__all__ = ["bench", "bf16", "card", "environment", "fp32", "judge", "made", "toy"]


@pytest.fixture
def court(made: list[Made], bench: Bench, tmp_path: Path) -> World:
    """A step that is finalized, and a case about its slot 3 with us on the jury."""
    world = make_world(made, bench, tmp_path)
    world.ledger.phase = Phase.FINALIZED
    return accuse(world, SLOT)


def accuse(world: World, slot: int) -> World:
    leaf = next(made.leaf.submission for made in world.ledger.made if made.leaf.submission.slot == slot)
    world.court.slot, world.court.leaf_hash = slot, leaf.struct_hash()
    return world


def test_case_about_an_honest_leaf_is_ruled_accept(court: World) -> None:
    court.ticks(4)
    assert court.court.rulings == [Ruling.ACCEPT]


@pytest.mark.parametrize("slot", [PROMPT_SLOT, EDITED_SLOT])
def test_case_about_a_bad_leaf_is_ruled_a_fault(court: World, slot: int) -> None:
    accuse(court, slot).ticks(4)
    assert court.court.rulings == [Ruling.FAULT]


def test_case_of_another_jury_is_left_alone(court: World) -> None:
    court.court.jurors = OTHERS
    court.ticks(4)
    assert court.court.box.committed is None
    assert court.weights.loads == 0


def test_ruling_is_committed_and_shown_only_when_it_is_time(court: World) -> None:
    court.court.box.all_commit = False
    court.until(AUDITED_AT + VOTE_SECONDS)
    assert court.court.box.committed is not None
    assert court.court.rulings == []
    court.ticks(2)
    assert court.court.rulings == [Ruling.ACCEPT]


def test_crash_at_any_point_ends_in_the_same_ruling(court: World) -> None:
    court.court.box.all_commit = False
    court.ticks(1)
    committed, loads = court.court.box.committed, court.weights.loads
    while court.ledger.now < AUDITED_AT + VOTE_SECONDS + 3:
        court.restart()
        court.ticks(1)
    assert (court.court.box.committed, court.weights.loads) == (committed, loads)
    assert court.court.rulings == [Ruling.ACCEPT]


def test_file_is_taken_from_the_disputant_if_the_coordinator_does_not_serve_it(court: World) -> None:
    made = next(made for made in court.ledger.made if made.leaf.submission.slot == SLOT)
    court.coordinator.away.add(made.leaf.submission.content_hash)
    court.court.where = "http://accuser.example/file"
    court.ticks(5)
    assert court.court.box.committed is None
    court.elsewhere[court.court.where] = made.data
    court.ticks(10)
    assert court.court.rulings == [Ruling.ACCEPT]


@pytest.mark.parametrize("served", [None, b"other bytes"])
def test_file_that_is_nowhere_is_unavailable_at_the_end_of_the_window(court: World, served: bytes | None) -> None:
    made = next(made for made in court.ledger.made if made.leaf.submission.slot == SLOT)
    court.coordinator.away.add(made.leaf.submission.content_hash)
    court.court.where = "http://accuser.example/file"
    if served is not None:
        court.elsewhere[court.court.where] = served
    court.until(AUDITED_AT + VOTE_SECONDS - 13)
    assert court.court.box.committed is None
    court.ticks(10)
    assert court.court.rulings == [Ruling.UNAVAILABLE]


def test_own_failure_is_no_ruling(court: World) -> None:
    court.weights.fails = Unavailable("policy step 1 is not there")
    court.until(AUDITED_AT + VOTE_SECONDS)
    assert court.court.rulings == [Ruling.NONE]


def test_leaf_that_nobody_lists_is_no_ruling(court: World) -> None:
    court.coordinator.served = lambda leaves: []
    court.until(AUDITED_AT + VOTE_SECONDS)
    assert court.court.rulings == [Ruling.NONE]


def test_panel_and_jury_are_served_side_by_side(court: World) -> None:
    """The leaf of the case waits for its file; the vote on the step does not wait for it."""
    court.ledger.phase = Phase.AUDITED
    court.ledger.box = Box(opened_at=AUDITED_AT + 20)
    accuse(court, EDITED_SLOT)
    made = next(made for made in court.ledger.made if made.leaf.submission.slot == EDITED_SLOT)
    court.coordinator.away.add(made.leaf.submission.content_hash)
    court.ticks(8)
    court.coordinator.away.clear()
    court.ticks(20)
    assert court.court.rulings == [Ruling.FAULT]
    assert court.outcomes == [Outcome.FAULT, Outcome.ACCEPT, Outcome.FAULT]


class Slow:
    """A policy whose forward pass takes longer than a slice."""

    def __init__(self, real: Recompute) -> None:
        self._real, self.clock = real, Clock()
        self.vocabulary, self.hidden_size, self.tokens = real.vocabulary, real.hidden_size, real.tokens
        self.head_rows, self.compute, self.is_exact = real.head_rows, real.compute, real.is_exact

    def states(self, prompt: Sequence[int], completions: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        return [own.bfloat16() for own in self.unrounded_states(prompt, completions)]

    def unrounded_states(self, prompt: Sequence[int], completions: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        self.clock.now += 2 * SLICE_S
        return self._real.unrounded_states(prompt, completions)

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        return self._real.logits(states)


def test_long_judging_is_cut_so_that_a_reveal_gets_its_turn(made: list[Made], bench: Bench, tmp_path: Path) -> None:
    policy = Slow(bench.judge.computes.first)
    world = accuse(make_world(made, bench, tmp_path, policy), SLOT)
    policy.clock = world.clock
    world.ledger.box = Box(opened_at=AUDITED_AT + 10)
    world.ticks(1)
    assert world.court.box.committed is not None
    world.ticks(1)
    assert world.court.rulings == [Ruling.ACCEPT]
    assert world.ledger.box.committed is None, "one of two leaves is judged"
    world.ticks(1)
    assert world.ledger.box.committed is not None
    world.ticks(1)
    assert world.outcomes == [Outcome.FAULT, Outcome.ACCEPT, Outcome.FAULT]


def test_jury_is_drawn_by_one_after_the_other(court: World) -> None:
    court.court.phase, court.court.jurors = CasePhase.OPENED, ()
    court.court.jury_block = court.ledger.now
    validators = court.ledger.validators(court.ledger.frozen())
    turn_s = 2 * ((validators.index(VALIDATOR_PROVIDER) + 1) % len(validators))
    court.ticks(1)
    assert court.court.pushes == []
    court.ticks(turn_s)
    assert court.court.pushes == []
    court.ticks(2)
    assert court.court.pushes == ["draw"]


def test_race_that_was_lost_is_said_and_not_run_for_ever(court: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    court.court.phase, court.court.jury_block = CasePhase.OPENED, 0
    court.court.push_fails = [Reverted("drawJury", "WrongCasePhase")] * 100
    court.ticks(120)
    assert court.court.pushes == ["draw"] * 4
    assert "case 1: draw the jury was not ours to do: WrongCasePhase" in caplog.text


def test_jury_whose_time_is_over_is_counted(court: World) -> None:
    court.court.box.all_commit = False
    court.until(court.court.box.times.reveal_until)
    assert court.court.pushes == []
    court.ticks(4)
    assert court.court.pushes == ["resolve"]
    court.ticks(4)
    assert court.court.pushes == ["resolve"]


@pytest.mark.parametrize(
    ("outcome", "is_grey", "expected"),
    [
        (Outcome.ACCEPT, False, Ruling.ACCEPT),
        (Outcome.REJECT, False, Ruling.REJECT),
        (Outcome.REJECT, True, Ruling.GREY),
        (Outcome.FAULT, False, Ruling.FAULT),
    ],
)
def test_ruling_follows_the_judgement(outcome: Outcome, is_grey: bool, expected: Ruling, bench: Bench) -> None:
    leaf = leaf_of(bench.rollouts).leaf.submission
    assert ruling_of(Judgement(leaf.struct_hash(), Finding(outcome), (), is_grey), is_absent=False) is expected


def test_ruling_without_a_judgement_blames_the_disputant_for_the_file_alone(bench: Bench) -> None:
    assert ruling_of(None, is_absent=True) is Ruling.UNAVAILABLE
    assert ruling_of(None, is_absent=False) is Ruling.NONE
    assert ruling_of(abstention(leaf_of(bench.rollouts).leaf, "out of memory"), is_absent=False) is Ruling.NONE


def test_cases_that_are_over_are_not_read_again(court: World) -> None:
    court.court.phase = CasePhase.RESOLVED
    court.ticks(3)
    assert court.court.box.committed is None
    court.court.phase = CasePhase.VOTING
    court.ticks(3)
    assert court.court.box.committed is None
    assert FACTS.step == 2


WHERE = "http://accuser.example/case/accusation.json"
EVIDENCE = evidence_rules((0.05, 0.005, 0.0005), stop_log10=1.5, slash_log10=3.3)
"""Two leaves in the highest bracket convict, with up to four in the lowest beside them; one does not."""
OTHER_CARD = Hash(b"\x0d" * 32)


@dataclass(slots=True)
class RunLedger(ScriptedLedger):
    """Steps up to `FACTS.step`, all finalized, whose leaves are those that were made and further ones."""

    more: Mapping[int, int] = field(default_factory=dict)
    """Leaves that nobody looks at again, by step: of the provider, but those of `FACTS.step` cannot be more."""
    accepted: Mapping[int, Outcome] = field(default_factory=dict)
    """What the panels decided, by slot."""
    cards: Mapping[int, Hash] = field(default_factory=dict)
    """The card of a step, where it is another one."""
    node_of: Address = PROVIDER
    """Whom the node acts for now; it acted for `PROVIDER` before."""
    each_s: float = 0.0
    """How long reading a history takes, on the clock of the validator."""
    watch: Clock | None = None
    read: list[int] = field(default_factory=list)
    history_fails: Mapping[int, NetworkError] = field(default_factory=dict)
    step_fails: list[NetworkError] = field(default_factory=list)
    """What the next looks at a step raise, once the count is at its last step."""

    def leaves(self, step: int) -> list[Submission]:
        found = [made.leaf.submission for made in self.made if made.leaf.submission.step == step]
        first = FACTS.slots - self.more.get(step, 0)
        further = [
            Submission(RULES.pool, step, slot, PROVIDER, PROVIDER, 50, Hash(bytes([slot + 1]) * 32), ZERO_HASH)
            for slot in range(first, FACTS.slots)
        ]
        return [*found, *further]

    def step(self, step: int, at: Block) -> StepState:
        if self.step_fails and FACTS.step in self.read:
            raise self.step_fails.pop()
        leaves = self.leaves(step)
        return replace(
            ScriptedLedger.step(self, step, at),
            offer=step,
            submission_root=submission_root(leaves, FACTS.slots),
            settlement_hash=Hash(keccak(text="outcomes")),
        )

    def offer(self, number: int, at: Block) -> Offer:
        found = ScriptedLedger.offer(self, number, at)
        return replace(found, card_hash=self.cards.get(number, CARD_HASH))

    def history(self, step: int, at: Block) -> StepHistory:
        if step in self.history_fails:
            raise self.history_fails[step]
        if self.watch is not None:
            self.watch.now += self.each_s
        self.read.append(step)
        table = PayTable.of(self.leaves(step), FACTS.slots, RULES.max_units)
        own = ScriptedLedger.history(self, step, at) if step == FACTS.step else StepHistory.of([], RULES.pool, step)
        outcomes = outcomes_by_slot(self.accepted, FACTS.slots + len(own.taken))
        return replace(
            own,
            opened=events.StepOpened(PLACE, RULES.pool, step, FACTS.policy_step, FACTS.slots, step, 7),
            drawn=events.AuditBeaconSealed(PLACE, RULES.pool, step, FACTS.audit_beacon, (), OTHERS[0]),
            committed=events.RootCommitted(PLACE, RULES.pool, step, ZERO_HASH, ZERO_HASH, table, 9),
            finalized=events.StepFinalized(PLACE, RULES.pool, step, pack_outcomes(outcomes), 0, 0, 0, 0),
        )

    def provider_of(self, node: Address, at: Block) -> Address:
        return self.node_of


class RunCoordinator(ScriptedCoordinator):
    """Serves the leaves of each step by themselves."""

    def leaves(self, step: int) -> LeavesOut:
        found = ScriptedCoordinator.leaves(self, step)
        own = [leaf for leaf in found.leaves if leaf.submission.step == step]
        return found.model_copy(update={"leaves": own})


@dataclass(slots=True)
class Run:
    """A world with a case about a run, before it is opened, and what is said in it."""

    world: World
    ledger: RunLedger

    def name(self, *slots: int, score: float = 9.0) -> list[ScoredLeaf]:
        """Name leaves that were made, by slot."""
        found = [*self.ledger.made, *(delivered for delivered, _, _ in self.ledger.delivered.values())]
        leaves = {made.leaf.submission.slot: made.leaf.submission for made in found}
        return [ScoredLeaf(leaves[slot].step, slot, leaves[slot].struct_hash(), (score, 0.0, 0.0)) for slot in slots]

    def accuse(
        self, leaves: Sequence[ScoredLeaf], *, first: int = 0, provider: Address = PROVIDER, card_hash: Hash = CARD_HASH
    ) -> Accusation:
        """Open the case."""
        accusation = Accusation(RULES.pool, provider, first, FACTS.step, card_hash, tuple(leaves))
        self.open(accusation, accusation.to_bytes())
        return accusation

    def open(self, accusation: Accusation, data: bytes) -> None:
        """Open the case of an accusation with these bytes for a document."""
        court = self.world.court
        court.kind, court.slot, court.where = CaseKind.STATISTICS, 0, WHERE
        court.provider, court.first_step = accusation.provider, accusation.first_step
        court.leaf_hash, court.evidence_hash = accusation.list_hash(), Hash(keccak(data))
        self.world.elsewhere[WHERE] = data

    def end(self) -> None:
        """Let the time to commit and to reveal pass."""
        self.world.until(AUDITED_AT + VOTE_SECONDS)

    @property
    def rulings(self) -> list[Ruling]:
        return self.world.court.rulings


@pytest.fixture
def run(made: list[Made], bench: Bench, tmp_path: Path) -> Run:
    """The leaves of slots 1 and 4 are bad, that of slot 3 is honest."""
    return run_of(made, bench, tmp_path)


def run_of(made: Sequence[Made], bench: Bench, folder: Path, policy: Recompute | None = None) -> Run:
    world = make_world(made, bench, folder, policy)
    ledger, coordinator = RunLedger(made, phase=Phase.FINALIZED), RunCoordinator(made)
    world.ledger, world.court.ledger, world.coordinator = ledger, ledger, coordinator
    card = replace(bench.judge.card, evidence=EVIDENCE)
    world.restart(ledger=ledger, coordinator=coordinator, card_of=lambda _: card)
    return Run(world, ledger)


def test_provider_whose_named_leaves_really_fail_is_convicted(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    run.accuse(run.name(PROMPT_SLOT, EDITED_SLOT))
    run.world.ticks(4)
    assert run.rulings == [Ruling.FAULT]
    assert "case 1: fault: 2 of 3 leaves measured: evidence 10^3.5" in caplog.text


def test_one_bad_leaf_is_not_enough(run: Run) -> None:
    run.accuse(run.name(EDITED_SLOT))
    run.world.ticks(4)
    assert run.rulings == [Ruling.ACCEPT]


def test_scores_of_the_accuser_count_for_nothing(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    run.accuse(run.name(SLOT, EDITED_SLOT, score=1e6))
    run.world.ticks(4)
    assert run.rulings == [Ruling.ACCEPT]
    assert "case 1: accept: 2 of 3 leaves measured: evidence 10^1" in caplog.text


def test_leaves_that_are_not_named_speak_for_the_provider(run: Run) -> None:
    run.ledger.more = {0: 8, 1: 8}
    run.accuse(run.name(PROMPT_SLOT, EDITED_SLOT))
    run.world.ticks(4)
    assert run.rulings == [Ruling.ACCEPT]
    assert run.ledger.read[:3] == [0, 1, 2]


def test_start_that_was_picked_helps_nobody(run: Run) -> None:
    run.ledger.more = {0: 8, 1: 8}
    run.accuse(run.name(PROMPT_SLOT, EDITED_SLOT), first=FACTS.step)
    run.world.ticks(4)
    assert run.rulings == [Ruling.ACCEPT]
    assert run.ledger.read[:3] == [0, 1, 2]


def test_what_was_judged_before_counts_no_more(run: Run) -> None:
    run.ledger.more = {0: 8, 1: 8}
    run.world.court.judged = FACTS.step
    run.accuse(run.name(PROMPT_SLOT, EDITED_SLOT), first=FACTS.step)
    run.world.ticks(4)
    assert run.rulings == [Ruling.FAULT]
    assert set(run.ledger.read) == {FACTS.step}


def test_conviction_since_the_case_was_opened_refutes_nobody(run: Run) -> None:
    """It slashes nobody twice; the contract sees to that. The accuser was right all the same."""
    run.world.court.judged = FACTS.step + 1
    run.accuse(run.name(PROMPT_SLOT, EDITED_SLOT), first=FACTS.step)
    run.world.ticks(4)
    assert run.rulings == [Ruling.FAULT]


def test_plant_counts_for_nothing(run: Run) -> None:
    first, second = run.name(PROMPT_SLOT, EDITED_SLOT)
    run.world.court.plants = {first.leaf_hash}
    run.accuse([first, second])
    run.world.ticks(4)
    assert run.rulings == [Ruling.ACCEPT]


def test_leaf_of_somebody_else_counts_for_nothing(made: list[Made], bench: Bench, tmp_path: Path) -> None:
    foreign = leaf_of(bench.rollouts, PROMPT_SLOT, provider=OTHERS[0])
    run = run_of([foreign, *made[1:]], bench, tmp_path)
    run.ledger.accepted = {PROMPT_SLOT: Outcome.ACCEPT}
    run.accuse(run.name(PROMPT_SLOT, EDITED_SLOT))
    run.world.ticks(4)
    assert run.rulings == [Ruling.ACCEPT]


def test_leaf_that_is_not_under_the_root_counts_for_nothing(run: Run) -> None:
    first, second = run.name(PROMPT_SLOT, EDITED_SLOT)
    run.accuse([first, replace(second, leaf_hash=first.leaf_hash)])
    run.world.ticks(4)
    assert run.rulings == [Ruling.ACCEPT]


def test_slot_without_a_leaf_counts_for_nothing(run: Run) -> None:
    first, second = run.name(PROMPT_SLOT, EDITED_SLOT)
    run.accuse([first, replace(second, slot=7)])
    run.world.ticks(4)
    assert run.rulings == [Ruling.ACCEPT]


def twice(found: dict[str, object]) -> None:
    leaves = found["leaves"]
    assert isinstance(leaves, list)
    leaves.append(leaves[-1])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (twice, "each slot once"),
        (lambda found: found.update(pool=2), "pool of the accusation"),
        (lambda found: found.update(provider=OTHERS[0]), "provider of the accusation"),
        (lambda found: found.update(first_step=1), "first step of the accusation"),
        (lambda found: found.update(last_step=FACTS.step + 1), "last step of the accusation"),
        (lambda found: found.update(card_hash=to_hex(OTHER_CARD)), "card of the accusation"),
        (lambda found: found["leaves"].pop(), "list of leaves of the accusation"),
        (lambda found: found.pop("leaves"), "accusation: expected"),
    ],
)
def test_accusation_that_says_something_else_than_its_case_is_refuted(
    run: Run, caplog: pytest.LogCaptureFixture, change: Callable[[dict[str, object]], object], why: str
) -> None:
    caplog.set_level("INFO")
    accusation = run.accuse(run.name(PROMPT_SLOT, EDITED_SLOT))
    document = accusation.document()
    change(document)
    run.open(accusation, canonical(document))
    run.world.ticks(4)
    assert run.rulings == [Ruling.ACCEPT]
    assert why in caplog.text
    assert run.world.weights.loads == 0


@pytest.mark.parametrize("served", [None, b"{}"])
def test_accusation_that_is_served_nowhere_is_unavailable_at_the_end_of_the_window(
    run: Run, served: bytes | None
) -> None:
    run.accuse(run.name(PROMPT_SLOT, EDITED_SLOT))
    del run.world.elsewhere[WHERE]
    if served is not None:
        run.world.elsewhere[WHERE] = served
    run.world.until(AUDITED_AT + VOTE_SECONDS - 13)
    assert run.world.court.box.committed is None
    run.world.ticks(10)
    assert run.rulings == [Ruling.UNAVAILABLE]


def test_accusation_that_comes_late_is_heard(run: Run) -> None:
    data = run.accuse(run.name(PROMPT_SLOT, EDITED_SLOT)).to_bytes()
    del run.world.elsewhere[WHERE]
    run.world.ticks(8)
    run.world.elsewhere[WHERE] = data
    run.world.ticks(12)
    assert run.rulings == [Ruling.FAULT]


def test_policy_that_this_juror_lacks_is_no_ruling(run: Run) -> None:
    run.world.weights.fails = Unavailable("policy step 1 is not there")
    run.accuse(run.name(PROMPT_SLOT, EDITED_SLOT))
    run.end()
    assert run.rulings == [Ruling.NONE]


def test_what_cannot_convict_is_acquitted_without_the_policy(run: Run) -> None:
    run.world.weights.fails = Unavailable("policy step 1 is not there")
    run.ledger.more = {0: 8, 1: 8}
    run.accuse(run.name(EDITED_SLOT))
    run.world.ticks(4)
    assert run.rulings == [Ruling.ACCEPT]
    assert run.world.weights.loads == 0


def test_chain_that_does_not_tell_all_leaves_is_no_ruling(run: Run) -> None:
    run.ledger.history_fails = {1: Unreachable("no logs")}
    run.accuse(run.name(PROMPT_SLOT, EDITED_SLOT))
    run.end()
    assert run.rulings == [Ruling.NONE]
    assert run.ledger.read.count(0) == 1


def test_chain_that_is_away_for_a_moment_changes_nothing(run: Run) -> None:
    run.ledger.step_fails = [Unreachable("no answer")] * 2
    run.accuse(run.name(PROMPT_SLOT, EDITED_SLOT))
    run.world.ticks(8)
    assert run.ledger.step_fails == []
    assert run.rulings == [Ruling.FAULT]


def test_failure_of_this_juror_at_a_leaf_that_matters_is_no_ruling(run: Run, bench: Bench) -> None:
    def fail(data: bytes, size: int) -> list[object]:
        raise RuntimeError("out of memory")

    run.world.restart(read_submission=fail)
    run.accuse(run.name(PROMPT_SLOT, EDITED_SLOT))
    run.world.ticks(20)
    assert run.rulings == [Ruling.NONE]


def test_file_that_the_coordinator_does_not_serve_is_taken_from_beside_the_accusation(run: Run) -> None:
    for own in run.ledger.made:
        content_hash = own.leaf.submission.content_hash
        run.world.coordinator.away.add(content_hash)
        run.world.elsewhere[f"http://accuser.example/case/{to_hex(content_hash)}"] = own.data
    run.accuse(run.name(PROMPT_SLOT, EDITED_SLOT))
    run.world.ticks(4)
    assert run.rulings == [Ruling.FAULT]


def test_leaf_that_is_served_nowhere_speaks_for_the_provider_when_time_is_up(run: Run) -> None:
    edited = next(made for made in run.ledger.made if made.leaf.submission.slot == EDITED_SLOT)
    run.world.coordinator.away.add(edited.leaf.submission.content_hash)
    run.accuse(run.name(PROMPT_SLOT, EDITED_SLOT))
    run.world.until(AUDITED_AT + VOTE_SECONDS - 13)
    assert run.world.court.box.committed is None
    run.world.ticks(10)
    assert run.rulings == [Ruling.ACCEPT]


def test_leaves_that_are_not_those_committed_are_not_judged(run: Run) -> None:
    run.world.coordinator.served = lambda leaves: leaves[1:]
    run.accuse(run.name(PROMPT_SLOT, EDITED_SLOT))
    run.end()
    assert run.rulings == [Ruling.ACCEPT]
    assert run.world.weights.loads == 0


def test_signature_that_the_coordinator_could_have_spoiled_speaks_against_nobody(run: Run) -> None:
    run.world.coordinator.served = without_lease_signature
    run.accuse(run.name(PROMPT_SLOT, EDITED_SLOT))
    run.world.ticks(4)
    assert run.rulings == [Ruling.ACCEPT]


def test_giving_up_the_node_afterwards_hides_no_leaf_that_the_panel_accepted(run: Run) -> None:
    run.ledger.node_of = OTHERS[0]
    run.ledger.accepted = {PROMPT_SLOT: Outcome.ACCEPT, EDITED_SLOT: Outcome.ACCEPT}
    run.accuse(run.name(PROMPT_SLOT, EDITED_SLOT))
    run.world.ticks(4)
    assert run.rulings == [Ruling.FAULT]


def test_leaves_under_another_card_are_neither_measured_nor_counted(run: Run, made: list[Made], bench: Bench) -> None:
    run.ledger.made = run.world.coordinator.made = [*made, earlier(bench)]
    leaves = [*run.name(2), *run.name(PROMPT_SLOT)]
    run.accuse(leaves)
    run.ledger.cards, run.ledger.accepted = {1: OTHER_CARD}, {2: Outcome.ACCEPT}
    run.world.ticks(4)
    assert run.rulings == [Ruling.ACCEPT]


def test_leaves_under_another_card_dilute_nothing(run: Run) -> None:
    run.ledger.more, run.ledger.cards = {0: 8, 1: 8}, {0: OTHER_CARD, 1: OTHER_CARD}
    run.accuse(run.name(PROMPT_SLOT, EDITED_SLOT))
    run.world.ticks(4)
    assert run.rulings == [Ruling.FAULT]


def test_leaves_that_the_beacon_did_not_choose_are_neither_measured_nor_counted(run: Run, bench: Bench) -> None:
    slots = (PROMPT_SLOT, SLOT, EDITED_SLOT)
    rates = {rate: audited_slots(FACTS.audit_beacon, slots, rate) for rate in range(1, 10_000, 50)}
    rate, chosen = next((rate, found) for rate, found in rates.items() if len(found & {PROMPT_SLOT, EDITED_SLOT}) == 1)
    card = replace(bench.judge.card, evidence=EVIDENCE, audit_bps=rate)
    run.world.restart(card_of=lambda _: card)
    run.accuse(run.name(PROMPT_SLOT, EDITED_SLOT))
    run.world.ticks(4)
    assert run.rulings == [Ruling.ACCEPT]
    assert chosen


def test_leaves_that_a_stranger_signed_in_somebodys_name_speak_against_nobody(run: Run, made: list[Made]) -> None:
    """A panel that was bought accepted them; whoever is named never saw them."""
    stranger = Account.from_key(b"\x09" * 32)
    forged = []
    for own in made:
        submission = replace(own.leaf.submission, node=address(stranger))
        leaf = replace(own.leaf, submission=submission, signature=submission.sign(stranger, RULES.domain))
        forged.append(replace(own, leaf=leaf))
    run.ledger.made, run.ledger.node_of = forged, address(stranger)
    run.world.coordinator.made = forged
    run.ledger.accepted = dict.fromkeys((PROMPT_SLOT, SLOT, EDITED_SLOT), Outcome.ACCEPT)
    run.accuse(run.name(PROMPT_SLOT, EDITED_SLOT))
    run.world.ticks(4)
    assert run.rulings == [Ruling.ACCEPT]


def test_accepted_leaf_whose_signature_is_not_its_nodes_speaks_against_nobody(run: Run, made: list[Made]) -> None:
    spoiled = [replace(own, leaf=replace(own.leaf, signature=b"\x01" * 65)) for own in made]
    run.ledger.made = run.world.coordinator.made = spoiled
    run.ledger.accepted = dict.fromkeys((PROMPT_SLOT, SLOT, EDITED_SLOT), Outcome.ACCEPT)
    run.accuse(run.name(PROMPT_SLOT, EDITED_SLOT))
    run.world.ticks(4)
    assert run.rulings == [Ruling.ACCEPT]


def test_steps_are_measured_each_by_its_own_leaves(run: Run, made: list[Made], bench: Bench) -> None:
    run.ledger.made = run.world.coordinator.made = [*made, earlier(bench)]
    run.accuse([*run.name(2), *run.name(PROMPT_SLOT)])
    run.world.ticks(2, seconds=0.0)
    assert run.world.court.box.committed is not None
    run.world.ticks(1)
    assert run.rulings == [Ruling.FAULT]


def earlier(bench: Bench) -> Made:
    """A leaf of the step before, in slot 2, at a wrong prompt."""
    return leaf_of(bench.rollouts[::-1], 2, lease=lease_of(2, step=1), step=1)


def test_step_that_cannot_be_had_does_not_hold_up_the_others(run: Run, made: list[Made], bench: Bench) -> None:
    first = earlier(bench)
    run.ledger.made = run.world.coordinator.made = [*made, first]
    run.world.coordinator.away.add(first.leaf.submission.content_hash)
    run.accuse([*run.name(2), *run.name(PROMPT_SLOT, EDITED_SLOT)])
    run.world.ticks(4)
    assert run.rulings == [Ruling.FAULT]


def test_file_that_drips_for_ever_does_not_hold_up_the_others(run: Run, made: list[Made], bench: Bench) -> None:
    run.ledger.made = run.world.coordinator.made = [*made, leaf_of(bench.rollouts[::-1], 5)]
    data = run.accuse(run.name(PROMPT_SLOT, EDITED_SLOT, 5)).to_bytes()
    run.world.coordinator.away.add(made[0].leaf.submission.content_hash)

    def fetch(url: str) -> bytes:
        if url == WHERE:
            return data
        run.world.clock.now += 2 * SLICE_S
        raise Unreachable(f"{url} did not answer in time")

    run.world.restart(fetch=fetch)
    run.world.ticks(4)
    assert run.rulings == [Ruling.FAULT]


def test_slots_that_were_taken_on_chain_can_be_named(
    run: Run, bench: Bench, bf16: Prefill, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    first, second, beacon = FACTS.slots, FACTS.slots + 1, Hash(b"\x0c" * 32)
    honest = taken(bench, bf16, first, beacon)
    lease_hash = taken_lease_hash(RULES.domain, RULES.pool, FACTS.step, second, PROVIDER)
    bad = leaf_of(bench.rollouts[::-1], second, lease_hash=lease_hash)
    run.ledger.delivered = {slot: (own, beacon, "") for slot, own in ((first, honest), (second, bad))}
    for own in (honest, bad):
        content_hash = own.leaf.submission.content_hash
        run.world.coordinator.away.add(content_hash)
        run.world.elsewhere[f"http://accuser.example/case/{to_hex(content_hash)}"] = own.data
    run.accuse(run.name(EDITED_SLOT, first, second))
    run.world.ticks(4)
    assert run.rulings == [Ruling.FAULT]
    assert "case 1: fault: 3 of 5 leaves measured: evidence 10^3.4" in caplog.text


def test_long_count_is_cut_so_that_others_get_their_turn(run: Run) -> None:
    run.ledger.watch, run.ledger.each_s = run.world.clock, 2 * SLICE_S
    run.accuse(run.name(PROMPT_SLOT, EDITED_SLOT))
    for counted in range(1, FACTS.step + 2):
        assert run.rulings == []
        run.world.ticks(1, seconds=0.0)
        assert len(set(run.ledger.read)) == counted
    run.world.ticks(2)
    assert run.rulings == [Ruling.FAULT]


def test_hearing_goes_on_where_it_was_and_is_forgotten_with_its_case(run: Run) -> None:
    run.world.coordinator.away |= {made.leaf.submission.content_hash for made in run.ledger.made}
    run.accuse(run.name(PROMPT_SLOT, EDITED_SLOT))
    run.world.ticks(9)
    jury = run.world.validator._jury
    assert len(jury._hearings) == 1
    assert run.ledger.read.count(0) == 1
    run.world.court.phase = CasePhase.RESOLVED
    run.world.ticks(1)
    assert jury._hearings == {}


def test_score_of_a_juror(bench: Bench) -> None:
    own = leaf_of(bench.rollouts).leaf

    def scores(finding: Finding, *, is_screened: bool = True) -> Scores | None:
        return juror_scores(Judgement(own.submission.struct_hash(), finding), is_screened=is_screened)

    measured = {name: Measure.of(score, 1.0) for name, score in zip(SCORES, (0.7, 0.1, math.inf), strict=True)}
    worst = (math.inf,) * 3
    assert scores(Finding(measures=measured)) == (0.7, 0.1, math.inf)
    assert scores(Finding(Outcome.REJECT, Reason.SAMPLING, "", measured)) == (0.7, 0.1, math.inf)
    assert scores(Finding()) == NOTHING
    assert scores(Finding(Outcome.REJECT, Reason.ACTIVATIONS)) == NOTHING, "too short to tell from"
    assert scores(Finding(Outcome.REJECT, Reason.SCHEMA)) == worst
    assert scores(Finding(Outcome.FAULT, Reason.PROMPT)) == worst
    assert scores(Finding(Outcome.REJECT, Reason.SIGNATURE), is_screened=False) == NOTHING
    assert scores(Finding(Outcome.FAULT, Reason.LEASE), is_screened=False) == worst
    assert juror_scores(abstention(own, "out of memory"), is_screened=True) is None
