"""Times a validator's judgement of one step of the toy policy, on one thread.

python -m benchmarks.bench_validator --corpus runs/cards/toy-8-vllm.corpus --policy runs/cards/toy-checkpoints/step-40
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import torch
from eth_account import Account
from eth_account.signers.local import LocalAccount

from stannary import toploc
from stannary.cards import Card
from stannary.environments import describe_environment, load_environment
from stannary.environments.environment import Problem
from stannary.rollout import Rollout, content_hash, encode_group
from stannary.seeds import StepSeeds
from stannary.structs import Domain, Lease, Submission
from stannary.types import Hash, parse_address
from validator.checks import Leaf, Rules, StepFacts
from validator.corpus import Corpus
from validator.judgement import Judge, screen
from validator.machine import describe
from validator.prefill import Prefill


def main() -> None:
    """Time one step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--card", type=Path, default=Path("validator/cards/toy.json"))
    parser.add_argument("--dtype", choices=["bf16", "fp32"], default="fp32")
    parser.add_argument("--groups", type=int, default=16)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    coordinator: LocalAccount = Account.from_key(b"\x01" * 32)
    node: LocalAccount = Account.from_key(b"\x02" * 32)
    address = parse_address(node.address)
    card = Card.parse(args.card.read_bytes())
    corpus = Corpus.read(args.corpus)
    domain = Domain(31337, address)
    beacon = Hash(b"\x05" * 32)
    rules = Rules(domain, 1, parse_address(coordinator.address), len(corpus.groups[0]), 48, 120, 1000, 1, card.hash())
    facts = StepFacts(0, 0, args.groups, 1000, StepSeeds(domain, 1, 0, beacon))

    class Recorded(StepSeeds):
        """The corpus's own seeds in place of the step's."""

        def rollout_seed(self, slot: int, rollout: int) -> Hash:
            """Return the seed that the corpus was sampled with."""
            return Hash(corpus.groups[slot][rollout].seed)

        def slot_seed(self, slot: int) -> Hash:
            """Return the slot itself."""
            return Hash(slot.to_bytes(32, "big"))

    facts = replace(facts, seeds=Recorded(domain, 1, 0, beacon))
    environment = load_environment(describe_environment("sieve", {}, args.policy), args.policy)
    task = environment.task

    class SameProblems:
        """The corpus's prompts in place of those of the slots."""

        document = environment.document

        def problem(self, slot_seed: bytes) -> Problem:
            """Return the problem of a group of the corpus."""
            prompt = corpus.groups[int.from_bytes(slot_seed, "big")][0].prompt
            return Problem(prompt=prompt, data={})

        def reward(self, problem: Problem, completion: tuple[int, ...]) -> float:
            """Score as the environment does."""
            return task.reward(problem, completion)

    leaves, files = [], []
    for slot, group in enumerate(corpus.groups[: args.groups]):
        rollouts = [Rollout(r.prompt, r.completion, tuple(toploc.build(r.states))) for r in group]
        data = encode_group(rollouts)
        lease = Lease(1, 0, 0, slot, address, address, 1010, 1070, 1 << 20, card.hash(), 1)
        units = sum(len(r.completion) for r in group)
        leaf = Submission(1, 0, slot, address, address, units, content_hash(data), lease.struct_hash())
        leaves.append(Leaf(leaf, leaf.sign(node, domain), lease, lease.sign(coordinator, domain)))
        files.append(data)
    judge = Judge(rules, facts, card, SameProblems(), Prefill(args.policy, args.dtype))  # type: ignore[arg-type]
    judge.judge(leaves[0], files[0])  # the first forward pass of a process is slower
    seconds = {}
    begun = time.process_time()
    screened = screen(leaves, rules, facts, lambda node: node)
    seconds["screen"] = time.process_time() - begun
    begun = time.process_time()
    judgements = [judge.judge(leaf, data) for leaf, data in zip(leaves, files, strict=True)]
    seconds["judge"] = time.process_time() - begun
    begun = time.process_time()
    for judgement in judgements:
        judgement.verdict(1, 0).sign(node, domain)
    seconds["sign"] = time.process_time() - begun
    result = {
        "command": f"python -m benchmarks.bench_validator --dtype {args.dtype}",
        "groups": len(leaves),
        "tokens": sum(leaf.submission.units for leaf in leaves),
        "accepted": sum(f.is_fine and j.finding.is_fine for f, j in zip(screened, judgements, strict=True)),
        "cpu_seconds": {name: round(value, 3) for name, value in seconds.items()},
        **describe(),
    }
    print(json.dumps(result, indent=2))
    if args.out:
        args.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
