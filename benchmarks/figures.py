"""How a measurement is written down: figures with their targets, what measured them, and where.

`benchmarks/results/<name>.json` holds one measurement. A target that was missed stays there as missed.
"""

from __future__ import annotations

import json
import operator
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from validator.machine import describe

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
_COMPARISONS = {"<=": operator.le, ">=": operator.ge, "==": operator.eq}


def figure(value: float, unit: str, target: str = "", **more: object) -> dict[str, object]:
    """Return one figure. `target` is such as "<= 10000"; `more` is what it was made from, such as its samples."""
    entry: dict[str, object] = {"value": value, "unit": unit}
    if target:
        comparison, bound = target.split(" ")
        entry |= {"target": target, "met": _COMPARISONS[comparison](value, float(bound))}
    return entry | more


def missed(figures: Mapping[str, Mapping[str, object]]) -> list[str]:
    """Return the names of the figures that missed their target."""
    return [name for name, entry in figures.items() if entry.get("met") is False]


def write_results(name: str, command: str, body: Mapping[str, object], versions: Mapping[str, str]) -> Path:
    """Write a measurement, whole or not at all, and return its file."""
    document = {
        "name": name,
        "command": command,
        "commit": _git("rev-parse", "HEAD"),
        "is_clean": not _git("status", "--porcelain"),
        "versions": {"python": describe()["versions"]["python"], **versions},  # type: ignore[index]
        "machine": {**describe()["machine"], "cores": os.cpu_count()},  # type: ignore[dict-item]
        **body,
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(document, indent=1) + "\n")
    os.replace(draft, path)
    return path


def node_version(package: str) -> str:
    """Return the version of a package of the lock file."""
    lock = json.loads((ROOT / "package-lock.json").read_text())
    return str(lock["packages"][f"node_modules/{package}"]["version"])


def _git(*arguments: str) -> str:
    found = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return found.stdout.strip()
