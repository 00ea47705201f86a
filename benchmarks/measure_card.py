"""Measures a calibration card from nothing: trains checkpoints, records engines and attacks, calibrates.

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
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks.figures import ROOT
from validator.calibrate import Attack, calibrate
from validator.card_page import card_page
from validator.machine import describe
from validator.recordings import MACHINES, Machine, Task, record, record_all
from validator.samples import CardSamples

CHAIN_SUM = {
    "dataset": "chain_sum",
    "config": {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 2},
    "scoring": "last_number",
}
LONG_ANSWERS = {"dataset": "simple_equations", "config": {}, "scoring": "last_number"}
"""Prompts that SmolLM2 answers at length."""
TOY_STEPS = (1, 2, 5, 10, 14, 15, 25, 40)
"""Checkpoints of the toy: its logits sharpen while it learns, and honest workers of a late step must pass as well."""
BY_NAME = {machine.name: machine for machine in MACHINES}
SCORES = ROOT / "benchmarks" / "scores"
"""Where the scores of the honest recordings of a card are kept, for simulations."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a card is measured on."""

    policies: list[Path]
    fitted: list[Path]
    checked: list[Path]
    attacks: list[Attack]


def main() -> None:
    """Measure one card."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["toy", "smollm2"])
    parser.add_argument("--policies", type=Path, default=Path("policies"))
    parser.add_argument("--work", type=Path, default=Path("runs/cards"))
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(2)
    make = toy if args.kind == "toy" else smollm2
    plan = make(args.policies / args.kind, args.work)
    about: dict[str, object] = {"command": f"python -m benchmarks.measure_card {args.kind}", **describe()}
    kept: list[CardSamples] = []
    card = calibrate(plan.policies, plan.fitted, plan.checked, plan.attacks, about, report=say, keep=kept.append)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_bytes(card.to_bytes())
    (args.work / f"{args.kind}.html").write_text(card_page(card, kept[0]), encoding="utf-8")
    kept[0].write(args.work / f"{args.kind}.samples.json")
    (SCORES / f"{args.kind}.json").write_text(json.dumps(kept[0].scores()) + "\n")
    say(f"card 0x{card.hash().hex()} written to {args.out}")


def toy(base: Path, work: Path) -> Plan:
    """Record what the toy's card needs."""
    task = Task("sieve", "{}", group_size=8, max_tokens=48)
    policies = [base, *checkpoints(base, work / "toy-checkpoints", "sieve", "{}", TOY_STEPS, "2e-3")]
    halves = []
    for seed in (0, 1):
        made = record_all(
            work, policies, task, groups=12, seed=seed, machines=[BY_NAME["sdpa"], BY_NAME["fp32"]], report=say
        )
        some = [policies[0], policies[2], policies[6], policies[8]]
        made += record_all(work, some, task, groups=12, seed=10 + seed, machines=[BY_NAME["vllm-many"]], report=say)
        halves.append(made)
    attacks = []
    for index in (1, 2, 6):
        stale = recorded_attack(work, policies[index - 1], task, f"toy-stale-{index}", BY_NAME["sdpa"], 48)
        name = f"policy step {index - 1} of the list served as {index}"
        attacks.append(Attack(name, stale, policies[index], policies[index - 1]))
    attacks += altered(base, work, task, "toy", BY_NAME["sdpa"], 48, (900, 700))
    return Plan(policies, halves[0], halves[1], attacks)


def smollm2(base: Path, work: Path) -> Plan:
    """Record what the card of SmolLM2-135M needs."""
    task = Task("reasoning_gym", json.dumps(LONG_ANSWERS))
    steps = checkpoints(
        base, work / "smollm2-checkpoints", "reasoning_gym", json.dumps(CHAIN_SUM), tuple(range(1, 9)), "1e-5"
    )
    policies = [base, *steps]
    halves = []
    for seed in (0, 1):
        made = record_all(work, [steps[7]], task, groups=24, seed=seed, report=say)
        some = [BY_NAME["vllm-many"], BY_NAME["sdpa"]]
        made += record_all(work, [base], task, groups=24, seed=10 + seed, machines=some, report=say)
        halves.append(made)
    attacks = altered(base, work, task, "smollm2", BY_NAME["vllm-many"], 32, (900, 700))
    stale = recorded_attack(work, steps[3], task, "smollm2-stale-4", BY_NAME["vllm-many"], 32)
    attacks.append(Attack("policy step of four steps before, at learning rate 1e-5", stale, steps[7], steps[6]))
    return Plan(policies, halves[0], halves[1], attacks)


def checkpoints(
    base: Path, folder: Path, environment: str, params: str, steps: tuple[int, ...], rate: str
) -> list[Path]:
    """Train and keep policy steps unless they are there."""
    if not (folder / f"step-{steps[-1]}").is_dir():
        names = [str(step) for step in steps]
        options = ("--steps", names[-1], "--learning-rate", rate, "--groups", "8", "--group-size", "4")
        run(
            "train_checkpoints", "--policy", base, "--environment", environment, "--params", params,
            *options, "--keep", *names, "--out", folder,
        )  # fmt: skip
    return [folder / f"step-{step}" for step in steps]


def altered(
    base: Path, work: Path, task: Task, name: str, machine: Machine, groups: int, milli: tuple[int, ...]
) -> list[Attack]:
    """Record the policy through int8 and int4 matrices, and at other temperatures."""
    made = []
    for bits in (8, 4):
        folder = work / f"{name}-int{bits}"
        if not folder.is_dir():
            run("quantise_policy", "--policy", base, "--bits", str(bits), "--out", folder)
        corpus = recorded_attack(work, folder, task, f"{name}-int{bits}", machine, groups)
        made.append(Attack(f"int{bits} matrices", corpus, base))
    for value in milli:
        corpus = recorded_attack(work, base, task, f"{name}-t{value}", machine, groups, value)
        made.append(Attack(f"temperature {value / 1000:g}", corpus, base))
    return made


def recorded_attack(
    work: Path, policy: Path, task: Task, name: str, machine: Machine, groups: int, milli: int = 1000
) -> Path:
    """Record what an attacker generates."""
    out = work / f"{name}.corpus"
    return record(out, policy, task, machine, groups=groups, seed=99, temperature_milli=milli, report=say)


def run(module: str, *arguments: str | Path) -> None:
    """Run a program of this folder."""
    command = [sys.executable, "-m", f"benchmarks.{module}", *(str(argument) for argument in arguments)]
    say(" ".join(command[1:]))
    subprocess.run(command, check=True, env=os.environ | {"HF_HUB_OFFLINE": "1"}, stdout=subprocess.DEVNULL)


def say(line: str) -> None:
    """Tell what is done."""
    print(line, flush=True)


if __name__ == "__main__":
    main()
