"""What the matrix of ways to run vLLM has in common, on a CPU and on a GPU: requests, paths, and what must hold."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from stannary import toploc
from stannary.sampling import choose, gumbel, replay_completion
from validator.prefill import Prefill, prefill

EOS, OTHER_END = 1, 50
SUPPRESSED = [2, 11, 30, 31, 32, 33, 34]
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


def make_plans(tiny: dict[str, Path]) -> dict[str, list[Request]]:
    """Requests by what they are to bring about."""
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


@dataclass(frozen=True)
class Made:
    """What one act made, and what happened meanwhile."""

    tokens: list[list[int]]
    states: list[torch.Tensor]
    proofs: list[tuple[bytes, ...]]
    logprobs: list[list[float]]
    events: dict[str, Any]

    @property
    def total(self) -> int:
        return sum(len(tokens) for tokens in self.tokens)


def read_made(act: dict[str, Any]) -> Made:
    outputs = act.pop("outputs")
    assert act.pop("reasons") == [""] * len(outputs)
    tokens, states, proofs, logprobs = zip(*outputs, strict=True)
    return Made(
        list(tokens), list(states), [tuple(bytes(proof) for proof in each) for each in proofs], list(logprobs), act
    )


def act_of(name: str, requests: list[Request], temperature: float = 1.0) -> dict[str, Any]:
    return {"name": name, "temperature": temperature, "requests": requests}


def acts_of(tiny: Mapping[str, Path], plans: Mapping[str, list[Request]]) -> list[dict[str, Any]]:
    """One policy, then another in the same engine: continuous batching, cached prefixes, new weights."""
    a, b = ({"load": str(tiny[f"untied-{name}"])} for name in "ab")
    acts = [a, act_of("plain a", plans["plain"]), act_of("shared a", plans["shared"])]
    return [*acts, b, act_of("plain updated", plans["plain"]), act_of("shared updated", plans["shared"])]


def check_replay(folder: Path, requests: list[Request], made: Made, temperature: float = 1.0) -> None:
    """Tokens follow from their own states exactly, states from the policy but for rounding, proofs from the states."""
    model = Prefill(folder, "bf16")
    ends = model.tokens.end_ids
    assert len(made.tokens) == len(requests)
    for index, (seed_hex, prompt, cap) in enumerate(requests):
        tokens, states, seed_bytes = made.tokens[index], made.states[index], bytes.fromhex(seed_hex)
        assert len(tokens) == cap or tokens[-1] in ends
        assert not ends.intersection(tokens[:-1])
        assert states.shape == (len(tokens), 128)
        assert states.dtype == torch.bfloat16
        assert made.proofs[index] == tuple(toploc.build(states))
        own = replay_completion(model.logits(states).numpy(), tokens, temperature, seed_bytes)
        assert own.gap.max() < 1e-4
        assert np.abs(own.logprob - made.logprobs[index]).max() < 1e-3
        replayed, logits = prefill(model, prompt, tokens)
        replay = replay_completion(logits.numpy(), tokens, temperature, seed_bytes)
        assert replay.gap.max() < 0.5 / temperature
        assert (replay.gap > 0).mean() <= 0.25
        assert (replayed.float() - states.float()).abs().max() < 0.25
        for drift in toploc.verify(replayed, made.proofs[index]):
            assert drift.exponent_mismatches <= 20
            assert drift.mantissa_mean <= 8


def check_one_row_a_token(way: str, made: Made) -> None:
    """Every emitted token was sampled once; scheduling ahead samples once more where a completion ends by itself."""
    ahead = sum(1 for tokens in made.tokens if tokens[-1] == EOS) if way.endswith("ahead") else 0
    assert made.total <= made.events["rows"] <= made.total + ahead
