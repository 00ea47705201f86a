"""What runs inside vLLM: the processor that imposes our token and the hook that keeps its state. Runner V1.

Imports vLLM, so only `worker.engine_vllm` imports it, after it has set vLLM's environment.
"""

from __future__ import annotations

from typing import Any

import torch
from vllm.config import VllmConfig
from vllm.sampling_params import SamplingParams
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor, MoveDirectionality

from stannary.errors import OperatorError, ProofError
from stannary.sampling.torch import gumbel_batch_torch, perturb_

SEED, TEMPERATURE, ROLLOUT = "stannary_seed", "stannary_temperature", "stannary_rollout"


class ImposedToken(LogitsProcessor):  # type: ignore[misc]
    """Turns the logits into logits/T + noise, so that vLLM's greedy choice is the protocol's."""

    @classmethod
    def validate_params(cls, sampling_params: SamplingParams) -> None:
        """Refuse a request that does not carry a seed, a temperature and its rollout's number. Raises: ValueError."""
        extra = sampling_params.extra_args or {}
        if sampling_params.temperature != 0 or any(key not in extra for key in (SEED, TEMPERATURE, ROLLOUT)):
            raise ValueError(f"expected temperature 0 and {SEED}, {TEMPERATURE}, {ROLLOUT} in extra_args")

    def __init__(self, vllm_config: VllmConfig, device: torch.device, is_pin_memory: bool) -> None:  # noqa: ARG002
        self.rows: dict[int, tuple[bytes, float, list[int]]] = {}

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
            extra = params.extra_args or {}
            if SEED in extra:
                # vLLM appends to this very list, so its length is always the position of the next token.
                self.rows[index] = (bytes.fromhex(extra[SEED]), float(extra[TEMPERATURE]), output)
            else:
                self.rows.pop(index, None)
        for source, target, direction in batch_update.moved:
            a, b = self.rows.pop(source, None), self.rows.pop(target, None)
            if a is not None:
                self.rows[target] = a
            if b is not None and direction == MoveDirectionality.SWAP:
                self.rows[source] = b

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """Perturb every row. Shapes: logits [B, V] float32. Raises: OperatorError on a row without a seed."""
        count, vocab = logits.shape
        if sorted(self.rows) != list(range(count)):
            raise OperatorError(f"sampling: expected seeds for {count} rows, have rows {sorted(self.rows)}")
        rows = [self.rows[index] for index in range(count)]
        noise = gumbel_batch_torch([r[0] for r in rows], [len(r[2]) for r in rows], vocab, logits.device)
        temperatures = {r[1] for r in rows}
        if len(temperatures) != 1:
            raise OperatorError(f"sampling: expected one temperature a batch, got {sorted(temperatures)}")
        return perturb_(logits, temperatures.pop(), noise)


class StateCapture:
    """Keeps the state of every sampled token, keyed by (rollout, position); a recomputed one overwrites."""

    def __init__(self, runner: Any, head: Float32Head) -> None:
        self.runner = runner
        self.head = head
        self.rows: dict[tuple[int, int], torch.Tensor] = {}
        self.is_on = False

    def hook(self, _module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Forward pre-hook of the model's logits processor. Shapes: hidden_states [rows, H], one a request."""
        if not self.is_on:
            return  # dummy and profiling runs
        states = kwargs["hidden_states"] if "hidden_states" in kwargs else args[1]
        req_ids = self.runner.input_batch.req_ids
        if len(states) != len(req_ids):
            raise ProofError(f"capture: expected {len(req_ids)} rows, one a request, got {len(states)}")
        is_partial = self.runner.discard_request_mask.np
        kept = states.detach().to("cpu", copy=True)
        for row, req_id in enumerate(req_ids):
            if is_partial[row]:
                continue  # a prompt that chunked prefill has not finished: no token comes of it
            request = self.runner.requests[req_id]
            rollout = int(request.sampling_params.extra_args[ROLLOUT])
            self.rows[rollout, len(request.output_token_ids)] = kept[row]

    def take(self, rollout: int, count: int) -> torch.Tensor:
        """The states of one finished rollout, removed from the capture. Shapes: [count, H].

        Raises: ProofError unless there is exactly one for every token.
        """
        positions = sorted(p for r, p in self.rows if r == rollout)
        if positions != list(range(count)):
            raise ProofError(f"capture: rollout {rollout}: expected states 0 … {count - 1}, got {positions}")
        return torch.stack([self.rows.pop((rollout, position)) for position in range(count)])


class Float32Head:
    """The head in fp32, widened once a policy: vLLM on a CPU would widen it again for every token."""

    def __init__(self) -> None:
        self.weight: torch.Tensor | None = None

    def __call__(
        self, lm_head: torch.nn.Module, hidden_states: torch.Tensor, embedding_bias: torch.Tensor | None
    ) -> torch.Tensor:
        """Logits. Shapes: hidden_states [B, H] bfloat16; result [B, V padded] float32."""
        if self.weight is None:
            weight = lm_head.weight
            assert isinstance(weight, torch.Tensor)
            self.weight = weight.detach().to(torch.float32)
        bias = None if embedding_bias is None else embedding_bias.to(torch.float32)
        return torch.nn.functional.linear(hidden_states.to(torch.float32), self.weight, bias)

    def forget(self) -> None:
        """Drop the copy: the weights have changed."""
        self.weight = None


def attach(worker: Any) -> StateCapture:
    """Hook the capture, and on a CPU the fp32 head, into a vLLM worker.

    Raises: OperatorError on a model runner that this adapter does not know.
    """
    runner = worker.model_runner
    kind = f"{type(runner).__module__}.{type(runner).__name__}"
    wanted = ("vllm.v1.worker.cpu_model_runner.CPUModelRunner", "vllm.v1.worker.gpu_model_runner.GPUModelRunner")
    if kind not in wanted:
        raise OperatorError(f"vLLM's model runner {kind} is unknown: expected one of {', '.join(wanted)}")
    names = [type(p).__name__ for p in runner.input_batch.logitsprocs.non_argmax_invariant]
    if names[-1:] != [ImposedToken.__name__]:
        raise OperatorError(f"vLLM's logits processors: expected {ImposedToken.__name__} last, got {names}")
    processor = runner.get_model().logits_processor
    if processor.head_dtype != torch.float32:
        raise OperatorError(f"vLLM's head: expected float32, got {processor.head_dtype}")
    head = Float32Head()
    if runner.device.type == "cpu":
        processor._apply_head = head
    capture = StateCapture(runner, head)
    processor.register_forward_pre_hook(capture.hook, with_kwargs=True)
    return capture
