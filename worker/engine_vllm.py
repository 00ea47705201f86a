"""Generation by vLLM inside this process. A process holds one such engine and no other user of torch threads.

vLLM reads its environment when it is imported, so nothing here imports it before `VllmEngine` has set that.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stannary.errors import OperatorError, PolicyError
from worker.engine import PolicyShape, RolloutOutput, RolloutRequest, read_shape
from worker.imposing import RequestSeed

log = logging.getLogger(__name__)

_DEFAULTS = {
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # several processes share the cores
    "VLLM_LOGGING_LEVEL": "ERROR",  # its warnings at this start are about tokenizers and threads that we do not use
    "VLLM_NO_USAGE_STATS": "1",
}
RUNNERS = {"v1": "0", "v2": "1"}
"""Model runners by name, with what vLLM's environment calls them."""


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
    keeps_states: bool = False
    runner: str = "v1"
    """vLLM's model runner: v1 or v2."""
    tensor_parallel: int = 1
    is_multiprocess: bool = False
    """Whether vLLM's core runs in a process of its own; workers do in any case where there are several."""
    is_eager: bool = True
    """Without CUDA graphs."""
    is_asynchronous: bool = False
    """Whether the next step is scheduled before the last one's tokens are known."""


def _let_modules_be_scanned() -> None:
    """Let vLLM look through the namespace of every loaded module, as it does when it starts.

    llvmlite's library object, loaded with our compiled code, answers every name with a function, `__dict__` too.
    """
    ffi = sys.modules.get("llvmlite.binding.ffi")
    names = getattr(getattr(ffi, "lib", None), "_fntab", None)
    if isinstance(names, dict):
        names.setdefault("__dict__", {})


class VllmEngine:
    """The engine on vLLM."""

    name = "vllm"

    def __init__(self, options: VllmOptions | None = None) -> None:
        """Set vLLM's environment. Raises: OperatorError where it is set otherwise already."""
        self.options = options or VllmOptions()
        self.shape: PolicyShape | None = None
        self.llm: Any = None
        self.runner = ""
        self.rollouts = 0
        if self.options.runner not in RUNNERS:
            raise OperatorError(f"runner: expected one of {', '.join(RUNNERS)}, got {self.options.runner}")
        required = {
            "VLLM_ENABLE_V1_MULTIPROCESSING": str(int(self.options.is_multiprocess)),
            "VLLM_USE_V2_MODEL_RUNNER": RUNNERS[self.options.runner],
        }
        for key, value in required.items():
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
        try:
            if self.shape is not None:
                self.llm.collective_rpc("reload_weights", kwargs={"weights_path": str(folder)})
                # Cached keys and values are the old policy's.
                if not self.llm.reset_prefix_cache():
                    raise OperatorError("vLLM: the prefix cache could not be emptied")
            self.llm.collective_rpc("stannary_renew", args=(list(shape.tokens.suppressed_ids),))
        except BaseException:
            self.close()  # half of one policy and half of another must not generate
            raise
        self.shape = shape

    def _start(self, folder: Path, shape: PolicyShape) -> None:
        _let_modules_be_scanned()
        from vllm import LLM

        options = self.options
        extra: dict[str, Any] = {}
        if options.block_size is not None:
            extra["block_size"] = options.block_size
        if options.block_count is not None:
            extra["num_gpu_blocks_override"] = options.block_count
        try:
            self.llm = LLM(
                model=str(folder),
                skip_tokenizer_init=True,  # token ids in, token ids out
                dtype="bfloat16",
                hf_overrides={"head_dtype": "float32"},  # logits in fp32: the protocol's, and right after a reload
                generation_config="vllm",
                enforce_eager=options.is_eager,
                async_scheduling=options.is_asynchronous,
                tensor_parallel_size=options.tensor_parallel,
                max_model_len=shape.context,
                max_num_seqs=options.max_sequences,
                max_num_batched_tokens=max(options.max_batched_tokens, options.max_sequences),
                enable_prefix_caching=options.is_prefix_caching,
                kv_cache_memory_bytes=options.kv_cache_bytes,
                logits_processors=[f"worker.runner_{options.runner}:ImposedToken"],
                worker_extension_cls="worker.vllm_extension.ProvingWorker",
                disable_log_stats=True,
                use_tqdm_on_load=False,
                **extra,
            )
        except (ValueError, RuntimeError) as error:
            raise OperatorError(f"vLLM does not start: {error}") from error
        answers = self.llm.collective_rpc("stannary_attach", args=(options.keeps_states,))
        for _, problem in answers:
            if problem:
                self.close()
                raise OperatorError(problem)
        self.runner = answers[0][0]
        log.info("vLLM engine started with %s", self.runner)

    def generate(self, requests: Sequence[RolloutRequest], temperature: float) -> list[RolloutOutput]:
        """One completion a request, in order; one that cannot be proved comes with the reason in place of proofs.

        Raises: PolicyError on a request that the policy cannot serve. Whatever ends a generation closes the engine.
        """
        if self.shape is None:
            raise PolicyError("no policy is loaded")
        self.shape.check_requests(requests, temperature)
        from vllm import SamplingParams

        from worker.vllm_extension import unpacked

        first = self.rollouts
        self.rollouts += len(requests)
        prompts = [{"prompt_token_ids": list(request.prompt)} for request in requests]
        params = [
            SamplingParams(
                temperature=0.0,
                max_tokens=request.max_tokens,
                ignore_eos=True,  # the end ids below are the policy's own; vLLM's guess of one is not needed
                stop_token_ids=sorted(self.shape.tokens.end_ids),
                detokenize=False,
                extra_args=RequestSeed(request.seed, temperature, first + index).extra_args(),
            )
            for index, request in enumerate(requests)
        ]
        try:
            results = self.llm.generate(prompts, params, use_tqdm=False)
        except BaseException:
            self.close()  # vLLM would hand this call's completions out with the next one's
            raise
        finished = [[first + index, list(result.outputs[0].token_ids)] for index, result in enumerate(results)]
        messages = self.llm.collective_rpc("stannary_take", args=(finished,))[0]
        return [unpacked(message, self.shape.hidden) for message in messages]

    def close(self) -> None:
        """End vLLM and free its memory."""
        if self.llm is not None:
            self.llm.llm_engine.engine_core.shutdown()
            self.llm, self.shape = None, None
