"""Text-scored tasks of the package reasoning-gym, scored strictly. It must not know of engines or of training.

The package derives item i of a data set from seed + i; here every problem is item 0 of a data set with a 63-bit seed
from the slot seed, so neighbouring slots share nothing. Scores count only when full: some scorers give part marks for a
substring, and take look-alike digits. Others run an answer as Python, or give NaN full marks: a data set is taken only
if its scorer compares texts, or was read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

from stannary.environments.environment import Problem, draws, is_heldout
from stannary.environments.tokenizer import read_tokenizer
from stannary.errors import Malformed, OperatorError, PolicyError

SCORINGS = ("last_number", "whole_text")
MAX_DRAWS = 10_000
"""Draws after which a task is said to have no problem on one side of the split."""
_LOOK_ALIKES = "\u2212\ufe63\uff0d\u2044\u2215\uff0f\u066b\uff0e\uff05\u066a\ufe6a"
"""Signs that are read as -, /, . or % and are none of these."""
_NUMBER = re.compile(
    rf"(?<![\w./{_LOOK_ALIKES}])-?"
    r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,64})(?:\.[0-9]{1,64})?"
    rf"(?![\w/%{_LOOK_ALIKES}])"
)
_SEED_BITS = 63
READ_SCORERS = frozenset({
    "ab", "chain_sum", "circuit_logic", "color_cube_rotation", "decimal_chain_sum", "dice", "emoji_mystery",
    "family_relationships", "futoshiki", "jugs", "manipulate_matrix", "mini_sudoku", "needle_haystack",
    "number_format", "palindrome_generation", "path_star", "prime_factorization", "products", "rectangle_count",
    "self_reference", "shortest_path", "sudoku", "tower_of_hanoi", "tsumego", "word_ladder", "zebra_puzzles",
})  # fmt: skip
"""Data sets whose own scorer was read, as of 0.1.25: it runs nothing, ends soon, and gives full marks to right answers
alone. All the others that have a scorer of their own are refused."""


class ReasoningGym:
    """A data set of reasoning-gym by name: questions in the policy's chat template, the package's own scorer."""

    PACKAGES: ClassVar[tuple[str, ...]] = ("blake3", "jinja2", "reasoning-gym", "tokenizers", "transformers")

    def __init__(self, parameters: Mapping[str, object], policy_folder: Path) -> None:
        """Take `{"dataset": name, "config": {…}, "scoring": "last_number" | "whole_text"}`.

        Raises: Malformed for other parameters or a data set whose scorer is not trusted, PolicyError for a policy
        without a usable tokenizer or chat template, OperatorError when reasoning-gym or transformers is not installed.
        """
        try:
            import reasoning_gym
            from reasoning_gym.dataset import ProceduralDataset
            from transformers import AutoTokenizer
        except ImportError as error:
            raise OperatorError(f"{error}: install stannary with its extra `environments`") from error
        if set(parameters) != {"dataset", "config", "scoring"}:
            raise Malformed("environment.parameters", expected="dataset, config and scoring", got=sorted(parameters))
        config = parameters["config"]
        if not isinstance(config, dict) or {"seed", "size"} & set(config):
            raise Malformed("environment.parameters.config", expected="an object without seed and size", got=config)
        if parameters["scoring"] not in SCORINGS:
            raise Malformed("environment.parameters.scoring", expected=" or ".join(SCORINGS), got=parameters["scoring"])
        self._dataset = str(parameters["dataset"])
        self._config: dict[str, Any] = config
        self._takes_last_number = parameters["scoring"] == "last_number"
        self._create = cast(Callable[..., Any], reasoning_gym.create_dataset)
        try:
            self._scorer = self._create(self._dataset, seed=0, size=1, **self._config)
        except (ValueError, TypeError, AssertionError) as error:
            raise Malformed("environment.parameters", expected="a data set of reasoning-gym", got=str(error)) from error
        compares_texts = type(self._scorer).score_answer is ProceduralDataset.score_answer
        if not compares_texts and self._dataset not in READ_SCORERS:
            expected = "one whose scorer compares texts or was read (READ_SCORERS)"
            raise Malformed("environment.parameters.dataset", expected=expected, got=self._dataset)
        self._tokenizer: Any = read_tokenizer(
            policy_folder, lambda: AutoTokenizer.from_pretrained(policy_folder, local_files_only=True)
        )
        if not self._tokenizer.chat_template:
            raise PolicyError(f"{policy_folder} has no chat template")

    def problem(self, slot_seed: bytes) -> Problem:
        """Return the training problem of a slot."""
        return self._first("reasoning-gym training", slot_seed, heldout=False)

    def heldout(self, index: int) -> Problem:
        """Return a held-out problem."""
        return self._first("reasoning-gym held-out", index.to_bytes(8, "big"), heldout=True)

    def reward(self, problem: Problem, completion: Sequence[int]) -> float:
        """Return 1 for an answer that the data set's scorer gives full marks, else 0."""
        text = after_thinking(self._tokenizer.decode(list(completion), skip_special_tokens=True))
        answer = last_number(text) if self._takes_last_number else plain(text)
        if not answer:
            return 0.0
        try:
            score = float(self._scorer.score_answer(answer, problem.data))
        except Exception:  # noqa: BLE001  the scorers' own faults on hostile text: no answer, the same for everybody
            return 0.0
        return 1.0 if score >= 1.0 else 0.0

    def _first(self, domain: str, seed: bytes, *, heldout: bool) -> Problem:
        for count, draw in enumerate(draws(domain, seed)):
            if count == MAX_DRAWS:
                break
            entry = self._create(self._dataset, seed=draw >> (64 - _SEED_BITS), size=1, **self._config)[0]
            if is_heldout(entry["question"]) is heldout:
                return Problem(prompt=self._render(entry["question"]), data=entry)
        raise Malformed(
            "environment.parameters", expected="enough problems on both sides of the split", got=self._config
        )

    def _render(self, question: str) -> tuple[int, ...]:
        """Return the token ids of the chat prompt, rendered once: the template alone adds special tokens.

        Raises: PolicyError unless there is exactly one start token, where the policy has one.
        """
        messages = [{"role": "user", "content": question}]
        text = self._tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        ids = self._tokenizer.encode(text, add_special_tokens=False)
        start = self._tokenizer.bos_token_id
        if start is not None and (ids[:1] != [start] or ids[1:2] == [start]):
            raise PolicyError(f"the chat template must give exactly one start token {start}, got {ids[:4]}")
        return tuple(ids)


def after_thinking(text: str) -> str:
    """Return what follows the thinking part `<think>…</think>`: the text if it has none, nothing if it has no end."""
    rest = text.rpartition("</think>")[2]
    return "" if "<think>" in rest else rest


def plain(text: str) -> str | None:
    """Return the text without outer white space; None if it holds digits that only look like ASCII ones."""
    if any(char.isnumeric() and not char.isascii() for char in text):
        return None
    return text.strip()


def last_number(text: str) -> str | None:
    """Return the last decimal number of a text in its shortest form, None if there is none.

    Fractions, percentages, exponents and digits inside words are no numbers, nor are digits at a look-alike of a sign,
    point, slash or percent sign; a text with look-alike digits has none.
    """
    found = _NUMBER.findall(plain(text) or "")
    if not found:
        return None
    whole, _, fraction = found[-1].replace(",", "").partition(".")
    is_negative = whole.startswith("-")
    whole, fraction = whole.lstrip("-").lstrip("0") or "0", fraction.rstrip("0")
    number = f"{whole}.{fraction}" if fraction else whole
    return f"-{number}" if is_negative and number != "0" else number
