"""A9: one token, an end token at once, lengths around a chunk, a prompt that fills the context."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer, models

from stannary import toploc
from stannary.environments.environment import Problem
from stannary.environments.sieve import Sieve
from stannary.rollout import decode_group
from tests.worker.scripted import (
    EOS,
    PROMPT,
    RULES,
    OnePrompt,
    ScriptedEngine,
    make_lease,
    make_scene,
    play,
    sign_lease,
)
from trainer.base import toy_words
from trainer.batch import Sample, make_batch
from validator.prefill import Prefill
from worker import plan
from worker.engine import RolloutRequest
from worker.engine_transformers import TransformersEngine
from worker.tripwire import write_tiny_policy

CONTEXT = 128


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_policy(tmp_path_factory.mktemp("a09") / "policy", 3, is_tied=False)


@pytest.mark.parametrize("length", [1, 31, 32, 33, 48])
def test_a09_length_around_a_chunk_has_a_proof_a_chunk_and_verifies(length: int, policy: Path) -> None:
    completion = tuple(2 + index % 40 for index in range(length))
    (states,) = Prefill(policy, "bf16").states(PROMPT, [completion])
    proofs = toploc.build(states)
    assert len(proofs) == toploc.chunk_count(length) == -(-length // 32)
    assert all(drift.exponent_mismatches == 0 for drift in toploc.verify(states, proofs))


@pytest.mark.parametrize("length", [1, 31, 32, 33])
def test_a09_worker_delivers_groups_of_any_length(length: int) -> None:
    engine = ScriptedEngine(lambda request: (*[9] * (length - 1), EOS))
    scene = make_scene([sign_lease(make_lease())], engine=engine)
    list(play(scene, ticks=7))
    (data,) = scene.coordinator.files.values()
    rollouts = decode_group(data, RULES.group_size)
    assert [len(rollout.proofs) for rollout in rollouts] == [-(-length // 32)] * RULES.group_size
    assert scene.coordinator.leaves[0].submission.units == length * RULES.group_size
    batch = make_batch([Sample(rollout.prompt, rollout.completion, 0.5) for rollout in rollouts])
    assert len(batch.targets_N) == length * RULES.group_size


def test_a09_real_engine_with_a_cap_of_one_token_gives_one_state(policy: Path) -> None:
    engine = TransformersEngine()
    engine.load(policy)
    (output,) = engine.generate([RolloutRequest(bytes(32), PROMPT, 1)], 1.0)
    assert len(output.tokens) == 1
    (states,) = Prefill(policy, "bf16").states(PROMPT, [output.tokens])
    (drift,) = toploc.verify(states, output.proofs)
    assert drift.exponent_mismatches <= 12


def test_a09_prompt_that_fills_the_context_generates_to_its_end(policy: Path) -> None:
    engine = TransformersEngine()
    engine.load(policy)
    prompt = tuple(2 + index % 40 for index in range(CONTEXT - 1))
    (output,) = engine.generate([RolloutRequest(bytes(32), prompt, 1)], 1.0)
    assert len(output.tokens) == len(output.proofs) == 1


def test_a09_prompt_that_leaves_no_room_is_given_up_with_words(policy: Path, caplog: pytest.LogCaptureFixture) -> None:
    engine = TransformersEngine()
    engine.load(policy)
    scene = make_scene([sign_lease(make_lease())], task=OnePrompt(tuple([5] * (CONTEXT - 10))))
    scene.engine.generate = engine.generate  # type: ignore[method-assign]
    actions = list(play(scene, ticks=12))
    assert scene.coordinator.leaves == []
    assert "exceed the policy's context of 128" in caplog.text
    assert any(isinstance(action, plan.Ask) for action in actions[4:])


def test_a09_empty_text_is_worth_nothing(tmp_path: Path) -> None:
    words = {word: index for index, word in enumerate(toy_words())}
    Tokenizer(models.WordLevel(words, unk_token="<unk>")).save(str(tmp_path / "tokenizer.json"))
    task = Sieve({}, tmp_path)
    problem = task.problem(bytes(32))
    assert task.reward(problem, (EOS,)) == 0.0
    assert task.reward(Problem(problem.prompt, problem.data), ()) == 0.0
