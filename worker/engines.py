"""The engines by name; each is imported only when it is asked for."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

from stannary.errors import SettingsError
from worker.engine import Engine


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """Which engine, and how it uses the machine. None of it may change which tokens come out, but for rounding."""

    engine: str = "vllm"
    device: str = "cpu"
    max_sequences: int = 64
    runner: str = "v1"
    tensor_parallel: int = 1
    dtype: str = "bf16"
    """Compute of the transformers engine: bf16 or fp32."""
    attention: str = "sdpa"
    """Attention of the transformers engine: sdpa or eager."""


def open_engine(choice: EngineChoice, *, keeps_states: bool = False) -> Engine:
    """Return an engine with no policy loaded yet. Raises: SettingsError for an engine that is not installed."""
    try:
        if choice.engine == "vllm":
            from worker.engine_vllm import VllmEngine, VllmOptions

            if importlib.util.find_spec("vllm") is None:  # asked, not imported: the engine sets its environment first
                raise ImportError("vllm is not installed")
            return VllmEngine(
                VllmOptions(
                    max_sequences=choice.max_sequences,
                    keeps_states=keeps_states,
                    runner=choice.runner,
                    tensor_parallel=choice.tensor_parallel,
                    is_multiprocess=choice.tensor_parallel > 1,
                )
            )
        from worker.engine_transformers import DTYPES, TransformersEngine, TransformersOptions

        return TransformersEngine(
            TransformersOptions(
                dtype=DTYPES[choice.dtype],
                device=choice.device,
                max_sequences=choice.max_sequences,
                attention=choice.attention,
                keeps_states=keeps_states,
            )
        )
    except ImportError as error:
        raise SettingsError(f"engine {choice.engine}: {error}; install stannary with its extra for workers") from error
