"""The adapter of reasoning-gym: strict scoring, prompts rendered once."""

from __future__ import annotations

from pathlib import Path

import pytest

from stannary.environments.reasoning import ReasoningGym, last_number
from stannary.errors import Malformed, PolicyError
from tests.stannary.environments.conftest import TEMPLATE, make_chat

CHAIN_SUM = {
    "dataset": "chain_sum",
    "config": {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 2},
    "scoring": "last_number",
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5", "5"),
        ("The answer is 191.", "191"),
        ("3, 5", "5"),
        ("98-5", "5"),
        ("= -3", "-3"),
        ("(-3)", "-3"),
        ("-0", "0"),
        ("007", "7"),
        ("5.0", "5"),
        ("x = -3.50.", "-3.5"),
        ("1,000", "1000"),
        ("", None),
        (" ", None),
        ("none", None),
        ("1/2", None),
        ("50%", None),
        ("1e400", None),
        ("a5", None),
        ("5a", None),
        ("５", None),
        ("15 and ５", None),
        ("٥", None),
        ("½", None),
        ("9" * 100_000, None),
    ],
)
def test_a39_last_number_of_a_text(text: str, expected: str | None) -> None:
    assert last_number(text) == expected


def answer(environment: ReasoningGym, text: str, expected: str | None = None) -> float:
    """The reward of a text, `{}` in it standing for the right answer."""
    problem = environment.problem(b"x" * 32)
    tokens = environment._tokenizer.encode(
        text.replace("{}", expected or str(problem.data["answer"])), add_special_tokens=False
    )
    return environment.reward(problem, [*tokens, 1])


@pytest.mark.parametrize("text", ["{}", "The answer is {}.", "1 + 1 = {}", "{}.0", " {} "])
def test_a39_right_answers_score_one(chat: Path, text: str) -> None:
    assert answer(ReasoningGym(CHAIN_SUM, chat), text) == 1.0


@pytest.mark.parametrize("text", ["", " ", "<answer></answer>", "1{}", "{}1", "{} or 7777", "{}%", "x{}", "0.{}", "７"])
def test_a39_hacks_score_zero(chat: Path, text: str) -> None:
    assert answer(ReasoningGym(CHAIN_SUM, chat), text) == 0.0


def test_a39_part_marks_of_the_package_score_zero(chat: Path) -> None:
    environment = ReasoningGym({**CHAIN_SUM, "scoring": "whole_text"}, chat)
    assert answer(environment, "{}") == 1.0
    assert answer(environment, "it is {}") == 0.0


def test_scorer_that_raises_scores_zero(chat: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = ReasoningGym(CHAIN_SUM, chat)

    def broken(*_: object) -> float:
        raise RecursionError

    monkeypatch.setattr(environment._scorer, "score_answer", broken)
    assert answer(environment, "{}") == 0.0


def test_a25_prompt_has_one_start_token_although_the_tokenizer_adds_its_own(chat: Path) -> None:
    prompt = ReasoningGym(CHAIN_SUM, chat).problem(b"x" * 32).prompt
    assert prompt[0] == 0
    assert prompt[1] != 0
    assert prompt.count(0) == 2  # one a turn: the question's and the answer's


@pytest.mark.parametrize("template", ["<s>" + TEMPLATE, "x" + TEMPLATE])
def test_a25_template_with_two_start_tokens_or_none_is_refused(tmp_path: Path, template: str) -> None:
    environment = ReasoningGym(CHAIN_SUM, make_chat(tmp_path / "chat", template))
    with pytest.raises(PolicyError, match="exactly one start token"):
        environment.problem(b"x" * 32)


def test_policy_without_chat_template_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="chat template"):
        ReasoningGym(CHAIN_SUM, make_chat(tmp_path / "chat", None))


def test_training_and_heldout_share_no_question(chat: Path) -> None:
    environment = ReasoningGym(CHAIN_SUM, chat)
    training = {str(environment.problem(index.to_bytes(32, "big")).data["question"]) for index in range(1500)}
    heldout = {str(environment.heldout(index).data["question"]) for index in range(300)}
    assert not training & heldout
    assert len(heldout) > 120


def test_neighbouring_slots_share_nothing(chat: Path) -> None:
    environment = ReasoningGym(CHAIN_SUM, chat)
    found = [environment.problem(bytes(31) + bytes([index])).data["question"] for index in range(64)]
    assert len(set(map(str, found))) > 60


def test_task_with_problems_on_one_side_only_is_refused(chat: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = ReasoningGym(CHAIN_SUM, chat)
    monkeypatch.setattr("stannary.environments.reasoning.MAX_DRAWS", 50)
    monkeypatch.setattr("stannary.environments.reasoning.is_heldout", lambda _: False)
    with pytest.raises(Malformed, match="both sides"):
        environment.heldout(0)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {**CHAIN_SUM, "extra": 1},
        {**CHAIN_SUM, "dataset": "no_such_task"},
        {**CHAIN_SUM, "config": {"foo": 1}},
        {**CHAIN_SUM, "config": {"seed": 1}},
        {**CHAIN_SUM, "config": {"min_terms": -1}},
        {**CHAIN_SUM, "config": []},
        {**CHAIN_SUM, "scoring": "generous"},
    ],
)
def test_parameters_that_are_none_are_refused(chat: Path, parameters: dict[str, object]) -> None:
    with pytest.raises(Malformed, match="parameters"):
        ReasoningGym(parameters, chat)
