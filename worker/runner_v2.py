"""vLLM's model runner V2: how its batch tells which request a row of logits belongs to. Imports vLLM.

Its processors see slots that are used again and no end of a request, so a slot counts for what was last put into it.
"""

from __future__ import annotations

from typing import Any

import torch
from vllm.config import VllmConfig
from vllm.sampling_params import SamplingParams
from vllm.v1.worker.gpu.sample.logits_processor import LogitsContext, LogitsProcessor, LogitsProcRequestState

from stannary.errors import OperatorError
from worker.imposing import Imposer, RequestSeed, require_seed

UNSUPPORTED = ("speculator", "rejection_sampler", "pcp_manager", "pooling_runner", "batch_sharder")
"""Parts of the runner under which a row is not one token of one request."""


class ImposedToken(LogitsProcessor):  # type: ignore[misc]
    """Hands each row's seed and position to the imposer."""

    @classmethod
    def validate_params(cls, sampling_params: SamplingParams) -> None:
        """Refuse a request that does not carry what the sampling rule needs. Raises: ValueError."""
        require_seed(sampling_params)

    def __init__(self, vllm_config: VllmConfig, req_states: LogitsProcRequestState) -> None:  # noqa: ARG002
        self.imposer = Imposer()
        self.prompt_len = req_states.prompt_len
        self.slots: dict[int, RequestSeed] = {}
        self.rows: list[tuple[RequestSeed, int] | None] | None = None
        """Of the step that is being sampled; None while nothing is attached or vLLM warms up."""

    def add_request(self, req_idx: int, sampling_params: SamplingParams) -> bool:
        """Take note of a request, new or back after a preemption; vLLM's own warm-up requests carry no seed."""
        seed = RequestSeed.of(sampling_params.extra_args)
        if seed is None:
            self.slots.pop(req_idx, None)
        else:
            self.slots[req_idx] = seed
        return seed is not None

    def follow(self, batch: Any) -> None:
        """Read of a step's batch, on the host, which token each of its rows emits.

        Raises: OperatorError on a batch that is not one row a request, or a request without a seed.
        """
        count = batch.num_reqs
        if batch.num_draft_tokens or len(batch.logits_indices) != count:
            raise OperatorError(f"sampling: expected {count} rows, one a request, got {len(batch.logits_indices)}")
        lengths = batch.num_computed_tokens_np[:count] + batch.num_scheduled_tokens[:count]
        slots = batch.idx_mapping_np[:count]
        positions = lengths - self.prompt_len.np[slots]
        # A chunk that does not reach the end of the prompt (and, after a preemption, of what had been generated).
        is_emitting = lengths >= batch.prefill_len_np[:count]
        rows: list[tuple[RequestSeed, int] | None] = []
        for slot, position, is_token in zip(slots.tolist(), positions.tolist(), is_emitting.tolist(), strict=True):
            seed = self.slots.get(slot)
            if seed is None:
                raise OperatorError("sampling: a request without a seed")
            rows.append((seed, position) if is_token else None)
        self.rows = rows

    def apply(self, logits: torch.Tensor, ctx: LogitsContext) -> torch.Tensor:  # noqa: ARG002
        """Impose every row's token. Shapes: logits [B, V] float32, vLLM's own copy."""
        rows, self.rows = self.rows, None
        return logits if rows is None else self.imposer.impose(logits, rows)


def attach(runner: Any) -> Imposer:
    """Hook an imposer into a runner V2. Raises: OperatorError on a set-up that this adapter does not know."""
    for name in UNSUPPORTED:
        if getattr(runner, name, None) is not None:
            raise OperatorError(f"vLLM's runner V2 uses {name}, under which a row is not one token of one request")
    processors = runner.sampler.logits_processors
    if not processors or not isinstance(processors[-1], ImposedToken):
        names = [type(processor).__name__ for processor in processors]
        raise OperatorError(f"vLLM's logits processors: expected {ImposedToken.__name__} last, got {names}")
    processor: ImposedToken = processors[-1]
    imposer, inner = processor.imposer, runner.sample

    def sample(hidden_states: torch.Tensor, input_batch: Any, grammar_output: Any) -> Any:
        # Dummy runs do not come here. The states may lie in a buffer of a CUDA graph: picking rows copies them.
        imposer.states = hidden_states[input_batch.logits_indices]
        processor.follow(input_batch)
        return inner(hidden_states, input_batch, grammar_output)

    runner.sample = sample
    return imposer
