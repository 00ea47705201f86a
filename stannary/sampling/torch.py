"""The same sampling rule for tensors, equal bit for bit to the numpy form. Only this module of sampling needs torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

import numpy as np
import torch

from stannary.sampling.choice import Replay, replay, require_temperature
from stannary.sampling.noise import counters
from stannary.sampling.philox import MULTIPLIERS, ROUNDS, WEYL, WORD
from stannary.sampling.statistics import joined
from stannary.sampling.table import OFFSET, SHIFT, gumbel_table

Found = TypeVar("Found")


def suppress_(logits: torch.Tensor, ids: tuple[int, ...]) -> torch.Tensor:
    """Set the logits of suppressed ids to −inf, in place: the first thing that is made of logits, by whoever has them.

    Shapes: logits [B, V].
    """
    return logits.index_fill_(1, _ids_on(ids, logits.device), -torch.inf) if ids else logits


def sample(
    logits: torch.Tensor, temperature: float, seeds: Sequence[bytes], positions: Sequence[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """The token of each row and its log-probability without noise; ties go to the lowest id.

    A row whose logits are not finite has an arbitrary token and NaN as its log-probability: it spoils no other row, and
    a device is not waited for.

    Shapes: logits [B, V] float32 on any device, unchanged; results [B] int64 and [B] float32 on that device.
    Raises: ValueError on another dtype or a temperature outside the protocol's.
    """
    if logits.dtype != torch.float32:
        raise ValueError(f"logits: expected float32, got {logits.dtype}")
    divisor = require_temperature(temperature)
    if logits.device.type != "cpu":
        return _sample_by_tensor_ops(logits, temperature, seeds, positions)
    from stannary.sampling.kernel import replay_rows

    rows = logits.detach().contiguous()
    words, where = counters(seeds, positions, rows.shape[1])
    if len(words) != len(rows):
        raise ValueError(f"seeds: expected {len(rows)}, one a row, got {len(words)}")
    choice, unused = np.empty(len(rows), np.int64), np.zeros(len(rows), np.int64)
    best, second, claimed = (np.empty(len(rows), np.float32) for _ in range(3))
    array, table = rows.numpy(), gumbel_table()
    _in_threads(
        lambda part: replay_rows(
            array[part], divisor, words[part], where[part], table,
            unused[part], choice[part], best[part], second[part], claimed[part],
        ),
        len(rows),
    )  # fmt: skip
    return torch.from_numpy(choice), _logprobs(_scaled(rows, temperature), torch.from_numpy(choice))


def _sample_by_tensor_ops(
    logits: torch.Tensor, temperature: float, seeds: Sequence[bytes], positions: Sequence[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    scaled = _scaled(logits, temperature)
    scores = scaled + noise_by_tensor_ops(seeds, positions, logits.shape[1], logits.device)
    choice = _lowest_of(scores, scores.max(dim=-1).values)
    return choice, _logprobs(scaled, choice)


def replay_tensor(
    logits: torch.Tensor, tokens: Sequence[int], temperature: float, seeds: Sequence[bytes], positions: Sequence[int]
) -> Replay:
    """`stannary.sampling.replay` where the logits are: of a device, only numbers a row come to the host.

    Shapes: logits [R, V] float32; tokens, seeds, positions R.
    Raises: ValueError as `replay`.
    """
    if logits.device.type == "cpu":
        rows = logits.detach().numpy()
        if not len(rows) == len(tokens) == len(seeds) == len(positions):
            return replay(rows, tokens, temperature, seeds, positions)  # says what does not fit
        return joined(
            _in_threads(
                lambda part: replay(rows[part], tokens[part], temperature, seeds[part], positions[part]), len(rows)
            )
        )
    return replay_by_tensor_ops(logits, tokens, temperature, seeds, positions)


def replay_by_tensor_ops(
    logits: torch.Tensor, tokens: Sequence[int], temperature: float, seeds: Sequence[bytes], positions: Sequence[int]
) -> Replay:
    """The replay made of tensor operations alone, for any device."""
    require_temperature(temperature)
    if logits.dtype != torch.float32 or logits.ndim != 2 or len(logits) != len(tokens):
        raise ValueError(f"logits: expected float32 [{len(tokens)}, V], got {logits.dtype} {list(logits.shape)}")
    vocab = logits.shape[1]
    if not all(0 <= token < vocab for token in tokens):
        raise ValueError(f"tokens: expected ids 0 … {vocab - 1}, got {min(tokens)} … {max(tokens)}")
    scaled = _scaled(logits, temperature)
    scores = scaled + noise_by_tensor_ops(seeds, positions, vocab, logits.device)
    ids = torch.tensor(tokens, dtype=torch.int64, device=logits.device)[:, None]
    first_two = scores.topk(2, dim=-1).values
    total = torch.logsumexp(scaled.double(), dim=-1)
    columns = torch.stack(
        [
            first_two[:, 0].double(),
            first_two[:, 1].double(),
            scores.gather(1, ids)[:, 0].double(),
            scaled.gather(1, ids)[:, 0].double() - total,
            (scaled.max(dim=-1).values.double() - total).exp(),
            _lowest_of(scores, first_two[:, 0]).double(),
        ]
    )
    best, second, claimed, logprob, top, choice = columns.cpu().numpy()
    if not (np.isfinite(best).all() and np.isfinite(claimed).all()):
        raise ValueError("logits: expected finite numbers")
    return Replay(
        gap=best - claimed,
        margin=best - second,
        choice=choice.astype(np.int64),
        logprob=logprob,
        top_probability=top,
    )


def noise_by_tensor_ops(
    seeds: Sequence[bytes], positions: Sequence[int], vocab: int, device: torch.device
) -> torch.Tensor:
    """The noise made of int64 tensor operations alone, for any device. Shapes: [len(seeds), vocab] float32."""
    seed_columns, where = counters(seeds, positions, vocab)
    columns = torch.from_numpy(np.column_stack([seed_columns, where]).astype(np.int64)).to(device)
    key0, key1, c2, c3, c1 = columns[:, :, None].unbind(1)
    shape = (len(where), -(-vocab // 4))
    c0 = torch.arange(shape[1], dtype=torch.int64, device=device).expand(shape)
    for _ in range(ROUNDS):
        # Products wrap past 2^63; the shift is arithmetic, so both halves are masked to 32 bits.
        p0, p1 = c0 * MULTIPLIERS[0], c2 * MULTIPLIERS[1]
        c0 = ((p1 >> 32) & WORD) ^ c1 ^ key0
        c2 = ((p0 >> 32) & WORD) ^ c3 ^ key1
        c1, c3 = p1 & WORD, p0 & WORD
        key0, key1 = (key0 + WEYL[0]) & WORD, (key1 + WEYL[1]) & WORD
    words = torch.stack([c0, c1, c2, c3], dim=-1).reshape(shape[0], -1)
    index = ((words.to(torch.float32).view(torch.int32) >> int(SHIFT)) - int(OFFSET)).clamp_(min=0)
    return _table_on(device)[index.to(torch.int64)][:, :vocab]


def _in_threads(work: Callable[[slice], Found], rows: int) -> list[Found]:
    """Work on parts of some rows side by side, on as many threads as torch uses: compiled code lets go of the lock."""
    threads = torch.get_num_threads()
    step = max(1, -(-rows // threads))
    parts = [slice(start, start + step) for start in range(0, max(rows, 1), step)]
    if len(parts) == 1:
        return [work(parts[0])]
    return list(_pool(threads).map(work, parts))


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="sampling")


@cache
def _ids_on(ids: tuple[int, ...], device: torch.device) -> torch.Tensor:
    return torch.tensor(ids, dtype=torch.int64, device=device)


@cache
def _table_on(device: torch.device) -> torch.Tensor:
    return torch.from_numpy(gumbel_table().copy()).to(device)


def _scaled(logits: torch.Tensor, temperature: float) -> torch.Tensor:
    # A tensor, not a number: CUDA divides by a number as a product with its reciprocal, which rounds otherwise.
    return logits / torch.full((1,), temperature, dtype=torch.float32, device=logits.device)


def _logprobs(scaled: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    return scaled.gather(1, ids[:, None])[:, 0] - torch.logsumexp(scaled, dim=-1)


def _lowest_of(scores: torch.Tensor, best: torch.Tensor) -> torch.Tensor:
    """The lowest id that reaches each row's best: max() promises the first of equals on no device."""
    ids = torch.arange(scores.shape[-1], device=scores.device).expand_as(scores)
    last = scores.shape[-1] - 1  # of a row of NaN, which equals nothing
    return torch.where(scores == best[:, None], ids, last).min(dim=-1).values
