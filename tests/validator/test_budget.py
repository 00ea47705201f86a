"""What a watcher puts down stays within what it may."""

from __future__ import annotations

from validator.budget import Budget


def test_budget_is_never_exceeded_and_what_was_not_put_down_comes_back() -> None:
    budget = Budget(10)
    assert [budget.take(4) for _ in range(4)] == [True, True, False, False]
    assert budget.spent == 8
    budget.give_back(4)
    assert [budget.take(4), budget.take(4)] == [True, False]
