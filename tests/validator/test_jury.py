"""Jury duty over a scripted court: the leaf is judged again, the ruling committed and revealed, the case moved on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from stannary.errors import Reverted, Unavailable
from stannary.types import CaseKind, CasePhase, Outcome, Phase, Ruling
from tests.validator.conftest import (
    FACTS,
    Bench,
    Made,
    bench,
    bf16,
    card,
    environment,
    fp32,
    judge,
    leaf_of,
    toy,
)
from tests.validator.scripted import AUDITED_AT, OTHERS, VALIDATOR_PROVIDER, VOTE_SECONDS, Box, Clock
from tests.validator.test_loop import EDITED_SLOT, PROMPT_SLOT, SLOT, World, made, make_world
from validator.checks import Finding
from validator.inspection import SLICE_S, abstention
from validator.judgement import Judgement, Recompute
from validator.jury import ruling_of

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


def test_run_of_leaves_is_abstained_on_and_said(court: World, caplog: pytest.LogCaptureFixture) -> None:
    court.court.kind = CaseKind.STATISTICS
    court.ticks(3)
    assert court.court.rulings == [Ruling.NONE]
    assert "case 1 is about a run of leaves, which this version does not judge: abstained" in caplog.text
    assert court.weights.loads == 0


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
        self.head_rows = real.head_rows

    def states(self, prompt: Sequence[int], completions: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        self.clock.now += 2 * SLICE_S
        return self._real.states(prompt, completions)

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        return self._real.logits(states)


def test_long_judging_is_cut_so_that_a_reveal_gets_its_turn(made: list[Made], bench: Bench, tmp_path: Path) -> None:
    policy = Slow(bench.judge.policy)
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
