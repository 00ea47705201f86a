"""The policy being trained: fp32 masters, AdamW, bf16 export, checkpoints. It knows of no reward, chain or peer.

A folder takes its name only when it is complete, so whatever a restart finds by name is whole.
Checkpoints are safetensors and JSON: nothing is unpickled.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from stannary.errors import PolicyError
from stannary.sampling.torch import suppress_
from stannary.shardcast.folder import appearing, clear_partial
from stannary.token_rules import read_token_rules
from trainer.batch import Batch, Sample, make_batch, micro_batches
from trainer.grpo import grpo_loss

WEIGHTS = "model.safetensors"
_MASTERS = "masters.safetensors"
_MOMENTS = "moments.safetensors"
_STATE = "state.json"


@dataclass(frozen=True, slots=True)
class Recipe:
    """How the policy learns."""

    learning_rate: float
    betas: tuple[float, float] = (0.9, 0.99)
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    temperature: float = 1.0
    """Logits are divided by it before the softmax, as when they were sampled."""
    optimizer_steps: int = 2
    """Optimizer steps per policy step."""
    micro_batch_tokens: int = 2048


@dataclass(frozen=True, slots=True)
class TrainReport:
    """What one policy step did."""

    loss: float
    """Mean over the optimizer steps taken."""
    grad_norm: float
    tokens: int
    mean_ratio: float
    clipped_high_share: float
    clipped_low_share: float
    clipped_delta_share: float
    optimizer_steps: int
    skipped_steps: int
    """Optimizer steps left out because their gradient was not finite."""


class Policy:
    """The trainer's model and its optimizer."""

    def __init__(self, folder: Path, recipe: Recipe) -> None:
        """Load a policy folder as fp32 masters with a fresh optimizer. Raises: PolicyError if it holds no weights."""
        if not (folder / WEIGHTS).is_file():
            raise PolicyError(f"{folder} holds no {WEIGHTS}")
        from transformers import AutoModelForCausalLM
        from transformers.utils import logging as transformers_logging

        self.recipe = recipe
        self.source = folder
        self.token_rules = read_token_rules(folder)
        with safe_open(folder / WEIGHTS, framework="pt") as weights:
            self._names = tuple(sorted(weights.keys()))
        transformers_logging.disable_progress_bar()
        self.model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
        self.model.eval()
        self._parameters = {name: value for name, value in self.model.named_parameters() if name in self._names}
        missing = sorted(set(self._names) - set(self._parameters))
        if missing:
            raise PolicyError(f"{folder / WEIGHTS} holds tensors that the model does not train: {', '.join(missing)}")
        self.optimizer = torch.optim.AdamW(
            self._parameters.values(),
            lr=recipe.learning_rate,
            betas=recipe.betas,
            weight_decay=recipe.weight_decay,
        )

    @property
    def vocabulary(self) -> int:
        """Token ids are below this."""
        return int(self.model.config.vocab_size)

    def logprobs(self, batch: Batch) -> torch.Tensor:
        """Return log-probabilities of the batch's targets under the current weights. Shapes: [N]."""
        states_BTH = self.model.base_model(
            input_ids=batch.tokens_BT, attention_mask=batch.attention_BT.long(), use_cache=False
        ).last_hidden_state
        # Suppressed ids are never sampled, so they have no share of the probability.
        logits_NV = suppress_(
            self.model.get_output_embeddings()(states_BTH[batch.predicts_BT]).float(), self.token_rules.suppressed_ids
        )
        logprobs_NV = torch.log_softmax(logits_NV / self.recipe.temperature, dim=-1)
        return logprobs_NV.gather(1, batch.targets_N[:, None]).squeeze(1)

    def train(self, samples: Sequence[Sample]) -> TrainReport:
        """Take the recipe's optimizer steps on the samples, split evenly in their order; zero advantages are left out.

        The old log-probabilities are those of the weights at the start of this call. A step whose gradient is not
        finite is skipped and counted; the weights stay as they were.
        """
        useful = [sample for sample in samples if sample.advantage != 0.0]
        parts = _split(useful, self.recipe.optimizer_steps)
        prepared = [self._prepare(part) for part in parts if part]
        losses: list[float] = []
        norms: list[float] = []
        ratio_sum, high, low, beyond, tokens, skipped = 0.0, 0, 0, 0, 0, 0
        for batches in prepared:
            token_count = sum(len(batch.targets_N) for batch, _ in batches)
            total = 0.0
            self.optimizer.zero_grad(set_to_none=True)
            for batch, old_logprobs_N in batches:
                result = grpo_loss(self.logprobs(batch), old_logprobs_N, batch.advantages_N, token_count)
                result.loss.backward()  # type: ignore[no-untyped-call]
                total += float(result.loss.detach())
                high += result.clipped_high
                low += result.clipped_low
                beyond += result.clipped_delta
                ratio_sum += result.ratio_sum
            tokens += token_count
            norm = float(
                torch.nn.utils.clip_grad_norm_(self._parameters.values(), self.recipe.max_grad_norm, foreach=True)
            )
            if not (math.isfinite(norm) and math.isfinite(total)):
                skipped += 1
                continue
            self.optimizer.step()
            losses.append(total)
            norms.append(norm)
        self.optimizer.zero_grad(set_to_none=True)
        share = 1 / max(tokens, 1)
        return TrainReport(
            loss=sum(losses) / max(len(losses), 1),
            grad_norm=sum(norms) / max(len(norms), 1),
            tokens=tokens,
            mean_ratio=ratio_sum * share if tokens else 1.0,
            clipped_high_share=high * share,
            clipped_low_share=low * share,
            clipped_delta_share=beyond * share,
            optimizer_steps=len(losses),
            skipped_steps=skipped,
        )

    def _prepare(self, part: Sequence[Sample]) -> list[tuple[Batch, torch.Tensor]]:
        prepared = []
        for samples in micro_batches(part, self.recipe.micro_batch_tokens):
            batch = make_batch(samples)
            with torch.no_grad():
                prepared.append((batch, self.logprobs(batch)))
        return prepared

    def export(self, folder: Path) -> Path:
        """Write the weights in bf16 and everything else of the base folder as a new policy folder, all or nothing."""
        with appearing(folder) as work:
            for file in sorted(self.source.iterdir()):
                if file.is_file() and file.name != WEIGHTS:
                    shutil.copyfile(file, work / file.name)
            tensors = {name: self._parameters[name].detach().to(torch.bfloat16).contiguous() for name in self._names}
            save_file(tensors, work / WEIGHTS, metadata={"format": "pt"})
        return folder

    def save(self, folder: Path, state: dict[str, Any]) -> Path:
        """Write masters, optimizer moments and the loop's state as a checkpoint folder, all or nothing."""
        moments: dict[str, torch.Tensor] = {}
        for name in self._names:
            for key, value in self.optimizer.state.get(self._parameters[name], {}).items():
                moments[f"{name}/{key}"] = value.contiguous()
        with appearing(folder) as work:
            save_file({name: self._parameters[name].detach().contiguous() for name in self._names}, work / _MASTERS)
            save_file(moments, work / _MOMENTS)
            (work / _STATE).write_text(json.dumps({"recipe": asdict(self.recipe), "state": state}, indent=2) + "\n")
        return folder

    def restore(self, folder: Path) -> dict[str, Any]:
        """Take masters and moments from a checkpoint; return the loop's state that was saved with them.

        Raises: PolicyError if the checkpoint is of another model.
        """
        masters = load_file(folder / _MASTERS)
        if set(masters) != set(self._names):
            raise PolicyError(f"{folder} is a checkpoint of another model")
        with torch.no_grad():
            for name, value in masters.items():
                self._parameters[name].copy_(value)
        moments = load_file(folder / _MOMENTS)
        self.optimizer.state.clear()
        for key, value in moments.items():
            name, _, kind = key.rpartition("/")
            self.optimizer.state[self._parameters[name]][kind] = value
        state: dict[str, Any] = json.loads((folder / _STATE).read_text())["state"]
        return state


def checkpoint_name(policy_step: int) -> str:
    """Return the folder name of a policy step; names sort as numbers do."""
    return f"policy-{policy_step:08d}"


def latest_checkpoint(folder: Path) -> Path | None:
    """Return the newest complete checkpoint, and remove what an interrupted save left behind."""
    if not folder.is_dir():
        return None
    clear_partial(folder)
    complete = [path for path in folder.glob("policy-*") if (path / _STATE).is_file()]
    return max(complete, key=lambda path: int(path.name.removeprefix("policy-")), default=None)


def _split(samples: Sequence[Sample], parts: int) -> list[list[Sample]]:
    """Cut into `parts` runs whose sizes differ by at most one."""
    edges = [len(samples) * index // parts for index in range(parts + 1)]
    return [list(samples[start:end]) for start, end in pairwise(edges)]
