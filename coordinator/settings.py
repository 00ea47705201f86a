"""The coordinator's settings, built once at start. Rules of the pool are on chain, not here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from stannary.settings import RoleSettings


class Settings(RoleSettings):
    """How this coordinator runs."""

    ROLE: ClassVar[str] = "coordinator"

    pool: Annotated[int, Field(ge=1, lt=1 << 63)]
    keystore: Path
    """The key of the pool's coordinator."""
    run_dir: Path = Path("runs/coordinator")
    """Where the database and the files live."""
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8700
    documents: tuple[Path, ...] = ()
    """Canonical JSON files of the pool's card and environment, served to all."""
    database_url: str | None = Field(default=None, repr=False)
    """SQLAlchemy URL; a SQLite file in `run_dir` unless set. Not shown, since such addresses may hold a password."""
    max_leases_per_node: Annotated[int, Field(ge=1, le=1024)] = 16
    """Open leases of one node at once."""
    poll_s: Annotated[float, Field(gt=0, le=60)] = 0.5
    """How often the chain is looked at."""
    stale_after_s: Annotated[float, Field(gt=0)] = 60.0
    """Nothing that depends on chain time is granted when the newest block was looked at longer ago than this."""
    blocks_per_read: Annotated[int, Field(ge=1, le=100_000)] = 1000
    """Blocks of events that are mirrored in one transaction."""
    max_weights_bytes: Annotated[int, Field(ge=1)] = 128 << 30
    """Largest file of a policy step."""

    @property
    def url(self) -> str:
        """The database's URL."""
        return self.database_url or f"sqlite:///{self.run_dir.resolve() / 'coordinator.sqlite'}"
