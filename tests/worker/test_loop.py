"""worker.loop: from lease to delivered bytes, and what goes wrong on the way."""

from __future__ import annotations

import logging
import signal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from stannary.errors import BadSignature, Malformed, PolicyError, ProofError, Refused, Unavailable, Unreachable
from stannary.rollout import content_hash, decode_group
from stannary.seeds import StepSeeds
from stannary.types import Phase, to_hex
from stannary.wire import LeaseMessage
from tests.worker.scripted import (
    DOMAIN,
    EOS,
    PROMPT,
    RULES,
    Scene,
    ScriptedEngine,
    make_lease,
    make_scene,
    play,
    root_of,
    sign_lease,
    step_facts,
)
from worker import plan
from worker.loop import MAX_UNPROVABLE, Interruption, Stopped
from worker.submission import Group


def names(actions: list[object]) -> list[str]:
    """The actions but for rests and looks at the provider's standing."""
    return [type(action).__name__ for action in actions if not isinstance(action, plan.Rest | plan.Look)]


def delivered(scene: Scene) -> list[tuple[int, int]]:
    return [
        (leaf.submission.step, leaf.submission.slot)
        for leaf in scene.coordinator.leaves
        if leaf.submission.content_hash in scene.coordinator.files
    ]


def test_loop_with_two_leases_makes_both_groups_in_one_engine_call_and_delivers_them() -> None:
    scene = make_scene([sign_lease(make_lease(3)), sign_lease(make_lease(0))])
    actions = list(play(scene, ticks=10))
    assert names(actions)[:8] == ["Ask", "Check", "Load", "Generate", "Submit", "Upload", "Submit", "Upload"]
    assert sorted(delivered(scene)) == [(1, 0), (1, 3)]
    assert len(scene.engine.requests) == 1
    seeds = StepSeeds(DOMAIN, RULES.pool, 1, step_facts().seed_beacon)
    assert [request.seed for request in scene.engine.requests[0]] == [
        seeds.rollout_seed(slot, rollout) for slot in (3, 0) for rollout in range(2)
    ]
    assert scene.weights.asked == [(0, root_of(0))]


def test_submission_carries_the_lease_the_tokens_and_one_proof_a_chunk() -> None:
    tokens = (*range(4, 44), EOS)
    lease = make_lease()
    scene = make_scene([sign_lease(lease)], engine=ScriptedEngine(lambda request: tokens))
    list(play(scene, ticks=7))
    (leaf,) = scene.coordinator.leaves
    data = scene.coordinator.files[leaf.submission.content_hash]
    assert leaf.submission.submission().lease_hash == lease.struct_hash()
    assert leaf.submission.units == 2 * len(tokens)
    assert to_hex(content_hash(data)) == leaf.submission.content_hash
    for rollout in decode_group(data, RULES.group_size):
        assert (rollout.prompt, rollout.completion, len(rollout.proofs)) == (PROMPT, tokens, 2)


def test_loop_loads_each_policy_once_while_steps_share_it() -> None:
    scene = make_scene(
        [sign_lease(make_lease(0, step=0))], [sign_lease(make_lease(1, step=1))], [sign_lease(make_lease(2, step=2))]
    )
    list(play(scene, ticks=30))
    assert delivered(scene) == [(0, 0), (1, 1), (2, 2)]
    assert [path.name for path in scene.engine.loaded] == ["policy-0", "policy-1"]


def test_loop_with_leases_of_two_steps_makes_the_older_step_first() -> None:
    scene = make_scene([sign_lease(make_lease(0, step=2)), sign_lease(make_lease(1, step=1))])
    list(play(scene, ticks=30))
    assert delivered(scene) == [(1, 1), (2, 0)]


def test_lease_of_another_step_than_on_chain_is_refused_with_words(caplog: pytest.LogCaptureFixture) -> None:
    scene = make_scene([sign_lease(make_lease(0, policy_step=1)), sign_lease(make_lease(5))])
    list(play(scene, ticks=20))
    assert delivered(scene) == [(1, 5)]
    assert "step 1 slot 0: lease refused: lease.policyStep: expected 0 as on chain, got 1" in caplog.text


def test_lease_of_a_committed_step_is_refused_and_nothing_is_generated(caplog: pytest.LogCaptureFixture) -> None:
    scene = make_scene([sign_lease(make_lease())])
    scene.facts[1] = step_facts(phase=Phase.COMMITTED)
    list(play(scene, ticks=20))
    assert scene.engine.requests == []
    assert "expected a step that still collects" in caplog.text


def test_lease_that_ends_before_its_group_is_made_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    scene = make_scene([sign_lease(make_lease())], [sign_lease(make_lease(4))])
    late = ScriptedEngine()

    def slow(request: object) -> tuple[int, ...]:
        if len(late.requests) == 1:
            scene.clock.now += RULES.lease_seconds
        return (7, EOS)

    scene.engine.completions = slow
    scene.engine.requests = late.requests
    list(play(scene, ticks=30))
    assert delivered(scene) == [(1, 4)]
    assert "step 1 slot 0 given up: the lease ended" in caplog.text


def test_lease_is_held_only_as_long_as_the_pools_clock_leaves() -> None:
    scene = make_scene([sign_lease(make_lease())])
    scene.facts[1] = step_facts(pool_time=make_lease().valid_until - 5)
    scene.weights.failures = [Unavailable("no weights")] * 50
    begun = scene.clock.now
    for action in play(scene, ticks=200):
        if isinstance(action, plan.Drop):
            break
    assert scene.clock.now - begun == pytest.approx(5)


def test_more_leases_than_asked_for_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    scene = make_scene([sign_lease(make_lease(slot)) for slot in range(5)])
    list(play(scene, ticks=3))
    assert scene.worker.state.held == ()
    assert "expected at most 4, got 5" in caplog.text


def test_foreign_signature_under_leases_is_said_and_survived(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    scene = make_scene([sign_lease(make_lease())])
    scene.coordinator.failures["lease"] = [BadSignature("Lease", expected="0xAA", got="0xBB")]
    list(play(scene, ticks=20))
    assert "signature of Lease: expected 0xAA, got 0xBB" in caplog.text
    assert delivered(scene) == [(1, 0)]


@pytest.mark.parametrize("call", ["lease", "submit", "upload"])
def test_coordinator_that_is_away_for_some_tries_loses_nothing(call: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    scene = make_scene([sign_lease(make_lease())])
    scene.coordinator.failures[call] = [Unreachable("coordinator http://c: ConnectError")] * 4
    list(play(scene, ticks=60))
    assert delivered(scene) == [(1, 0)]
    assert caplog.text.count("coordinator http://c: ConnectError") == 1


def test_chain_that_is_away_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    scene = make_scene([sign_lease(make_lease())])
    scene.chain_failures += [Unreachable("no answer from the chain at http://rpc")] * 3
    list(play(scene, ticks=60))
    assert delivered(scene) == [(1, 0)]
    assert "waiting for no answer from the chain at http://rpc" in caplog.text


def test_chain_that_answers_nonsense_is_waited_for() -> None:
    scene = make_scene([sign_lease(make_lease())])
    scene.chain_failures += [Malformed("step", expected="a step", got="<html>")] * 3
    list(play(scene, ticks=60))
    assert delivered(scene) == [(1, 0)]


def test_coordinator_away_for_longer_than_the_lease_drops_the_group_and_work_goes_on() -> None:
    scene = make_scene([sign_lease(make_lease())])
    scene.coordinator.failures["submit"] = [Unreachable("away")] * 20
    actions = []
    for action in play(scene, ticks=900):
        actions.append(action)
        if isinstance(action, plan.Drop):
            scene.coordinator.failures.clear()
            scene.coordinator.grants.append([sign_lease(make_lease(6))])
    assert names(actions).count("Drop") == 1
    assert delivered(scene) == [(1, 6)]


@pytest.mark.parametrize("status", [403, 409, 410, 422])
def test_refused_leaf_is_not_sent_again(status: int, caplog: pytest.LogCaptureFixture) -> None:
    scene = make_scene([sign_lease(make_lease())], [sign_lease(make_lease(6))])
    scene.coordinator.failures["submit"] = [Refused("POST /v1/submissions", status=status, reason="lease has ended")]
    actions = list(play(scene, ticks=40))
    assert names(actions).count("Submit") == 2
    assert delivered(scene) == [(1, 6)]
    assert f"refused with {status}: lease has ended" in caplog.text


def test_upload_refused_as_too_many_requests_is_tried_again() -> None:
    scene = make_scene([sign_lease(make_lease())])
    scene.coordinator.failures["upload"] = [Refused("PUT", status=429, reason="slow down")]
    list(play(scene, ticks=40))
    assert delivered(scene) == [(1, 0)]
    assert len(scene.coordinator.leaves) == 1


def test_weights_that_lie_are_asked_for_again_within_the_lease() -> None:
    scene = make_scene([sign_lease(make_lease())])
    scene.weights.failures = [Malformed("manifest", expected="a", got="b"), PolicyError("weights hold NaN")]
    list(play(scene, ticks=40))
    assert delivered(scene) == [(1, 0)]


def test_float32_states_are_never_submitted(caplog: pytest.LogCaptureFixture) -> None:
    scene = make_scene(*([sign_lease(make_lease(slot))] for slot in range(MAX_UNPROVABLE)))
    scene.engine.dtype = torch.float32
    with pytest.raises(ProofError, match="expected bfloat16"):
        list(play(scene, ticks=60))
    assert scene.coordinator.leaves == []
    assert (
        caplog.text.count("no proof can be given: rollout 0: tokens from 0 on: states: expected bfloat16")
        == MAX_UNPROVABLE
    )


def test_group_beyond_the_cap_is_never_submitted(caplog: pytest.LogCaptureFixture) -> None:
    scene = make_scene([sign_lease(make_lease())], engine=ScriptedEngine(lambda request: tuple([5] * 49)))
    list(play(scene, ticks=10))
    assert scene.coordinator.leaves == []
    assert "expected 1 … 48 tokens, got 49" in caplog.text


def test_lease_that_cannot_be_fulfilled_is_not_taken_again_when_it_is_handed_out_again() -> None:
    def handed_out() -> list[LeaseMessage]:
        return [sign_lease(make_lease(0)), sign_lease(make_lease(slot))]

    slot = 1
    scene = make_scene(handed_out(), handed_out(), engine=ScriptedEngine(lambda request: tuple([5] * 49)))
    actions = []
    for action in play(scene, ticks=40):
        actions.append(action)
        if isinstance(action, plan.Generate):
            scene.engine.completions = lambda request: (5, EOS) if len(actions) > 5 else tuple([5] * 49)
    asked = [action.count for action in actions if isinstance(action, plan.Ask)]
    assert asked[:3] == [4, 6, 6]
    assert names(actions).count("Generate") == 1
    scene.coordinator.grants.append([sign_lease(make_lease(0)), sign_lease(make_lease(2))])
    list(play(scene, ticks=20))
    assert delivered(scene) == [(1, 2)]


def test_line_of_a_group_says_slot_tokens_speed_and_seconds(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    scene = make_scene([sign_lease(make_lease(3))])

    def timed(request: object) -> tuple[int, ...]:
        scene.clock.now += 0.5
        return (7, 8, EOS)

    scene.engine.completions = timed
    list(play(scene, ticks=10))
    assert "step 1 slot 3: 6 tokens, 6 tokens/s, 1.0 s, delivered as 0x" in caplog.text


def test_stop_delivers_what_is_made_and_ends() -> None:
    scene = make_scene([sign_lease(make_lease(0)), sign_lease(make_lease(1))])
    actions = []
    for action in play(scene, ticks=40):
        actions.append(action)
        if isinstance(action, plan.Generate):
            scene.worker.interruption.requested.set()
    assert sorted(delivered(scene)) == [(1, 0), (1, 1)]
    assert names(actions)[-1] == "Stop"
    assert names(actions).count("Ask") == 1


def test_stop_with_the_coordinator_away_ends_after_one_try_a_group() -> None:
    scene = make_scene([sign_lease(make_lease(0)), sign_lease(make_lease(1))])
    scene.coordinator.failures["submit"] = [Unreachable("away")] * 100
    actions = []
    for action in play(scene, ticks=100):
        actions.append(action)
        if isinstance(action, plan.Generate):
            scene.worker.interruption.requested.set()
    assert names(actions)[-4:] == ["Submit", "Submit", "Drop", "Stop"]


def test_signal_while_generating_ends_the_engine_call_and_gives_the_lease_up() -> None:
    scene = make_scene([sign_lease(make_lease())])
    interruption = scene.worker.interruption

    def interrupted(request: object) -> tuple[int, ...]:
        signal.raise_signal(signal.SIGTERM)
        raise AssertionError("the signal must end the call")

    scene.engine.completions = interrupted
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    try:
        interruption.install()
        actions = list(play(scene, ticks=40))
    finally:
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGINT, before[1])
    assert names(actions) == ["Ask", "Check", "Load", "Generate", "Drop", "Stop"]


def test_signal_outside_long_calls_is_noted_and_a_second_one_raises() -> None:
    interruption = Interruption()
    interruption._note(signal.SIGTERM, None)
    assert interruption.requested.is_set()
    with pytest.raises(Stopped):
        interruption._note(signal.SIGTERM, None)


def test_run_sends_heartbeats_from_its_own_thread_while_the_engine_works() -> None:
    scene = make_scene([sign_lease(make_lease())])
    scene.worker._heartbeat._interval_s = 0.01

    def until_beaten(request: object) -> tuple[int, ...]:
        for _ in range(200):
            if any(beat.state == "generating" for beat in scene.coordinator.beats):
                break
            scene.worker.interruption.requested.wait(0.01)
        scene.worker.interruption.requested.set()
        return (7, EOS)

    scene.engine.completions = until_beaten
    scene.worker.run()
    assert delivered(scene) == [(1, 0)]
    assert {"generating"} <= {beat.state for beat in scene.coordinator.beats}
    assert scene.coordinator.beats[-1].policy_step == 0


EVENTS = st.sampled_from(["granted", "none", "not answered", "checked", "refused", "done", "failed", "lost"])


@given(st.lists(st.tuples(EVENTS, st.floats(0, 30)), max_size=60))
def test_plan_whatever_happens_never_holds_too_much_and_always_ends(script: list[tuple[str, float]]) -> None:
    state, now, action, slot = plan.State(), 0.0, plan.Rest(0.0), 0
    handed_out: list[LeaseMessage] = []
    event: plan.Event | None = None
    for happening, seconds in script:
        now += seconds
        state, action = plan.tick(state, plan.Inputs(now, event, max_leases=3))
        assert len(state.held) <= 3
        assert all(held.ends_at > now for held in state.held)
        if isinstance(action, plan.Rest):
            assert action.seconds > 0
        event = None
        match action:
            case plan.Ask(count):
                # As a coordinator does: what the worker holds and has not fulfilled comes first.
                again = [message for message in handed_out if message.lease().struct_hash() in state.given_up]
                fresh = [sign(slot + index) for index in range(count - len(again))] if happening == "granted" else []
                slot += len(fresh)
                handed_out += fresh
                event = plan.Granted((*again, *fresh), 0.5)
                if happening == "not answered":
                    event = plan.NotAnswered()
            case plan.Check(step, slots):
                out = {held.lease.slot for held in slots} if happening == "refused" else set()
                event = plan.Checked(step_facts(step), frozenset(out))
                if happening == "failed":
                    event = plan.Failed(frozenset(held.key for held in slots))
            case plan.Load(_, root, slots):
                event = plan.Loaded(root)
                if happening in ("failed", "lost"):
                    event = plan.Failed(frozenset(held.key for held in slots), is_policy_lost=happening == "lost")
            case plan.Generate(_, slots):
                assert state.loaded == root_of(0)
                keys = [held.key for held in slots]
                made = keys[1:] if happening == "lost" else keys
                group = Group(None, b"")  # type: ignore[arg-type]
                event = plan.Made(dict.fromkeys(made, group), frozenset(keys) - set(made))
            case plan.Submit(held, _):
                event = plan.Failed(frozenset({held.key})) if happening == "failed" else plan.Receipted(held.key)
            case plan.Upload(held, _):
                event = plan.Failed(frozenset({held.key})) if happening == "failed" else plan.Ended({held.key})  # type: ignore[arg-type]
            case plan.Drop(dropped, _):
                assert all(held not in state.held for held in dropped)
            case plan.Look():
                event = plan.Looked(30.0)
    for _ in range(50):
        state, action = plan.tick(state, plan.Inputs(now, event, max_leases=3, is_stopping=True))
        if isinstance(action, plan.Stop):
            break
        event = None
        if isinstance(action, plan.Submit | plan.Upload):
            event = plan.Failed(frozenset({action.slot.key}))
    assert isinstance(action, plan.Stop)


_SIGNED = sign_lease(make_lease())


def sign(slot: int) -> LeaseMessage:
    return _SIGNED.model_copy(update={"slot": slot})
