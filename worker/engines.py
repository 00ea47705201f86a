"""The engines by name; each is imported only when it is asked for."""

from __future__ import annotations

import importlib.util

from stannary.errors import SettingsError
from worker.engine import Engine
from worker.settings import Settings


def open_engine(settings: Settings, *, keeps_states: bool = False) -> Engine:
    """Return the engine that a worker's settings ask for, with no policy loaded yet.

    Raises: SettingsError for an engine that is not installed.
    """
    try:
        if settings.engine == "vllm":
            from worker.engine_vllm import VllmEngine, VllmOptions

            if importlib.util.find_spec("vllm") is None:  # asked, not imported: the engine sets its environment first
                raise ImportError("vllm is not installed")
            return VllmEngine(
                VllmOptions(
                    max_sequences=settings.max_sequences,
                    keeps_states=keeps_states,
                    runner=settings.runner,
                    tensor_parallel=settings.tensor_parallel,
                    is_multiprocess=settings.tensor_parallel > 1,
                )
            )
        from worker.engine_transformers import TransformersEngine, TransformersOptions

        options = TransformersOptions(
            device=settings.device, max_sequences=settings.max_sequences, keeps_states=keeps_states
        )
        return TransformersEngine(options)
    except ImportError as error:
        raise SettingsError(
            f"engine {settings.engine}: {error}; install stannary with its extra for workers"
        ) from error
