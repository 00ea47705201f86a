"""Measures which lines and branches of the contracts the Solidity tests reach, and fails below the targets.

Left out are random sequences of moves, since what they reach some test must reach on purpose, and the tests of gas,
which mean nothing without the optimizer.

python -m benchmarks.cover_contracts
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.figures import figure, missed, node_version, write_results
from tools.forge import forge

LINES = ">= 0.98"
BRANCHES = ">= 0.95"
COUNTED = "an if without else is one branch, taken; conditional expressions and short circuits are none"
"""What forge calls a branch: that the other side of an if was reached shows in the lines that follow."""
LEFT_OUT = "tests/contracts/{Invariants,Limits}.t.sol"


@dataclass(slots=True)
class Reach:
    """How often each line, and each branch of a line, of one file was reached."""

    lines: dict[int, int] = field(default_factory=dict)
    branches: dict[tuple[int, str], int] = field(default_factory=dict)

    @property
    def summary(self) -> dict[str, object]:
        """What of it was reached, and the lines where something was not."""
        missing = {line for line, count in self.lines.items() if not count}
        return {
            "lines": [len(self.lines) - len(missing), len(self.lines)],
            "branches": [sum(map(bool, self.branches.values())), len(self.branches)],
            "lines_missing": sorted(missing),
            "branches_missing": sorted({line for (line, _), count in self.branches.items() if not count}),
        }


def main() -> None:
    """Measure, write benchmarks/results/coverage.json, and fail if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "lcov.info"
        settings = {"FOUNDRY_OUT": f"{folder}/out", "FOUNDRY_CACHE_PATH": f"{folder}/cache"}
        arguments = ("--report", "lcov", "--report-file", str(record), "--no-match-path", LEFT_OUT)
        done = forge("coverage", *arguments, settings=settings)
        if done.returncode:
            sys.exit(f"forge coverage failed:\n{done.stdout[-6000:]}")
        files = read(record.read_text().splitlines())
    figures = {
        "lines": _part((count for one in files.values() for count in one.lines.values()), LINES),
        "branches": _part((count for one in files.values() for count in one.branches.values()), BRANCHES),
    }
    by_file = {name: one.summary for name, one in sorted(files.items())}
    for name, summary in by_file.items():
        if summary["lines_missing"] or summary["branches_missing"]:
            print(f"{name}: lines {summary['lines_missing']}, branches at {summary['branches_missing']} not reached")
    print(f"coverage: lines {figures['lines']['value']:.2%}, branches {figures['branches']['value']:.2%}")
    if not args.check:
        versions = {"forge": node_version("@foundry-rs/forge"), "solc": node_version("solc")}
        body = {"counted": COUNTED, "figures": figures, "by_file": by_file}
        print(write_results("coverage", "python -m benchmarks.cover_contracts", body, versions))
    if missed(figures):
        sys.exit(f"coverage misses its target: {missed(figures)}")


def read(record: Iterable[str]) -> dict[str, Reach]:
    """Read an lcov record. Source: geninfo(1), "tracefile format"."""
    files: dict[str, Reach] = {}
    current = Reach()
    for line in record:
        kind, _, rest = line.partition(":")
        match kind:
            case "SF":
                current = Reach()
                if rest.startswith("contracts/"):
                    files[rest] = current
            case "DA":
                number, count = rest.split(",")[:2]
                current.lines[int(number)] = int(count)
            case "BRDA":
                number, block, branch, count = rest.split(",")
                current.branches[int(number), f"{block}.{branch}"] = int(count) if count != "-" else 0
    return files


def _part(counts: Iterable[int], target: str) -> dict[str, object]:
    reached = [bool(count) for count in counts]
    return figure(
        round(sum(reached) / max(1, len(reached)), 4), "of all", target, reached=sum(reached), all=len(reached)
    )


if __name__ == "__main__":
    main()
