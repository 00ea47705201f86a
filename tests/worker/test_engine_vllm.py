"""vLLM generates by our rule, keeps one state a token through every path, and takes new weights whole."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from stannary import toploc
from stannary.sampling import choose, gaps, gumbel
from tests.worker.conftest import run_vllm
from validator.prefill import Prefill, prefill

EOS = 1
CONTEXT = 128
Request = tuple[str, list[int], int]


def seed(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def seed_ending_at_once(folder: Path, prompt: list[int]) -> str:
    _, logits = prefill(Prefill(folder, "bf16"), prompt, [EOS])
    for attempt in range(5000):
        found = seed(f"end {attempt}")
        noise = gumbel(bytes.fromhex(found), 0, logits.shape[1])
        perturbed = np.sort(logits[0].numpy() + noise)
        if choose(logits[0].numpy(), 1.0, noise) == EOS and perturbed[-1] - perturbed[-2] > 0.5:
            return found
    raise AssertionError("no seed ends at once")


def prompt_of(name: str, length: int) -> list[int]:
    return random.Random(name).choices(range(2, 64), k=length)


@pytest.fixture(scope="session")
def plans(tiny: dict[str, Path]) -> dict[str, list[Request]]:
    shared = prompt_of("shared", 70)
    ending = prompt_of("ending", 6)
    return {
        "plain": [(seed(f"plain {i}"), prompt_of(f"plain {i % 3}", 5 + i), 40) for i in range(7)],
        "shared": [(seed(f"shared {i}"), shared, 24) for i in range(8)],
        "lengths": [
            *((seed(f"length {n}"), prompt_of("length", 4), n) for n in (1, 31, 32, 33)),
            (seed_ending_at_once(tiny["untied-b"], ending), ending, 20),
            (seed("full"), prompt_of("full", CONTEXT - 1), 1),
            (seed("nearly full"), prompt_of("nearly", CONTEXT - 10), 10),
        ],
        "long prompts": [(seed(f"long {i}"), prompt_of(f"long {i}", 3 + 13 * i), 20 + i) for i in range(7)],
        "many": [(seed(f"many {i}"), prompt_of(f"many {i}", 10), 110) for i in range(6)],
    }


@pytest.fixture(scope="session")
def made(
    tiny: dict[str, Path], plans: dict[str, list[Request]], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    def act(name: str, which: str, temperature: float = 1.0) -> dict[str, Any]:
        return {"name": name, "temperature": temperature, "requests": plans[which]}

    caching = {"block_size": 32}
    plan: list[dict[str, Any]] = []
    for kind in ("untied", "tied"):
        a, b = ({"load": str(tiny[f"{kind}-{name}"])} for name in "ab")
        runs = lambda when, kind=kind: [act(f"{kind} plain {when}", "plain"), act(f"{kind} shared {when}", "shared")]  # noqa: E731
        plan.append({"options": caching, "acts": [a, *runs("a"), b, *runs("updated")]})
        plan.append({"options": caching, "acts": [b, *runs("fresh")]})
    b = {"load": str(tiny["untied-b"])}
    plan.append(
        {
            "options": {"is_prefix_caching": False},
            "acts": [b, act("no cache", "shared"), act("lengths", "lengths"), act("warm", "plain", 0.7)],
        }
    )
    chunked = {"max_batched_tokens": 16, "max_sequences": 3}
    plan.append({"options": chunked, "acts": [b, act("chunked", "long prompts")]})
    plan.append({"options": {"block_size": 32, "block_count": 9}, "acts": [b, act("preempted", "many")]})
    return run_vllm(plan, tmp_path_factory.mktemp("vllm"))


def check_replay(folder: Path, requests: list[Request], outputs: list[Any], temperature: float = 1.0) -> None:
    """Tokens follow from their own states exactly, states from the policy but for rounding."""
    model = Prefill(folder, "bf16")
    assert len(outputs) == len(requests)
    for (seed_hex, prompt, cap), (tokens, states) in zip(requests, outputs, strict=True):
        assert len(tokens) == cap or tokens[-1] == EOS
        assert EOS not in tokens[:-1]
        assert states.shape == (len(tokens), 128)
        assert states.dtype == torch.bfloat16
        own = gaps(model.logits(states).numpy(), tokens, temperature, bytes.fromhex(seed_hex))
        assert own.gap.max() < 1e-4
        replayed, logits = prefill(model, prompt, tokens)
        replay = gaps(logits.numpy(), tokens, temperature, bytes.fromhex(seed_hex))
        assert replay.gap.max() < 0.5
        assert (replay.gap > 0).mean() <= 0.25
        assert (replayed.float() - states.float()).abs().max() < 0.25
        for drift in toploc.verify(replayed, toploc.build(states)):
            assert drift.exponent_mismatches <= 20
            assert drift.mantissa_mean <= 8


@pytest.mark.parametrize("kind", ["untied", "tied"])
def test_weights_updated_in_a_running_engine_equal_a_fresh_engine(
    kind: str, made: dict[str, Any], tiny: dict[str, Path], plans: dict[str, list[Request]]
) -> None:
    for which in ("plain", "shared"):
        updated, fresh = made[f"{kind} {which} updated"]["outputs"], made[f"{kind} {which} fresh"]["outputs"]
        for (tokens, states), (fresh_tokens, fresh_states) in zip(updated, fresh, strict=True):
            assert tokens == fresh_tokens
            assert torch.equal(states, fresh_states)
        assert [o[0] for o in updated] != [o[0] for o in made[f"{kind} {which} a"]["outputs"]]
        check_replay(tiny[f"{kind}-a"], plans[which], made[f"{kind} {which} a"]["outputs"])
        check_replay(tiny[f"{kind}-b"], plans[which], updated)


def test_weights_updated_verify_against_the_new_policy_only(
    made: dict[str, Any], tiny: dict[str, Path], plans: dict[str, list[Request]]
) -> None:
    old = Prefill(tiny["untied-a"], "bf16")
    for (_, prompt, _), (tokens, states) in zip(plans["shared"], made["untied shared updated"]["outputs"], strict=True):
        replayed, _ = prefill(old, prompt, tokens)
        assert all(d.exponent_mismatches > 38 for d in toploc.verify(replayed, toploc.build(states)))


def test_states_with_prefix_cache_hits_equal_those_without_it(
    made: dict[str, Any], tiny: dict[str, Path], plans: dict[str, list[Request]]
) -> None:
    assert made["untied shared fresh"]["cached"] >= 7 * 64
    assert made["no cache"]["cached"] == 0
    check_replay(tiny["untied-b"], plans["shared"], made["no cache"]["outputs"])
    for (_, cached), (_, plain) in zip(
        made["untied shared fresh"]["outputs"], made["no cache"]["outputs"], strict=True
    ):
        assert (cached[0].float() - plain[0].float()).abs().max() < 0.1


def test_states_with_chunked_prefill_and_odd_batches_are_the_policys(
    made: dict[str, Any], tiny: dict[str, Path], plans: dict[str, list[Request]]
) -> None:
    check_replay(tiny["untied-b"], plans["long prompts"], made["chunked"]["outputs"])


def test_states_after_preemption_are_the_policys(
    made: dict[str, Any], tiny: dict[str, Path], plans: dict[str, list[Request]]
) -> None:
    assert made["preempted"]["preempted"] > 0
    check_replay(tiny["untied-b"], plans["many"], made["preempted"]["outputs"])


def test_temperature_below_one_divides_the_logits(
    made: dict[str, Any], tiny: dict[str, Path], plans: dict[str, list[Request]]
) -> None:
    check_replay(tiny["untied-b"], plans["plain"], made["warm"]["outputs"], 0.7)


def test_a09_lengths_around_a_chunk_an_end_at_once_and_a_full_context_have_proofs(
    made: dict[str, Any], tiny: dict[str, Path], plans: dict[str, list[Request]]
) -> None:
    outputs = made["lengths"]["outputs"]
    check_replay(tiny["untied-b"], plans["lengths"], outputs)
    assert outputs[4][0] == [EOS]
    for (_, _, cap), (tokens, states) in zip(plans["lengths"], outputs, strict=True):
        assert len(toploc.build(states)) == -(-len(tokens) // 32)
        assert len(tokens) <= cap
