"""The engines by name; each is imported only when it is asked for."""

from __future__ import annotations

import importlib.util

from stannary.errors import SettingsError
from worker.engine import Engine


def open_engine(name: str, *, device: str = "cpu", max_sequences: int = 64, keeps_states: bool = False) -> Engine:
    """Return the engine of a name, with no policy loaded yet. `device` is for transformers; vLLM takes what it finds.

    Raises: SettingsError for a name that is none, or an engine that is not installed.
    """
    try:
        if name == "vllm":
            from worker.engine_vllm import VllmEngine, VllmOptions

            if importlib.util.find_spec("vllm") is None:  # asked, not imported: the engine sets its environment first
                raise ImportError("vllm is not installed")
            return VllmEngine(VllmOptions(max_sequences=max_sequences, keeps_states=keeps_states))
        if name == "transformers":
            from worker.engine_transformers import TransformersEngine, TransformersOptions

            options = TransformersOptions(device=device, max_sequences=max_sequences, keeps_states=keeps_states)
            return TransformersEngine(options)
    except ImportError as error:
        raise SettingsError(f"engine {name}: {error}; install stannary with its extra for workers") from error
    raise SettingsError(f"engine: expected vllm or transformers, got {name}")
