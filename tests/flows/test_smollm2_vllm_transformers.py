"""A real model, two engines: vLLM generates with SmolLM2-135M, transformers accepts, but not with one token changed."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
import torch

from stannary import toploc
from stannary.sampling import replay_completion
from tests.worker.conftest import run_vllm
from trainer.base import make_smollm2
from validator.prefill import Prefill, prefill

QUESTIONS = ("What is 2+3?", "Name three colours of the rainbow.", "Why is the sky blue?")
CAP = 72
EXPONENT_MISMATCHES, MANTISSA_MEAN, MANTISSA_MEDIAN = 20, 5.0, 4.0
"""Honest drift of this pair is at most 7, 2.0 and 2 on whole chunks; short last chunks drift more."""
GAPS = {"fp32": 0.5, "bf16": 3.0}
"""Honest gaps reach 0.29 under an fp32 prefill; a bf16 one is itself off by a tenth at rare positions (1.13 seen)."""


@pytest.fixture(scope="module")
def policy() -> Path:
    folder = Path(__file__).parents[2] / "policies" / "smollm2"
    try:
        return make_smollm2(folder)
    except ImportError as error:
        pytest.skip(f"SmolLM2-135M cannot be made here: {error}")


@pytest.fixture(scope="module")
def requests(policy: Path) -> list[tuple[str, list[int], int]]:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(policy)
    prompts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": question}], add_generation_prompt=True, tokenize=True, return_dict=False
        )
        for question in QUESTIONS
    ]
    return [
        (hashlib.sha256(f"{number} {rollout}".encode()).hexdigest(), prompt, CAP)
        for number, prompt in enumerate(prompts)
        for rollout in range(3)
    ]


@pytest.fixture(scope="module")
def outputs(
    policy: Path, requests: list[tuple[str, list[int], int]], tmp_path_factory: pytest.TempPathFactory
) -> list[tuple[list[int], torch.Tensor]]:
    acts: list[dict[str, Any]] = [
        {"load": str(policy)},
        {"name": "made", "temperature": 1.0, "requests": requests},
    ]
    # 16 MiB of keys and values hold 700 tokens: the second half of the requests is preempted or waits.
    made = run_vllm([{"options": {"block_size": 32, "context": 512}, "acts": acts}], tmp_path_factory.mktemp("vllm"))
    return [(tokens, states) for tokens, states, _, _ in made["made"]["outputs"]]


def is_accepted(
    model: Prefill, gap: float, seed: str, prompt: list[int], tokens: list[int], proofs: list[bytes]
) -> bool:
    states, logits = prefill(model, prompt, tokens)
    replay = replay_completion(logits.numpy(), tokens, 1.0, bytes.fromhex(seed))
    drifts = toploc.verify(states, proofs)
    return bool(replay.gap.max() <= gap) and all(
        drift.exponent_mismatches <= EXPONENT_MISMATCHES
        and drift.mantissa_mean <= MANTISSA_MEAN
        and drift.mantissa_median <= MANTISSA_MEDIAN
        for drift in drifts
    )


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_smollm2_by_vllm_is_accepted_by_transformers_and_not_with_one_token_changed(
    dtype: str,
    policy: Path,
    requests: list[tuple[str, list[int], int]],
    outputs: list[tuple[list[int], torch.Tensor]],
) -> None:
    model = Prefill(policy, dtype)
    assert sum(len(tokens) for tokens, _ in outputs) > 200
    for (seed, prompt, _), (tokens, states) in zip(requests, outputs, strict=True):
        proofs = toploc.build(states)
        assert is_accepted(model, GAPS[dtype], seed, prompt, tokens, proofs)
        middle = len(tokens) // 2
        changed = [*tokens[:middle], (tokens[middle] + 1) % model.vocabulary, *tokens[middle + 1 :]]
        assert not is_accepted(model, GAPS[dtype], seed, prompt, changed, proofs)
        another = hashlib.sha256(b"another seed").hexdigest()
        assert not is_accepted(model, GAPS[dtype], another, prompt, tokens, proofs)


def test_smollm2_answers_in_words(policy: Path, outputs: list[tuple[list[int], torch.Tensor]]) -> None:
    from transformers import AutoTokenizer

    texts = [AutoTokenizer.from_pretrained(policy).decode(tokens) for tokens, _ in outputs]
    assert any("5" in text for text in texts[:3])
    assert any(colour in text.lower() for text in texts[3:6] for colour in ("red", "blue", "green", "yellow"))
