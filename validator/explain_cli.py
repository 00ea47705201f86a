"""The command `validator explain`: says why a leaf was accepted or not, from public sources alone.

It owns what a person gives and sees, and the exit code. It needs no stake and no key, and sends nothing.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer
from pydantic import Field

from stannary.commands.options import CoordinatorUrl, DeploymentFile, PoolNumber, RelayUrls, RpcUrl, RunDir
from stannary.errors import Malformed
from stannary.settings import RoleSettings
from stannary.types import parse_hash
from validator.settings import Settings

if TYPE_CHECKING:
    from validator.explain import Explanation, Place

EXIT_DIFFERS = 1
EXIT_MISSING = 2

_PLACE = re.compile(r"(\d{1,10}):(\d{1,10})")


class ExplainSettings(RoleSettings):
    """Where an explanation gets its facts from: a validator's settings, without a key."""

    ROLE: ClassVar[str] = "validator"

    pool: Annotated[int, Field(ge=1, lt=1 << 63)]
    coordinator_url: str
    run_dir: Path = Path("runs/explain")
    """Where policy folders are kept, each policy step in one of its own."""
    relay_urls: tuple[str, ...] = ()
    """Further sources of weights, asked before the coordinator."""
    device: str = "cpu"
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    """CPU threads of the prefill; torch's own choice unless set."""

    @classmethod
    def variables(cls) -> set[str]:
        """Return a validator's variables: one that says nothing here is no mistake."""
        return super().variables() | Settings.variables()


def explain(
    submission: Annotated[
        str,
        typer.Argument(metavar="SUBMISSION", help="STEP:SLOT such as 12:3, or a leaf hash 0x…, which takes longer."),
    ],
    run_dir: RunDir = None,
    rpc_url: RpcUrl = None,
    deployment: DeploymentFile = None,
    pool: PoolNumber = None,
    coordinator_url: CoordinatorUrl = None,
    relay_urls: RelayUrls = None,
    device: Annotated[str | None, typer.Option(help="Device of the prefill.")] = None,
    threads: Annotated[int | None, typer.Option(help="CPU threads of the prefill.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all of it as JSON.")] = False,
) -> None:
    """Say why a leaf was accepted or not: each check with its numbers, and what the panel voted and published.

    All is recomputed from public sources, without stake or key. Exit code 0 if the panel's verdict is reproduced, 1 if
    not, 2 if something could not be had; each missing piece is named.
    """
    place = parse_place(submission)
    settings = ExplainSettings.load(
        run_dir=run_dir,
        rpc_url=rpc_url,
        deployment=deployment,
        pool=pool,
        coordinator_url=coordinator_url,
        relay_urls=tuple(relay_urls) if relay_urls else None,
        device=device,
        threads=threads,
    )
    if settings.threads is not None:
        os.environ["OMP_NUM_THREADS"] = str(settings.threads)  # read when torch is loaded, which is later than here
    from validator.explain_report import document, report
    from validator.explain_sources import Missing, gather

    missing = Missing()
    found = gather(settings, place, missing)
    if as_json:
        typer.echo(json.dumps(document(found, missing.said), indent=2, allow_nan=False, ensure_ascii=False))
    else:
        for line in report(found, missing.said):
            typer.echo(line)
    if code := exit_code(found, bool(missing.said)):
        raise typer.Exit(code)


def parse_place(text: str) -> Place:
    """Return the leaf that a text names. Raises: typer.BadParameter."""
    from validator.explain import Place

    if found := _PLACE.fullmatch(text):
        return Place(step=int(found[1]), slot=int(found[2]))
    try:
        return Place(leaf_hash=parse_hash(text.lower()))
    except Malformed:
        raise typer.BadParameter(f"{text!r}: expected STEP:SLOT such as 12:3, or a leaf hash 0x…") from None


def exit_code(found: Explanation | None, is_missing: bool) -> int:
    """Return 1 for another verdict than the panel's, else 2 if something could not be had, else 0."""
    if found is not None and found.is_reproduced is False:
        return EXIT_DIFFERS
    return EXIT_MISSING if is_missing or found is None or found.is_reproduced is None else 0
