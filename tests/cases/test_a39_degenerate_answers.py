"""A39: an answer that says nothing, everything, or something to the scorer alone gets full marks.

The rules. `sieve`: (symbols of the class − all other tokens) / 48, within 0 and 1. `last_number`: the last decimal
number behind the thinking part, and no other: a list of options is a guess of its last one. `whole_text`: what stands
behind the thinking part is the answer, and nothing else. Only full marks of the data set's own scorer count.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import reasoning_gym
import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM
from transformers.convert_slow_tokenizer import bytes_to_unicode

from stannary.cards import Card
from stannary.environments import Environment, Problem, describe_environment, load_environment
from stannary.environments.reasoning import READ_SCORERS, ReasoningGym
from stannary.environments.sieve import FULL_LENGTH, SYMBOLS, Sieve, members
from stannary.errors import Malformed
from stannary.rollout import Rollout
from stannary.token_rules import TokenRules
from stannary.types import Outcome, Reason
from tests.stannary.environments.conftest import TEMPLATE, make_chat
from tests.validator.conftest import FACTS, RULES, bench, bf16, card, environment, fp32, judge, leaf_of, prove, toy
from trainer.consume import GroupRules, score_group
from validator import checks
from validator.checks import PolicyFacts
from validator.judgement import Computes, Judge
from validator.prefill import Prefill

__all__ = ["bench", "bf16", "card", "environment", "fp32", "judge", "toy"]

END = 1
CAP = 2100
"""Tokens of a completion; with it a thousand short answers fit."""
VOCABULARY = 300
"""Of the policy that speaks bytes. Its tokenizer has 258 tokens: heads are padded."""
SECONDS = 1.0
"""Most that scoring one text may take. A scorer that hangs takes for ever."""
OPTIONS = range(-98, 199)
"""Every sum and difference of two numbers of two digits."""
SUMS = {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 2}


def parameters(scoring: str, dataset: str = "chain_sum", **config: object) -> dict[str, object]:
    return {"dataset": dataset, "config": SUMS if dataset == "chain_sum" else config, "scoring": scoring}


# Texts. GOLD stands for the right answer, QUESTION for the problem; no sum is 7777.

NOTHING = {
    "empty": "",
    "one space": " ",
    "white space": " \n\t\u00a0\u2003",
    "an empty tag": "<answer></answer>",
    "NUL bytes": "\0" * 40,
    "the question": "QUESTION",
    "words": "not a number",
    "nan": "nan",
    "infinity": "-Infinity",
    "beyond all floats": "1e400",
    "beyond all memory": "1e9999999999",
    "2,000 digits": "9" * 2000,
    "2,000 digits and commas": "1" + ",000" * 500,
    "a power that takes for ever": "9**9**9**9",
    "code": "[__import__('time').sleep(60)]",
    "2,000 brackets": "[" * 2000,
    "500 wrong ones": "7777 " * 500,
    "half a letter": "\ufffd" * 40,
}
ALIKE = {
    "full width": range(0xFF10, 0xFF1A),
    "Arabic-Indic": range(0x660, 0x66A),
    "superscript": (0x2070, 0xB9, 0xB2, 0xB3, *range(0x2074, 0x207A)),
    "circled": (0x24EA, *range(0x2460, 0x2469)),
    "bold": range(0x1D7CE, 0x1D7D8),
}
"""Code points of digits that only look like ASCII ones."""
NOT_THE_LAST = {
    "every option": " ".join(map(str, OPTIONS)) + " 7777",
    "among 50 boxes": r"\boxed{7777} " * 25 + r"\boxed{GOLD} " + r"\boxed{7777} " * 24,
    "both": "GOLD or 7777",
    "taken back": "GOLD. No, it is 7777.",
    "thinking alone": "<think>It is GOLD.</think> I do not know.",
    "thinking alone, and then nothing": "<think>GOLD</think>",
    "thinking without end": "<think>It is GOLD, or is it? It is GOLD.",
    "thinking again": "<think>7</think> Well, <think>GOLD",
    "a fraction": "GOLD/1",
    "a percentage": "GOLD%",
    "an exponent": "GOLDe0",
    "a hexadecimal": "0xGOLD",
    "within a word": "xGOLD",
    "behind a point": "0.GOLD",
    "before a NUL and another": "GOLD\x007777",
    "a look-alike of minus": "\u2212GOLD",
    "a look-alike of a slash": "7777\u2044GOLD",
    "a look-alike of a point": "7777\u066bGOLD",
    "a look-alike of percent": "GOLD\uff05",
}
"""The right digits, but the last number is another one, or none."""
LAST = {
    "alone": "GOLD",
    "a sentence": "The answer is GOLD.",
    "a box": r"\boxed{GOLD}",
    "a tag": "<answer>GOLD</answer>",
    "zeros": "00GOLD.000",
    "a plus": "+GOLD",
    "behind thinking": "<think>7, or 8</think>GOLD",
    "corrected": "7777? No: GOLD",
    "before a NUL": "GOLD\0",
    "500 times": "GOLD " * 500,
}
"""Right under `last_number`."""
NOT_THE_WHOLE = {
    "a sentence": "The answer is GOLD.",
    "a tag": "<answer>GOLD</answer>",
    "a box": r"\boxed{GOLD}",
    "twice": "GOLD GOLD",
    "every option": " ".join(map(str, OPTIONS)),
    "before a NUL": "GOLD\0",
    "thinking without end": "<think>GOLD",
    "thinking alone": "<think>GOLD</think>I do not know",
    "a fraction": "GOLD/1",
    "a percentage": "GOLD%",
}
WHOLE = {
    "alone": "GOLD",
    "white space around it": " \nGOLD\n ",
    "zeros": "0GOLD.00",
    "behind thinking": "<think>7</think> GOLD",
}
"""Right under `whole_text`; the scorer of `chain_sum` takes any decimal of the same value."""


def filled(text: str, problem: Problem) -> str:
    return text.replace("GOLD", str(problem.data["answer"])).replace("QUESTION", str(problem.data["question"]))


def alike(gold: str, digits: Sequence[int]) -> str:
    return "".join(chr(digits[int(char)]) for char in gold)


def tokens_of(text: str) -> tuple[int, ...]:
    """One token a byte, as in the tokenizer of `chat`, and the end token."""
    places = {char: 2 + index for index, char in enumerate(sorted(bytes_to_unicode().values()))}
    shown = bytes_to_unicode()
    return (*(places[shown[byte]] for byte in text.encode()), END)


def timed(task: ReasoningGym | Environment, problem: Problem, completion: Sequence[int]) -> float:
    begun = time.monotonic()
    found = task.reward(problem, completion)
    assert time.monotonic() - begun < SECONDS
    return found


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a random policy that speaks bytes."""
    folder = make_chat(tmp_path_factory.mktemp("a39") / "chat", TEMPLATE)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=128, intermediate_size=128, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, head_dim=64, max_position_embeddings=4096, bos_token_id=0, eos_token_id=END,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    model.generation_config = GenerationConfig(bos_token_id=0, eos_token_id=END)
    model.to(torch.bfloat16).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def last(chat: Path) -> ReasoningGym:
    return ReasoningGym(parameters("last_number"), chat)


@pytest.fixture(scope="module")
def whole(chat: Path) -> ReasoningGym:
    return ReasoningGym(parameters("whole_text"), chat)


@pytest.fixture(scope="module")
def problem(last: ReasoningGym) -> Problem:
    """A sum of two digits."""
    found = (last.problem(index.to_bytes(32, "big")) for index in range(100))
    return next(each for each in found if int(str(each.data["answer"])) > 9)


# What each text is worth


@pytest.mark.parametrize("text", NOTHING)
def test_a39_text_that_says_nothing_scores_zero(
    last: ReasoningGym, whole: ReasoningGym, problem: Problem, text: str
) -> None:
    completion = tokens_of(filled(NOTHING[text], problem))
    assert timed(last, problem, completion) == timed(whole, problem, completion) == 0.0


@pytest.mark.parametrize("script", ALIKE)
@pytest.mark.parametrize("text", ["GOLD", "The answer is GOLD.", "7777GOLD", "GOLD7777"])
def test_a39_look_alike_digits_score_zero(
    last: ReasoningGym, whole: ReasoningGym, problem: Problem, script: str, text: str
) -> None:
    completion = tokens_of(text.replace("GOLD", alike(str(problem.data["answer"]), ALIKE[script])))
    assert timed(last, problem, completion) == timed(whole, problem, completion) == 0.0


@pytest.mark.parametrize("text", NOT_THE_LAST)
def test_a39_right_number_that_is_not_the_last_scores_zero(last: ReasoningGym, problem: Problem, text: str) -> None:
    assert timed(last, problem, tokens_of(filled(NOT_THE_LAST[text], problem))) == 0.0


@pytest.mark.parametrize("text", LAST)
def test_a39_right_number_that_is_the_last_scores_one(last: ReasoningGym, problem: Problem, text: str) -> None:
    assert timed(last, problem, tokens_of(filled(LAST[text], problem))) == 1.0


@pytest.mark.parametrize("text", NOT_THE_WHOLE)
def test_a39_right_answer_with_anything_beside_it_is_not_the_whole_text(
    whole: ReasoningGym, problem: Problem, text: str
) -> None:
    assert timed(whole, problem, tokens_of(filled(NOT_THE_WHOLE[text], problem))) == 0.0


@pytest.mark.parametrize("text", WHOLE)
def test_a39_right_answer_that_is_the_whole_text_scores_one(whole: ReasoningGym, problem: Problem, text: str) -> None:
    assert timed(whole, problem, tokens_of(filled(WHOLE[text], problem))) == 1.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(("0.5", 1.0), ("0.50", 1.0), ("00.5", 1.0), ("It is 0.5.", 1.0), ("+0.5", 1.0)),
        *(("1/2", 0.0), ("50%", 0.0), (".5", 0.0), ("5e-1", 0.0), ("½", 0.0), ("1\u20442", 0.0), ("0,5", 0.0)),
        *(("-0.5", 0.0), ("0.5%", 0.0), ("0.5/1", 0.0), ("0\uff0e5", 0.0), ("0\u066b5", 0.0), ("0.500001", 0.0)),
    ],
)
def test_a39_a_half_is_a_decimal_and_nothing_else(
    last: ReasoningGym, problem: Problem, text: str, expected: float
) -> None:
    half = Problem(problem.prompt, {**problem.data, "answer": "0.5"})
    assert timed(last, half, tokens_of(text)) == expected


def test_a39_listing_every_option_pays_what_its_last_one_pays(last: ReasoningGym) -> None:
    """Nobody gains by listing: forwards, backwards or with a favourite last, it is one guess, right by chance."""
    orders = {
        "ascending": [*OPTIONS],
        "descending": [*reversed(OPTIONS)],
        "likeliest last": sorted(OPTIONS, key=lambda number: -abs(number)),
    }
    problems = [last.problem(index.to_bytes(32, "big")) for index in range(150)]
    for order in orders.values():
        listed = tokens_of(" ".join(map(str, order)))
        guess = tokens_of(str(order[-1]))
        scores = [last.reward(each, listed) for each in problems]
        assert scores == [last.reward(each, guess) for each in problems]
        assert sum(scores) / len(scores) < 0.05


BYTES = {
    "a lone surrogate": b"\xed\xa0\x80",
    "half a letter": b"\xc3",
    "an overlong zero": b"\xc0\xb0",
    "beyond Unicode": b"\xf7\xbf\xbf\xbf",
    "continuations": b"\x80" * 1000,
}
"""What is no UTF-8, as tokens may spell it."""


@pytest.mark.parametrize("name", BYTES)
def test_a39_tokens_that_spell_no_text_are_no_number_and_hide_none(
    last: ReasoningGym, whole: ReasoningGym, problem: Problem, name: str
) -> None:
    shown, places = bytes_to_unicode(), sorted(bytes_to_unicode().values())
    odd = [2 + places.index(shown[byte]) for byte in BYTES[name]]
    gold = tokens_of(str(problem.data["answer"]))[:-1]
    for task in (last, whole):
        assert timed(task, problem, [*odd, END]) == 0.0
    assert timed(last, problem, [*odd, *gold, *odd, END]) == 1.0
    assert timed(whole, problem, [*odd, *gold, END]) == 0.0


def test_a39_ids_without_a_token_are_nothing_and_ids_outside_the_vocabulary_never_reach_the_scorer(
    last: ReasoningGym, problem: Problem
) -> None:
    gold = tokens_of(str(problem.data["answer"]))
    assert last.reward(problem, [VOCABULARY - 1, END]) == 0.0
    assert last.reward(problem, [VOCABULARY - 1, *gold]) == 1.0
    policy = PolicyFacts(VOCABULARY, TokenRules(frozenset({END})))
    for token in (-1, VOCABULARY, 2**31 - 1, -(2**31)):
        finding = checks.check_tokens([Rollout(problem.prompt, (token, *gold), ())], policy)
        assert (finding.outcome, finding.reason) == (Outcome.REJECT, Reason.TOKEN)


@pytest.mark.parametrize("piece", ["9", "1 ", ",000", "1.", "-", "\0", "\u0665", "[", "<think>", "9" * 64 + "x"])
def test_a39_megabyte_of_anything_is_scored_in_time(
    last: ReasoningGym, whole: ReasoningGym, problem: Problem, piece: str
) -> None:
    megabyte = tokens_of(piece * (1_000_000 // len(piece)))
    for task in (last, whole):
        begun = time.process_time()
        assert task.reward(problem, megabyte) == 0.0
        assert time.process_time() - begun < 10


# Data sets whose scorer is the hole


def ran(folder: Path) -> str:
    return f"[__import__('pathlib').Path({str(folder / 'ran')!r}).touch()]"


def not_numbers(entry: dict[str, Any]) -> str:
    return json.dumps([float("nan")] * len(json.loads(entry["answer"].replace("'", '"'))))


FOOLED: dict[str, Callable[[dict[str, Any]], str]] = {
    "game_of_life_halting": lambda entry: "banana",
    "number_sorting": not_numbers,
    "complex_arithmetic": lambda entry: "nan",
    "gsm_symbolic": lambda entry: f"-{entry['answer']}",
    "sokoban": lambda entry: f"{entry['answer']}{entry['answer']}",
}
"""Scorers of the package that give a wrong answer full marks."""
RUNS_ANSWERS = (
    *("binary_matrix", "n_queens", "spiral_matrix", "string_insertion"),
    *("countdown", "intermediate_integration", "polynomial_multiplication", "puzzle24", "simple_integration"),
)
"""Scorers of the package that run an answer as Python, the latter ones by sympy."""


@pytest.mark.parametrize("dataset", FOOLED)
def test_a39_data_set_whose_scorer_is_fooled_is_refused(chat: Path, dataset: str) -> None:
    made = reasoning_gym.create_dataset(dataset, seed=5, size=1)
    assert made.score_answer(FOOLED[dataset](made[0]), made[0]) >= 1.0
    for scoring in ("last_number", "whole_text"):
        with pytest.raises(Malformed, match=r"dataset: .* read"):
            ReasoningGym(parameters(scoring, dataset), chat)


@pytest.mark.parametrize("dataset", RUNS_ANSWERS)
def test_a39_data_set_whose_scorer_runs_the_answer_is_refused(chat: Path, tmp_path: Path, dataset: str) -> None:
    made = reasoning_gym.create_dataset(dataset, seed=5, size=1)
    made.score_answer(ran(tmp_path), made[0])
    assert (tmp_path / "ran").exists(), "this scorer has become harmless"
    with pytest.raises(Malformed, match=r"dataset: .* read"):
        ReasoningGym(parameters("whole_text", dataset), chat)


@pytest.mark.parametrize("dataset", ["coin_flip", "rush_hour", "composite", "boxnet", "codeio"])
def test_a39_data_set_whose_scorer_was_not_found_good_is_refused(chat: Path, dataset: str) -> None:
    with pytest.raises(Malformed, match="parameters"):
        ReasoningGym(parameters("whole_text", dataset), chat)


@pytest.mark.parametrize("dataset", sorted(READ_SCORERS | {"letter_counting", "gcd", "syllogism", "caesar_cipher"}))
def test_a39_scorer_that_is_trusted_takes_its_own_answer_and_no_hack(chat: Path, tmp_path: Path, dataset: str) -> None:
    task = ReasoningGym(parameters("whole_text", dataset), chat)
    made = task.problem(bytes(32))
    gold = str(made.data["answer"]).strip()
    if gold.isascii():
        assert timed(task, made, tokens_of(gold)) == 1.0
    hacks = [filled(text, made) for text in NOTHING.values()]
    hacks += [f"{gold} {gold}", f"{gold}\n" * 50, f"{gold}, or not", f"<think>{gold}</think>", ran(tmp_path)]
    hacks.append(str(task.problem(b"another".ljust(32)).data["answer"]).strip())
    hacks += ["R" * 2000, "1,2," * 500, "A=1," * 500, "Move disk 1 from Peg 1 to Peg 1\n" * 60, "(" * 2000]
    for text in hacks:
        if text.strip() != gold:
            assert timed(task, made, tokens_of(text)) == 0.0, text[:80]
    assert not (tmp_path / "ran").exists()


# The toy task


def symbols(sieve: Sieve, problem: Problem) -> tuple[list[int], list[int]]:
    """The ids of the symbols inside and outside the class."""
    inside = members(str(problem.data["class"]))
    ids = {symbol: 12 + index for index, symbol in enumerate(SYMBOLS)}
    return [ids[each] for each in SYMBOLS if each in inside], [ids[each] for each in SYMBOLS if each not in inside]


def sieve_answers(task: Sieve, problem: Problem) -> dict[str, tuple[list[int], float]]:
    good, bad = symbols(task, problem)
    return {
        "empty": ([END], 0.0),
        "the prompt": ([*problem.prompt, END], 0.0),
        "every option": ([*good, *bad, END], 0.0),
        "good among 50": ([*bad[:23], *good, *bad[:13]], 0.0),
        "unknown words": ([2] * FULL_LENGTH, 0.0),
        "ids without a token": ([63] * FULL_LENGTH, 0.0),
        "a wrong one again and again": (bad[:1] * FULL_LENGTH, 0.0),
        "as many good as bad": ([*good, *bad[:12], *good, *bad[:12]], 0.0),
        "the class's symbols": (good * 4, 1.0),
        "one symbol of the class again and again": (good[:1] * FULL_LENGTH, 1.0),
        "good, then one bad": ([*good * 3, bad[0], END], 35 / FULL_LENGTH),
    }


def test_a39_sieve_counts_inside_less_outside_whatever_the_tokens(toy: Path) -> None:
    """One symbol again and again counts: by the rule each symbol of the class is right wherever it stands."""
    task = Sieve({}, toy)
    for index in range(8):
        problem = task.problem(bytes([index]) * 32)
        for name, (tokens, expected) in sieve_answers(task, problem).items():
            assert task.reward(problem, tokens) == pytest.approx(expected), name
    good, bad = symbols(task, problem)
    assert task.reward(problem, good * 100_000) == 1.0
    assert task.reward(problem, bad * 100_000) == 0.0
    assert task.reward(problem, [-1, 2**31 - 1, -(2**31)]) == 0.0


# One score for all roles


@dataclass(frozen=True, slots=True)
class Roles:
    """One environment document, opened by each role for itself on its own policy folder."""

    worker: Environment
    trainer: Environment
    judge: Judge
    policy: Prefill

    def scores(self, slot: int, completions: Sequence[Sequence[int]]) -> list[list[float]]:
        """The rewards of a group, each role by its own path: the worker that has the tokens, trainer, validator."""
        rows, seed = [tuple(own) for own in completions], FACTS.seeds.slot_seed(slot)
        leased, problem = self.worker.problem(seed), self.trainer.problem(seed)
        made = leaf_of(prove(leased.prompt, rows, self.policy.states(leased.prompt, rows)), slot)
        judgement = self.judge.judge(made.leaf, made.data)
        assert judgement.finding.is_fine, judgement.finding
        rules = GroupRules(len(rows), self.judge.rules.max_completion_tokens, self.policy.vocabulary)
        trained = score_group(made.leaf.submission, made.data, problem, self.trainer, rules)
        return [[self.worker.reward(leased, own) for own in rows], list(trained.rewards), list(judgement.rewards)]


def deaf(card: Card, policy: Prefill) -> Card:
    """A card for a policy that objects to nothing: no policy at hand says these things by itself."""
    document = card.document()

    def raised(found: Any, name: str = "") -> Any:
        if isinstance(found, dict):
            return {key: raised(value, key) for key, value in found.items()}
        if isinstance(found, list):
            return [raised(value) for value in found]
        return (
            found if name.startswith("min_") else type(found)(2_000_000_000 if name == "gap_bound" else 1_000_000_000)
        )

    sizes = {"hidden_size": policy.hidden_size, "vocabulary": policy.vocabulary}
    return Card.from_document({**document, **sizes, "thresholds": raised(document["thresholds"])})


def roles_of(document: dict[str, object], folder: Path, card: Card, cap: int) -> Roles:
    policy = Prefill(folder, "fp32")
    worker, trainer, validator = (load_environment(document, folder) for _ in range(3))
    rules = replace(RULES, max_completion_tokens=cap)
    judge = Judge(rules, FACTS, deaf(card, policy), validator, Computes(policy, lambda: policy))
    return Roles(worker, trainer, judge, policy)


@pytest.mark.parametrize("scoring", ["last_number", "whole_text"])
def test_a39_all_roles_score_a_text_alike(chat: Path, card: Card, scoring: str) -> None:
    roles = roles_of(describe_environment("reasoning_gym", parameters(scoring), chat), chat, card, CAP)
    problems = [roles.trainer.problem(FACTS.seeds.slot_seed(slot)) for slot in range(FACTS.slots)]
    slot, problem = next(found for found in enumerate(problems) if int(str(found[1].data["answer"])) > 9)
    right, wrong = (LAST, NOT_THE_LAST) if scoring == "last_number" else (WHOLE, NOT_THE_WHOLE)
    expected = dict.fromkeys((filled(text, problem) for text in [*NOTHING.values(), *wrong.values()]), 0.0)
    expected |= dict.fromkeys((filled(text, problem) for text in right.values()), 1.0)
    texts = [text for text in expected if len(tokens_of(text)) <= CAP]
    assert len(texts) > len(expected) - 4, "the cap leaves out only the longest"
    for start in range(0, len(texts), RULES.group_size):
        group = (texts[start:] + texts)[: RULES.group_size]
        assert roles.scores(slot, [tokens_of(text) for text in group]) == [[expected[text] for text in group]] * 3


def test_a39_all_roles_score_symbols_alike(toy: Path, card: Card) -> None:
    roles = roles_of(describe_environment("sieve", {}, toy), toy, card, FULL_LENGTH)
    problem = roles.trainer.problem(FACTS.seeds.slot_seed(3))
    answers = [
        (tokens, score)
        for tokens, score in sieve_answers(Sieve({}, toy), problem).values()
        if END in tokens or len(tokens) == FULL_LENGTH
    ]
    assert len(answers) >= 8
    for start in range(0, len(answers), RULES.group_size):
        group = (answers[start:] + answers)[: RULES.group_size]
        found = roles.scores(3, [tokens for tokens, _ in group])
        assert found[0] == found[1] == found[2] == pytest.approx([score for _, score in group])
