"""From states to proofs while tokens are generated: what an engine keeps of each rollout until it is finished.

A chunk is proved as soon as the next one begins, where its states are: what is held of a rollout are the states of one
chunk, and, of what came before, proofs and plain numbers. A rollout that cannot be proved spoils no other: the reason
is handed out in place of its proofs.
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
FIRST_PLACES = 16


@dataclass(slots=True)
class _Open:
    """A rollout that is not finished."""

    place: int
    """Of its open chunk in the buffers."""
    count: int = 0
    """Positions that are known, all below this one."""
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    proofs: list[bytes] = field(default_factory=list)
    """Of the chunks that are closed, as the two above."""
    kept: list[torch.Tensor] = field(default_factory=list)
    reason: str = ""
    """Why it cannot be proved."""

    @property
    def closed(self) -> int:
        """Tokens of the chunks that are closed."""
        return len(self.tokens)


class _Chunks:
    """The open chunks of all rollouts. Shapes: states [places, 32, H], tokens and logprobs [places, 32]."""

    def __init__(self, places: int, like: torch.Tensor) -> None:
        shape = (places, toploc.CHUNK_TOKENS)
        self.states = torch.empty((*shape, like.shape[1]), dtype=like.dtype, device=like.device)
        self.tokens = torch.empty(shape, dtype=torch.int64, device=like.device)
        self.logprobs = torch.empty(shape, dtype=torch.float32, device=like.device)

    def grow(self) -> None:
        """Double the places."""
        self.states, self.tokens, self.logprobs = (
            torch.cat([each, torch.empty_like(each)]) for each in (self.states, self.tokens, self.logprobs)
        )


class Capture:
    """States, tokens and log-probabilities of the rollouts that are being generated, by rollout and position."""

    def __init__(self, *, keeps_states: bool = False) -> None:
        """`keeps_states` hands all states out with the proofs: for calibration and tests, not for long completions."""
        self._keeps_states = keeps_states
        self._open: dict[int, _Open] = {}
        self._chunks: _Chunks | None = None
        self._free: list[int] = []
        self._lost: dict[int, str] = {}

    def add(self, keys: Sequence[Key], states: torch.Tensor, tokens: torch.Tensor, logprobs: torch.Tensor) -> None:
        """Take the states that predict the tokens at these places, the tokens that the sampling rule picked there, and
        their log-probabilities. A place that comes again replaces what stood there and after.

        Shapes: states [len(keys), H], tokens [len(keys)] int64, logprobs alike float32, all on one device.
        """
        if self._chunks is None:
            self._chunks = _Chunks(FIRST_PLACES, states)
            self._free = list(range(FIRST_PLACES))
        rollouts = [self._opened(rollout) for rollout, _ in keys]
        full = toploc.CHUNK_TOKENS
        self._close(
            [
                held
                for held, (_, position) in zip(rollouts, keys, strict=True)
                if position == held.count == held.closed + full
            ]
        )
        rows, places, offsets = [], [], []
        for row, (held, (_, position)) in enumerate(zip(rollouts, keys, strict=True)):
            if not held.closed <= position <= held.count:
                held.reason = held.reason or f"state {position} came where {held.closed} … {held.count} could follow"
                continue
            held.count = position + 1
            rows.append(row)
            places.append(held.place)
            offsets.append(position - held.closed)
        where = torch.tensor([places, offsets], dtype=torch.int64, device=states.device).unbind()
        if len(rows) < len(keys):
            states, tokens, logprobs = states[rows], tokens[rows], logprobs[rows]
        self._chunks.states[where] = states.detach()
        self._chunks.tokens[where] = tokens
        self._chunks.logprobs[where] = logprobs

    def lose(self, rollouts: Sequence[int], reason: str) -> None:
        """Note that these rollouts cannot be proved any more."""
        for rollout in rollouts:
            self._lost.setdefault(rollout, reason)

    def take(self, rollout: int, tokens: Sequence[int]) -> RolloutOutput:
        """Return a finished rollout of these tokens with its evidence, or with the reason why there is none.

        There must be exactly one state and one choice for every token, and the choices must be these tokens. What comes
        after the last token is dropped: an engine that schedules ahead samples once more before it sees an end.
        """
        held, lost = self._open.pop(rollout, None), self._lost.pop(rollout, "")
        if held is None or lost:
            return RolloutOutput(tuple(tokens), reason=lost or f"no state came for {len(tokens)} tokens")
        found, held.count = held.count, min(held.count, len(tokens))
        self._close([held])
        self._free.append(held.place)
        if not held.reason and held.closed != len(tokens):
            held.reason = f"{found} states came for {len(tokens)} tokens"
        for place, (token, choice, logprob) in enumerate(zip(tokens, held.tokens, held.logprobs, strict=False)):
            if not math.isfinite(logprob):
                held.reason = held.reason or f"token {place}: the policy's logits are not finite"
            if token != choice:
                held.reason = held.reason or f"token {place} is {token}, the sampling rule picked {choice}"
        if held.reason:
            return RolloutOutput(tuple(tokens), reason=held.reason)
        return RolloutOutput(
            tokens=tuple(tokens),
            proofs=tuple(held.proofs),
            logprobs=tuple(held.logprobs),
            states=torch.cat(held.kept) if self._keeps_states else None,
        )

    def clear(self) -> None:
        """Forget every rollout and free the memory."""
        self._open.clear()
        self._lost.clear()
        self._chunks, self._free = None, []

    def _opened(self, rollout: int) -> _Open:
        held = self._open.get(rollout)
        if held is None:
            assert self._chunks is not None
            if not self._free:
                places = len(self._chunks.tokens)
                self._chunks.grow()
                self._free = list(range(places, 2 * places))
            held = self._open[rollout] = _Open(place=self._free.pop())
        return held

    def _close(self, rollouts: Sequence[_Open]) -> None:
        """Prove the open chunks of these rollouts."""
        ripe = [held for held in rollouts if held.count > held.closed]
        if not ripe:
            return
        assert self._chunks is not None
        places = torch.tensor([held.place for held in ripe], device=self._chunks.tokens.device)
        states = self._chunks.states[places]
        tokens, logprobs = self._chunks.tokens[places].tolist(), self._chunks.logprobs[places].tolist()
        chunks = [states[row, : held.count - held.closed] for row, held in enumerate(ripe)]
        for row, (held, proof) in enumerate(zip(ripe, _prove(chunks), strict=True)):
            size = len(chunks[row])
            if isinstance(proof, ProofError):
                held.reason = held.reason or f"tokens from {held.closed} on: {proof}"
            else:
                held.proofs.append(proof)
            if self._keeps_states:
                held.kept.append(chunks[row].cpu())
            held.tokens += tokens[row][:size]
            held.logprobs += logprobs[row][:size]


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
