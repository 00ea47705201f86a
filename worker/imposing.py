"""The sampling rule inside an engine that samples by itself: our choice made the only one, and noted with its state.

It knows rows of logits and states; which request a row belongs to is the business of the two runner adapters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from stannary.errors import OperatorError
from stannary.sampling.torch import sample, suppress_
from worker.capture import Capture

SEED, TEMPERATURE, ROLLOUT = "stannary_seed", "stannary_temperature", "stannary_rollout"
"""Names in a request's extra arguments: the seed in hex, the temperature, the rollout's number."""


@dataclass(frozen=True, slots=True)
class RequestSeed:
    """What a request carries for the sampling rule."""

    seed: bytes
    temperature: float
    rollout: int

    @classmethod
    def of(cls, extra: object) -> RequestSeed | None:
        """Read a request's extra arguments; None where they are not ours. Raises: ValueError on a malformed seed."""
        if not isinstance(extra, dict) or any(name not in extra for name in (SEED, TEMPERATURE, ROLLOUT)):
            return None
        return cls(bytes.fromhex(extra[SEED]), float(extra[TEMPERATURE]), int(extra[ROLLOUT]))

    def extra_args(self) -> dict[str, str | float | int]:
        """Return what a request carries."""
        return {SEED: self.seed.hex(), TEMPERATURE: self.temperature, ROLLOUT: self.rollout}


def require_seed(params: Any) -> None:
    """Refuse vLLM's sampling parameters where they lack what the sampling rule needs. Raises: ValueError."""
    if params.temperature != 0 or RequestSeed.of(params.extra_args) is None:
        raise ValueError("expected temperature 0 and a seed, a temperature and a rollout in extra_args")


class Imposer:
    """Picks the token of every row and leaves the engine's greedy choice no other."""

    def __init__(self) -> None:
        self.capture: Capture | None = None
        """Where states and choices go; None on ranks that only follow."""
        self.states: torch.Tensor | None = None
        """Of the step that is being sampled. Shapes: [rows, H]."""
        self.suppressed_ids: tuple[int, ...] = ()

    def impose(self, logits: torch.Tensor, rows: Sequence[tuple[RequestSeed, int] | None]) -> torch.Tensor:
        """Sample each row by its seed and position, and set the choice's logit to +inf.

        None is a row that emits no token: a prompt that chunked prefill has not finished. Its logits stay.
        Shapes: logits [B, V] float32, changed in place.
        Raises: OperatorError on several temperatures.
        """
        emitting = [row for row, of in enumerate(rows) if of is not None]
        states, self.states = self.states, None
        if not emitting:
            return logits
        suppress_(logits, self.suppressed_ids)
        requests = [of for of in rows if of is not None]
        temperatures = {request.temperature for request, _ in requests}
        if len(temperatures) != 1:
            raise OperatorError(f"sampling: expected one temperature a batch, got {sorted(temperatures)}")
        is_whole = len(emitting) == len(rows)
        chosen, logprobs = sample(
            logits if is_whole else logits[emitting],
            temperatures.pop(),
            [request.seed for request, _ in requests],
            [position for _, position in requests],
        )
        if self.capture is not None:
            keys = [(request.rollout, position) for request, position in requests]
            if states is None or len(states) != len(rows):
                found = "none" if states is None else len(states)
                lost = f"{found} states came with {len(rows)} rows of logits"
                self.capture.lose([rollout for rollout, _ in keys], lost)
            else:
                self.capture.add(keys, states if is_whole else states[emitting], chosen, logprobs)
        logits[torch.tensor(emitting, device=logits.device), chosen] = torch.inf
        return logits
