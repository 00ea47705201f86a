"""vLLM's model runner V1: how its batch tells which request a row of logits belongs to. Imports vLLM."""

from __future__ import annotations

from typing import Any

import torch
from vllm.config import VllmConfig
from vllm.sampling_params import SamplingParams
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor, MoveDirectionality

from stannary.errors import OperatorError
from worker.imposing import Imposer, RequestSeed, require_seed


class ImposedToken(LogitsProcessor):  # type: ignore[misc]
    """Hands each row's seed and position to the imposer."""

    @classmethod
    def validate_params(cls, sampling_params: SamplingParams) -> None:
        """Refuse a request that does not carry what the sampling rule needs. Raises: ValueError."""
        require_seed(sampling_params)

    def __init__(self, vllm_config: VllmConfig, device: torch.device, is_pin_memory: bool) -> None:  # noqa: ARG002
        self.imposer = Imposer()
        self.runner: Any = None
        self.rows: dict[int, tuple[RequestSeed | None, list[int]]] = {}

    def is_argmax_invariant(self) -> bool:
        """False: vLLM would skip an invariant processor for greedy requests."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Follow vLLM's batch: removed, added, moved, in this order."""
        if batch_update is None:
            return
        for index in batch_update.removed:
            self.rows.pop(index, None)
        for index, params, _prompt, output in batch_update.added:
            # vLLM appends to this very list, so its length is always the position of the next token.
            self.rows[index] = (RequestSeed.of(params.extra_args), output)
        for source, target, direction in batch_update.moved:
            a, b = self.rows.pop(source, None), self.rows.pop(target, None)
            if a is not None:
                self.rows[target] = a
            if b is not None and direction == MoveDirectionality.SWAP:
                self.rows[source] = b

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """Impose every row's token. Shapes: logits [B, V] float32. Raises: OperatorError on a row without a seed."""
        count = len(logits)
        if sorted(self.rows) != list(range(count)) or any(seed is None for seed, _ in self.rows.values()):
            seeded = sum(seed is not None for seed, _ in self.rows.values())
            raise OperatorError(f"sampling: expected seeds for {count} rows, have {seeded} in {len(self.rows)}")
        is_partial = self.runner.discard_request_mask.np
        rows: list[tuple[RequestSeed, int] | None] = []
        for index in range(count):
            seed, output = self.rows[index]
            rows.append(None if seed is None or is_partial[index] else (seed, len(output)))
        return self.imposer.impose(logits, rows)


def attach(runner: Any) -> Imposer:
    """Hook an imposer into a runner V1. Raises: OperatorError on processors that this adapter does not know."""
    processors = runner.input_batch.logitsprocs.non_argmax_invariant
    if not processors or not isinstance(processors[-1], ImposedToken):
        names = [type(processor).__name__ for processor in processors]
        raise OperatorError(f"vLLM's logits processors: expected {ImposedToken.__name__} last, got {names}")
    processor: ImposedToken = processors[-1]
    processor.runner = runner
    imposer = processor.imposer

    def keep_states(_module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        imposer.states = kwargs["hidden_states"] if "hidden_states" in kwargs else args[1]

    runner.get_model().logits_processor.register_forward_pre_hook(keep_states, with_kwargs=True)
    return imposer
