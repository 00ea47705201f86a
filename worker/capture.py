"""From states to proofs while tokens are generated: what an engine keeps of each rollout until it is finished.

A chunk is proved as soon as the next one begins, where its states are; so what is held does not grow with the length of
a completion. A rollout that cannot be proved spoils no other: the reason is handed out in place of its proofs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from stannary import toploc
from stannary.errors import ProofError
from worker.engine import RolloutOutput

Key = tuple[int, int]
"""A rollout and the position of a token in its completion."""


@dataclass(slots=True)
class _Open:
    """A rollout that is not finished."""

    states: list[torch.Tensor] = field(default_factory=list)
    """Of the chunk that is not closed. Shapes: [H] each."""
    closed: int = 0
    """Tokens of the chunks before it."""
    proofs: list[bytes] = field(default_factory=list)
    kept: list[torch.Tensor] = field(default_factory=list)
    choices: list[tuple[torch.Tensor, torch.Tensor, int]] = field(default_factory=list)
    """Tokens and log-probabilities of the step that emitted each position, and the row there. Shapes: [rows] each."""
    reason: str = ""
    """Why it cannot be proved."""


class Capture:
    """States, tokens and log-probabilities of the rollouts that are being generated, by rollout and position."""

    def __init__(self, *, keeps_states: bool = False) -> None:
        """`keeps_states` hands all states out with the proofs: for calibration and tests, not for long completions."""
        self._keeps_states = keeps_states
        self._open: dict[int, _Open] = {}

    def add_states(self, keys: Sequence[Key], states: torch.Tensor) -> None:
        """Take the states that predict the tokens at these places. A place that comes again replaces what stood there.

        Shapes: states [len(keys), H] on any device; they must not change afterwards.
        """
        rollouts = [self._open.setdefault(rollout, _Open()) for rollout, _ in keys]
        self._close(
            [
                held
                for held, (_, position) in zip(rollouts, keys, strict=True)
                if len(held.states) == toploc.CHUNK_TOKENS and position == held.closed + toploc.CHUNK_TOKENS
            ]
        )
        for held, (_, position), state in zip(rollouts, keys, states.unbind(), strict=True):
            place = position - held.closed
            if 0 <= place <= len(held.states):
                held.states[place:] = [state]
            else:
                known = held.closed + len(held.states)
                held.reason = held.reason or f"state {position} came where {held.closed} … {known} could follow"

    def add_choices(self, keys: Sequence[Key], tokens: torch.Tensor, logprobs: torch.Tensor) -> None:
        """Take the tokens that the sampling rule picked at these places, with their log-probabilities.

        They are read when the rollout is finished: a device that computes ahead is not waited for at every step.
        Shapes: tokens [len(keys)] int64, logprobs alike float32.
        """
        for row, (rollout, position) in enumerate(keys):
            held = self._open.setdefault(rollout, _Open())
            if position <= len(held.choices):
                held.choices[position:] = [(tokens, logprobs, row)]

    def take(self, rollout: int, tokens: Sequence[int]) -> RolloutOutput:
        """Return a finished rollout of these tokens with its evidence, or with the reason why there is none.

        There must be exactly one state and one choice for every token, and the choices must be these tokens. What comes
        after the last token is dropped: an engine that schedules ahead samples once more before it sees an end.
        """
        held = self._open.pop(rollout, _Open())
        del held.states[max(0, len(tokens) - held.closed) :]
        del held.choices[len(tokens) :]
        self._close([held])
        if not held.reason and (held.closed, len(held.choices)) != (len(tokens), len(tokens)):
            held.reason = f"{len(tokens)} tokens came with {held.closed} states and {len(held.choices)} choices"
        if held.reason:
            return RolloutOutput(tuple(tokens), reason=held.reason)
        chosen = torch.stack([step[row] for step, _, row in held.choices]).tolist()
        logprobs = torch.stack([step[row] for _, step, row in held.choices]).tolist()
        for place, (token, choice, logprob) in enumerate(zip(tokens, chosen, logprobs, strict=True)):
            if not math.isfinite(logprob):
                return RolloutOutput(tuple(tokens), reason=f"token {place}: the policy's logits are not finite")
            if token != choice:
                reason = f"token {place} is {token}, the sampling rule picked {choice}"
                return RolloutOutput(tuple(tokens), reason=reason)
        return RolloutOutput(
            tokens=tuple(tokens),
            proofs=tuple(held.proofs),
            logprobs=tuple(logprobs),
            states=torch.cat(held.kept) if self._keeps_states else None,
        )

    def clear(self) -> None:
        """Forget every rollout."""
        self._open.clear()

    def _close(self, rollouts: Sequence[_Open]) -> None:
        """Prove the open chunks of these rollouts."""
        ripe = [held for held in rollouts if held.states]
        chunks = [torch.stack(held.states) for held in ripe]
        for held, chunk, proof in zip(ripe, chunks, _prove(chunks), strict=True):
            if isinstance(proof, ProofError):
                held.reason = held.reason or f"tokens from {held.closed} on: {proof}"
            else:
                held.proofs.append(proof)
            if self._keeps_states:
                held.kept.append(chunk.cpu())
            held.closed += len(chunk)
            held.states = []


def _prove(chunks: Sequence[torch.Tensor]) -> list[bytes | ProofError]:
    """One proof a chunk, or why there is none; whole chunks are searched together. Shapes: [at most 32, H] each."""
    if chunks and all(len(chunk) == toploc.CHUNK_TOKENS for chunk in chunks):
        try:
            return list(toploc.build(torch.cat(list(chunks))))
        except ProofError:
            pass  # one of them has none: which, each alone says
    proofs: list[bytes | ProofError] = []
    for chunk in chunks:
        try:
            proofs += toploc.build(chunk)
        except ProofError as error:
            proofs.append(error)
    return proofs
