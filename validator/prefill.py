"""The validator's own forward pass: hidden states and logits of given tokens under a policy. It judges nothing.

All rollouts of a submission run in one batch, padded on the right: under causal attention no real position sees what
comes after it, so padding leaks nowhere and needs no mask. The protocol's states are bf16 whatever the compute dtype.
Legend: B rollouts, P prompt tokens, T completion tokens, H hidden size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import torch

from stannary.errors import PolicyError
from stannary.sampling.torch import suppress_
from stannary.token_rules import read_token_rules

DTYPES: Final = {"bf16": torch.bfloat16, "fp32": torch.float32}
HEAD_VALUES: Final = 1 << 24
"""Logits held at once: 64 MiB of float32."""
BATCH_TOKENS: Final = 16384
"""Padded tokens a forward pass takes at once; one rollout may exceed it."""
PADDING_FACTOR: Final = 1.5


class Prefill:
    """One policy, ready to recompute what it would have computed."""

    def __init__(self, folder: Path, dtype: str, device: str = "cpu") -> None:
        """Load a policy folder (Hugging Face layout, bf16 safetensors, no remote code).

        Raises: PolicyError when the folder cannot be used.
        """
        from transformers import AutoModelForCausalLM, __version__
        from transformers.utils import logging

        logging.disable_progress_bar()  # a daemon's log is no terminal
        self.tokens = read_token_rules(folder)
        self.device = torch.device(device)
        try:
            model: Any = AutoModelForCausalLM.from_pretrained(
                folder,
                dtype=DTYPES[dtype],
                local_files_only=True,
                use_safetensors=True,
                attn_implementation="sdpa",
                trust_remote_code=False,
            )
        except (OSError, ValueError, KeyError) as error:
            raise PolicyError(f"{folder}: cannot be loaded: {error}") from error
        self._model = model.to(self.device).eval()
        head = self._model.get_output_embeddings()
        if head is None or getattr(head, "bias", None) is not None:
            raise PolicyError(f"{folder}: expected a head without bias")
        # bf16 weights are exact in float32, so this is the protocol's head whatever the compute dtype.
        self._head_HV = head.weight.detach().to(torch.bfloat16).float().T
        self.hidden_size, self.vocabulary = (int(size) for size in self._head_HV.shape)
        self.is_exact = DTYPES[dtype] is torch.float32
        self.compute = f"transformers {__version__} {dtype} on {self.device.type}"

    def states(self, prompt: Sequence[int], completions: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        """Return the states that predicted each completion token (positions P−1 … P+T−2).

        Shapes: one [T, H] bfloat16 on the model's device for each completion.
        Raises: ValueError for an empty prompt or completion.
        """
        return [states.to(torch.bfloat16) for states in self.unrounded_states(prompt, completions)]

    @torch.inference_mode()
    def unrounded_states(self, prompt: Sequence[int], completions: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        """Return the same in the compute's own type. Shapes and errors: as `states`."""
        if not prompt or not all(completions):
            raise ValueError("prefill: expected a prompt and completions of at least one token")
        found: dict[int, torch.Tensor] = {}
        order = sorted(range(len(completions)), key=lambda index: len(completions[index]))
        for rows in _batches(order, [len(prompt) + len(completion) for completion in completions]):
            # The last token predicts nothing that was generated, so it is not computed.
            width = len(prompt) + len(completions[rows[-1]]) - 1
            tokens_BT = torch.zeros(len(rows), width, dtype=torch.long)
            for place, index in enumerate(rows):
                row = [*prompt, *completions[index][:-1]]
                tokens_BT[place, : len(row)] = torch.tensor(row)
            output = self._model.base_model(input_ids=tokens_BT.to(self.device), use_cache=False)
            states_BTH = output.last_hidden_state[:, len(prompt) - 1 :]
            for place, index in enumerate(rows):
                found[index] = states_BTH[place, : len(completions[index])]
        return [found[index] for index in range(len(completions))]

    @torch.inference_mode()
    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """Return the protocol's logits: bf16 state × bf16 head, products and sums in float32, suppressed ids at −inf.

        Shapes: states [T, H] bfloat16; result [T, V] float32 on the model's device. Ask for at most `head_rows` rows at
        once.
        """
        return suppress_(states.to(self.device).float() @ self._head_HV, self.tokens.suppressed_ids)

    @property
    def head_rows(self) -> int:
        """Positions whose logits fit in the memory bound."""
        return max(1, HEAD_VALUES // self.vocabulary)


def prefill(model: Prefill, prompt: Sequence[int], completion: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return one completion's states [T, H] bfloat16 and logits [T, V] float32."""
    (states_TH,) = model.states(prompt, [completion])
    starts = range(0, len(states_TH), model.head_rows)
    parts = [model.logits(states_TH[start : start + model.head_rows]) for start in starts]
    return states_TH, torch.cat(parts)


def _batches(order: Sequence[int], lengths: Sequence[int]) -> list[list[int]]:
    """Cut rows ordered by rising length so that rows × longest stays within the bound, one row at least.

    A row much longer than the first of a batch starts a new one, or most of the batch would be padding.
    """
    batches: list[list[int]] = []
    for index in order:
        fits = batches and (len(batches[-1]) + 1) * lengths[index] <= BATCH_TOKENS
        if fits and lengths[index] <= PADDING_FACTOR * lengths[batches[-1][0]]:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches
