"""Generation by vLLM inside this process. A process holds one such engine and no other user of torch threads.

vLLM reads its environment when it is imported, so nothing here imports it before `VllmEngine` has set that.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stannary.errors import OperatorError, PolicyError
from worker.engine import PolicyShape, RolloutOutput, RolloutRequest, read_shape

log = logging.getLogger(__name__)

_REQUIRED = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # states are taken in memory, never sent
    "VLLM_USE_V2_MODEL_RUNNER": "0",  # the capture knows runner V1
}
_DEFAULTS = {
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # several processes share the cores
    "VLLM_LOGGING_LEVEL": "ERROR",  # its warnings at this start are about tokenizers and threads that we do not use
    "VLLM_NO_USAGE_STATS": "1",
}


@dataclass(frozen=True, slots=True)
class VllmOptions:
    """How vLLM uses the machine; nothing here changes which tokens come out, but for rounding."""

    kv_cache_bytes: int = 512 << 20
    max_sequences: int = 64
    max_batched_tokens: int = 4096
    is_prefix_caching: bool = True
    context: int | None = None
    """Longest prompt and completion together, where the policy's own context needs more cache than there is."""
    block_size: int | None = None
    block_count: int | None = None
    """Forces the number of cache blocks, to make preemption happen in tests."""


class VllmEngine:
    """The engine on vLLM."""

    name = "vllm"

    def __init__(self, options: VllmOptions | None = None) -> None:
        self.options = options or VllmOptions()
        self.shape: PolicyShape | None = None
        self.llm: Any = None
        self.capture: Any = None
        self.rollouts = 0
        for key, value in _REQUIRED.items():
            if os.environ.setdefault(key, value) != value:
                raise OperatorError(f"{key}: expected {value} or unset, got {os.environ[key]}")
        for key, value in _DEFAULTS.items():
            os.environ.setdefault(key, value)

    def load(self, folder: Path) -> None:
        """Load a policy folder; the first starts vLLM, later ones replace its weights and empty its prefix cache.

        Raises: PolicyError on an unusable folder or another architecture; OperatorError on an unknown vLLM.
        """
        shape = read_shape(folder)
        if self.options.context is not None:
            shape = replace(shape, context=min(shape.context, self.options.context))
        if self.llm is None:
            self._start(folder, shape)
        else:
            assert self.shape is not None
            self.shape.check_reload(shape)
            self.llm.collective_rpc("reload_weights", kwargs={"weights_path": str(folder)})
            self.capture.head.forget()
            # Cached keys and values are the old policy's.
            if not self.llm.reset_prefix_cache():
                raise OperatorError("vLLM: the prefix cache could not be emptied")
        self.shape = shape

    def _start(self, folder: Path, shape: PolicyShape) -> None:
        from vllm import LLM

        from worker.capture_vllm import ImposedToken, attach

        options = self.options
        extra: dict[str, Any] = {}
        if options.block_size is not None:
            extra["block_size"] = options.block_size
        if options.block_count is not None:
            extra["num_gpu_blocks_override"] = options.block_count
        self.llm = LLM(
            model=str(folder),
            skip_tokenizer_init=True,  # token ids in, token ids out
            dtype="bfloat16",
            hf_overrides={"head_dtype": "float32"},  # logits in fp32: the protocol's, and right after a reload
            generation_config="vllm",
            enforce_eager=True,
            async_scheduling=False,  # the position of a token is the length of the output list
            max_model_len=shape.context,
            max_num_seqs=options.max_sequences,
            max_num_batched_tokens=max(options.max_batched_tokens, options.max_sequences),
            enable_prefix_caching=options.is_prefix_caching,
            kv_cache_memory_bytes=options.kv_cache_bytes,
            logits_processors=[ImposedToken],
            disable_log_stats=True,
            use_tqdm_on_load=False,
            **extra,
        )
        (self.capture,) = self.llm.collective_rpc(attach)
        log.info("vLLM engine started with %s", type(self.capture.runner).__name__)

    def generate(self, requests: Sequence[RolloutRequest], temperature: float) -> list[RolloutOutput]:
        """One completion a request, in order.

        Raises: PolicyError on a request that the policy cannot serve; ProofError when vLLM lost a state.
        """
        if self.shape is None:
            raise PolicyError("no policy is loaded")
        self.shape.check_requests(requests, temperature)
        from vllm import SamplingParams

        from worker.capture_vllm import ROLLOUT, SEED, TEMPERATURE

        first = self.rollouts
        self.rollouts += len(requests)
        prompts = [{"prompt_token_ids": list(request.prompt)} for request in requests]
        params = [
            SamplingParams(
                temperature=0.0,
                max_tokens=request.max_tokens,
                ignore_eos=True,  # the end ids below are the policy's own; vLLM's guess of one is not needed
                stop_token_ids=list(self.shape.eos_ids),
                detokenize=False,
                extra_args={SEED: request.seed.hex(), TEMPERATURE: temperature, ROLLOUT: first + index},
            )
            for index, request in enumerate(requests)
        ]
        self.capture.is_on = True
        try:
            results = self.llm.generate(prompts, params, use_tqdm=False)
            outputs = []
            for index, result in enumerate(results):
                tokens = tuple(result.outputs[0].token_ids)
                outputs.append(RolloutOutput(tokens=tokens, states=self.capture.take(first + index, len(tokens))))
            return outputs
        finally:
            self.capture.is_on = False
            self.capture.rows.clear()

    def close(self) -> None:
        """End vLLM and free its memory."""
        if self.llm is not None:
            self.llm.llm_engine.engine_core.shutdown()
            self.llm, self.capture, self.shape = None, None, None
