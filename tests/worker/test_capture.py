"""worker.capture: chunks are proved as they fill, nothing is lost or mixed, and one bad rollout spoils no other."""

from __future__ import annotations

import math
import weakref

import pytest
import torch

from stannary import toploc
from worker.capture import Capture

H = 160


def states_of(tokens: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(tokens, H, generator=torch.Generator().manual_seed(seed)).bfloat16()


def add(
    capture: Capture, keys: list[tuple[int, int]], states: torch.Tensor, tokens: list[int], logprob: float = -0.5
) -> None:
    capture.add(keys, states, torch.tensor(tokens), torch.full((len(tokens),), logprob))


def feed(capture: Capture, lengths: dict[int, int], first: int = 0) -> dict[int, torch.Tensor]:
    """Rollouts grow together, a token a step, until each has its length."""
    states = {rollout: states_of(length, rollout) for rollout, length in lengths.items()}
    for position in range(first, max(lengths.values())):
        alive = [rollout for rollout, length in lengths.items() if position < length]
        keys = [(rollout, position) for rollout in alive]
        rows = torch.stack([states[rollout][position] for rollout in alive])
        add(capture, keys, rows, [rollout + position for rollout in alive])
    return states


def tokens_of(rollout: int, length: int) -> list[int]:
    return [rollout + position for position in range(length)]


def test_rollouts_of_all_lengths_growing_together_have_the_proofs_of_their_states() -> None:
    lengths = {1: 1, 2: 31, 3: 32, 4: 33, 5: 64, 6: 100}
    capture = Capture(keeps_states=True)
    states = feed(capture, lengths)
    for rollout, length in lengths.items():
        output = capture.take(rollout, tokens_of(rollout, length))
        assert output.reason == ""
        assert output.proofs == tuple(toploc.build(states[rollout]))
        assert output.logprobs == (-0.5,) * length
        assert output.states is not None
        assert torch.equal(output.states, states[rollout])


def test_of_a_rollout_the_states_of_one_chunk_are_held_whatever_the_batch() -> None:
    """Rows of a step are copied: a row that is kept does not keep the rows of its neighbours alive."""
    capture, alive = Capture(), []
    for step in range(300):
        rows = torch.randn(40, H).bfloat16()
        alive.append(weakref.ref(rows.untyped_storage()))
        keys = [(row + (step // 20 if row < 8 else 0) * 1000, step if row >= 8 else step % 20) for row in range(40)]
        add(capture, keys, rows, [1] * 40)
        del rows
    assert sum(ref() is not None for ref in alive) <= 1
    assert capture._chunks is not None
    assert len(capture._chunks.states) <= 2 * len(capture._open)


def test_place_that_comes_again_replaces_what_stood_there() -> None:
    capture = Capture()
    old, states = states_of(10, 1), states_of(10, 2)
    for source, positions in ((old, range(8)), (states, range(5, 10))):
        for position in positions:
            add(capture, [(0, position)], source[position : position + 1], [position])
    assert capture.take(0, list(range(10))).proofs == tuple(toploc.build(torch.cat([old[:5], states[5:]])))


@pytest.mark.parametrize(
    ("positions", "count", "said"),
    [
        (range(9), 10, "9 states came for 10 tokens"),
        ([0, 1, 3], 4, "state 3 came where 0 … 2 could follow"),
        ([*range(40), 5], 41, "state 5 came where 32 … 40 could follow"),
        ([], 3, "no state came for 3 tokens"),
    ],
)
def test_rollout_with_a_state_lost_or_out_of_place_has_a_reason_and_no_proofs(
    positions: list[int], count: int, said: str
) -> None:
    capture = Capture(keeps_states=True)
    states = states_of(50)
    for position in positions:
        add(capture, [(0, position)], states[position : position + 1], [position])
    output = capture.take(0, list(range(count)))
    assert said in output.reason
    assert (output.proofs, output.states) == ((), None)


def test_token_that_is_not_the_rules_choice_has_a_reason_and_no_proofs() -> None:
    capture = Capture()
    feed(capture, {7: 40})
    tokens = tokens_of(7, 40)
    output = capture.take(7, [*tokens[:20], 999, *tokens[21:]])
    assert output.reason == "token 20 is 999, the sampling rule picked 27"
    assert output.proofs == ()


@pytest.mark.parametrize("length", [31, 32, 33])
def test_step_too_many_of_an_engine_that_schedules_ahead_is_dropped(length: int) -> None:
    capture = Capture(keeps_states=True)
    states = feed(capture, {3: length + 1})[3][:length]
    output = capture.take(3, tokens_of(3, length))
    assert output.reason == ""
    assert output.proofs == tuple(toploc.build(states))
    assert output.states is not None
    assert torch.equal(output.states, states)
    assert len(output.logprobs) == length


def test_states_that_cannot_be_proved_spoil_only_their_own_rollout() -> None:
    capture = Capture()
    good, bad = states_of(70, 1), states_of(70, 2)
    bad[40, 3] = math.nan
    for position in range(70):
        add(capture, [(1, position), (2, position)], torch.stack([good[position], bad[position]]), [position] * 2)
    assert capture.take(1, list(range(70))).proofs == tuple(toploc.build(good))
    assert capture.take(2, list(range(70))).reason == "tokens from 32 on: chunk 0: states are not finite"


def test_a04_states_that_are_not_bf16_have_a_reason_and_no_proofs() -> None:
    capture = Capture()
    add(capture, [(0, 0)], torch.zeros(1, H), [5])
    output = capture.take(0, [5])
    assert "expected bfloat16, got torch.float32" in output.reason
    assert output.proofs == ()


def test_taken_and_cleared_rollouts_are_forgotten() -> None:
    capture = Capture()
    feed(capture, {1: 3, 2: 3})
    capture.take(1, tokens_of(1, 3))
    assert "no state came" in capture.take(1, tokens_of(1, 3)).reason
    capture.clear()
    assert "no state came" in capture.take(2, tokens_of(2, 3)).reason


@pytest.mark.parametrize("logprob", [math.nan, -math.inf])
def test_token_of_logits_that_are_not_finite_has_a_reason_and_no_proofs(logprob: float) -> None:
    capture = Capture()
    for position in range(3):
        state = states_of(3)[position : position + 1]
        add(capture, [(0, position)], state, [position], logprob if position == 1 else -0.5)
    output = capture.take(0, [0, 1, 2])
    assert output.reason == "token 1: the policy's logits are not finite"
    assert output.proofs == ()


def test_rollouts_whose_states_were_lost_have_the_reason_and_others_their_proofs() -> None:
    capture = Capture()
    capture.lose([1], "none came with the logits")
    states = feed(capture, {1: 40, 2: 40})
    assert capture.take(1, tokens_of(1, 40)).reason == "none came with the logits"
    assert capture.take(2, tokens_of(2, 40)).proofs == tuple(toploc.build(states[2]))
