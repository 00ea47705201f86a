"""The answer of every role's `check`: what was looked at, line by line, and whether the role could start."""

from __future__ import annotations

from collections.abc import Iterable

import typer

from stannary.errors import StannaryError


def report_readiness(checks: Iterable[tuple[str, object]]) -> None:
    """Print each check as it is made. Raises: typer.Exit with 1 if one found an error."""
    is_ready = True
    for name, found in checks:
        is_ready &= not isinstance(found, StannaryError)
        typer.echo(f"{'no' if isinstance(found, StannaryError) else 'ok'}  {name}: {found}")
    if not is_ready:
        raise typer.Exit(1)
