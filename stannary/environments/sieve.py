"""The toy task: after `<bos> CLASS s1 s2 :` name symbols of the class. It must not know of torch or of any engine.

The best policy still chooses among twelve symbols at each position: every token stays evidence for the sampling check.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from blake3 import blake3
from tokenizers import Tokenizer

from stannary.environments.environment import Problem, draws, is_heldout
from stannary.environments.tokenizer import read_tokenizer
from stannary.errors import Malformed, PolicyError

CLASSES: tuple[str, ...] = tuple(f"C{index}" for index in range(8))
SYMBOLS: tuple[str, ...] = tuple("abcdefghijklmnopqrstuvwxyz0123456789")
CLASS_SIZE = 12
FULL_LENGTH = 48
"""Completion length that a reward of 1 takes; also the divisor of the reward."""


def members(name: str) -> frozenset[str]:
    """Return the symbols of a class: the twelve with the smallest hashes under the class's name."""
    ranked = sorted(SYMBOLS, key=lambda symbol: blake3(f"sieve/{name}/{symbol}".encode()).digest())
    return frozenset(ranked[:CLASS_SIZE])


class Sieve:
    """8 × 36 × 36 prompts over a word-level tokenizer; reward = max(0, in − out) / 48."""

    PACKAGES: ClassVar[tuple[str, ...]] = ("blake3", "tokenizers")

    def __init__(self, parameters: Mapping[str, object], policy_folder: Path) -> None:
        """Read the token ids of the task's words from the policy's tokenizer.

        Raises: Malformed for a parameter (the task has none), PolicyError when the tokenizer cannot be read or
        lacks the task's words.
        """
        if parameters:
            raise Malformed("environment.parameters", expected="none for sieve", got=dict(parameters))
        file = str(policy_folder / "tokenizer.json")
        vocabulary: dict[str, int] = read_tokenizer(policy_folder, lambda: Tokenizer.from_file(file).get_vocab())
        missing = sorted({"<bos>", "<eos>", ":", *CLASSES, *SYMBOLS} - set(vocabulary))
        if missing:
            raise PolicyError(f"the tokenizer of {policy_folder} lacks words of the sieve task: {' '.join(missing)}")
        self._classes = tuple(vocabulary[name] for name in CLASSES)
        self._symbols = tuple(vocabulary[symbol] for symbol in SYMBOLS)
        self._bos = vocabulary["<bos>"]
        self._eos = vocabulary["<eos>"]
        self._colon = vocabulary[":"]
        self._members = {
            vocabulary[name]: frozenset(vocabulary[symbol] for symbol in members(name)) for name in CLASSES
        }

    def problem(self, slot_seed: bytes) -> Problem:
        """Return the training problem of a slot."""
        return self._first("sieve training", slot_seed, heldout=False)

    def heldout(self, index: int) -> Problem:
        """Return a held-out problem."""
        return self._first("sieve held-out", index.to_bytes(8, "big"), heldout=True)

    def reward(self, problem: Problem, completion: Sequence[int]) -> float:
        """Score symbols inside the class against everything else; the end token closes and counts for neither."""
        tokens = completion[:-1] if completion and completion[-1] == self._eos else completion
        inside_class = self._members[problem.prompt[1]]
        inside = sum(token in inside_class for token in tokens)
        outside = len(tokens) - inside
        return min(1.0, max(0, inside - outside) / FULL_LENGTH)

    def _first(self, domain: str, seed: bytes, *, heldout: bool) -> Problem:
        for draw in draws(domain, seed):
            rest, first = divmod(draw, len(SYMBOLS))
            rest, second = divmod(rest, len(SYMBOLS))
            index = rest % len(CLASSES)
            if is_heldout(f"sieve {CLASSES[index]} {SYMBOLS[first]} {SYMBOLS[second]}") is heldout:
                break
        prompt = (self._bos, self._classes[index], self._symbols[first], self._symbols[second], self._colon)
        return Problem(prompt=prompt, data={"class": CLASSES[index]})
