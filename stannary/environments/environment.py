"""What an environment is: prompts derived from slot seeds, and a reward. It knows of no engine, chain or file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from blake3 import blake3

HELDOUT_SHARE = 26
"""Of 256 hash buckets, those below this one are held out (about a tenth of all problems)."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One prompt as token ids, and what the reward needs to judge a completion of it."""

    prompt: tuple[int, ...]
    data: Mapping[str, object]


class Task(Protocol):
    """Makes problems from seeds and scores completions; the same bytes give the same answer everywhere."""

    PACKAGES: ClassVar[tuple[str, ...]]
    """Distributions whose version may change a prompt or a score."""

    def problem(self, slot_seed: bytes) -> Problem:
        """Return the training problem of a slot."""
        ...

    def heldout(self, index: int) -> Problem:
        """Return problem `index` of the held-out split, which no slot seed reaches."""
        ...

    def reward(self, problem: Problem, completion: Sequence[int]) -> float:
        """Score a completion in [0, 1]; a trailing end token is allowed and scores nothing."""
        ...


@dataclass(frozen=True, slots=True)
class Environment:
    """A task with the identity that a pool names: prompts derived from slot seeds, and a reward."""

    document: dict[str, object]
    """Name, parameters, package versions and golden slots: hashed, it is the pool's environmentHash."""
    task: Task

    def problem(self, slot_seed: bytes) -> Problem:
        """Return the training problem of a slot."""
        return self.task.problem(slot_seed)

    def heldout(self, index: int) -> Problem:
        """Return problem `index` of the held-out split, which no slot seed reaches."""
        return self.task.heldout(index)

    def reward(self, problem: Problem, completion: Sequence[int]) -> float:
        """Score a completion in [0, 1]; a trailing end token is allowed and scores nothing."""
        return self.task.reward(problem, completion)


def draws(domain: str, seed: bytes) -> Iterator[int]:
    """Yield 64-bit integers derived from a seed: an endless, portable stream for rejection sampling."""
    key = blake3(seed, derive_key_context=f"stannary environment {domain} v1").digest()
    counter = 0
    while True:
        yield int.from_bytes(blake3(counter.to_bytes(8, "big"), key=key).digest(8), "big")
        counter += 1


def is_heldout(identity: str) -> bool:
    """Say on which side of the split a problem falls, by nothing but its own text."""
    return blake3(identity.encode()).digest()[0] < HELDOUT_SHARE
