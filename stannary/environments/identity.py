"""The identity of an environment: a document whose hash stands in the pool, checked against this machine."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Mapping
from pathlib import Path

from blake3 import blake3

from stannary.environments.environment import Environment, Task
from stannary.environments.reasoning import ReasoningGym
from stannary.environments.sieve import Sieve
from stannary.errors import Malformed, OperatorError

GOLDEN_SLOTS = 16
_TASKS: Mapping[str, type[Sieve] | type[ReasoningGym]] = {"sieve": Sieve, "reasoning_gym": ReasoningGym}
_FIELDS = {"name", "parameters", "packages", "python", "golden"}


def describe_environment(name: str, parameters: Mapping[str, object], policy_folder: Path) -> dict[str, object]:
    """Return the identity document of an environment as this machine sees it. Raises: Malformed for an unknown name."""
    task = _make_task(name, parameters, policy_folder)
    return {
        "name": name,
        "parameters": dict(parameters),
        "packages": _versions(task),
        "python": _python(),
        "golden": [
            {"seed": seed.hex(), "prompt": list(task.problem(seed).prompt)}
            for seed in map(_golden_seed, range(GOLDEN_SLOTS))
        ],
    }


def load_environment(document: Mapping[str, object], policy_folder: Path) -> Environment:
    """Return the environment of an identity document.

    Raises: Malformed for a document that is none; OperatorError if this machine has other versions or derives other
    prompts, naming what differs.
    """
    if set(document) != _FIELDS:
        raise Malformed("environment", expected=", ".join(sorted(_FIELDS)), got=sorted(document))
    name, parameters, golden = document["name"], document["parameters"], document["golden"]
    if not isinstance(name, str):
        raise Malformed("environment.name", expected="a text", got=name)
    if not isinstance(parameters, dict):
        raise Malformed("environment.parameters", expected="an object", got=parameters)
    if not isinstance(golden, list) or len(golden) != GOLDEN_SLOTS:
        raise Malformed("environment.golden", expected=f"a list of {GOLDEN_SLOTS} slots", got=golden)
    task = _make_task(name, parameters, policy_folder)
    _require("Python", document["python"], _python())
    _require("packages", document["packages"], _versions(task))
    for index, slot in enumerate(golden):
        seed = _golden_seed(index)
        _require(f"golden slot {index}", slot, {"seed": seed.hex(), "prompt": list(task.problem(seed).prompt)})
    return Environment(document=dict(document), task=task)


def _make_task(name: str, parameters: Mapping[str, object], policy_folder: Path) -> Task:
    if name not in _TASKS:
        raise Malformed("environment.name", expected=" or ".join(_TASKS), got=name)
    return _TASKS[name](parameters, policy_folder)


def _require(what: str, expected: object, found: object) -> None:
    if expected != found:
        raise OperatorError(
            f"environment, {what}: the pool's document says {expected}, this machine has {found}; "
            "install the versions that the document names"
        )


def _golden_seed(index: int) -> bytes:
    return blake3(f"stannary golden slot {index}".encode()).digest()


def _versions(task: Task) -> dict[str, str]:
    return {package: importlib.metadata.version(package) for package in task.PACKAGES}


def _python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"
