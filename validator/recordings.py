"""Has engines record rollouts for a calibration: every admitted way of using a machine, each in its own process.

The worker's own command records; this side only knows its name. A recording that lies in the work folder is kept, so
an interrupted calibration goes on where it stopped.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Self

from stannary.errors import OperatorError, SettingsError


@dataclass(frozen=True, slots=True)
class Machine:
    """One engine and one way of using a machine."""

    name: str
    options: tuple[str, ...]

    @property
    def is_single_threaded(self) -> bool:
        """Whether it leaves all cores but one alone."""
        return ("--threads", "1") in pairwise(self.options)

    @classmethod
    def named(cls, text: str) -> Self:
        """Return an admitted machine by its name, or one of NAME=OPTIONS, those of `stannary worker record`.

        Raises: SettingsError.
        """
        name, equals, options = text.partition("=")
        if equals and name and options:
            return cls(name, tuple(shlex.split(options)))
        for machine in MACHINES:
            if machine.name == text:
                return cls(machine.name, machine.options)
        known = ", ".join(machine.name for machine in MACHINES)
        raise SettingsError(f"machine {text}: expected NAME=OPTIONS, or one of {known}")


MACHINES = (
    Machine("vllm-many", ("--engine", "vllm", "--batch", "16", "--threads", "2")),
    Machine("vllm-one", ("--engine", "vllm", "--batch", "1", "--threads", "1")),
    Machine("sdpa", ("--engine", "transformers", "--dtype", "bf16", "--batch", "16", "--threads", "2")),
    Machine(
        "eager",
        ("--engine", "transformers", "--dtype", "bf16", "--attention", "eager", "--batch", "2", "--threads", "1"),
    ),
    Machine("fp32", ("--engine", "transformers", "--dtype", "fp32", "--batch", "16", "--threads", "2")),
)
"""Engine × dtype × batch × attention × threads, as far as a machine without accelerators has them."""


@dataclass(frozen=True, slots=True)
class Task:
    """Whose prompts, and how much of each completion and group."""

    environment: str
    params: str = "{}"
    group_size: int = 4
    max_tokens: int = 128

    @property
    def options(self) -> tuple[str, ...]:
        """The options of `stannary worker record`."""
        return (
            "--environment", self.environment, "--params", self.params,
            "--group-size", str(self.group_size), "--max-tokens", str(self.max_tokens),
        )  # fmt: skip


def record(
    out: Path,
    policy: Path,
    task: Task,
    machine: Machine,
    *,
    groups: int,
    seed: int,
    temperature_milli: int = 1000,
    report: Callable[[str], None] = lambda _: None,
) -> Path:
    """Record unless the file is there. Raises: OperatorError if the worker's command fails."""
    if out.is_file():
        return out
    report(f"recording {groups} groups of {policy.name} by {machine.name} into {out.name}")
    command = [
        *(sys.executable, "-m", "stannary.cli", "worker", "record", "--policy", str(policy), "--out", str(out)),
        *(*task.options, *machine.options),
        *("--groups", str(groups), "--seed", str(seed), "--temperature-milli", str(temperature_milli)),
    ]
    done = subprocess.run(
        command, env=os.environ | {"HF_HUB_OFFLINE": "1"}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise OperatorError(f"stannary worker record failed:\n{done.stderr[-2000:]}")
    return out


def record_all(
    work: Path,
    policies: Sequence[Path],
    task: Task,
    *,
    groups: int,
    seed: int,
    temperature_milli: int = 1000,
    machines: Sequence[Machine] = MACHINES,
    report: Callable[[str], None] = lambda _: None,
) -> list[Path]:
    """Record each policy by each machine, with seeds that no two recordings share."""
    made = []
    for index, policy in enumerate(policies):
        for number, machine in enumerate(machines):
            out = work / f"{policy.name}-{index}-{machine.name}-{groups}-{seed}.corpus"
            own = seed * 1_000_000 + index * 1000 + number
            options = {"groups": groups, "seed": own, "temperature_milli": temperature_milli}
            made.append(record(out, policy, task, machine, **options, report=report))
    return made
