"""The choice itself, and how far a claimed choice lies from it. Pure; the caller decides what a gap means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stannary.sampling.noise import counters
from stannary.sampling.table import F32, gumbel_table

VALUES_A_CHUNK = 1 << 20
"""Scaled logits held at once: 4 MiB of float32, whatever the completion's length."""
TEMPERATURE_MIN, TEMPERATURE_MAX = 0.3, 1.5
"""What the protocol admits: below, rounding is blown up by 1/T; above, completions fall apart."""

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Replay:
    """What the sampling rule says of each claimed token. Shapes: all [T]."""

    gap: F64
    """The best perturbed logit less the claimed token's, in natural log; 0 where the rule picks it."""
    margin: F64
    """The best less the second best: how far drift would have to move the scores before another is picked."""
    choice: I64
    """The token that the rule picks."""
    logprob: F64
    """Log-probability of the claimed token, without noise: log softmax(logits / T)."""
    top_probability: F64
    """Probability of the likeliest token: near 1 the position says nothing about how it was sampled."""

    def __len__(self) -> int:
        """The number of tokens."""
        return len(self.gap)


def require_temperature(temperature: float) -> np.float32:
    """Return a temperature that the protocol admits. Raises: ValueError."""
    if not TEMPERATURE_MIN <= temperature <= TEMPERATURE_MAX:
        raise ValueError(f"temperature: expected {TEMPERATURE_MIN} … {TEMPERATURE_MAX}, got {temperature}")
    return np.float32(temperature)


def perturbed(logits: F32, temperature: float, noise: F32) -> F32:
    """fp32(logits / T) + noise, in float32 throughout: the rule as array operations.

    Raises: ValueError on another dtype, another shape, or a temperature outside the protocol's.
    """
    if logits.dtype != np.float32 or noise.dtype != np.float32:
        raise ValueError(f"logits, noise: expected float32, got {logits.dtype}, {noise.dtype}")
    if logits.shape != noise.shape:
        raise ValueError(f"noise: expected shape {logits.shape}, got {noise.shape}")
    return (logits / require_temperature(temperature)) + noise


def choose(logits: F32, temperature: float, noise: F32) -> I64:
    """The token of each row; ties go to the lowest id.

    Shapes: logits, noise [..., V]; result [...].
    Raises: ValueError as `perturbed`, and on logits that are not finite (a suppressed id has −inf).
    """
    scores = perturbed(logits, temperature, noise)
    choice = np.argmax(scores, axis=-1)
    if not np.isfinite(np.take_along_axis(scores, choice[..., None], axis=-1)).all():
        raise ValueError("logits: expected finite numbers")
    result: I64 = choice.astype(np.int64)
    return result


def replay(
    logits: F32, tokens: Sequence[int], temperature: float, seeds: Sequence[bytes], positions: Sequence[int]
) -> Replay:
    """Replay of many rows, each with the rollout's seed and the position of its token in the completion.

    Shapes: logits [R, V] float32; tokens, seeds, positions R.
    Raises: ValueError on shapes that disagree, ids outside the vocabulary, a temperature outside the protocol's, NaN or
    +inf among the logits, or a claimed token of logit −inf.
    """
    # Compiled code is loaded by whoever samples or replays, not by whoever imports the package.
    from stannary.sampling.kernel import replay_rows

    divisor = require_temperature(temperature)
    if logits.dtype != np.float32 or logits.ndim != 2 or len(logits) != len(tokens):
        raise ValueError(f"logits: expected float32 [{len(tokens)}, V], got {logits.dtype} {list(logits.shape)}")
    count, vocab = logits.shape
    if vocab < 2:
        raise ValueError(f"vocabulary: expected at least 2 ids, got {vocab}")
    if len(seeds) != count:
        raise ValueError(f"seeds: expected {count}, one a row, got {len(seeds)}")
    ids = np.asarray(tokens, dtype=np.int64).reshape(count)
    if count and (ids.min() < 0 or ids.max() >= vocab):
        raise ValueError(f"tokens: expected ids 0 … {vocab - 1}, got {ids.min()} … {ids.max()}")
    words, where = counters(seeds, positions, vocab)
    choice = np.empty(count, np.int64)
    best, second, claimed = np.empty(count, np.float32), np.empty(count, np.float32), np.empty(count, np.float32)
    rows = np.ascontiguousarray(logits)
    replay_rows(rows, divisor, words, where, gumbel_table(), ids, choice, best, second, claimed)
    if not (np.isfinite(best).all() and np.isfinite(claimed).all()):
        raise ValueError("logits: expected finite numbers")
    logprob, top = _softmax_of(rows, divisor, ids)
    highest = best.astype(np.float64)
    return Replay(gap=highest - claimed, margin=highest - second, choice=choice, logprob=logprob, top_probability=top)


def replay_completion(
    logits: F32, tokens: Sequence[int], temperature: float, seed: bytes, *, first_position: int = 0
) -> Replay:
    """Replay of one rollout: row t of the logits predicted generated token first_position + t. As `replay`."""
    positions = range(first_position, first_position + len(tokens))
    return replay(logits, tokens, temperature, [seed] * len(tokens), positions)


def _softmax_of(logits: F32, divisor: np.float32, ids: I64) -> tuple[F64, F64]:
    """Log-probability of each row's id, and the highest probability of the row."""
    logprob, top = np.empty(len(ids)), np.empty(len(ids))
    step = max(1, VALUES_A_CHUNK // logits.shape[1])
    for start in range(0, len(ids), step):
        part = slice(start, start + step)
        scaled = logits[part] / divisor
        highest = scaled.max(axis=1, keepdims=True)
        own = np.take_along_axis(scaled, ids[part, None], axis=1)
        scaled -= highest
        np.exp(scaled, out=scaled)
        total = scaled.sum(axis=1, dtype=np.float64)
        logprob[part] = (own - highest)[:, 0].astype(np.float64) - np.log(total)
        top[part] = 1 / total
    return logprob, top
