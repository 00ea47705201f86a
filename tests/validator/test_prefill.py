"""The validator's own forward pass: no leaks between rows, the protocol's dtypes, folders that cannot be used."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from stannary.errors import PolicyError
from validator import prefill as module
from validator.prefill import Prefill, prefill

PROMPT = (0, 5, 12, 40, 3)
COMPLETIONS = [(12,), (13, 14, 15), tuple(range(12, 44)), (*range(12, 46), 1)]


def test_states_of_a_row_do_not_depend_on_the_others(fp32: Prefill) -> None:
    together = fp32.states(PROMPT, COMPLETIONS)
    for completion, states in zip(COMPLETIONS, together, strict=True):
        (alone,) = fp32.states(PROMPT, [completion])
        assert states.shape == (len(completion), 128)
        assert states.dtype == torch.bfloat16
        # Another batch shape may round another way; bf16 has 8 bits.
        torch.testing.assert_close(states.float(), alone.float(), rtol=2**-7, atol=2**-7)


def test_states_are_those_that_predicted_each_token(fp32: Prefill, toy: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(toy, dtype=torch.float32)
    tokens = torch.tensor([[*PROMPT, *COMPLETIONS[2]]])
    with torch.inference_mode():
        hidden = model.base_model(input_ids=tokens, use_cache=False).last_hidden_state[0]
    states, logits = prefill(fp32, PROMPT, COMPLETIONS[2])
    expected = hidden[len(PROMPT) - 1 : -1].to(torch.bfloat16)
    torch.testing.assert_close(states.float(), expected.float(), rtol=2**-7, atol=2**-7)
    assert logits.dtype == torch.float32
    torch.testing.assert_close(logits, states.float() @ model.lm_head.weight.float().T)


def test_logits_in_chunks_are_those_at_once(fp32: Prefill, monkeypatch: pytest.MonkeyPatch) -> None:
    _, at_once = prefill(fp32, PROMPT, COMPLETIONS[3])
    monkeypatch.setattr(module, "HEAD_VALUES", 64 * 3)
    assert fp32.head_rows == 3
    _, in_chunks = prefill(fp32, PROMPT, COMPLETIONS[3])
    torch.testing.assert_close(at_once, in_chunks, rtol=1e-5, atol=1e-5)


def test_batches_keep_order_and_bound(fp32: Prefill, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = fp32.states(PROMPT, COMPLETIONS)
    monkeypatch.setattr(module, "BATCH_TOKENS", 1)
    for one, other in zip(whole, fp32.states(PROMPT, COMPLETIONS), strict=True):
        torch.testing.assert_close(one.float(), other.float(), rtol=2**-7, atol=2**-7)


def test_empty_prompt_or_completion_is_an_error(fp32: Prefill) -> None:
    with pytest.raises(ValueError, match="at least one token"):
        fp32.states((), [(12,)])
    with pytest.raises(ValueError, match="at least one token"):
        fp32.states(PROMPT, [(12,), ()])


def test_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyError):
        Prefill(tmp_path / "nothing", "fp32")


def test_folder_without_weights_is_refused(toy: Path, tmp_path: Path) -> None:
    shutil.copytree(toy, tmp_path / "policy", ignore=shutil.ignore_patterns("*.safetensors"))
    with pytest.raises(PolicyError):
        Prefill(tmp_path / "policy", "fp32")


def test_suppressed_ids_have_no_logit(toy: Path, tmp_path: Path) -> None:
    shutil.copytree(toy, tmp_path / "policy")
    generation = json.loads((toy / "generation_config.json").read_text())
    (tmp_path / "policy" / "generation_config.json").write_text(json.dumps(generation | {"suppress_tokens": [5, 9]}))
    states, plain = prefill(Prefill(toy, "fp32"), PROMPT, COMPLETIONS[0])
    _, logits = prefill(Prefill(tmp_path / "policy", "fp32"), PROMPT, COMPLETIONS[0])
    assert logits[:, [5, 9]].eq(-torch.inf).all()
    kept = [token for token in range(plain.shape[1]) if token not in (5, 9)]
    assert torch.equal(logits[:, kept], plain[:, kept])
    assert states.shape[0] == len(COMPLETIONS[0])
