"""The matrix of tests/worker/test_engine_vllm.py on a GPU, with CUDA graphs, scheduling ahead and the second runner.

Whole under eight minutes: `python -m pytest tests/gpu`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from stannary import toploc
from tests.worker.conftest import run_vllm
from tests.worker.matrix import (
    Made,
    Request,
    act_of,
    acts_of,
    check_one_row_a_token,
    check_replay,
    read_made,
)
from validator.prefill import Prefill, prefill
from worker.engine import RolloutRequest
from worker.engine_transformers import TransformersEngine, TransformersOptions
from worker.tripwire import check

WAYS: dict[str, dict[str, Any]] = {
    "v1": {},
    "v1 graphs": {"is_eager": False},
    "v1 graphs ahead": {"is_eager": False, "is_asynchronous": True},
    "v2": {"runner": "v2"},
    "v2 graphs": {"runner": "v2", "is_eager": False},
    "v2 graphs ahead": {"runner": "v2", "is_eager": False, "is_asynchronous": True},
}
Run = Callable[[str], dict[str, Made]]


@pytest.fixture(scope="session")
def run_of(tiny: dict[str, Path], plans: dict[str, list[Request]], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The matrix of one way, run when a test first asks for it: two engines each."""

    @cache
    def run(way: str) -> dict[str, Made]:
        options = {"kv_cache_bytes": 64 << 20, "block_size": 32, **WAYS[way]}
        scarce = {**options, "max_batched_tokens": 16, "max_sequences": 6, "block_count": 9}
        acts = [
            {"load": str(tiny["untied-b"])},
            act_of("chunked", plans["long prompts"]),
            act_of("preempted", plans["many"]),
        ]
        plan = [{"options": options, "acts": acts_of(tiny, plans)}, {"options": scarce, "acts": acts}]
        made = run_vllm(plan, tmp_path_factory.mktemp("vllm"))
        return {name: read_made(act) for name, act in made.items()}

    return run


@pytest.mark.parametrize("way", WAYS)
def test_every_path_proves_the_policys_states(
    way: str, run_of: Run, tiny: dict[str, Path], plans: dict[str, list[Request]]
) -> None:
    run = run_of(way)
    module = "vllm.v1.worker.gpu.model_runner" if way.startswith("v2") else "vllm.v1.worker.gpu_model_runner"
    assert run["plain a"].events["runner"] == f"{module}.GPUModelRunner"
    assert run["plain a"].events["ahead"] == way.endswith("ahead")
    for which in ("plain", "shared"):
        check_replay(tiny["untied-a"], plans[which], run[f"{which} a"])
        check_replay(tiny["untied-b"], plans[which], run[f"{which} updated"])
    check_replay(tiny["untied-b"], plans["long prompts"], run["chunked"])
    check_replay(tiny["untied-b"], plans["many"], run["preempted"])
    assert run["shared a"].events["cached"] >= 7 * 64
    assert run["chunked"].events["partial"] > 5
    assert run["preempted"].events["preempted"] > 0
    for made in run.values():
        check_one_row_a_token(way, made)


@pytest.mark.parametrize("way", WAYS)
def test_updated_weights_verify_against_the_new_policy_only(
    way: str, run_of: Run, tiny: dict[str, Path], plans: dict[str, list[Request]]
) -> None:
    old = Prefill(tiny["untied-a"], "bf16")
    made = run_of(way)["shared updated"]
    for (_, prompt, _), tokens, proofs in zip(plans["shared"], made.tokens, made.proofs, strict=True):
        replayed, _ = prefill(old, prompt, tokens)
        assert all(drift.exponent_mismatches > 38 for drift in toploc.verify(replayed, proofs))


def test_transformers_engine_and_prefill_agree_on_the_gpu(
    tiny: dict[str, Path], plans: dict[str, list[Request]], tmp_path: Path
) -> None:
    engine = TransformersEngine(TransformersOptions(device="cuda", keeps_states=True))
    check(engine, tmp_path)
    engine.load(tiny["untied-a"])
    requests = [RolloutRequest(bytes.fromhex(seed), tuple(prompt), cap) for seed, prompt, cap in plans["plain"]]
    outputs = engine.generate(requests, 1.0)
    model = Prefill(tiny["untied-a"], "bf16", device="cuda")
    for request, output in zip(requests, outputs, strict=True):
        (states,) = model.states(request.prompt, [output.tokens])
        assert states.device.type == "cuda"
        for drift in toploc.verify(states, output.proofs):
            assert drift.exponent_mismatches <= 20
        assert output.states is not None
        assert torch.allclose(states.cpu().float(), output.states.float(), atol=0.25)
