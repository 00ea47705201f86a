"""Which token ids end a completion and which are never sampled: rules that travel with the policy's own files.

They stand in `generation_config.json`, which the policy root covers, so that workers, validators and the trainer cannot
read them differently. Sampling settings of that file (temperature, top-p, penalties) are no rules: the pool's are.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stannary.errors import PolicyError
from stannary.shardcast.folder import read_object


@dataclass(frozen=True, slots=True)
class TokenRules:
    """Ids by their role in the sampling rule."""

    end_ids: frozenset[int]
    """The first of these ends a completion, and counts as one of its tokens."""
    suppressed_ids: tuple[int, ...] = ()
    """Ascending. Their logits are −inf before anything else is made of the logits."""


def read_token_rules(folder: Path) -> TokenRules:
    """Read `eos_token_id` and `suppress_tokens` of a policy folder.

    Raises: PolicyError when a file is missing or malformed, an id is outside the vocabulary, or the rules leave no way
    to end or nothing but ends.
    """
    generation, config = read_object(folder / "generation_config.json"), read_object(folder / "config.json")
    vocabulary = config.get("vocab_size")
    if type(vocabulary) is not int or vocabulary < 2:
        raise PolicyError(f"{folder / 'config.json'}: vocab_size: expected an integer above 1, got {vocabulary!r}")
    where = folder / "generation_config.json"
    eos = generation.get("eos_token_id")
    ends = _ids(where, "eos_token_id", eos if isinstance(eos, list) else [eos], vocabulary)
    suppressed = _ids(where, "suppress_tokens", generation.get("suppress_tokens") or [], vocabulary)
    if not ends - suppressed:
        raise PolicyError(f"{where}: expected an end id that is not suppressed, got {sorted(ends)}")
    if len(ends | suppressed) == vocabulary:
        raise PolicyError(f"{where}: expected ids that are neither ends nor suppressed, of {vocabulary}")
    return TokenRules(end_ids=ends, suppressed_ids=tuple(sorted(suppressed)))


def _ids(where: Path, field: str, value: Any, vocabulary: int) -> frozenset[int]:
    if not isinstance(value, list) or not all(type(token) is int and 0 <= token < vocabulary for token in value):
        raise PolicyError(f"{where}: {field}: expected ids 0 … {vocabulary - 1}, got {value!r:.200}")
    return frozenset(value)
