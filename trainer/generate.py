"""Sampling with plain torch, for evaluation and rehearsals. Not the protocol's sampling: nothing here is proved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from stannary.sampling.torch import suppress_
from stannary.token_rules import TokenRules


@torch.no_grad()
def sample(
    model: Any,
    prompts: Sequence[Sequence[int]],
    *,
    rules: TokenRules,
    max_tokens: int,
    temperature: float,
    seed: int,
) -> list[tuple[int, ...]]:
    """Return one completion for each prompt, end token included; the same seed gives the same completions.

    Shapes: prompts are padded on the left, so that all rows grow at the same column.
    """
    generator = torch.Generator().manual_seed(seed)
    width = max(len(prompt) for prompt in prompts)
    tokens_BT = torch.zeros(len(prompts), width, dtype=torch.long)
    attention_BT = torch.zeros(len(prompts), width, dtype=torch.long)
    for row, prompt in enumerate(prompts):
        tokens_BT[row, width - len(prompt) :] = torch.tensor(prompt)
        attention_BT[row, width - len(prompt) :] = 1
    positions_BT = (attention_BT.cumsum(1) - 1).clamp(min=0)
    ends = torch.tensor(sorted(rules.end_ids))
    alive_B = torch.ones(len(prompts), dtype=torch.bool)
    lengths_B = torch.zeros(len(prompts), dtype=torch.long)
    chosen: list[torch.Tensor] = []
    cache: Any = None
    for _ in range(max_tokens):
        output = model(
            input_ids=tokens_BT,
            attention_mask=attention_BT,
            position_ids=positions_BT,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        cache = output.past_key_values
        logits_BV = suppress_(output.logits[:, -1].float(), rules.suppressed_ids)
        probabilities_BV = torch.softmax(logits_BV / temperature, dim=-1)
        tokens_BT = torch.multinomial(probabilities_BV, 1, generator=generator)
        chosen.append(tokens_BT[:, 0])
        lengths_B += alive_B
        alive_B &= ~torch.isin(tokens_BT[:, 0], ends)
        if not alive_B.any():
            break
        attention_BT = torch.cat([attention_BT, torch.ones_like(tokens_BT)], dim=1)
        positions_BT = positions_BT[:, -1:] + 1
    rows = torch.stack(chosen, dim=1).tolist()
    return [tuple(row[: int(length)]) for row, length in zip(rows, lengths_B, strict=True)]
