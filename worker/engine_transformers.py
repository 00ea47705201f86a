"""Generation by transformers: the engine without vLLM, for small policies, other platforms and comparison.

Rollouts whose prompts have equal length decode together, so that no padding and no mask touches the numbers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from stannary.errors import PolicyError
from stannary.sampling.torch import sample, suppress_
from stannary.token_rules import TokenRules
from worker.capture import Capture
from worker.engine import PolicyShape, RolloutOutput, RolloutRequest, read_shape

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


@dataclass(frozen=True, slots=True)
class TransformersOptions:
    """How the model is run. dtype is the model's; states are bfloat16 and logits float32 in any case."""

    dtype: torch.dtype = torch.bfloat16
    device: str = "cpu"
    max_sequences: int = 64
    attention: str = "sdpa"
    """What transformers computes attention with: sdpa or eager."""
    keeps_states: bool = False


class TransformersEngine:
    """The engine on transformers."""

    name = "transformers"

    def __init__(self, options: TransformersOptions | None = None) -> None:
        self.options = options or TransformersOptions()
        self.shape: PolicyShape | None = None
        self.decoder: Any = None
        self.head = torch.empty(0)

    def load(self, folder: Path) -> None:
        """Load a policy folder in place of the one before.

        Raises: PolicyError on a folder that cannot be used.
        """
        from transformers import AutoModelForCausalLM
        from transformers.utils.logging import disable_progress_bar

        disable_progress_bar()  # a policy is loaded every few minutes: bars would fill the log
        shape = read_shape(folder)
        self.close()
        try:
            model = AutoModelForCausalLM.from_pretrained(
                folder, dtype=self.options.dtype, attn_implementation=self.options.attention, local_files_only=True
            )
        except (OSError, ValueError, RuntimeError) as error:
            raise PolicyError(f"{folder}: transformers cannot load it: {error}") from error
        model.eval().to(self.options.device)
        self.decoder = model.base_model
        self.head = model.get_output_embeddings().weight.detach().to(torch.float32)
        self.shape = shape

    def generate(self, requests: Sequence[RolloutRequest], temperature: float) -> list[RolloutOutput]:
        """One completion a request, in order.

        Raises: PolicyError on a request that the policy cannot serve.
        """
        if self.shape is None:
            raise PolicyError("no policy is loaded")
        self.shape.check_requests(requests, temperature)
        by_length: defaultdict[int, list[int]] = defaultdict(list)
        for index, request in enumerate(requests):
            by_length[len(request.prompt)].append(index)
        outputs: dict[int, RolloutOutput] = {}
        for indices in by_length.values():
            for start in range(0, len(indices), self.options.max_sequences):
                part = indices[start : start + self.options.max_sequences]
                done = self._decode([requests[index] for index in part], temperature, self.shape.tokens)
                outputs.update(zip(part, done, strict=True))
        return [outputs[index] for index in range(len(requests))]

    @torch.no_grad()
    def _decode(self, requests: Sequence[RolloutRequest], temperature: float, rules: TokenRules) -> list[RolloutOutput]:
        device = self.head.device
        distinct = list(dict.fromkeys(request.prompt for request in requests))  # a group shares one prompt
        state_BH, cache = self._forward(torch.tensor(distinct, device=device), None)
        if len(distinct) < len(requests):
            rows = torch.tensor([distinct.index(request.prompt) for request in requests], device=device)
            cache.batch_select_indices(rows)
            state_BH = state_BH[rows]
        capture = Capture(keeps_states=self.options.keeps_states)
        tokens: list[list[int]] = [[] for _ in requests]
        alive = list(range(len(requests)))
        for position in range(max(request.max_tokens for request in requests)):
            keys = [(index, position) for index in alive]
            logits_BV = suppress_(state_BH.to(torch.float32) @ self.head.T, rules.suppressed_ids)
            seeds = [requests[index].seed for index in alive]
            choice_B, logprobs_B = sample(logits_BV, temperature, seeds, [position] * len(alive))
            choice = choice_B.tolist()
            capture.add(keys, state_BH, choice_B, logprobs_B)
            going = []
            for row, (index, token) in enumerate(zip(alive, choice, strict=True)):
                tokens[index].append(token)
                if token not in rules.end_ids and position + 1 < requests[index].max_tokens:
                    going.append(row)
            if not going:
                break
            if len(going) < len(alive):
                cache.batch_select_indices(torch.tensor(going, device=device))
            alive = [alive[row] for row in going]
            state_BH, cache = self._forward(torch.tensor([[choice[row]] for row in going], device=device), cache)
        return [capture.take(index, own) for index, own in enumerate(tokens)]

    def _forward(self, ids_BS: torch.Tensor, cache: Any) -> tuple[torch.Tensor, Any]:
        out = self.decoder(input_ids=ids_BS, past_key_values=cache, use_cache=True)
        return out.last_hidden_state[:, -1].to(torch.bfloat16), out.past_key_values

    def close(self) -> None:
        """Drop the model."""
        self.shape, self.decoder, self.head = None, None, torch.empty(0)
