"""Dishonest workers, for the demo and the tests: an honest worker with one part replaced.

    cheat     serves policy step 0 in place of the leased one, and proves what it did truthfully
    rounder   likewise, with the leased policy rounded to four bits
    liar      generates with the right policy, then edits tokens to earn more reward, and proves the edited text by an
              honest prefill of the right policy: schema, lengths and activations are right, only the sampling is not

They use nothing that an outsider could not write; the product knows nothing of them.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import typer
from tokenizers import Tokenizer

from stannary import toploc
from stannary.cli import exit_code
from stannary.environments import Environment, Problem
from stannary.environments.sieve import members
from stannary.errors import StannaryError
from stannary.token_rules import read_token_rules
from stannary.types import Hash
from worker.cli import start_command
from worker.engine import Engine, RolloutOutput, RolloutRequest
from worker.loop import Parts, Weights

if TYPE_CHECKING:
    import torch

    from validator.prefill import Prefill

ROUNDED_GROUP = 32


class StaleWeights:
    """Gives the folder of policy step 0 whatever step is asked for."""

    def __init__(self, honest: Weights, first_root: Callable[[], Hash]) -> None:
        self._honest = honest
        self._first_root = first_root

    def folder_of(self, policy_step: int, policy_root: Hash) -> Path:  # noqa: ARG002  that is the cheat
        """Return the base policy."""
        return self._honest.folder_of(0, self._first_root())


class RoundedWeights:
    """Gives the leased policy with its projections rounded to four bits."""

    def __init__(self, honest: Weights) -> None:
        self._honest = honest

    def folder_of(self, policy_step: int, policy_root: Hash) -> Path:
        """Return a rounded copy."""
        source = self._honest.folder_of(policy_step, policy_root)
        rounded = source.parent / "rounded" / source.name
        shutil.rmtree(rounded.parent, ignore_errors=True)
        round_policy(source, rounded)
        return rounded


class Liar:
    """An engine that edits what the honest one generated, and the environment that tells it how."""

    def __init__(self, honest: Engine, open_environment: Callable[[Path], Environment]) -> None:
        self.name = honest.name
        self._honest = honest
        self._open_environment = open_environment
        self._folder = Path()
        self._environment: Environment | None = None
        self._prefill: Prefill | None = None
        self._problems: dict[tuple[int, ...], Problem] = {}

    def open_environment(self, folder: Path) -> Environment:
        """Return the honest environment, whose problems the liar remembers."""
        environment = self._open_environment(folder)
        self._environment = environment
        return replace(environment, task=_Listening(environment, self._problems))

    def load(self, folder: Path) -> None:
        """Load the right policy, for generating and for proving."""
        from validator.prefill import Prefill

        self._honest.load(folder)
        self._prefill = Prefill(folder, "bf16")
        self._folder = folder

    def generate(self, requests: Sequence[RolloutRequest], temperature: float) -> list[RolloutOutput]:
        """Generate honestly, then edit and prove the edited text."""
        outputs = self._honest.generate(requests, temperature)
        return [self._lie(request, output) for request, output in zip(requests, outputs, strict=True)]

    def close(self) -> None:
        """Close the honest engine."""
        self._honest.close()

    def _lie(self, request: RolloutRequest, output: RolloutOutput) -> RolloutOutput:
        assert self._environment is not None
        assert self._prefill is not None
        problem = self._problems[request.prompt]
        edited = edit(self._environment, problem, output.tokens, self._folder)[: request.max_tokens]
        if edited == output.tokens:
            return output
        (states,) = self._prefill.states(request.prompt, [edited])
        return RolloutOutput(tokens=edited, proofs=tuple(toploc.build(states)))


class _Listening:
    """A task that notes the problems that it gives out."""

    PACKAGES: ClassVar[tuple[str, ...]] = ()

    def __init__(self, environment: Environment, problems: dict[tuple[int, ...], Problem]) -> None:
        self._environment = environment
        self._problems = problems

    def problem(self, slot_seed: bytes) -> Problem:
        problem = self._environment.problem(slot_seed)
        self._problems[problem.prompt] = problem
        return problem

    def heldout(self, index: int) -> Problem:
        return self._environment.heldout(index)

    def reward(self, problem: Problem, completion: Sequence[int]) -> float:
        return self._environment.reward(problem, completion)


def edit(environment: Environment, problem: Problem, completion: tuple[int, ...], folder: Path) -> tuple[int, ...]:
    """Return a completion with more reward: right symbols in the sieve task, elsewhere the right answer and an end."""
    end_ids = read_token_rules(folder).end_ids
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    if environment.document["name"] == "sieve":
        vocabulary = tokenizer.get_vocab()
        inside = sorted(vocabulary[symbol] for symbol in members(str(problem.data["class"])))
        return tuple(
            token if token in inside or token in end_ids else inside[position % len(inside)]
            for position, token in enumerate(completion)
        )
    if environment.reward(problem, completion) > 0:
        return completion
    answer = tokenizer.encode(str(problem.data["answer"]), add_special_tokens=False).ids
    return (*answer, min(end_ids))


def round_policy(source: Path, target: Path) -> None:
    """Copy a policy folder with its projections rounded to four bits in groups of 32, stored as bf16."""
    import torch
    from safetensors.torch import load_file, save_file

    target.mkdir(parents=True)
    for path in source.iterdir():
        if path.suffix != ".safetensors":
            shutil.copyfile(path, target / path.name)
            continue
        tensors = load_file(path)
        for name, value in tensors.items():
            if name.endswith("_proj.weight") and value.shape[-1] % ROUNDED_GROUP == 0:
                tensors[name] = rounded(value, bits=4).to(torch.bfloat16).contiguous()
        save_file(tensors, target / path.name, metadata={"format": "pt"})


def rounded(weight: torch.Tensor, bits: int) -> torch.Tensor:
    """Round a matrix to whole steps as int8 (a scale per row) or int4 (a scale per group of 32) would. Shapes: kept."""
    values = weight.float()
    rows = values if bits == 8 else values.reshape(-1, ROUNDED_GROUP)
    top = (1 << (bits - 1)) - 1
    scale = rows.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / top
    return ((rows / scale).round() * scale).reshape(weight.shape)


def cheat(parts: Parts) -> Parts:
    """Return parts that serve the base policy."""
    return _unguarded(parts, weights=StaleWeights(parts.weights, lambda: parts.read_step(0).policy_root))


def rounder(parts: Parts) -> Parts:
    """Return parts that serve a rounded policy."""
    return _unguarded(parts, weights=RoundedWeights(parts.weights))


def lie(parts: Parts) -> Parts:
    """Return parts that edit what was generated."""
    liar = Liar(parts.engine, parts.open_environment)
    return _unguarded(parts, engine=liar, open_environment=liar.open_environment)


def _unguarded(parts: Parts, **changes: Any) -> Parts:
    """Return altered parts of a worker that does not stop because of the evidence against it."""
    return replace(parts, standing=lambda: None, **changes)


app = typer.Typer(
    help="Dishonest workers; the options are those of `stannary worker start`.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command("cheat", help="Serve policy step 0 in place of the leased one.")(start_command(cheat))
app.command("rounder", help="Serve the leased policy rounded to four bits.")(start_command(rounder))
app.command("liar", help="Edit tokens after generating, and prove the edited text.")(start_command(lie))


def main() -> None:
    """Run the command line, with failures as `stannary` shows them."""
    try:
        app()
    except StannaryError as error:
        print(f"adversary: {error}", file=sys.stderr)
        sys.exit(exit_code(error))


if __name__ == "__main__":
    main()
