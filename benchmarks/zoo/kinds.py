"""The two policies on which the zoo runs, and what is asked of each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure_card import CHAIN_SUM, LONG_ANSWERS, TOY_STEPS
from validator.recordings import Task


@dataclass(frozen=True, slots=True)
class Kind:
    """A policy, its task, and how it is trained."""

    name: str
    task: Task
    short: Task
    """Answers so short that means over their tokens cannot be held against anybody."""
    training: tuple[str, str]
    """Environment and parameters of its checkpoints."""
    card_rate: str
    card_steps: tuple[int, ...]
    """Checkpoints of the card, by the rate above."""
    trained: int
    """Index of the one that honest work and attacks are of; the one before it is its step before."""
    rates: tuple[str, str, str]
    """Learning rates of stale policies; detection of the first has a target."""
    paired_rate: str
    """Of them, that at which an older policy step differs so little that only the pairing sees it."""
    machine: str
    """By which attackers record who change nothing but weights or temperature."""

    @property
    def card(self) -> Path:
        """The committed card."""
        return Path("validator/cards") / f"{self.name}.json"

    @property
    def results(self) -> str:
        """The name of the measurement: the one that counts is that of the real policy."""
        return "attacks" if self.name == "smollm2" else f"attacks-{self.name}"


STALE_STEPS = tuple(range(1, 9))
"""Policy steps of which an attacker may serve an older one."""
KINDS: Mapping[str, Kind] = {
    "toy": Kind(
        name="toy",
        task=Task("sieve", "{}", group_size=4, max_tokens=48),
        short=Task("sieve", "{}", group_size=4, max_tokens=7),
        training=("sieve", "{}"),
        card_rate="2e-3",
        card_steps=TOY_STEPS,
        trained=5,
        rates=("2e-3", "2e-4", "2e-5"),
        paired_rate="2e-4",
        machine="sdpa",
    ),
    "smollm2": Kind(
        name="smollm2",
        task=Task("reasoning_gym", json.dumps(LONG_ANSWERS), group_size=4, max_tokens=128),
        short=Task("reasoning_gym", json.dumps(CHAIN_SUM), group_size=4, max_tokens=24),
        training=("reasoning_gym", json.dumps(CHAIN_SUM)),
        card_rate="1e-5",
        card_steps=STALE_STEPS,
        trained=7,
        rates=("1e-5", "1e-6", "3e-7"),
        paired_rate="1e-5",
        machine="vllm-many",
    ),
}
