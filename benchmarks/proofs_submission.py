"""One real submission of SmolLM2 for the parts of `benchmarks.bench_proofs`: its scene, and its file on disk."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from eth_account import Account
from eth_account.signers.local import LocalAccount

from benchmarks.measure_card import CHAIN_SUM
from stannary.environments import Environment, describe_environment, load_environment
from stannary.rollout import Rollout, encode_group
from stannary.seeds import StepSeeds
from stannary.structs import Domain
from stannary.types import Address, Hash, parse_address
from worker.engine import RolloutOutput, RolloutRequest

GROUPS, GROUP_SIZE, CAP = 4, 8, 128
RARE_END = 5
"""A special token that SmolLM2 hardly ever samples: completions go on to the cap, as long ones do."""
COORDINATOR: LocalAccount = Account.from_key(b"\x01" * 32)
NODE: LocalAccount = Account.from_key(b"\x02" * 32)


@dataclass(frozen=True, slots=True)
class Scene:
    """What the submission is of."""

    folder: Path
    file: Path
    environment: Environment
    seeds: StepSeeds
    requests: list[RolloutRequest]
    temperature: float = 1.0


def address_of(account: LocalAccount) -> Address:
    """Return an account's address."""
    return parse_address(str(account.address))


def prepare(policy: Path, work: Path) -> Scene:
    """Return the scene, the same each time; its policy ends completions by a rare token."""
    folder = work / "policy"
    if not folder.is_dir():
        shutil.copytree(policy, folder)
        generation = json.loads((policy / "generation_config.json").read_text())
        (folder / "generation_config.json").write_text(json.dumps(generation | {"eos_token_id": RARE_END}))
    environment = load_environment(describe_environment("reasoning_gym", CHAIN_SUM, folder), folder)
    seeds = StepSeeds(Domain(31337, address_of(NODE)), 1, 0, Hash(b"\x05" * 32))
    requests = [
        RolloutRequest(seeds.rollout_seed(slot, rollout), environment.problem(seeds.slot_seed(slot)).prompt, CAP)
        for slot in range(GROUPS)
        for rollout in range(GROUP_SIZE)
    ]
    return Scene(folder, work / "submission.parquet", environment, seeds, requests)


def write_group(scene: Scene, outputs: list[RolloutOutput]) -> None:
    """Write the file of slot 0. Raises: SystemExit if a rollout has no proofs."""
    rollouts = []
    for request, output in zip(scene.requests, outputs, strict=False):
        if output.reason:
            raise SystemExit(output.reason)
        rollouts.append(Rollout(request.prompt, output.tokens, output.proofs))
    scene.file.write_bytes(encode_group(rollouts))
