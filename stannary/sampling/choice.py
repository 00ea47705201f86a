"""The choice itself, and how far a claimed choice lies from it. Pure; the caller decides what a gap means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stannary.sampling.noise import F32, gumbel_batch

VALUES_A_CHUNK = 1 << 20  # 4 MiB of float32: bounds memory whatever the completion's length


@dataclass(frozen=True, slots=True)
class Gaps:
    """What a replay of the sampling rule says of each claimed token.

    Shapes: all [T]. gap = best perturbed logit − the claimed token's (0 = the rule picks it);
    margin = best − second best (how informative the position is); choice = the token the rule picks.
    """

    gap: npt.NDArray[np.float64]
    margin: npt.NDArray[np.float64]
    choice: npt.NDArray[np.int64]


def perturbed(logits: F32, temperature: float, noise: F32) -> F32:
    """fp32(logits / T) + noise, in float32 throughout.

    Raises: ValueError on another dtype, another shape, or a temperature that is not above 0.
    """
    if logits.dtype != np.float32 or noise.dtype != np.float32:
        raise ValueError(f"logits, noise: expected float32, got {logits.dtype}, {noise.dtype}")
    if logits.shape != noise.shape:
        raise ValueError(f"noise: expected shape {logits.shape}, got {noise.shape}")
    divisor = np.float32(temperature)
    if not (divisor > 0 and np.isfinite(divisor)):
        raise ValueError(f"temperature: expected above 0, got {temperature}")
    return (logits / divisor) + noise


def choose(logits: F32, temperature: float, noise: F32) -> npt.NDArray[np.int64]:
    """The token of each row; ties go to the lowest id.

    Shapes: logits, noise [..., V]; result [...].
    Raises: ValueError on logits that are not finite.
    """
    scores = perturbed(logits, temperature, noise)
    choice = np.argmax(scores, axis=-1)
    if not np.isfinite(np.take_along_axis(scores, choice[..., None], axis=-1)).all():
        raise ValueError("logits: expected finite numbers")
    result: npt.NDArray[np.int64] = choice.astype(np.int64)
    return result


def gaps(logits: F32, tokens: Sequence[int], temperature: float, seed: bytes, *, first_position: int = 0) -> Gaps:
    """Replay of one rollout: row t of the logits predicted generated token first_position + t.

    Shapes: logits [T, V] float32; tokens T ids.
    Raises: ValueError on shapes that disagree, ids outside the vocabulary, or logits that are not finite.
    """
    if logits.ndim != 2 or len(logits) != len(tokens):
        raise ValueError(f"logits: expected [{len(tokens)}, V], one row a token, got {list(logits.shape)}")
    length, vocab = logits.shape
    if vocab < 2:
        raise ValueError(f"vocabulary: expected at least 2 ids, got {vocab}")
    ids = np.asarray(tokens, dtype=np.int64).reshape(length)
    if length and (ids.min() < 0 or ids.max() >= vocab):
        raise ValueError(f"tokens: expected ids 0 … {vocab - 1}, got {ids.min()} … {ids.max()}")
    gap, margin, choice = np.empty(length), np.empty(length), np.empty(length, np.int64)
    step = max(1, VALUES_A_CHUNK // vocab)
    for start in range(0, length, step):
        rows = slice(start, min(start + step, length))
        count = rows.stop - rows.start
        positions = range(first_position + start, first_position + rows.stop)
        scores = perturbed(logits[rows], temperature, gumbel_batch([seed] * count, positions, vocab))
        every = np.arange(count)
        best_id = np.argmax(scores, axis=1)
        best = scores[every, best_id].astype(np.float64)
        claimed = scores[every, ids[rows]].astype(np.float64)
        if not (np.isfinite(best).all() and np.isfinite(claimed).all()):
            raise ValueError("logits: expected finite numbers")
        scores[every, best_id] = -np.inf
        second = scores.max(axis=1).astype(np.float64)
        gap[rows], margin[rows], choice[rows] = best - claimed, best - second, best_id
    return Gaps(gap=gap, margin=margin, choice=choice)
