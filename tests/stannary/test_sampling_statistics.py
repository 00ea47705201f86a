"""stannary.sampling.statistics: counted by hand on few tokens, and telling samplers apart on many."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from stannary.sampling import Replay, choose, gumbel_batch, joined, replay_completion, summarise

SEED = hashlib.sha256(b"statistics").digest()
VOCAB, LENGTH = 50, 400


def replay_of(gap: list[float], top_probability: list[float]) -> Replay:
    count = len(gap)
    return Replay(
        gap=np.array(gap),
        margin=np.full(count, 1.0),
        choice=np.zeros(count, np.int64),
        logprob=np.zeros(count),
        top_probability=np.array(top_probability),
    )


def test_statistics_of_few_tokens_are_those_counted_by_hand() -> None:
    found = summarise(replay_of([0.0, 0.1, 0.5, 3.0, 0.0, 0.2], [0.5, 0.5, 0.9, 0.95, 0.99, 0.2]), margin=0.3, cap=1.0)
    assert (found.tokens, found.informative, found.not_chosen) == (6, 4, 3)
    assert found.not_chosen_rate == 0.75
    assert found.beyond_margin == 2
    assert found.capped_sum == pytest.approx(1.8)
    assert found.mean_gap == pytest.approx(0.45)
    assert (found.largest, found.largest_at) == (3.0, 3)


def test_statistics_without_an_informative_token_have_a_rate_of_zero() -> None:
    found = summarise(replay_of([0.0, 0.4], [0.99, 1.0]), margin=0.3, cap=1.0)
    assert (found.informative, found.not_chosen_rate) == (0, 0.0)


def test_statistics_of_no_token_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one token"):
        summarise(replay_of([], []), margin=0.3, cap=1.0)


def test_statistics_of_parts_joined_are_those_of_the_whole() -> None:
    gaps, tops = [0.0, 0.1, 0.5, 3.0], [0.5, 0.5, 0.95, 0.2]
    whole = summarise(replay_of(gaps, tops), margin=0.3, cap=1.0)
    parts = [replay_of(gaps[:1], tops[:1]), replay_of(gaps[1:], tops[1:])]
    assert summarise(joined(parts), margin=0.3, cap=1.0) == whole


def logits_of(spread: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.random.default_rng(4).normal(0, spread, (LENGTH, VOCAB)).astype(np.float32)


def test_honest_sampling_differs_from_every_other_way_of_choosing() -> None:
    logits = logits_of(2.0)
    noise = gumbel_batch([SEED] * LENGTH, range(LENGTH), VOCAB)
    drifted = logits + np.random.default_rng(5).normal(0, 0.02, logits.shape).astype(np.float32)
    ways = {
        "honest": choose(drifted, 1.0, noise),
        "greedy": drifted.argmax(axis=1),
        "colder": choose(drifted, 0.7, noise),
        "another seed": choose(drifted, 1.0, gumbel_batch([bytes(32)] * LENGTH, range(LENGTH), VOCAB)),
    }
    found = {
        name: summarise(replay_completion(logits, tokens.tolist(), 1.0, SEED), margin=0.3, cap=2.0)
        for name, tokens in ways.items()
    }
    honest = found.pop("honest")
    assert honest.informative > LENGTH / 2
    assert honest.not_chosen_rate < 0.05
    assert honest.beyond_margin == 0
    for other in found.values():
        assert other.not_chosen_rate > 4 * max(honest.not_chosen_rate, 0.02)
        assert other.capped_sum > 20 * max(honest.capped_sum, 0.1)
        assert other.beyond_margin > 20


def test_certain_positions_do_not_dilute_the_rate() -> None:
    """A completion padded with positions that leave no choice has the rate of those that do."""
    logits = logits_of(2.0)
    certain = np.zeros((LENGTH, VOCAB), np.float32)
    certain[:, 7] = 40.0
    both = np.concatenate([logits, certain])
    tokens = [*logits.argmax(axis=1).tolist(), *([7] * LENGTH)]
    alone = summarise(replay_completion(logits, tokens[:LENGTH], 1.0, SEED), margin=0.3, cap=2.0)
    padded = summarise(replay_completion(both, tokens, 1.0, SEED), margin=0.3, cap=2.0)
    assert padded.tokens == 2 * alone.tokens
    assert padded.informative == alone.informative
    assert padded.not_chosen_rate == alone.not_chosen_rate > 0.2
