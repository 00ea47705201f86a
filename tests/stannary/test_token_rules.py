"""stannary.token_rules: what a policy's files say of ends and suppressed ids, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stannary.errors import PolicyError
from stannary.token_rules import TokenRules, read_token_rules


def write(folder: Path, generation: object, config: object = None) -> Path:
    (folder / "config.json").write_text(json.dumps({"vocab_size": 10} if config is None else config))
    (folder / "generation_config.json").write_text(json.dumps(generation))
    return folder


@pytest.mark.parametrize(
    ("generation", "rules"),
    [
        ({"eos_token_id": 1}, TokenRules(frozenset({1}))),
        ({"eos_token_id": [7, 1], "suppress_tokens": None}, TokenRules(frozenset({1, 7}))),
        ({"eos_token_id": 1, "suppress_tokens": [9, 0, 9]}, TokenRules(frozenset({1}), (0, 9))),
        ({"eos_token_id": [1, 2], "suppress_tokens": [2], "temperature": 0.7}, TokenRules(frozenset({1, 2}), (2,))),
    ],
)
def test_rules_are_read_from_the_generation_config(generation: object, rules: TokenRules, tmp_path: Path) -> None:
    assert read_token_rules(write(tmp_path, generation)) == rules


@pytest.mark.parametrize(
    ("generation", "said"),
    [
        ({}, r"eos_token_id: expected ids 0 … 9, got \[None\]"),
        ({"eos_token_id": "1"}, "eos_token_id: expected ids"),
        ({"eos_token_id": []}, "expected an end id"),
        ({"eos_token_id": [-1]}, "eos_token_id: expected ids"),
        ({"eos_token_id": 10}, "eos_token_id: expected ids"),
        ({"eos_token_id": True}, "eos_token_id: expected ids"),
        ({"eos_token_id": 1, "suppress_tokens": 3}, "suppress_tokens: expected ids"),
        ({"eos_token_id": 1, "suppress_tokens": [10]}, "suppress_tokens: expected ids"),
        ({"eos_token_id": 1, "suppress_tokens": [1]}, "an end id that is not suppressed"),
        ({"eos_token_id": 1, "suppress_tokens": [0, *range(2, 10)]}, "neither ends nor suppressed"),
        ([], "expected a JSON object, got list"),
    ],
)
def test_rules_that_are_none_are_refused(generation: object, said: str, tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=said):
        read_token_rules(write(tmp_path, generation))


@pytest.mark.parametrize("size", [None, "10", 1, -5, True])
def test_vocabulary_that_is_none_is_refused(size: object, tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="vocab_size: expected an integer above 1"):
        read_token_rules(write(tmp_path, {"eos_token_id": 1}, {"vocab_size": size}))


def test_folder_without_the_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="cannot be read"):
        read_token_rules(tmp_path)
