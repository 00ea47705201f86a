"""The validator's settings, built once at start. Rules of the pool are on chain, not here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from stannary.settings import RoleSettings


class Settings(RoleSettings):
    """How this validator runs."""

    ROLE: ClassVar[str] = "validator"

    pool: Annotated[int, Field(ge=1, lt=1 << 63)]
    coordinator_url: str
    keystore: Path
    """The node's key; its provider holds the validator stake."""
    run_dir: Path = Path("runs/validator")
    """Where policy folders and votes live."""
    relay_urls: tuple[str, ...] = ()
    """Further sources of weights, asked before the coordinator."""
    device: str = "cpu"
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    """CPU threads of the prefill; torch's own choice unless set."""
    poll_s: Annotated[float, Field(gt=0, le=60)] = 0.5
    """How often the chain is asked for duties."""


class WatchSettings(Settings):
    """How this watcher runs: a validator's settings, and what it may spend."""

    ROLE: ClassVar[str] = "watch"

    run_dir: Path = Path("runs/watch")
    share: Annotated[float, Field(gt=0, le=1)] = 0.1
    """The share of leaves that are judged again."""
    max_bonds: Annotated[float, Field(ge=0, le=1e12)] = 0.0
    """The most that is out in bonds, or was lost, in whole payout tokens; at 0 it only tells."""
    location: str | None = None
    """Where it serves the bytes that it disputes; the coordinator unless set."""
    accusations_url: str | None = None
    """Where the folder `accusations` of its run folder is served; unset, it accuses nobody and only tells."""
    seed: int | None = None
    """Of the sample; chance unless set."""
