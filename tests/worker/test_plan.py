"""worker.plan: when the standing of the provider is looked at, and what follows once it is over."""

from __future__ import annotations

from dataclasses import replace

from tests.worker.scripted import make_lease, sign_lease, step_facts
from worker import plan
from worker.submission import Group

GROUP = Group(None, b"")  # type: ignore[arg-type]
AGAIN_S = 30.0


def tick(state: plan.State, now: float, event: plan.Event | None = None, **inputs: bool) -> tuple[plan.State, object]:
    return plan.tick(state, plan.Inputs(now, event, max_leases=4, **inputs))


def holding(stage: plan.Stage, now: float = 0.0) -> plan.State:
    """A worker that holds one slot and has looked just now."""
    message = sign_lease(make_lease())
    group = GROUP if stage >= plan.Stage.MADE else None
    held = plan.Held(message.lease(), message, ends_at=now + 60, stage=stage, group=group)
    return plan.State(held=(held,), facts={1: step_facts()}, look_at=now + AGAIN_S, ask_at=now + 1000)


def test_first_thing_is_a_look_and_the_next_comes_when_it_is_due() -> None:
    state, action = tick(plan.State(), 0.0)
    assert action == plan.Look()
    state, action = tick(state, 0.0, plan.Looked(AGAIN_S))
    assert isinstance(action, plan.Ask)
    state, action = tick(state, 1.0, plan.Granted((), 100.0))
    assert action == plan.Rest(AGAIN_S - 1.0), "it wakes for the look, not for the next question"
    state, action = tick(state, AGAIN_S - 0.1)
    assert isinstance(action, plan.Rest)
    _, action = tick(state, AGAIN_S)
    assert action == plan.Look()


def test_delivery_comes_before_a_look_and_a_look_before_the_next_group() -> None:
    for stage, expected in (
        (plan.Stage.MADE, plan.Submit),
        (plan.Stage.RECEIPTED, plan.Upload),
        (plan.Stage.GRANTED, plan.Look),
        (plan.Stage.CHECKED, plan.Look),
    ):
        _, action = tick(replace(holding(stage), look_at=0.0), 1.0)
        assert isinstance(action, expected), stage


def test_worker_that_is_over_gives_up_what_it_holds_and_ends() -> None:
    for stage in plan.Stage:
        state, action = tick(holding(stage), 1.0, plan.Looked(AGAIN_S, must_stop=True))
        assert isinstance(action, plan.Drop), stage
        assert [held.stage for held in action.slots] == [stage]
        assert state.held == ()
        _, action = tick(state, 2.0)
        assert action == plan.Stop()


def test_worker_that_is_over_never_asks_again() -> None:
    state, action = tick(plan.State(), 0.0, plan.Looked(AGAIN_S, must_stop=True))
    assert action == plan.Stop()
    _, action = tick(state, 1000.0)
    assert action == plan.Stop()


def test_worker_that_is_asked_to_stop_looks_no_more() -> None:
    _, action = tick(plan.State(), 0.0, is_stopping=True)
    assert action == plan.Stop()
