"""What lives inside vLLM's worker processes, and what is asked of it by name: proofs are built where the states are.

Only strings, numbers, bytes and lists go between the processes. Imports vLLM.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import torch

from stannary.errors import OperatorError
from stannary.toploc import PROOF_BYTES
from worker.capture import Capture
from worker.engine import RolloutOutput
from worker.imposing import Imposer

RUNNERS = {
    "vllm.v1.worker.cpu_model_runner.CPUModelRunner": "v1",
    "vllm.v1.worker.gpu_model_runner.GPUModelRunner": "v1",
    "vllm.v1.worker.cpu.model_runner.CPUModelRunner": "v2",
    "vllm.v1.worker.gpu.model_runner.GPUModelRunner": "v2",
}


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


class ProvingWorker:
    """Methods that vLLM adds to its own worker class."""

    model_runner: Any
    rank: int
    stannary_imposer: Imposer
    stannary_head: Float32Head

    def stannary_attach(self, keeps_states: bool) -> list[str]:
        """Hook the sampling rule and the capture into this worker's runner; return the runner's name and what is wrong.

        Nothing is raised: an error would come out as mere text, and leave the other ranks' answers behind.
        """
        try:
            return [self._attach(keeps_states), ""]
        except OperatorError as error:
            return ["", str(error)]

    def _attach(self, keeps_states: bool) -> str:
        runner = self.model_runner
        name = f"{type(runner).__module__}.{type(runner).__name__}"
        kind = RUNNERS.get(name)
        if kind is None:
            raise OperatorError(f"vLLM's model runner {name} is unknown: expected one of {', '.join(RUNNERS)}")
        processor = runner.get_model().logits_processor
        if processor.head_dtype != torch.float32:
            raise OperatorError(f"vLLM's head: expected float32, got {processor.head_dtype}")
        # By name: each of the two imports a part of vLLM that the other's runner may lack.
        self.stannary_imposer = import_module(f"worker.runner_{kind}").attach(runner)
        if self.rank == 0:
            self.stannary_imposer.capture = Capture(keeps_states=keeps_states)
        self.stannary_head = Float32Head()
        if runner.device.type == "cpu":
            processor._apply_head = self.stannary_head
        return name

    def stannary_renew(self, suppressed_ids: list[int]) -> None:
        """Take note of another policy: its head and the ids that it never samples."""
        self.stannary_head.forget()
        self.stannary_imposer.suppressed_ids = tuple(suppressed_ids)

    def stannary_take(self, finished: list[list[Any]]) -> list[list[Any]]:
        """Return the evidence of finished rollouts, each given as [rollout, tokens]; none on ranks that only follow."""
        capture = self.stannary_imposer.capture
        if capture is None:
            return []
        outputs = [capture.take(rollout, tokens) for rollout, tokens in finished]
        capture.clear()  # whatever was aborted
        return [packed(output) for output in outputs]


def packed(output: RolloutOutput) -> list[Any]:
    """Return an output as what may travel between processes."""
    states = None if output.states is None else output.states.view(torch.uint16).numpy().tobytes()
    return [list(output.tokens), b"".join(output.proofs), list(output.logprobs), states, output.reason]


def unpacked(message: list[Any], hidden: int) -> RolloutOutput:
    """Return the output that was packed. Shapes: states [T, hidden]."""
    tokens, proofs, logprobs, states, reason = message
    return RolloutOutput(
        tokens=tuple(tokens),
        proofs=tuple(proofs[at : at + PROOF_BYTES] for at in range(0, len(proofs), PROOF_BYTES)),
        logprobs=tuple(logprobs),
        states=None
        if states is None
        else torch.from_numpy(np.frombuffer(states, np.uint16).reshape(-1, hidden).copy()).view(torch.bfloat16),
        reason=reason,
    )
