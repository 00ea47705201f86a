"""What a watcher puts down stays within what it may."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stannary.types import CaseKind, CasePhase, Ruling
from tests.validator.scripted import CASE
from validator.budget import Budget, comes_back


def test_budget_is_never_exceeded_and_what_was_not_put_down_comes_back() -> None:
    budget = Budget(10)
    assert [budget.take(4) for _ in range(4)] == [True, True, False, False]
    assert (budget.spent, budget.left) == (8, 2)
    budget.give_back(4)
    assert [budget.take(4), budget.take(4)] == [True, False]


def test_bond_that_came_back_may_be_put_down_again_and_one_that_was_lost_may_not() -> None:
    budget = Budget(10)
    for case_id in (1, 2, 3):
        assert budget.take(3)
        budget.hold(case_id, 3)
    cases = {
        1: replace(CASE, phase=CasePhase.RESOLVED, ruling=Ruling.FAULT),
        2: replace(CASE, phase=CasePhase.RESOLVED, ruling=Ruling.ACCEPT),
        3: CASE,
    }
    for _ in range(2):
        budget.settle(cases.get)
        assert (budget.spent, budget.held) == (6, {3: 3})


@pytest.mark.parametrize(
    ("kind", "back"),
    [
        (CaseKind.CHALLENGE, {Ruling.NONE, Ruling.REJECT, Ruling.FAULT, Ruling.GREY}),
        (CaseKind.APPEAL, {Ruling.NONE, Ruling.ACCEPT, Ruling.GREY}),
        (CaseKind.STATISTICS, {Ruling.FAULT}),
    ],
)
def test_bond_comes_back_where_the_jury_agrees_or_does_not_know(kind: CaseKind, back: set[Ruling]) -> None:
    assert {ruling for ruling in Ruling if comes_back(replace(CASE, kind=kind, ruling=ruling))} == back
