"""Runs slither over the contracts and fails on any finding that `slither.answers.json` does not answer.

python -m tools.analyse_contracts

An answer names a detector, the places it speaks of with the number of findings at each, and the reason why the code is
right as it is. An answer that no longer fits a finding fails too, so the file says what holds. `--missing` prints the
answers that are to be written.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.forge import copy_sources, environment

HERE = Path(__file__).resolve().parent
CONFIG = HERE / "slither.config.json"
ANSWERS = HERE / "slither.answers.json"

Place = tuple[str, str]
"""A detector, and what it speaks of, such as `PayoutVault._pull`."""


def main() -> None:
    """Analyse, compare with the answers, and fail if they differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--missing", action="store_true", help="print the answers that are to be written")
    args = parser.parse_args()
    findings = analyse()
    found = Counter(place_of(finding) for finding in findings)
    answered = answers()
    new, stale = found - answered, answered - found
    if args.missing:
        print(json.dumps([{"check": c, "where": {w: n}, "reason": ""} for (c, w), n in sorted(new.items())], indent=1))
    for finding in findings:
        if place_of(finding) in new:
            print(f"{finding['check']} ({finding['impact']}): {finding['description'].strip()}\n")
    for (check, where), count in sorted(new.items()):
        print(f"not answered: {check} at {where}, {count} more than answered")
    for (check, where), count in sorted(stale.items()):
        print(f"answered, but not found: {check} at {where}, {count} more than found")
    if new or stale:
        sys.exit(
            f"see {ANSWERS.name}: {new.total()} findings without an answer, {stale.total()} answers without a finding"
        )
    print(f"slither: {found.total()} findings, all answered")


def analyse() -> list[dict[str, Any]]:
    """Return what slither finds in a copy of the sources. Raises: RuntimeError if it cannot run."""
    with tempfile.TemporaryDirectory(prefix="stannary-slither-") as place:
        folder, out = Path(place) / "tree", Path(place) / "found.json"
        copy_sources(folder, ["contracts", "tools", "foundry.toml", "package.json"])
        command = ["slither", ".", "--config-file", str(CONFIG), "--json", str(out)]
        done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True)
        if not out.exists():
            raise RuntimeError(f"slither did not run:\n{(done.stdout + done.stderr)[-4000:]}")
        document = json.loads(out.read_text())
    if not document["success"]:
        raise RuntimeError(f"slither did not run: {document['error']}")
    return list(document["results"].get("detectors", []))


def place_of(finding: dict[str, Any]) -> Place:
    """Return the detector and the innermost function, variable or contract that its first element belongs to."""
    return finding["check"], ".".join(reversed(list(_names(finding["elements"][0]))))


def answers() -> Counter[Place]:
    """Return how many findings are answered at each place. Raises: SystemExit for an answer without a reason."""
    counted: Counter[Place] = Counter()
    for answer in json.loads(ANSWERS.read_text()):
        if not answer["reason"].strip():
            sys.exit(f"{ANSWERS.name}: no reason for {answer['check']}")
        for where, count in answer["where"].items():
            counted[answer["check"], where] += count
    return counted


def _names(element: dict[str, Any]) -> Iterator[str]:
    if element["type"] not in ("node", "file"):
        yield element["name"]
    parent = element.get("type_specific_fields", {}).get("parent")
    if parent:
        yield from _names(parent)


if __name__ == "__main__":
    main()
