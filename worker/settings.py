"""The worker's settings, built once at start. Rules of the pool are on chain, not here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from stannary.settings import RoleSettings
from worker.engines import EngineChoice


class Settings(RoleSettings):
    """How this worker runs."""

    ROLE: ClassVar[str] = "worker"

    pool: Annotated[int, Field(ge=1, lt=1 << 63)]
    coordinator_url: str
    keystore: Path
    """The node's key."""
    run_dir: Path = Path("runs/worker")
    """Where policy folders live."""
    relay_urls: tuple[str, ...] = ()
    """Further sources of weights, asked before the coordinator."""
    engine: Literal["vllm", "transformers"] = "vllm"
    device: str = "cpu"
    """Where the transformers engine runs; vLLM takes what it was built for."""
    runner: Literal["v1", "v2"] = "v1"
    """vLLM's model runner."""
    tensor_parallel: Annotated[int, Field(ge=1, le=64)] = 1
    """Devices, or processes of a CPU, over which vLLM spreads the policy."""
    max_leases: Annotated[int, Field(ge=1, le=64)] = 4
    """Slots that are held at once; they are generated in one batch."""
    max_sequences: Annotated[int, Field(ge=1, le=4096)] = 64
    """Rollouts that the engine decodes at once."""
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    """CPU threads of the engine; its own choice unless set."""
    poll_s: Annotated[float, Field(gt=0, le=60)] = 0.5
    """How often leases are asked for while there are none."""
    heartbeat_s: Annotated[float, Field(gt=0, le=60)] = 3.0
    standing_s: Annotated[float, Field(gt=0, le=3600)] = 30.0
    """How often it looks at what panels say of its provider."""
    stop_log10: Annotated[float, Field(gt=0, le=100)] | None = None
    """The evidence, as a power of ten, at which it stops by itself; the card's level unless set."""

    @property
    def engine_choice(self) -> EngineChoice:
        """The engine that these settings ask for."""
        return EngineChoice(self.engine, self.device, self.max_sequences, self.runner, self.tensor_parallel)
