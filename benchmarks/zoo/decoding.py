"""An attacker's own engine: honest token by token, but with every part of it open to change.

What may be altered: the cache of keys and values, the logits, who of several policies chooses a token, which of their
states are proved, and the beginning of a completion. Legend: B sequences, H hidden size, V vocabulary.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from stannary.sampling.torch import sample, suppress_
from stannary.token_rules import read_token_rules

AT_ONCE = 64
"""Sequences decoded together."""
Alter = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True)
class Wish:
    """One completion to make. `forced` is how it begins, whatever the rule says."""

    prompt: tuple[int, ...]
    seed: bytes
    forced: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Made:
    """A completion. Shapes: states [T, H] bfloat16; those of forced tokens that were not decoded are missing."""

    tokens: tuple[int, ...]
    states: torch.Tensor


@dataclass(frozen=True, slots=True)
class Turn:
    """One position of the sequences that are not finished. Shapes: logits of each decoder [B, V] float32."""

    position: int
    logits: list[torch.Tensor]
    seeds: list[bytes]
    temperature: float

    def rule(self, logits: torch.Tensor) -> torch.Tensor:
        """Return what the sampling rule picks by some logits. Shapes: result [B]."""
        return sample(logits, self.temperature, self.seeds, [self.position] * len(self.seeds))[0]


Choose = Callable[[Turn], tuple[torch.Tensor, int]]
"""Returns the tokens [B], and the number of the decoder whose states are proved."""


class Decoder:
    """One policy that decodes many sequences together."""

    def __init__(
        self,
        folder: Path,
        dtype: torch.dtype = torch.bfloat16,
        alter: Alter = lambda each: each,
        kept: Alter | None = None,
    ) -> None:
        """`alter` changes logits [B, V], `kept` the keys and values [B, heads, S, D] of each new position."""
        from transformers import AutoModelForCausalLM
        from transformers.utils.logging import disable_progress_bar

        disable_progress_bar()
        model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, local_files_only=True).eval()
        self.rules = read_token_rules(folder)
        self._model = model.base_model
        self._head = model.get_output_embeddings().weight.detach().to(torch.bfloat16).float()
        self._alter, self._kept = alter, kept
        self._cache: Any = None

    def begin(self, rows: Sequence[Sequence[int]]) -> torch.Tensor:
        """Take the beginnings of sequences, all of one length, and return the states [B, H] that follow."""
        distinct = list(dict.fromkeys(map(tuple, rows)))
        self._cache = None
        state_BH = self._forward(torch.tensor(distinct))
        places = torch.tensor([distinct.index(tuple(row)) for row in rows])
        if len(distinct) < len(rows):
            self._cache.batch_select_indices(places)
        return state_BH[places]

    def step(self, tokens: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
        """Keep some sequences, append a token to each, and return their states."""
        self._cache.batch_select_indices(kept)
        return self._forward(tokens[:, None])

    def logits(self, state_BH: torch.Tensor) -> torch.Tensor:
        """Return the logits [B, V] that this attacker samples from."""
        return self._alter(suppress_(state_BH.float() @ self._head.T, self.rules.suppressed_ids))

    def _forward(self, ids_BS: torch.Tensor) -> torch.Tensor:
        out = self._model(input_ids=ids_BS, past_key_values=self._cache, use_cache=True)
        self._cache = out.past_key_values
        if self._kept is not None:
            new = ids_BS.shape[1]
            for layer in self._cache.layers:
                for values in (layer.keys, layer.values):
                    values[:, :, -new:] = self._kept(values[:, :, -new:])
        state: torch.Tensor = out.last_hidden_state[:, -1].to(torch.bfloat16)
        return state


def by_rule(turn: Turn) -> tuple[torch.Tensor, int]:
    """Choose as an honest worker does."""
    return turn.rule(turn.logits[0]), 0


@torch.inference_mode()
def decode(
    decoders: Sequence[Decoder],
    wishes: Sequence[Wish],
    cap: int,
    *,
    temperature: float = 1.0,
    choose: Choose = by_rule,
    report: Callable[[int], None] = lambda _: None,
) -> list[Made]:
    """Return one completion for each wish; `report` is told how many there are."""
    found: dict[int, Made] = {}
    for part in _batches(wishes):
        made = _decode(decoders, [wishes[index] for index in part], cap, temperature, choose)
        found.update(zip(part, made, strict=True))
        report(len(found))
    return [found[index] for index in range(len(wishes))]


def _batches(wishes: Sequence[Wish]) -> Iterator[list[int]]:
    """Yield wishes of equal prompt length, those that are forced equally far together."""
    by_length: defaultdict[int, list[int]] = defaultdict(list)
    for index, wish in enumerate(wishes):
        by_length[len(wish.prompt)].append(index)
    for indices in by_length.values():
        indices.sort(key=lambda index: len(wishes[index].forced))
        for start in range(0, len(indices), AT_ONCE):
            yield indices[start : start + AT_ONCE]


def _decode(
    decoders: Sequence[Decoder], wishes: Sequence[Wish], cap: int, temperature: float, choose: Choose
) -> list[Made]:
    # The last forced token is decoded, for it may end the completion.
    first = max(0, min(min(len(wish.forced) for wish in wishes), cap) - 1)
    tokens = [list(wish.forced[:first]) for wish in wishes]
    states: list[list[torch.Tensor]] = [[] for _ in wishes]
    alive = list(range(len(wishes)))
    now = [decoder.begin([[*wish.prompt, *wish.forced[:first]] for wish in wishes]) for decoder in decoders]
    for position in range(first, cap):
        turn = Turn(
            position,
            [decoder.logits(state) for decoder, state in zip(decoders, now, strict=True)],
            [wishes[index].seed for index in alive],
            temperature,
        )
        chosen, proved = choose(turn)
        going = []
        for row, index in enumerate(alive):
            forced = wishes[index].forced
            token = forced[position] if position < len(forced) else int(chosen[row])
            tokens[index].append(token)
            states[index].append(now[proved][row])
            if token not in decoders[0].rules.end_ids and position + 1 < cap:
                going.append(row)
        if not going:
            break
        alive = [alive[row] for row in going]
        following, kept = torch.tensor([tokens[index][-1] for index in alive]), torch.tensor(going)
        now = [decoder.step(following, kept) for decoder in decoders]
    return [Made(tuple(own), torch.stack(each)) for own, each in zip(tokens, states, strict=True)]
