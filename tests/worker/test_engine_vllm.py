"""vLLM generates by our rule, proves one state a token through every path, and takes new weights whole.

A matrix: each way of running vLLM (model runners V1 and V2, scheduling ahead, several processes, tensor parallel) goes
through continuous batching, chunked prefill, prefix-cache hits, preemption and new weights. Every test asserts that
what it is about really happened. Runner V2 runs on Triton's interpreter here, which is not what a GPU runs.
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
    EOS,
    OTHER_END,
    SUPPRESSED,
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
from worker.engine_transformers import TransformersEngine

WAYS: dict[str, dict[str, Any]] = {
    "v1": {},
    "v2": {"runner": "v2"},
    "v1 ahead": {"is_asynchronous": True},
    "v2 ahead": {"runner": "v2", "is_asynchronous": True},
    "v1 parallel": {"tensor_parallel": 2, "is_multiprocess": True},
}
IN_PROCESS = [way for way in WAYS if not way.endswith("parallel")]
"""Where the core is in the test's own process, so that what happens in it can be counted."""


Run = Callable[[str], dict[str, Made]]


@pytest.fixture(scope="session")
def run_of(tiny: dict[str, Path], plans: dict[str, list[Request]], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The matrix of one way, run when a test first asks for it."""
    b = {"load": str(tiny["untied-b"])}

    @cache
    def run(way: str) -> dict[str, Made]:
        options = WAYS[way]
        plan: list[dict[str, Any]] = [{"options": {"block_size": 32, **options}, "acts": acts_of(tiny, plans)}]
        if way in IN_PROCESS:
            chunked = {"max_batched_tokens": 16, "max_sequences": 3, **options}
            plan.append({"options": chunked, "acts": [b, act_of("chunked", plans["long prompts"])]})
            scarce = {"block_size": 32, "block_count": 9, **options}
            plan.append({"options": scarce, "acts": [b, act_of("preempted", plans["many"])]})
        made = run_vllm(plan, tmp_path_factory.mktemp("vllm"))
        return {name: read_made(act) for name, act in made.items()}

    return run


@pytest.fixture(scope="session")
def single(tiny: dict[str, Path], plans: dict[str, list[Request]], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Acts that one way stands for all: fresh engines, no prefix cache, lengths, temperatures, suppressed ids."""
    b = {"load": str(tiny["untied-b"])}
    caching = {"block_size": 32}
    plan: list[dict[str, Any]] = [
        {
            "options": caching,
            "acts": [b, act_of("plain fresh", plans["plain"]), act_of("shared fresh", plans["shared"])],
        }
    ]
    tied_a, tied_b = ({"load": str(tiny[f"tied-{name}"])} for name in "ab")
    acts = [tied_a, act_of("tied a", plans["plain"]), tied_b, act_of("tied updated", plans["plain"])]
    plan.append({"options": caching, "acts": acts})
    plan.append({"options": caching, "acts": [tied_b, act_of("tied fresh", plans["plain"])]})
    acts = [b, act_of("no cache", plans["shared"]), act_of("lengths", plans["lengths"])]
    acts += [act_of(f"T {temperature}", plans["plain"], temperature) for temperature in (0.3, 0.7, 1.5)]
    acts += [{"load": str(tiny["suppressing"])}, act_of("suppressed", plans["plain"])]
    acts += [{"break": True}, b, act_of("after a break", plans["plain"])]
    plan.append({"options": {"is_prefix_caching": False}, "acts": acts})
    made = run_vllm(plan, tmp_path_factory.mktemp("vllm"))
    return {name: read_made(act) for name, act in made.items()}


@pytest.mark.parametrize("way", WAYS)
def test_way_of_running_is_the_one_that_was_asked_for(way: str, run_of: Run) -> None:
    events = run_of(way)["plain a"].events
    package = "vllm.v1.worker.cpu.model_runner" if way.startswith("v2") else "vllm.v1.worker.cpu_model_runner"
    assert events["runner"] == f"{package}.CPUModelRunner"
    assert events["ahead"] == way.endswith("ahead")
    assert (events["rows"] > 0) == (way in IN_PROCESS)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("which", ["plain", "shared"])
def test_generation_and_updated_weights_replay_on_their_policy(
    way: str, which: str, run_of: Run, tiny: dict[str, Path], plans: dict[str, list[Request]]
) -> None:
    run = run_of(way)
    check_replay(tiny["untied-a"], plans[which], run[f"{which} a"])
    check_replay(tiny["untied-b"], plans[which], run[f"{which} updated"])
    assert run[f"{which} a"].tokens != run[f"{which} updated"].tokens


@pytest.mark.parametrize("way", IN_PROCESS)
def test_batches_of_odd_sizes_have_one_row_a_token(way: str, run_of: Run) -> None:
    run = run_of(way)
    for name in ("plain a", "plain updated", "shared a", "chunked", "preempted"):
        check_one_row_a_token(way, run[name])
    assert {3, 5, 7} & set(run["plain a"].events["sizes"])
    assert len(run["plain updated"].events["sizes"]) > 2


@pytest.mark.parametrize("way", WAYS)
def test_a17_cached_prefixes_give_the_states_of_a_run_without_cache(
    way: str, run_of: Run, single: dict[str, Made], tiny: dict[str, Path], plans: dict[str, list[Request]]
) -> None:
    cached, plain = run_of(way)["shared updated"], single["no cache"]
    assert cached.events["cached"] >= 7 * 64
    assert plain.events["cached"] == 0
    check_replay(tiny["untied-b"], plans["shared"], plain)
    for states, others in zip(cached.states, plain.states, strict=True):
        assert (states[0].float() - others[0].float()).abs().max() < 0.1
    for logprobs, others in zip(cached.logprobs, plain.logprobs, strict=True):
        assert abs(logprobs[0] - others[0]) < 0.05


@pytest.mark.parametrize("way", WAYS)
def test_a17_updated_weights_verify_against_the_new_policy_only(
    way: str, run_of: Run, tiny: dict[str, Path], plans: dict[str, list[Request]]
) -> None:
    old = Prefill(tiny["untied-a"], "bf16")
    made = run_of(way)["shared updated"]
    assert made.events["cached"] >= 7 * 64  # within the act: the cache of the old weights was emptied
    for (_, prompt, _), tokens, proofs in zip(plans["shared"], made.tokens, made.proofs, strict=True):
        replayed, _ = prefill(old, prompt, tokens)
        assert all(drift.exponent_mismatches > 38 for drift in toploc.verify(replayed, proofs))


@pytest.mark.parametrize("way", IN_PROCESS)
def test_chunked_prefill_in_odd_batches_proves_the_policys_states(
    way: str, run_of: Run, tiny: dict[str, Path], plans: dict[str, list[Request]]
) -> None:
    made = run_of(way)["chunked"]
    assert made.events["partial"] > 5
    check_replay(tiny["untied-b"], plans["long prompts"], made)


@pytest.mark.parametrize("way", IN_PROCESS)
def test_preempted_rollouts_prove_the_policys_states(
    way: str, run_of: Run, tiny: dict[str, Path], plans: dict[str, list[Request]]
) -> None:
    made = run_of(way)["preempted"]
    assert made.events["preempted"] > 0
    check_replay(tiny["untied-b"], plans["many"], made)


@pytest.mark.parametrize("way", ["v1", "v2", "v1 ahead", "v2 ahead"])
def test_a17_updated_weights_equal_a_fresh_engine(way: str, run_of: Run, single: dict[str, Made]) -> None:
    for which in ("plain", "shared"):
        updated, fresh = run_of(way)[f"{which} updated"], single[f"{which} fresh"]
        assert updated.tokens == fresh.tokens
        assert updated.proofs == fresh.proofs
        assert all(torch.equal(one, other) for one, other in zip(updated.states, fresh.states, strict=True))
        assert [logprobs[0] for logprobs in updated.logprobs] == [logprobs[0] for logprobs in fresh.logprobs]


def test_updated_weights_of_a_tied_head_equal_a_fresh_engine(
    single: dict[str, Made], tiny: dict[str, Path], plans: dict[str, list[Request]]
) -> None:
    updated, fresh = single["tied updated"], single["tied fresh"]
    assert updated.tokens == fresh.tokens != single["tied a"].tokens
    assert updated.proofs == fresh.proofs
    check_replay(tiny["tied-a"], plans["plain"], single["tied a"])
    check_replay(tiny["tied-b"], plans["plain"], updated)


@pytest.mark.parametrize("temperature", [0.3, 0.7, 1.5])
def test_temperature_divides_the_logits(
    temperature: float, single: dict[str, Made], tiny: dict[str, Path], plans: dict[str, list[Request]]
) -> None:
    check_replay(tiny["untied-b"], plans["plain"], single[f"T {temperature}"], temperature)


def test_suppressed_ids_and_several_ends_are_the_policys_own_rules_in_both_engines(
    single: dict[str, Made], tiny: dict[str, Path], plans: dict[str, list[Request]]
) -> None:
    made = single["suppressed"]
    check_replay(tiny["suppressing"], plans["plain"], made)
    engine = TransformersEngine()
    engine.load(tiny["suppressing"])
    requests = [RolloutRequest(bytes.fromhex(seed_hex), tuple(prompt), cap) for seed_hex, prompt, cap in plans["plain"]]
    others = engine.generate(requests, 1.0)
    for tokens in [*made.tokens, *(output.tokens for output in others)]:
        assert not set(SUPPRESSED).intersection(tokens)
        assert not {EOS, OTHER_END}.intersection(tokens[:-1])
    assert any(tokens[-1] == OTHER_END for tokens in made.tokens)
    agreeing = sum(list(output.tokens[:4]) == tokens[:4] for output, tokens in zip(others, made.tokens, strict=True))
    assert agreeing >= len(requests) - 2


def test_engine_that_broke_off_is_closed_and_starts_anew(
    single: dict[str, Made], tiny: dict[str, Path], plans: dict[str, list[Request]]
) -> None:
    check_replay(tiny["untied-b"], plans["plain"], single["after a break"])
    assert single["after a break"].tokens == single["plain fresh"].tokens


def test_a09_lengths_around_a_chunk_an_end_at_once_and_a_full_context_have_proofs(
    single: dict[str, Made], tiny: dict[str, Path], plans: dict[str, list[Request]]
) -> None:
    made = single["lengths"]
    check_replay(tiny["untied-b"], plans["lengths"], made)
    assert made.tokens[4] == [EOS]
    for (_, _, cap), tokens, proofs in zip(plans["lengths"], made.tokens, made.proofs, strict=True):
        assert len(proofs) == -(-len(tokens) // 32)
        assert len(tokens) <= cap
