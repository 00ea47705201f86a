"""The trainer's record of a run: one JSON object a line, for people and for reports. It decides nothing.

Kinds: `run` (settings that matter), `heldout` (policy_step, reward), `step` (what was learnt from a step), `policy` (a
policy step was published). Times are unix seconds; durations end in `_s`.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any


class Metrics:
    """Appends to `metrics.jsonl`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)

    def write(self, kind: str, **values: Any) -> None:
        """Append one line."""
        line = json.dumps({"kind": kind, "at": round(time.time(), 3), **values}, allow_nan=False)
        with self.path.open("a") as file:
            file.write(line + "\n")

    def read(self, kind: str) -> list[dict[str, Any]]:
        """Return the lines of a kind; a line cut short by a crash is left out."""
        found = []
        for line in self.path.read_text().splitlines() if self.path.exists() else []:
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if entry.get("kind") == kind:
                found.append(entry)
        return found
