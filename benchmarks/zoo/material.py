"""What attackers work on: recordings, altered policies, checkpoints. All kept in a work folder under names that follow
from their content, so that an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from benchmarks.figures import ROOT
from benchmarks.measure_card import BY_NAME, checkpoints
from benchmarks.zoo.kinds import STALE_STEPS, Kind
from benchmarks.zoo.stage import Claim, Pool, Stage
from demo.adversaries import rounded
from stannary.corpus import Corpus, Recorded, policy_digest
from stannary.environments import Environment, describe_environment, load_environment
from validator.recordings import Machine, Task, record

HONEST_SEED, FORGED_SEED, ATTACK_SEED, FOREIGN_SEED, SHORT_SEED = 7_000_000, 7_100_000, 7_200_000, 7_300_000, 7_400_000
"""Of recordings; none is a card's."""
FP8_MOST = 448.0
"""The largest number of float8 e4m3."""

JUDGING = (
    "stannary/cards.py", "stannary/environments", "stannary/rollout.py", "stannary/sampling", "stannary/seeds.py",
    "stannary/slots.py", "stannary/structs.py", "stannary/thrift.py", "stannary/token_rules.py", "stannary/toploc",
    "validator/checks.py", "validator/judgement.py", "validator/pairing.py", "validator/prefill.py",
    "validator/statistics.py",
)  # fmt: skip
"""What a judgement follows from, besides files, policy and card."""

Report = Callable[[str], None]
Group = tuple[Recorded, ...]


@dataclass(frozen=True, slots=True)
class Recording:
    """Groups that somebody made, and the number that their seeds follow from."""

    groups: Sequence[Group]
    seed: int
    digest: str
    """Of all that the groups hold."""

    @classmethod
    def of(cls, groups: Sequence[Group], seed: int) -> Recording:
        """Name what groups hold."""
        hasher = hashlib.sha256(str(seed).encode())
        for group in groups:
            for rollout in group:
                hasher.update(repr((rollout.prompt, rollout.completion)).encode())
                hasher.update(rollout.states.contiguous().view(torch.uint8).numpy().tobytes())
        return cls(groups, seed, hasher.hexdigest())

    def first(self, count: int) -> Recording:
        """Return the beginning."""
        return Recording.of(self.groups[:count], self.seed)


class Workshop:
    """Makes and keeps what attacks of one kind of policy need."""

    def __init__(self, kind: Kind, base: Path, work: Path, cards: Path, machine: str, report: Report) -> None:
        self.kind, self.base, self.machine, self.report = kind, base, BY_NAME[machine], report
        self._work, self._cards = work / kind.name, cards
        self._work.mkdir(parents=True, exist_ok=True)

    def environment(self, task: Task | None = None) -> Environment:
        """Return a task's environment."""
        task = task or self.kind.task
        return load_environment(describe_environment(task.environment, json.loads(task.params), self.base), self.base)

    def trained(self) -> Claim:
        """Return a policy step that has one before it, of those that the card was measured on."""
        kind = self.kind
        steps = checkpoints(
            self.base, self._cards / f"{kind.name}-checkpoints", *kind.training, kind.card_steps, kind.card_rate
        )
        return Claim(steps[kind.trained], steps[kind.trained - 1])

    def steps(self, rate: str) -> list[Path]:
        """Return the base and the policy steps after it, trained at a rate."""
        folder = self._work / f"steps-{rate}"
        if self.kind.card_steps == STALE_STEPS and rate == self.kind.card_rate:
            folder = self._cards / f"{self.kind.name}-checkpoints"
        return [self.base, *checkpoints(self.base, folder, *self.kind.training, STALE_STEPS, rate)]

    def altered(self, folder: Path, how: str) -> Path:
        """Return a policy with altered weights, `how` being one of ALTERATIONS."""
        return self._copied(folder, how, ALTERATIONS[how])

    def guessed(self, before: Path, earlier: Path) -> Path:
        """Return the policy that lies as far beyond `before` as that does beyond `earlier`."""

        def move(folder: Path) -> None:
            last, first = (load_file(each / "model.safetensors") for each in (before, earlier))
            moved = {name: (2 * value.float() - first[name].float()).to(value.dtype) for name, value in last.items()}
            save_file(moved, folder / "model.safetensors", metadata={"format": "pt"})

        return self._copied(before, "guessed", move)

    def _copied(self, folder: Path, how: str, alter: Callable[[Path], None]) -> Path:
        """Return a copy of a policy that was altered in place, made once."""
        out = self._work / f"{how}-{digest_of(folder)[:16]}"
        if not out.is_dir():
            draft = out.with_suffix(".draft")
            shutil.rmtree(draft, ignore_errors=True)
            shutil.copytree(folder, draft)
            alter(draft)
            draft.rename(out)
        return out

    def suppressing(self, ids: Sequence[int]) -> Path:
        """Return the base policy with rules of its own: some ids are never sampled."""
        out = self._work / f"suppressing-{'-'.join(map(str, ids))}"
        if not out.is_dir():
            shutil.copytree(self.base, out)
            path = out / "generation_config.json"
            path.write_text(json.dumps(json.loads(path.read_text()) | {"suppress_tokens": list(ids)}))
        return out

    def recorded(
        self,
        folder: Path,
        groups: int,
        seed: int,
        *,
        task: Task | None = None,
        machine: Machine | None = None,
        temperature_milli: int = 1000,
    ) -> Recording:
        """Have an engine record, by the worker's own command."""
        task, machine = task or self.kind.task, machine or self.machine
        key = named("recorded", digest_of(folder), task, machine, groups, seed, temperature_milli)
        out = record(
            self._work / f"{key}.corpus", folder, task, machine,
            groups=groups, seed=seed, temperature_milli=temperature_milli, report=self.report,
        )  # fmt: skip
        return Recording.of(Corpus.read(out).groups, seed)

    def made(self, seed: int, make: Callable[[], Sequence[Group]], module: str, *key: object) -> Recording:
        """Return what an attacker's own code generates; `key` is all that it depends on besides that module."""
        path = self._work / f"{named('made', digest('decoding', module), seed, *key)}.corpus"
        if not path.is_file():
            Corpus("zoo", "", 1000, tuple(make())).write(path)
        return Recording.of(Corpus.read(path).groups, seed)

    def stage(
        self, pool: Pool, claim: Claim, recording: Recording, *, task: Task | None = None, is_jury: bool = False
    ) -> Stage:
        """Return the step that a recording is handed in for."""
        task = task or self.kind.task
        return Stage(
            pool, claim, recording.seed, slots=len(recording.groups), group_size=task.group_size,
            max_tokens=task.max_tokens, is_jury=is_jury,
        )  # fmt: skip

    def kept(self, make: Callable[[], Any], module: str, *key: object) -> Any:
        """Return what was found for this key before, by the same checks and the same module of attacks, or find it."""
        path = self._work / "judged" / f"{named('judged', digest('stage', module), *map(digest, JUDGING), *key)}.json"
        if not path.is_file():
            path.parent.mkdir(exist_ok=True)
            draft = path.with_suffix(".draft")
            draft.write_text(json.dumps(make()))
            draft.rename(path)
        return json.loads(path.read_text())


@cache
def digest_of(folder: Path) -> str:
    """Return the name of a policy folder's weights, read once."""
    return policy_digest(folder)


def identity(claim: Claim) -> tuple[str, str]:
    """Return what names a claimed policy step and the one before it."""
    return digest_of(claim.folder), "" if claim.before is None else digest_of(claim.before)


def named(*key: object) -> str:
    """Return a name that follows from what it names."""
    return f"{key[0]}-{hashlib.sha256(repr(key).encode()).hexdigest()[:24]}"


@cache
def digest(*modules: str) -> str:
    """Return a digest of modules of the zoo, or of files and folders below the repository."""
    hasher = hashlib.sha256()
    for module in modules:
        path = ROOT / module if "/" in module else ROOT / "benchmarks" / "zoo" / f"{module}.py"
        for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
            hasher.update(file.read_bytes())
    return hasher.hexdigest()


def with_states(group: Group, completions: Sequence[Sequence[int]], states: Sequence[torch.Tensor]) -> Group:
    """Return a group of other completions of the same seeds. Shapes: states one [T, H] for each."""
    return tuple(
        replace(rollout, completion=tuple(completion), states=own.to(torch.bfloat16).clone())
        for rollout, completion, own in zip(group, completions, states, strict=True)
    )


def _matrices(folder: Path, alter: Callable[[torch.Tensor], torch.Tensor]) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    for name, value in tensors.items():
        if value.ndim == 2 and "embed" not in name and "lm_head" not in name:
            tensors[name] = alter(value).to(torch.bfloat16).contiguous()
    save_file(tensors, path, metadata={"format": "pt"})


def _fp8(value: torch.Tensor) -> torch.Tensor:
    scale = value.float().abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / FP8_MOST
    return (value.float() / scale).to(torch.float8_e4m3fn).float() * scale


def _first_layers(folder: Path) -> None:
    """Keep the first two thirds of the layers."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    kept = config["num_hidden_layers"] * 2 // 3
    path.write_text(json.dumps(config | {"num_hidden_layers": kept}))
    tensors = load_file(folder / "model.safetensors")
    parts = {name: name.split(".") for name in tensors}
    kept_tensors = {name: tensors[name] for name, part in parts.items() if "layers" not in part or int(part[2]) < kept}
    save_file(kept_tensors, folder / "model.safetensors", metadata={"format": "pt"})


ALTERATIONS: Mapping[str, Callable[[Path], None]] = {
    "int8": lambda folder: _matrices(folder, lambda value: rounded(value, 8)),
    "int4": lambda folder: _matrices(folder, lambda value: rounded(value, 4)),
    "fp8": lambda folder: _matrices(folder, _fp8),
    "layers": _first_layers,
}
"""Ways to make generation cheaper: matrices in fewer bits, fewer layers."""
