"""Gives every parser that strangers' bytes reach many bad inputs, each parser in a process of its own.

python -m tests.fuzz --inputs 1000000 [--seed N] [--target NAME] [--results NAME]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from importlib.metadata import version

from benchmarks.figures import figure, missed, write_results
from tests.fuzz.engine import MEMORY_BYTES, ROOT, SLOW_S, Tally, Target, run_apart
from tests.fuzz.targets import SOURCE, all_targets

LEAST_INPUTS = 20_000
"""Of each target in a long run."""
FOLDER = ROOT / "runs" / "fuzz"


def main() -> int:
    """Run, print a line a target, write the results; return 1 if a parser broke its contract."""
    options = _options()
    targets = all_targets()
    shares = share_out(options.inputs, targets, options.target)
    tallies = []
    for name, inputs in shares.items():
        tallies.append(_run(name, inputs, options.seed))
    command = f"python -m tests.fuzz --inputs {options.inputs} --seed {options.seed}"
    if options.results:
        body = report(tallies, options.seed)
        packages = ("pyarrow", "pydantic", "pydantic-core", "numpy", "eth-abi", "tokenizers")
        path = write_results(options.results, command, body, {package: version(package) for package in packages})
        print(f"{path}: missed: {', '.join(missed(body['figures'])) or 'none'}")  # type: ignore[arg-type]
    return int(any(tally.failures for tally in tallies))


def share_out(inputs: int, targets: Mapping[str, Target], only: list[str] | None = None) -> dict[str, int]:
    """Return how many inputs each target gets: the least that each must have, and of the rest its share by weight.

    A run that is too small for that gives all of them their share of it.
    """
    chosen = {name: target for name, target in targets.items() if not only or name in only}
    least = min(LEAST_INPUTS, inputs // len(chosen))
    weights = sum(target.weight for target in chosen.values())
    rest = inputs - least * len(chosen)
    shares = {name: least + rest * target.weight // weights for name, target in chosen.items()}
    first = next(iter(shares))
    shares[first] += inputs - sum(shares.values())
    return shares


def report(tallies: list[Tally], seed: int) -> dict[str, object]:
    """Return the figures of a run, and what came of each target."""
    failures = [failure for tally in tallies for failure in tally.failures]
    counts = dict.fromkeys(("crash", "hang", "slow", "wrong exception", "growth"), 0)
    for failure in failures:
        counts[failure.what.split(":")[0]] += failure.count
    wall_s = sum(tally.wall_s for tally in tallies)
    inputs = sum(tally.inputs for tally in tallies)
    return {
        "counted": f"an input passes if it is read, or refused by a documented error, within {SLOW_S:g} s of processor "
        "time (and half a second a MiB), in a process that may not crash nor take "
        f"{MEMORY_BYTES >> 20} MiB more address space than before, and whose memory grows by no more than the parser's "
        "own limit",
        "seed": seed,
        "figures": {
            "inputs": figure(inputs, "inputs", ">= 1000000"),
            "targets": figure(len(tallies), "parsers"),
            "crashes": figure(counts["crash"], "inputs", "== 0"),
            "hangs": figure(counts["hang"], "inputs", "== 0"),
            "slow": figure(counts["slow"], "inputs", "== 0"),
            "wrong exceptions": figure(counts["wrong exception"], "inputs", "== 0"),
            "slowest input": figure(round(max(tally.slowest_s for tally in tallies), 3), "s of processor time"),
            "grown beyond their limit": figure(counts["growth"], "parsers", "== 0"),
            "largest growth": figure(
                round(max(tally.grown_bytes for tally in tallies) / (1 << 20)),
                "MiB",
                f"<= {max(tally.growth_limit_bytes for tally in tallies) >> 20}",
            ),
            "wall": figure(round(wall_s, 1), "s"),
        },
        "by_target": {
            tally.target: {
                "inputs": tally.inputs,
                "accepted": tally.accepted,
                "refused": tally.refused,
                "slowest_s": round(tally.slowest_s, 4),
                "slowest_index": tally.slowest_index,
                "grown_mib": round(tally.grown_bytes / (1 << 20), 1),
                "growth_limit_mib": tally.growth_limit_bytes >> 20,
                "inputs_a_second": round(tally.inputs / tally.wall_s),
                "failures": [
                    {"index": failure.index, "what": failure.what, "count": failure.count, "file": failure.file}
                    for failure in tally.failures
                ],
            }
            for tally in tallies
        },
    }


def _run(name: str, inputs: int, seed: int) -> Tally:
    def progress(done: int, rate: float) -> None:
        if sys.stderr.isatty():
            print(f"\r{name}: {done:,} of {inputs:,}, {rate:,.0f} a second ", end="", file=sys.stderr, flush=True)

    tally = run_apart(SOURCE, name, inputs, seed, FOLDER, progress=progress)
    if sys.stderr.isatty():
        print("\r", end="", file=sys.stderr)
    print(
        f"{name}: {tally.inputs:,} inputs in {tally.wall_s:.1f} s ({tally.inputs / tally.wall_s:,.0f} a second), "
        f"{tally.accepted:,} read, {tally.refused:,} refused, slowest {tally.slowest_s:.3f} s, "
        f"grown {tally.grown_bytes / (1 << 20):.0f} MiB",
        flush=True,
    )
    for failure in tally.failures:
        print(f"  {failure.count} × {failure.what}, first at {failure.index}: {failure.file}", flush=True)
    return tally


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000, help="of all targets together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", action="append", choices=sorted(all_targets()), help="only this one; repeatable")
    parser.add_argument("--results", default="fuzz", help="of benchmarks/results; empty to write none")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
