"""demo.adversaries: each cheats in its one way, and in no other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer, models

from demo.adversaries import cheat, edit, lie, rounder
from stannary import toploc
from stannary.environments import Environment, Problem, describe_environment, load_environment
from stannary.rollout import Rollout, decode_group
from stannary.sampling import replay_completion
from stannary.seeds import StepSeeds
from stannary.types import Hash
from tests.worker.scripted import (
    DOMAIN,
    NODE,
    RULES,
    Clock,
    MemoryCoordinator,
    make_lease,
    root_of,
    sign_lease,
    step_facts,
)
from trainer.base import toy_words
from validator.prefill import Prefill, prefill
from worker import plan
from worker.engine_transformers import TransformersEngine
from worker.loop import Pace, Parts, Worker
from worker.tripwire import write_tiny_policy

SLOTS = 4


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Policy steps 0 and 1 with the words of the sieve task."""
    folder = tmp_path_factory.mktemp("policies")
    words = {word: index for index, word in enumerate(toy_words())}
    found = []
    for step in (0, 1):
        policy = write_tiny_policy(folder / f"policy-{step}", 40 + step, is_tied=False)
        Tokenizer(models.WordLevel(words, unk_token="<unk>")).save(str(policy / "tokenizer.json"))
        found.append(policy)
    return found


class OnDisk:
    """Weights by policy step."""

    def __init__(self, policies: list[Path]) -> None:
        self.policies = policies

    def folder_of(self, policy_step: int, policy_root: Hash) -> Path:
        assert policy_root == root_of(policy_step)
        return self.policies[policy_step]


def submitted(policies: list[Path], alter: Callable[[Parts], Parts]) -> list[tuple[int, list[Rollout]]]:
    """Return what a worker submits for step 2, whose policy step is 1, by slot."""
    document = describe_environment("sieve", {}, policies[0])
    leases = [sign_lease(make_lease(slot, step=2)) for slot in range(SLOTS)]
    coordinator = MemoryCoordinator([leases])
    parts = Parts(
        rules=RULES,
        domain=DOMAIN,
        account=NODE,
        coordinator=coordinator,
        read_step=lambda step: step_facts(step),
        weights=OnDisk(policies),
        engine=TransformersEngine(),
        open_environment=lambda folder: load_environment(document, folder),
    )
    worker = Worker(alter(parts), Pace(max_leases=SLOTS), clock=Clock())
    event: plan.Event | None = None
    while len(coordinator.files) < SLOTS:
        action = worker.tick(event)
        assert not isinstance(action, plan.Drop | plan.Rest)
        event = worker.perform(action)
    return [
        (leaf.submission.slot, decode_group(coordinator.files[leaf.submission.content_hash], RULES.group_size))
        for leaf in coordinator.leaves
    ]


def examine(policy: Path, groups: list[tuple[int, list[Rollout]]]) -> tuple[float, float, float]:
    """Return (mean exponent mismatches a chunk, share of tokens that the replay would not pick, mean reward)."""
    environment = load_environment(describe_environment("sieve", {}, policy), policy)
    model, seeds = Prefill(policy, "fp32"), StepSeeds(DOMAIN, RULES.pool, 2, step_facts(2).seed_beacon)
    mismatches, wrong, rewards = [], [], []
    for slot, rollouts in groups:
        problem = environment.problem(seeds.slot_seed(slot))
        for index, rollout in enumerate(rollouts):
            assert rollout.prompt == problem.prompt
            states, logits = prefill(model, rollout.prompt, rollout.completion)
            mismatches += [drift.exponent_mismatches for drift in toploc.verify(states, rollout.proofs)]
            found = replay_completion(
                logits.numpy(), rollout.completion, RULES.temperature, seeds.rollout_seed(slot, index)
            )
            wrong += (found.gap > 0.3).tolist()
            rewards.append(environment.reward(problem, rollout.completion))
    return float(np.mean(mismatches)), float(np.mean(wrong)), float(np.mean(rewards))


def test_honest_worker_passes_the_examination(policies: list[Path]) -> None:
    mismatches, wrong, _ = examine(policies[1], submitted(policies, lambda parts: parts))
    assert mismatches < 12
    assert wrong < 0.02


def test_cheat_serves_policy_step_0_and_proves_its_own_states(policies: list[Path]) -> None:
    groups = submitted(policies, cheat)
    mismatches, wrong, _ = examine(policies[1], groups)
    assert mismatches > 38
    assert wrong > 0.3
    mismatches, wrong, _ = examine(policies[0], groups)
    assert mismatches < 12
    assert wrong < 0.02


def test_rounder_serves_the_leased_policy_in_four_bits(policies: list[Path]) -> None:
    mismatches, _, _ = examine(policies[1], submitted(policies, rounder))
    assert mismatches > 30
    before, after = (
        load_file(folder / "model.safetensors")
        for folder in (policies[1], policies[1].parent / "rounded" / policies[1].name)
    )
    assert after.keys() == before.keys()
    rows = after["model.layers.0.mlp.up_proj.weight"].reshape(-1, 32)
    assert max(len(row.unique()) for row in rows) <= 15
    assert torch.equal(after["lm_head.weight"], before["lm_head.weight"])


def test_liar_earns_more_with_right_states_and_is_caught_by_the_replay_alone(policies: list[Path]) -> None:
    honest = examine(policies[1], submitted(policies, lambda parts: parts))
    mismatches, wrong, reward = examine(policies[1], submitted(policies, lie))
    assert reward > honest[2] + 0.3
    assert mismatches < 12
    assert wrong > 0.2


class Sums:
    """A task whose answer is the completion's first token."""

    PACKAGES = ()

    def problem(self, slot_seed: bytes) -> Problem:
        return Problem((0,), {"answer": "7"})

    heldout = problem  # type: ignore[assignment]

    def reward(self, problem: Problem, completion: Sequence[int]) -> float:
        return float(completion[:1] == (toy_words().index("7"),))


def test_edit_elsewhere_gives_the_answer_and_an_end_and_leaves_what_is_right(policies: list[Path]) -> None:
    environment = Environment({"name": "reasoning_gym"}, Sums())
    seven, eight = toy_words().index("7"), toy_words().index("8")
    problem = environment.problem(bytes(32))
    assert edit(environment, problem, (eight, eight, eight), policies[0]) == (seven, 1)
    assert edit(environment, problem, (seven, eight), policies[0]) == (seven, eight)
