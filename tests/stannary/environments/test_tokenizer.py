"""stannary.environments.tokenizer: a tokenizer gives a value or a PolicyError, whatever its reader raises."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from stannary.environments.sieve import Sieve
from stannary.environments.tokenizer import PANIC, read_tokenizer
from stannary.errors import PolicyError

Panic = type(PANIC, (BaseException,), {})


def fail(error: BaseException) -> object:
    raise error


@pytest.mark.parametrize("error", [Exception("no"), ValueError("no"), OSError("no"), Panic("no")])
def test_what_the_reader_raises_is_a_policy_error(error: BaseException, tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="cannot be read: no"):
        read_tokenizer(tmp_path, lambda: fail(error))


@pytest.mark.parametrize("error", [MemoryError(), KeyboardInterrupt(), SystemExit()])
def test_what_is_not_of_the_file_goes_on(error: BaseException, tmp_path: Path) -> None:
    with pytest.raises(type(error)):
        read_tokenizer(tmp_path, lambda: fail(error))


def test_value_is_handed_on(tmp_path: Path) -> None:
    assert read_tokenizer(tmp_path, lambda: 7) == 7


def test_tokenizer_on_which_the_package_panics_is_a_policy_error(tmp_path: Path) -> None:
    model = {
        "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "-1",
        "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
        "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]],
    }  # fmt: skip
    (tmp_path / "tokenizer.json").write_text(json.dumps({"version": "1.0", "added_tokens": [], "model": model}))
    with pytest.raises(BaseException, match="slice index") as raised:
        Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert type(raised.value).__name__ == PANIC
    with pytest.raises(PolicyError, match="cannot be read"):
        Sieve({}, tmp_path)
