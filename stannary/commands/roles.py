"""The roles as commands: found by entry point, imported only when named, so that one role's needs burden no other."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer.main
from typer.core import TyperGroup

from stannary.errors import SettingsError

GROUP = "stannary.roles"
SUMMARIES = {
    "coordinator": "Match work to workers, collect submissions, commit their root.",
    "worker": "Generate rollouts and prove them.",
    "validator": "Re-check submissions and vote.",
    "watch": "Judge a sample of a pool's leaves again, and dispute what is wrong.",
    "trainer": "Learn from accepted groups and publish policies.",
    "demo": "Run the whole loop on this machine.",
}

EXTRAS = {"watch": "validator", "demo": "coordinator,worker-cpu,validator,trainer"}
"""What a role installs where its own name is no extra."""


class RootGroup(TyperGroup):
    """The root command: its own commands, then the roles that are installed."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return all names, without importing a role."""
        return [*super().list_commands(ctx), *sorted(_roles())]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; a role comes as a stand-in that imports it when it runs."""
        point = _roles().get(cmd_name)
        return super().get_command(ctx, cmd_name) if point is None else _RoleGroup(point)


class _RoleGroup(TyperGroup):
    """A role before it is imported: a name and a line of help."""

    def __init__(self, point: EntryPoint) -> None:
        super().__init__(name=point.name, help=SUMMARIES.get(point.name, ""))
        self._point = point

    def make_context(self, *args: Any, **extra: Any) -> Any:
        """Import the role and go on with it."""
        return load_role(self._point).make_context(*args, **extra)


def load_role(point: EntryPoint) -> Any:
    """Import a role's command. Raises: SettingsError if what it needs is not installed."""
    try:
        app = point.load()
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in ("", "stannary", "contracts", *SUMMARIES):
            raise  # our own fault, not a package that is missing
        raise SettingsError(
            f"`stannary {point.name}` needs {missing}, which is not installed: "
            f"install stannary[{EXTRAS.get(point.name, point.name)}]"
        ) from error
    return typer.main.get_command(app)


def _roles() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}
