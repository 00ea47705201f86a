"""The toy task."""

from __future__ import annotations

from pathlib import Path

import pytest

from stannary.environments.sieve import CLASSES, SYMBOLS, Sieve, members
from stannary.errors import Malformed, PolicyError
from tests.stannary.environments.conftest import make_chat


def test_sieve_classes_have_twelve_of_thirty_six_symbols() -> None:
    assert len(SYMBOLS) == len(set(SYMBOLS)) == 36
    assert all(len(members(name)) == 12 and members(name) <= set(SYMBOLS) for name in CLASSES)
    assert len({members(name) for name in CLASSES}) == 8


def test_sieve_prompt_is_the_agreed_form_and_follows_from_the_seed(words: Path) -> None:
    sieve = Sieve({}, words)
    found = {sieve.problem(bytes([index] * 32)).prompt for index in range(64)}
    assert len(found) > 60
    assert all(
        prompt[0] == 0 and 4 <= prompt[1] < 12 and min(prompt[2:4]) >= 12 and max(prompt[2:4]) < 48 and prompt[4] == 3
        for prompt in found
    )
    assert sieve.problem(b"x" * 32) == Sieve({}, words).problem(b"x" * 32)


def test_sieve_training_and_heldout_share_no_prompt(words: Path) -> None:
    sieve = Sieve({}, words)
    training = {sieve.problem(index.to_bytes(32, "big")).prompt for index in range(4000)}
    heldout = {sieve.heldout(index).prompt for index in range(1000)}
    assert not training & heldout
    assert len(heldout) > 500


def test_sieve_reward_counts_inside_less_outside(words: Path) -> None:
    sieve = Sieve({}, words)
    problem = sieve.problem(b"x" * 32)
    inside = sorted(members(str(problem.data["class"])))
    outside = sorted(set(SYMBOLS) - members(str(problem.data["class"])))
    ids = {symbol: 12 + index for index, symbol in enumerate(SYMBOLS)}
    good, bad = [ids[symbol] for symbol in inside], [ids[symbol] for symbol in outside]
    assert sieve.reward(problem, good * 4) == 1.0
    assert sieve.reward(problem, [*good, *bad[:4], 1]) == pytest.approx(8 / 48)
    assert sieve.reward(problem, bad) == 0.0
    assert sieve.reward(problem, []) == sieve.reward(problem, [1]) == 0.0
    assert sieve.reward(problem, good * 40) == 1.0


@pytest.mark.parametrize("token", [0, 1, 2, 3, 4, 63])
def test_sieve_reward_of_token_that_is_no_symbol_counts_against(words: Path, token: int) -> None:
    sieve = Sieve({}, words)
    problem = sieve.problem(b"x" * 32)
    good = [12 + SYMBOLS.index(symbol) for symbol in sorted(members(str(problem.data["class"])))]
    assert sieve.reward(problem, [token, *good]) == pytest.approx(11 / 48)


def test_sieve_refuses_parameters_and_foreign_tokenizers(words: Path, tmp_path: Path) -> None:
    with pytest.raises(Malformed, match="parameters"):
        Sieve({"size": 1}, words)
    with pytest.raises(PolicyError, match="lacks words"):
        Sieve({}, make_chat(tmp_path / "other", None))
