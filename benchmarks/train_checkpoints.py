"""Trains a policy for some steps without chain and peers, and keeps the exported folders, for calibration to measure.

python -m benchmarks.train_checkpoints --policy policies/toy --environment sieve --steps 30 --keep 5 --out checkpoints
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from stannary.environments import describe_environment, load_environment
from stannary.token_rules import read_token_rules
from trainer.generate import sample
from trainer.policy import Policy, Recipe
from trainer.rehearsal import learnable


def main() -> None:
    """Train, and export every `--keep` policy steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", type=Path, required=True)
    parser.add_argument("--environment", required=True)
    parser.add_argument("--params", default="{}")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--keep", type=int, nargs="+", default=[1, 5, 10, 15, 30])
    parser.add_argument("--groups", type=int, default=16)
    parser.add_argument("--group-size", type=int, default=8)
    parser.add_argument("--max-tokens", type=int, default=48)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    torch.manual_seed(0)
    environment = load_environment(
        describe_environment(args.environment, json.loads(args.params), args.policy), args.policy
    )
    policy = Policy(args.policy, Recipe(learning_rate=args.learning_rate))
    rules = read_token_rules(args.policy)
    folder = args.policy
    for step in range(args.steps):
        actor: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True).eval()
        problems = [environment.problem(f"checkpoints {step} {slot}".encode()) for slot in range(args.groups)]
        prompts = [problem.prompt for problem in problems for _ in range(args.group_size)]
        completions = sample(actor, prompts, rules=rules, max_tokens=args.max_tokens, temperature=1.0, seed=step)
        groups = [
            [(problem, completions[slot * args.group_size + rollout]) for rollout in range(args.group_size)]
            for slot, problem in enumerate(problems)
        ]
        samples, rewards = learnable(environment, groups)
        policy.train(samples)
        folder = policy.export(args.out / "newest")
        if step + 1 in args.keep:
            policy.export(args.out / f"step-{step + 1}")
        print(f"policy step {step + 1}: mean reward {sum(rewards) / len(rewards):.3f}", flush=True)


if __name__ == "__main__":
    main()
