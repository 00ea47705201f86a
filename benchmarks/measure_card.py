"""Measures a calibration card from nothing: trains checkpoints, records both engines, records attacks, calibrates.

    python -m benchmarks.measure_card toy --work runs/cards --out validator/cards/toy.json
    python -m benchmarks.measure_card smollm2 --work runs/cards --out validator/cards/smollm2.json

What is in the work folder already is kept, so an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from validator.calibrate import calibrate
from validator.machine import describe

CHAIN_SUM = {
    "dataset": "chain_sum",
    "config": {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 2},
    "scoring": "last_number",
}
TOY_STEPS = (1, 2, 5, 10, 14, 15, 25, 40)
"""Checkpoints of the toy: its logits sharpen while it learns, and honest workers of a late step must pass as well."""


def main() -> None:
    """Measure one card."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["toy", "smollm2"])
    parser.add_argument("--policies", type=Path, default=Path("policies"))
    parser.add_argument("--work", type=Path, default=Path("runs/cards"))
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    make = toy if args.kind == "toy" else smollm2
    policies, corpora, attacks = make(args.policies / args.kind, args.work)
    about: dict[str, object] = {"command": f"python -m benchmarks.measure_card {args.kind}", **describe()}
    card = calibrate(policies, corpora, attacks, ["bf16", "fp32"], about, lambda line: print(line, flush=True))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_bytes(card.to_bytes())
    print(f"card 0x{card.hash().hex()} written to {args.out}")


Plan = tuple[list[Path], list[Path], list[tuple[str, Path, Path]]]


def toy(base: Path, work: Path) -> Plan:
    """Record what the toy's card needs."""
    task = ("--environment", "sieve")
    checkpoints = work / "toy-checkpoints"
    if not (checkpoints / f"step-{TOY_STEPS[-1]}").is_dir():
        steps = [str(step) for step in TOY_STEPS]
        run("train_checkpoints", "--policy", base, *task, "--steps", steps[-1], "--keep", *steps, "--out", checkpoints)
    policies = [base, *(checkpoints / f"step-{step}" for step in TOY_STEPS)]
    corpora = []
    for index, policy in enumerate(policies):
        for engine in ("vllm", "transformers"):
            corpora.append(record(work / f"toy-{index}-{engine}.corpus", policy, task, engine, seed=index))
    corpora.append(record(work / "toy-0-fp32.corpus", base, task, "transformers", "--dtype", "fp32", seed=98))
    attacks = [
        (f"policy step {older} served as {newer}", work / f"toy-{index}-vllm.corpus", policies[index + 1])
        for index, (older, newer) in enumerate(zip((0, *TOY_STEPS), TOY_STEPS, strict=False))
        if newer - older == 1
    ]
    last = len(policies) - 1
    attacks.append((f"policy step 0 served as {TOY_STEPS[-1]}", work / "toy-0-vllm.corpus", policies[last]))
    attacks += quantised(base, work, task, "toy", "transformers")
    attacks += cooler(base, work, task, "toy", "transformers", (900, 700, 300))
    return policies, corpora, attacks


def smollm2(base: Path, work: Path) -> Plan:
    """Record what the card of SmolLM2-135M needs."""
    task = ("--environment", "reasoning_gym", "--params", json.dumps(CHAIN_SUM), "--max-tokens", "64")
    corpora = [
        record(work / f"smollm2-{engine}.corpus", base, task, engine, groups=24) for engine in ("vllm", "transformers")
    ]
    attacks = quantised(base, work, task, "smollm2", "vllm", groups=16)
    attacks += cooler(base, work, task, "smollm2", "vllm", (900, 700), groups=16)
    return [base], corpora, attacks


def quantised(
    base: Path, work: Path, task: Sequence[str], name: str, engine: str, groups: int = 64
) -> list[tuple[str, Path, Path]]:
    """Record the policy through int8 and int4 matrices."""
    made = []
    for bits in (8, 4):
        folder = work / f"{name}-int{bits}"
        if not folder.is_dir():
            run("quantise_policy", "--policy", base, "--bits", str(bits), "--out", folder)
        corpus = record(work / f"{name}-int{bits}.corpus", folder, task, engine, seed=99, groups=groups)
        made.append((f"int{bits} matrices", corpus, base))
    return made


def cooler(
    base: Path, work: Path, task: Sequence[str], name: str, engine: str, milli: Sequence[int], groups: int = 64
) -> list[tuple[str, Path, Path]]:
    """Record the policy at other temperatures."""
    made = []
    for value in milli:
        path = work / f"{name}-t{value}.corpus"
        corpus = record(path, base, task, engine, "--temperature-milli", str(value), seed=99, groups=groups)
        made.append((f"temperature {value / 1000:g}", corpus, base))
    return made


def record(
    path: Path, policy: Path, task: Sequence[str], engine: str, *more: str, seed: int = 0, groups: int = 64
) -> Path:
    """Record one corpus unless it is there: in a process of its own, as vLLM wants one."""
    if not path.is_file():
        own = ("--engine", engine, "--seed", str(seed), "--groups", str(groups))
        run("record_corpus", "--policy", policy, *task, *own, *more, "--out", path)
    return path


def run(module: str, *arguments: str | Path) -> None:
    """Run a program of this folder."""
    command = [sys.executable, "-m", f"benchmarks.{module}", *(str(argument) for argument in arguments)]
    print(" ".join(command[1:]), flush=True)
    subprocess.run(command, check=True, env=os.environ | {"HF_HUB_OFFLINE": "1"}, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
