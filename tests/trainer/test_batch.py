"""Batches: masks by length."""

from __future__ import annotations

import pytest
import torch

from trainer.batch import Sample, make_batch, micro_batches

END = 1


def test_a8_masks_count_end_token_although_it_is_the_pad_token() -> None:
    short = Sample((0, END, 5), (7, 7, 7, 7, END), 1.0)
    long = Sample((0, 5), (7,) * 8 + (END,), -1.0)
    batch = make_batch([short, long])
    assert batch.predicts_BT.sum(1).tolist() == [5, 9]
    assert batch.attention_BT.sum(1).tolist() == [8, 11]
    assert batch.targets_N.tolist() == list(short.completion + long.completion)
    assert batch.advantages_N.tolist() == [1.0] * 5 + [-1.0] * 9


def test_batch_positions_predict_their_targets() -> None:
    sample = Sample((10, 11, 12), (13, 14), 1.0)
    batch = make_batch([sample, Sample((20,), (21, 22, 23, 24, 25), 1.0)])
    shifted = torch.roll(batch.tokens_BT, -1, dims=1)
    assert shifted[batch.predicts_BT].tolist() == batch.targets_N.tolist()


@pytest.mark.parametrize("samples", [[], [Sample((), (1,), 1.0)], [Sample((1,), (), 1.0)]])
def test_batch_of_nothing_to_learn_is_refused(samples: list[Sample]) -> None:
    with pytest.raises(ValueError, match="at least one"):
        make_batch(samples)


def test_micro_batches_keep_every_sample_within_the_limit() -> None:
    samples = [Sample((0,), (2,) * (1 + 7 * index % 30), 1.0) for index in range(40)]
    parts = list(micro_batches(samples, 64))
    assert sorted((sample for part in parts for sample in part), key=id) == sorted(samples, key=id)
    assert all(len(part) * max(sample.length for sample in part) <= 64 for part in parts)


def test_micro_batches_take_a_sample_longer_than_the_limit_alone() -> None:
    long = Sample((0,), (2,) * 100, 1.0)
    assert [len(part) for part in micro_batches([long, long], 64)] == [1, 1]
