"""The trainer's settings, built once at start. Rules of the pool are on chain, not here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from stannary.settings import RoleSettings


class Settings(RoleSettings):
    """How this trainer runs: its run folder holds checkpoints, policies and metrics."""

    ROLE: ClassVar[str] = "trainer"

    coordinator_url: str
    keystore: Path
    """The key of the account that the pool names as its trainer."""
    pool: Annotated[int, Field(ge=1, lt=1 << 63)]
    base: Path
    """The policy folder of policy step 0."""
    steps: Annotated[int, Field(ge=1)]
    """Steps to open and to learn from."""
    slots: Annotated[int, Field(ge=1)]
    """Groups a step asks for."""
    lag: Annotated[int, Field(ge=0)] = 1
    """Steps that generation runs ahead of learning; the pool caps it."""
    learning_rate: Annotated[float, Field(ge=0, lt=1)]
    optimizer_steps: Annotated[int, Field(ge=1, le=64)] = 2
    """Optimizer steps a policy step."""
    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.99
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    max_grad_norm: Annotated[float, Field(gt=0)] = 1.0
    micro_batch_tokens: Annotated[int, Field(ge=1)] = 2048
    """Padded tokens in one forward pass."""
    heldout: Annotated[int, Field(ge=0)] = 128
    """Held-out problems that are evaluated before the first and after the last step."""
    poll_s: Annotated[float, Field(gt=0, le=60)] = 0.5
    """How often the chain is looked at."""
    file_wait_s: Annotated[float, Field(ge=0)] = 120.0
    """How long an accepted submission file may be missing before its group is left out."""
