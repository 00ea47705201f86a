"""A25: the token ids that were sampled are the ones in the file, at the validator and at the trainer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from stannary.environments.reasoning import ReasoningGym
from stannary.errors import PolicyError
from stannary.rollout import Rollout, decode_group
from tests.worker.scripted import RULES, OnePrompt, ScriptedEngine, make_lease, make_scene, play, sign_lease
from trainer.batch import Sample, make_batch
from validator.prefill import Prefill
from worker.engine import RolloutRequest
from worker.engine_transformers import TransformersEngine, TransformersOptions
from worker.tripwire import write_tiny_policy

START, END = 0, 1


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """A byte-level tokenizer that joins what can be joined: "hello", "123" and an emoji are one token each."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = {piece: index for index, piece in enumerate(["<s>", "</s>", *alphabet])}
    merges: list[tuple[str, str]] = []
    pre = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    for left, right in (("h", "e"), ("l", "l"), ("ll", "o"), ("he", "llo"), ("1", "2"), ("12", "3")):
        merges.append((left, right))
        pieces[left + right] = len(pieces)
    shown = pre.pre_tokenize_str("🙂")[0][0]
    for end in range(1, len(shown)):
        merges.append((shown[:end], shown[end]))
        pieces[shown[: end + 1]] = len(pieces)
    tokenizer = Tokenizer(models.BPE(vocab=pieces, merges=merges))
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def splits(tokenizer: Tokenizer) -> dict[str, tuple[int, ...]]:
    """Completions as a policy may sample them, which decode and encode to other ids."""
    vocabulary = tokenizer.get_vocab()
    shown = tokenizer.pre_tokenizer.pre_tokenize_str("🙂")[0][0]
    return {
        "he + llo": (vocabulary["he"], vocabulary["llo"], END),
        "digits one by one": (*(vocabulary[digit] for digit in "123"), END),
        "an emoji over bytes": (*(vocabulary[byte] for byte in shown), END),
    }


@pytest.mark.parametrize("kind", ["he + llo", "digits one by one", "an emoji over bytes"])
def test_a25_odd_split_arrives_in_file_validator_and_trainer_as_it_was_sampled(tokenizer: Tokenizer, kind: str) -> None:
    sampled = splits(tokenizer)[kind]
    assert tokenizer.encode(tokenizer.decode(list(sampled[:-1]))).ids != list(sampled[:-1])
    prompt = (START, *tokenizer.encode("hello123").ids)
    scene = make_scene(
        [sign_lease(make_lease())], engine=ScriptedEngine(lambda request: sampled), task=OnePrompt(prompt)
    )
    list(play(scene, ticks=7))
    (data,) = scene.coordinator.files.values()
    rollouts = decode_group(data, RULES.group_size)
    assert rollouts == [Rollout(prompt, sampled, rollout.proofs) for rollout in rollouts]
    batch = make_batch([Sample(rollout.prompt, rollout.completion, 1.0) for rollout in rollouts])
    assert batch.targets_N.tolist() == [*sampled] * RULES.group_size
    assert batch.tokens_BT.tolist() == [[*prompt, *sampled]] * RULES.group_size


def test_a25_real_engine_file_and_prefill_agree_on_ids_and_lengths(tmp_path: Path) -> None:
    policy = write_tiny_policy(tmp_path / "policy", 5, is_tied=False)
    engine = TransformersEngine(TransformersOptions(keeps_states=True))
    engine.load(policy)
    prompt = (START, 7, 8, 9)
    requests = [RolloutRequest(bytes([index]) * 32, prompt, 40) for index in range(RULES.group_size)]
    outputs = engine.generate(requests, 1.0)
    sampled = [output.tokens for output in outputs]
    (states, _) = Prefill(policy, "fp32").states(prompt, sampled)
    assert states.shape == outputs[0].states.shape == (len(sampled[0]), 128)
    scene = make_scene([sign_lease(make_lease())], task=OnePrompt(prompt))
    scene.engine.generate = lambda requests, temperature: outputs  # type: ignore[method-assign]
    list(play(scene, ticks=7))
    (data,) = scene.coordinator.files.values()
    assert [rollout.completion for rollout in decode_group(data, RULES.group_size)] == sampled


class Template:
    """As much of a chat tokenizer as the environment uses."""

    bos_token_id = START

    def __init__(self, text: str, ids: list[int]) -> None:
        self.text = text
        self.ids = ids
        self.added: list[bool] = []

    def apply_chat_template(self, messages: Any, *, add_generation_prompt: bool, tokenize: bool) -> str:
        return self.text

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        self.added.append(add_special_tokens)
        return [START, *self.ids] if add_special_tokens else self.ids


def render(template: Template) -> tuple[int, ...]:
    task = ReasoningGym.__new__(ReasoningGym)
    task._tokenizer = template
    return task._render("What is 1 + 2?")


def test_a25_chat_prompt_has_exactly_one_start_token() -> None:
    template = Template("<s>user", [START, 5, 6])
    assert render(template) == (START, 5, 6)
    assert template.added == [False]


@pytest.mark.parametrize("ids", [[5, 6], [START, START, 5]])
def test_a25_chat_template_without_or_with_two_start_tokens_is_refused(ids: list[int]) -> None:
    with pytest.raises(PolicyError, match="exactly one start token"):
        render(Template("user", ids))
