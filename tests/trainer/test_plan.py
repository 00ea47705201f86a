"""What the trainer does next."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stannary.chain import PanelTimes, StepState
from stannary.errors import OperatorError
from stannary.types import Hash, Outcome, Phase
from stannary.verdict import pack_outcomes
from trainer.plan import Finish, Goal, Learn, Open, Publish, View, Wait, actions

GOAL = Goal(steps=3, lag=1, quorum=2)
TIMES = PanelTimes(commit_until=130, reveal_from=130, reveal_until=160, was_redrawn=False)
ZERO = Hash(bytes(32))
A, R, F, X = Outcome.ACCEPT, Outcome.REJECT, Outcome.FAULT, Outcome.ABSTAIN


def state(phase: Phase, slots: int = 2, taken: int = 0) -> StepState:
    return StepState(0, slots, taken, taken, 0, 1, 2, phase, 3, 4, 5, 0, ZERO, ZERO, ZERO, ZERO)


def view(policies: int, steps: int, phase: Phase | None = None, *votes: list[Outcome], now_s: int = 110) -> View:
    packed = tuple(pack_outcomes(vote) if vote else b"" for vote in votes)
    return View(policies, steps, now_s, None if phase is None else state(phase), TIMES if votes else None, packed)


def test_plan_starts_by_publishing_the_base() -> None:
    assert actions(view(0, 0), GOAL, 0) == [Publish(0)]


def test_plan_opens_as_many_steps_as_the_lag_allows() -> None:
    assert actions(view(1, 0), GOAL, 0) == [Open(0, 0), Wait("step 0 to open")]
    assert actions(view(1, 1, Phase.OPEN), GOAL, 0)[0] == Open(1, 0)
    assert actions(view(1, 2, Phase.OPEN), GOAL, 0) == [Wait("the seed beacon of step 0")]
    assert actions(view(2, 2, Phase.SEEDED), GOAL, 1)[0] == Open(2, 1)
    assert actions(view(3, 3, Phase.SEEDED), GOAL, 2) == [Wait("the submissions of step 2")]


def test_plan_without_lag_opens_one_step_a_policy() -> None:
    goal = replace(GOAL, lag=0)
    assert actions(view(1, 1, Phase.SEEDED), goal, 0) == [Wait("the submissions of step 0")]


@pytest.mark.parametrize(
    ("votes", "expected"),
    [
        ([[A, R], [A, R], [A, R]], (A, R)),
        ([[A, R], [A, F], []], (A, R)),
        ([[A, F], [A, F], []], (A, F)),
        ([[A, A], [R, R], [X, A]], (X, A)),
    ],
)
def test_plan_learns_once_every_slot_is_decided(votes: list[list[Outcome]], expected: tuple[Outcome, ...]) -> None:
    assert actions(view(1, 2, Phase.AUDITED, *votes), GOAL, 0) == [Learn(0, expected)]


def test_plan_counts_slots_taken_on_chain() -> None:
    seen = view(1, 2, Phase.AUDITED, [A, X, A], [A, X, A], [])
    assert actions(replace(seen, state=state(Phase.AUDITED, slots=2, taken=1)), GOAL, 0) == [Learn(0, (A, X, A))]


def test_plan_waits_while_a_vote_can_still_accept_a_leaf() -> None:
    undecided = view(1, 2, Phase.AUDITED, [A, A], [A, R], [])
    assert actions(undecided, GOAL, 0) == [Wait("revealed votes on step 0: 2 of 3")]
    assert actions(view(1, 2, Phase.AUDITED, [], [], []), GOAL, 0) == [Wait("revealed votes on step 0: 0 of 3")]


def test_plan_after_the_reveal_deadline_takes_what_has_a_quorum() -> None:
    late = view(1, 2, Phase.AUDITED, [A, A], [A, R], [], now_s=160)
    assert actions(late, GOAL, 0) == [Learn(0, (A, X))]
    assert actions(replace(late, now_s=159), GOAL, 0) == [Wait("revealed votes on step 0: 2 of 3")]
    silent = view(1, 2, Phase.FINALIZED, [], [], [])
    assert actions(silent, GOAL, 0) == [Learn(0, (X, X))]


def test_plan_waits_for_the_redraw_of_a_panel_without_its_quorum() -> None:
    late = view(1, 2, Phase.AUDITED, [A, A], [], [], now_s=160)
    assert actions(late, GOAL, 0) == [Wait("revealed votes on step 0: 1 of 3")]
    again = replace(late, times=replace(TIMES, was_redrawn=True))
    assert actions(again, GOAL, 0) == [Learn(0, (X, X))]


def test_plan_goes_on_after_a_cancelled_step() -> None:
    assert actions(view(1, 2, Phase.CANCELLED), GOAL, 0) == [Learn(0, ())]


def test_plan_ends_when_the_last_policy_is_published() -> None:
    assert actions(view(3, 3), GOAL, 3) == [Publish(3)]
    assert actions(view(4, 3), GOAL, 3) == [Finish()]


def test_plan_refuses_a_run_folder_that_is_behind_the_chain() -> None:
    with pytest.raises(OperatorError, match="policy step 4"):
        actions(view(5, 5), GOAL, 2)
