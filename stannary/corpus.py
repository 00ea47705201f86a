"""Recorded rollouts of one policy, which calibration measures. Owns the file's form; knows no engine, no threshold.

One safetensors file: tokens and bf16 states of whole groups, flat, and metadata that says which engine made them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import torch
from blake3 import blake3
from eth_utils.crypto import keccak
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from stannary.errors import Malformed
from stannary.seeds import StepSeeds
from stannary.structs import Domain
from stannary.types import Hash, parse_address


@dataclass(frozen=True, slots=True)
class Recorded:
    """One rollout as an engine made it. Shapes: states [T, H] bfloat16."""

    seed: bytes
    prompt: tuple[int, ...]
    completion: tuple[int, ...]
    states: torch.Tensor


@dataclass(frozen=True, slots=True)
class Corpus:
    """Groups of rollouts of one policy by one engine."""

    engine: str
    """Name and version of what generated, such as `vllm 0.32.0 bf16`."""
    policy: str
    """BLAKE3 of the policy's model.safetensors, in hexadecimal."""
    temperature_milli: int
    groups: tuple[tuple[Recorded, ...], ...]

    @property
    def rollouts(self) -> list[Recorded]:
        """All rollouts, group by group."""
        return [rollout for group in self.groups for rollout in group]

    def write(self, path: Path) -> None:
        """Write the corpus file, whole or not at all."""
        rollouts = self.rollouts
        tensors = {
            "seeds": torch.tensor([list(rollout.seed) for rollout in rollouts], dtype=torch.uint8),
            "prompts": torch.tensor([token for r in rollouts for token in r.prompt], dtype=torch.int32),
            "completions": torch.tensor([token for r in rollouts for token in r.completion], dtype=torch.int32),
            "lengths": torch.tensor([[len(r.prompt), len(r.completion)] for r in rollouts], dtype=torch.int32),
            "groups": torch.tensor([len(group) for group in self.groups], dtype=torch.int32),
            "states": torch.cat([rollout.states for rollout in rollouts]).contiguous(),
        }
        about = {"engine": self.engine, "policy": self.policy, "temperature_milli": self.temperature_milli}
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(path.name + ".draft")
        save_file(tensors, draft, metadata={"corpus": json.dumps(about)})
        draft.replace(path)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a corpus file. Raises: Malformed."""
        try:
            with safe_open(path, framework="pt") as file:
                about = json.loads(file.metadata()["corpus"])
                found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  no mapping
            rollouts = []
            states = found["states"].split(found["lengths"][:, 1].tolist())
            prompts = found["prompts"].split(found["lengths"][:, 0].tolist())
            completions = found["completions"].split(found["lengths"][:, 1].tolist())
            for seed, prompt, completion, own in zip(found["seeds"], prompts, completions, states, strict=True):
                rollouts.append(Recorded(bytes(seed.tolist()), tuple(prompt.tolist()), tuple(completion.tolist()), own))
            groups, start = [], 0
            for size in found["groups"].tolist():
                groups.append(tuple(rollouts[start : start + size]))
                start += size
            return cls(about["engine"], about["policy"], about["temperature_milli"], tuple(groups))
        except (OSError, SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
            raise Malformed(str(path), expected="a corpus file", got=str(error)) from error


def recording_seeds(seed: int) -> StepSeeds:
    """Return the seeds of a recording: those of a step that was never on chain, made as every step's are."""
    beacon = Hash(keccak(text=f"stannary recording {seed}"))
    return StepSeeds(Domain(31337, parse_address("0x" + "00" * 20)), pool=1, step=0, seed_beacon=beacon)


def policy_digest(folder: Path) -> str:
    """Return the name of a policy folder's weights."""
    hasher = blake3()
    with (folder / "model.safetensors").open("rb") as file:
        while block := file.read(1 << 20):
            hasher.update(block)
    return str(hasher.hexdigest())
