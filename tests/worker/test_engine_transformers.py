"""The transformers engine against a whole replay without cache: tokens, states, lengths, new weights."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import numpy as np
import pytest
import torch

from stannary import toploc
from stannary.errors import PolicyError
from stannary.sampling import replay_completion
from validator.prefill import Prefill, prefill
from worker.engine import RolloutOutput, RolloutRequest
from worker.engine_transformers import TransformersEngine, TransformersOptions

EOS = 1


def request(name: str, length: int, cap: int, prompt_name: str | None = None) -> RolloutRequest:
    prompt = random.Random(prompt_name or name).choices(range(2, 64), k=length)
    return RolloutRequest(hashlib.sha256(name.encode()).digest(), tuple(prompt), cap)


MIXED = [
    *(request(f"group {i}", 5, 48, "one prompt") for i in range(4)),
    request("other", 5, 20),
    request("long", 90, 38),
    request("full context", 127, 1),
    *(request(f"cap {cap}", 4, cap) for cap in (1, 31, 32, 33)),
]


def check_replay(
    folder: Path, dtype: str, requests: list[RolloutRequest], outputs: list[RolloutOutput], temperature: float
) -> None:
    model = Prefill(folder, dtype)
    for asked, output in zip(requests, outputs, strict=True):
        tokens = output.tokens
        assert len(tokens) == asked.max_tokens or tokens[-1] == EOS
        assert EOS not in tokens[:-1]
        assert output.states is not None
        assert output.states.shape == (len(tokens), 128)
        assert output.states.dtype == torch.bfloat16
        own = replay_completion(model.logits(output.states).numpy(), tokens, temperature, asked.seed)
        assert own.gap.max() < 1e-4
        assert np.abs(own.logprob - output.logprobs).max() < 1e-4
        replayed, logits = prefill(model, asked.prompt, tokens)
        assert replay_completion(logits.numpy(), tokens, temperature, asked.seed).gap.max() < (
            0.5 if dtype == "bf16" else 0.1
        )
        assert output.proofs == tuple(toploc.build(output.states))
        assert len(output.proofs) == -(-len(tokens) // 32)
        for drift in toploc.verify(replayed, output.proofs):
            assert drift.exponent_mismatches <= (20 if dtype == "bf16" else 2)
            assert drift.mantissa_mean <= (8 if dtype == "bf16" else 0.1)


@pytest.mark.parametrize("kind", ["untied", "tied"])
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_generation_equals_a_replay_without_cache(kind: str, dtype: str, tiny: dict[str, Path]) -> None:
    options = TransformersOptions(
        dtype=torch.bfloat16 if dtype == "bf16" else torch.float32, max_sequences=3, keeps_states=True
    )
    engine = TransformersEngine(options)
    for name, temperature in (("a", 1.0), ("b", 0.6)):
        engine.load(tiny[f"{kind}-{name}"])
        outputs = engine.generate(MIXED, temperature)
        check_replay(tiny[f"{kind}-{name}"], dtype, MIXED, outputs, temperature)
    fresh = TransformersEngine(options)
    fresh.load(tiny[f"{kind}-b"])
    for output, again in zip(outputs, fresh.generate(MIXED, 0.6), strict=True):
        assert output.tokens == again.tokens
        assert output.proofs == again.proofs
    engine.close()


def test_rollouts_of_one_prompt_differ_by_their_seeds(tiny: dict[str, Path]) -> None:
    engine = TransformersEngine()
    engine.load(tiny["untied-a"])
    outputs = engine.generate(MIXED[:4], 1.0)
    assert len({output.tokens for output in outputs}) == 4


def test_generation_in_another_batch_drifts_by_rounding_only(tiny: dict[str, Path]) -> None:
    engine = TransformersEngine(TransformersOptions(dtype=torch.float32, keeps_states=True))
    engine.load(tiny["untied-a"])
    together = engine.generate(MIXED, 1.0)
    for asked, output in zip(MIXED, together, strict=True):
        (alone,) = engine.generate([asked], 1.0)
        assert alone.tokens == output.tokens
        assert alone.states is not None
        assert output.states is not None
        assert (alone.states.float() - output.states.float()).abs().max() < 0.05


def test_generation_before_a_policy_is_loaded_is_refused() -> None:
    with pytest.raises(PolicyError, match="no policy"):
        TransformersEngine().generate(MIXED, 1.0)


def test_load_of_a_folder_without_weights_is_refused(tiny: dict[str, Path], tmp_path: Path) -> None:
    for name in ("config.json", "generation_config.json"):
        (tmp_path / name).write_bytes((tiny["tied-a"] / name).read_bytes())
    with pytest.raises(PolicyError, match="cannot load"):
        TransformersEngine().load(tmp_path)


def test_states_are_handed_out_only_where_they_are_asked_for(tiny: dict[str, Path]) -> None:
    engine = TransformersEngine()
    engine.load(tiny["untied-a"])
    (output,) = engine.generate(MIXED[:1], 1.0)
    assert output.states is None
    assert output.proofs


def test_model_that_is_not_in_bf16_still_proves_bf16_states(tiny: dict[str, Path]) -> None:
    engine = TransformersEngine(TransformersOptions(dtype=torch.float32, keeps_states=True))
    engine.load(tiny["untied-a"])
    (output,) = engine.generate(MIXED[:1], 1.0)
    assert output.states is not None
    assert output.states.dtype == torch.bfloat16
    assert not output.reason
