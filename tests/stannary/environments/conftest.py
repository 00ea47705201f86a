"""Small tokenizers: the toy's words, and a byte-level one with a chat template. No weights are needed here."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from stannary.environments.sieve import CLASSES, SYMBOLS

TEMPLATE = (
    "{% for message in messages %}<s>{{ message['role'] }}\n{{ message['content'] }}</s>\n{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant\n{% endif %}"
)


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """A folder with a tokenizer of the sieve's words."""
    vocabulary = {word: index for index, word in enumerate(["<bos>", "<eos>", "<unk>", ":", *CLASSES, *SYMBOLS])}
    folder = tmp_path / "words"
    folder.mkdir()
    Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>")).save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    """A folder with a byte-level tokenizer whose own rule adds a start token too, and a chat template."""
    return make_chat(tmp_path / "chat", TEMPLATE)


def make_chat(folder: Path, template: str | None) -> Path:
    """Write a byte-level chat tokenizer."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate(["<s>", "</s>", *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", add_bos_token=True)
    fast.chat_template = template
    fast.save_pretrained(folder)
    return folder
