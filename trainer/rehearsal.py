"""A rehearsal: the recipe in one process, without chain and peers, to see whether it learns before a pool is opened."""

from __future__ import annotations

import copy
import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from stannary.environments.environment import Environment, Problem
from stannary.token_rules import TokenRules, read_token_rules
from trainer.batch import Sample
from trainer.generate import sample
from trainer.grpo import group_advantages
from trainer.policy import Policy, Recipe, TrainReport


@dataclass(frozen=True, slots=True)
class Schedule:
    """Sizes of a rehearsal."""

    policy_steps: int = 15
    groups: int = 16
    group_size: int = 8
    max_tokens: int = 48
    lag: int = 1
    accepted_share: float = 1.0
    """Share of the groups of a step that are learnt from, as if the rest had been rejected."""
    heldout: int = 128
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What came out."""

    heldout_before: float
    heldout_after: float
    reward_by_step: list[float]
    seconds: float


def evaluate(
    model: Any, environment: Environment, *, count: int, rules: TokenRules, max_tokens: int, seed: int = 0
) -> float:
    """Return the mean reward over held-out problems at temperature 1; the same weights give the same number."""
    problems = [environment.heldout(index) for index in range(count)]
    completions: list[tuple[int, ...]] = []
    for start in range(0, count, 64):
        prompts = [problem.prompt for problem in problems[start : start + 64]]
        completions += sample(model, prompts, rules=rules, max_tokens=max_tokens, temperature=1.0, seed=seed + start)
    rewards = [
        environment.reward(problem, completion) for problem, completion in zip(problems, completions, strict=True)
    ]
    return sum(rewards) / len(rewards)


def rehearse(
    folder: Path,
    environment: Environment,
    recipe: Recipe,
    schedule: Schedule,
    report: Callable[[int, float, TrainReport], None] = lambda *_: None,
) -> Rehearsal:
    """Generate, score and learn for some policy steps with the given lag. Rollouts come from the weights in bf16."""
    started = time.monotonic()
    choose = random.Random(schedule.seed)  # noqa: S311
    rules = read_token_rules(folder)
    policy = Policy(folder, recipe)

    def held_out() -> float:
        return evaluate(policy.model, environment, count=schedule.heldout, rules=rules, max_tokens=schedule.max_tokens)

    before = held_out()
    actors = deque([_actor(policy)], maxlen=schedule.lag + 1)  # the oldest is the one that lags
    rewards_by_step: list[float] = []
    for step in range(schedule.policy_steps):
        problems = [
            environment.problem(f"rehearsal {schedule.seed} {step} {slot}".encode()) for slot in range(schedule.groups)
        ]
        completions = sample(
            actors[0],
            [problem.prompt for problem in problems for _ in range(schedule.group_size)],
            rules=rules,
            max_tokens=schedule.max_tokens,
            temperature=recipe.temperature,
            seed=schedule.seed << 32 | step,
        )
        size = schedule.group_size
        groups = [
            [(problem, completion) for completion in completions[slot * size : (slot + 1) * size]]
            for slot, problem in enumerate(problems)
        ]
        groups = choose.sample(groups, max(1, round(len(groups) * schedule.accepted_share)))
        samples, rewards = learnable(environment, groups)
        rewards_by_step.append(sum(rewards) / len(rewards))
        report(step, rewards_by_step[-1], policy.train(samples))
        actors.append(_actor(policy))
    return Rehearsal(before, held_out(), rewards_by_step, time.monotonic() - started)


def _actor(policy: Policy) -> Any:
    """Return the model as workers would load it: every weight rounded to bf16."""
    actor = copy.deepcopy(policy.model)
    with torch.no_grad():
        for parameter in actor.parameters():
            parameter.copy_(parameter.to(torch.bfloat16))
    return actor


def learnable(
    environment: Environment, groups: Sequence[Sequence[tuple[Problem, tuple[int, ...]]]]
) -> tuple[list[Sample], list[float]]:
    """Score groups and return the samples with their advantages, and all rewards, in order."""
    samples: list[Sample] = []
    rewards: list[float] = []
    for group in groups:
        scores = [environment.reward(problem, completion) for problem, completion in group]
        rewards += scores
        for (problem, completion), advantage in zip(group, group_advantages(scores), strict=True):
            samples.append(Sample(problem.prompt, completion, advantage))
    return samples, rewards
