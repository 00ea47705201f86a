"""stannary.sampling: golden vectors, an independent reference, both array libraries bit for bit."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stannary.errors import OperatorError
from stannary.sampling import (
    choose,
    gumbel,
    gumbel_batch,
    gumbel_table,
    joined,
    noise,
    philox4x32,
    replay,
    replay_completion,
    table,
)

VECTORS: dict[str, Any] = json.loads((Path(__file__).parents[1] / "vectors" / "sampling.json").read_text())
SEED = hashlib.sha256(b"a seed").digest()


def bits(values: Any) -> list[int]:
    return np.asarray(values, dtype=np.float32).view(np.uint32).tolist()


def reference_index(word: int) -> int:
    """The rule in plain integers: round to 24 significant bits, nearest even, keep 11 after the first."""
    if word == 0:
        return 0
    drop = max(0, word.bit_length() - 24)
    word = round(Fraction(word, 1 << drop)) << drop  # round() of a Fraction goes to even
    octave = word.bit_length() - 1
    mantissa = (word << 11 >> octave) - (1 << 11)
    return (octave << 11) + mantissa + 1


def reference_noise(seed: bytes, position: int, token: int) -> float:
    k0, k1, c2, c3 = (int.from_bytes(seed[4 * i : 4 * i + 4], "big") for i in range(4))
    word = philox4x32((token // 4, position, c2, c3), (k0, k1))[token % 4]
    return float(gumbel_table()[reference_index(word)])


@pytest.mark.parametrize("vector", VECTORS["philox4x32_10"])
def test_philox_equals_the_known_answers_of_random123(vector: dict[str, list[int]]) -> None:
    known = {
        0x00000000: (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
        0xFFFFFFFF: (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
        0x243F6A88: (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    }
    found = philox4x32(vector["counter"], vector["key"])
    assert list(found) == vector["words"]
    assert found == known[vector["counter"][0]]


def test_table_equals_its_golden_digest_and_entries() -> None:
    entries = gumbel_table()
    assert hashlib.sha256(entries.tobytes()).hexdigest() == VECTORS["table_sha256"] == table.TABLE_SHA256
    assert len(entries) == 65538
    for entry in VECTORS["table"]:
        assert bits(entries[entry["index"]]) == entry["float32_bits"]
    assert (np.diff(entries) < 0).all()
    assert not entries.flags.writeable


def test_table_of_another_log_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = table._build_table()
    honest[1234] = np.nextafter(honest[1234], np.float32(0))
    monkeypatch.setattr(table, "_build_table", lambda: honest)
    gumbel_table.cache_clear()
    with pytest.raises(OperatorError, match="sha256"):
        gumbel_table()
    monkeypatch.undo()
    gumbel_table.cache_clear()
    gumbel_table()


@pytest.mark.parametrize("vector", VECTORS["words"])
def test_table_index_of_a_word_equals_its_golden_value(vector: dict[str, int]) -> None:
    assert table.table_index(np.array([vector["word"]], dtype=np.uint32)).tolist() == [vector["index"]]
    assert reference_index(vector["word"]) == vector["index"]


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=50))
def test_table_index_equals_the_integer_rule(words: list[int]) -> None:
    assert table.table_index(np.array(words, dtype=np.uint32)).tolist() == [reference_index(w) for w in words]


@pytest.mark.parametrize("vector", VECTORS["gumbel"])
def test_gumbel_equals_its_golden_bits(vector: dict[str, Any]) -> None:
    found = gumbel(bytes.fromhex(vector["seed"]), vector["position"], vector["vocab"])
    assert bits(found) == vector["float32_bits"]


def test_gumbel_of_a_large_vocabulary_equals_its_golden_digest_by_all_ways() -> None:
    torch = pytest.importorskip("torch")
    from stannary.sampling.torch import noise_by_tensor_ops

    vector = VECTORS["gumbel_large"]
    asked = [bytes.fromhex(vector["seed"])], [vector["position"]], vector["vocab"]
    ways = (
        gumbel_batch(*asked),
        noise.gumbel_by_array_operations(*asked),
        noise_by_tensor_ops(*asked, torch.device("cpu")),
    )
    for found in ways:
        made = np.asarray(found[0])
        assert made.dtype == np.float32
        assert hashlib.sha256(made.astype("<f4").tobytes()).hexdigest() == vector["sha256"]


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.binary(min_size=32, max_size=32), st.integers(0, 2**32 - 1)), min_size=1, max_size=6),
    st.integers(1, 40),
)
def test_gumbel_by_all_ways_equals_the_reference(pairs: list[tuple[bytes, int]], vocab: int) -> None:
    seeds, positions = [p[0] for p in pairs], [p[1] for p in pairs]
    found = gumbel_batch(seeds, positions, vocab)
    assert bits(noise.gumbel_by_array_operations(seeds, positions, vocab)) == bits(found)
    assert found.tolist() == [[reference_noise(seed, position, i) for i in range(vocab)] for seed, position in pairs]


@settings(deadline=None, max_examples=20)
@given(st.binary(min_size=32, max_size=32), st.integers(0, 2**32 - 1), st.integers(1, 300))
def test_gumbel_by_tensor_operations_equals_numpy(seed: bytes, position: int, vocab: int) -> None:
    torch = pytest.importorskip("torch")
    from stannary.sampling.torch import noise_by_tensor_ops

    seeds, positions = [seed, SEED], [position, 3]
    expected = bits(gumbel_batch(seeds, positions, vocab))
    assert bits(noise_by_tensor_ops(seeds, positions, vocab, torch.device("cpu")).numpy()) == expected


@pytest.mark.parametrize("vector", VECTORS["gumbel"])
def test_gumbel_by_tensor_operations_equals_its_golden_bits(vector: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    from stannary.sampling.torch import noise_by_tensor_ops

    seed = bytes.fromhex(vector["seed"])
    found = noise_by_tensor_ops([seed], [vector["position"]], vector["vocab"], torch.device("cpu"))
    assert bits(found[0].numpy()) == vector["float32_bits"]
    by_arrays = noise.gumbel_by_array_operations([seed], [vector["position"]], vector["vocab"])
    assert bits(by_arrays[0]) == vector["float32_bits"]


def test_gumbel_has_the_distribution_of_its_name() -> None:
    sample = gumbel_batch([SEED] * 40, range(40), 50_000).reshape(-1).astype(np.float64)
    euler = 0.5772156649
    assert abs(sample.mean() - euler) < 4 * math.sqrt(math.pi**2 / 6 / sample.size)
    for x in (-1.0, 0.0, 1.0, 3.0, 6.0):
        share = math.exp(-math.exp(-x))
        assert abs((sample <= x).mean() - share) < 4 * math.sqrt(share * (1 - share) / sample.size) + 2e-4


def test_choices_follow_the_softmax() -> None:
    logits = np.array([2.0, 1.0, 0.0, -1.0], np.float32)
    count = 20_000
    drawn = choose(np.tile(logits, (count, 1)), 0.7, gumbel_batch([SEED] * count, range(count), 4))
    weights = np.exp(logits / 0.7)
    expected = weights / weights.sum()
    share = np.bincount(drawn, minlength=4) / count
    assert (np.abs(share - expected) < 4 * np.sqrt(expected * (1 - expected) / count)).all()


@pytest.mark.parametrize("vector", VECTORS["choose"])
def test_choose_equals_its_golden_token(vector: dict[str, Any]) -> None:
    logits = np.array(vector["logits_bits"], np.uint32).view(np.float32)
    drawn = gumbel(bytes.fromhex(vector["seed"]), vector["position"], len(logits))
    assert int(choose(logits, vector["temperature"], drawn)) == vector["token"]
    torch = pytest.importorskip("torch")
    from stannary.sampling.torch import replay_by_tensor_ops, sample

    asked = vector["temperature"], [bytes.fromhex(vector["seed"])], [vector["position"]]
    assert sample(torch.from_numpy(logits[None]), *asked)[0].tolist() == [vector["token"]]
    for way, rows in ((replay, logits[None]), (replay_by_tensor_ops, torch.from_numpy(logits[None]))):
        assert way(rows, [vector["token"]], *asked).gap.tolist() == [0.0]


def test_choose_between_equals_takes_the_lowest_id() -> None:
    scores = np.array([[0, 5, 1, 5, 5], [7, 7, 7, 7, 7]], np.float32)
    assert choose(scores, 1.0, np.zeros_like(scores)).tolist() == [1, 0]


@pytest.mark.parametrize("bad", [math.nan, -math.nan, math.inf])
def test_logits_that_are_not_finite_are_refused_or_marked_by_all_ways(bad: float) -> None:
    torch = pytest.importorskip("torch")
    from stannary.sampling.torch import _sample_by_tensor_ops, replay_by_tensor_ops, sample

    logits = np.zeros((2, 500), np.float32)
    logits[1, 400] = bad
    seeds, positions = [SEED] * 2, [0, 1]
    with pytest.raises(ValueError, match="finite"):
        choose(logits, 1.0, np.zeros_like(logits))
    for way in (sample, _sample_by_tensor_ops):
        chosen, logprobs = way(torch.from_numpy(logits.copy()), 1.0, seeds, positions)
        assert 0 <= int(chosen[1]) < 500
        assert torch.isfinite(logprobs).tolist() == [True, False]
    with pytest.raises(ValueError, match="finite"):
        replay(logits, [0, 1], 1.0, seeds, positions)
    with pytest.raises(ValueError, match="finite"):
        replay_by_tensor_ops(torch.from_numpy(logits.copy()), [0, 1], 1.0, seeds, positions)


@pytest.mark.parametrize("temperature", [0.0, -1.0, 0.29, 1.51, math.nan, math.inf])
def test_temperature_outside_the_protocol_is_refused(temperature: float) -> None:
    torch = pytest.importorskip("torch")
    from stannary.sampling.torch import sample

    with pytest.raises(ValueError, match=r"temperature: expected 0\.3 … 1\.5"):
        choose(np.zeros(3, np.float32), temperature, np.zeros(3, np.float32))
    with pytest.raises(ValueError, match=r"temperature: expected 0\.3 … 1\.5"):
        replay(np.zeros((1, 3), np.float32), [0], temperature, [SEED], [0])
    with pytest.raises(ValueError, match=r"temperature: expected 0\.3 … 1\.5"):
        sample(torch.zeros(1, 3), temperature, [SEED], [0])


def test_double_precision_is_refused() -> None:
    torch = pytest.importorskip("torch")
    from stannary.sampling.torch import replay_by_tensor_ops, sample

    with pytest.raises(ValueError, match="float32"):
        choose(np.zeros(3, np.float64), 1.0, np.zeros(3, np.float32))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="float32"):
        replay(np.zeros((1, 3), np.float64), [0], 1.0, [SEED], [0])  # type: ignore[arg-type]
    for dtype in (torch.float64, torch.bfloat16):
        with pytest.raises(ValueError, match="float32"):
            sample(torch.zeros(1, 3, dtype=dtype), 1.0, [SEED], [0])
        with pytest.raises(ValueError, match="float32"):
            replay_by_tensor_ops(torch.zeros(1, 3, dtype=dtype), [0], 1.0, [SEED], [0])


@pytest.mark.parametrize("seed", [b"", b"x" * 31, b"x" * 33])
def test_gumbel_of_a_seed_of_another_length_is_refused(seed: bytes) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        gumbel(seed, 0, 4)


@pytest.mark.parametrize("position", [-1, 2**32])
def test_gumbel_of_a_position_outside_32_bits_is_refused(position: int) -> None:
    with pytest.raises(ValueError, match="position"):
        gumbel(SEED, position, 4)


def random_logits(rows: int, vocab: int, seed: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(seed).normal(0, 2, (rows, vocab)).astype(np.float32)


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 4),
    st.sampled_from([2, 3, 63, 255, 256, 257, 1000]),
    st.sampled_from([0.3, 0.6, 1.0, 1.5]),
)
def test_replay_by_all_ways_equals_the_rule_by_array_operations(
    seed: int, rows: int, vocab: int, temperature: float
) -> None:
    torch = pytest.importorskip("torch")
    from stannary.sampling.torch import _sample_by_tensor_ops, replay_by_tensor_ops, replay_tensor, sample

    logits = random_logits(rows, vocab, seed)
    logits[:, seed % vocab] = logits[:, 0]  # ties before the noise
    if vocab > 2:
        logits[:, (seed + 1) % vocab] = -np.inf  # a suppressed id
    seeds = [hashlib.sha256(bytes([row])).digest() for row in range(rows)]
    positions = [seed % 1000 + row for row in range(rows)]
    drawn = noise.gumbel_by_array_operations(seeds, positions, vocab)
    scores = logits / np.float32(temperature) + drawn
    tokens = [int(np.argsort(-row, kind="stable")[row_number % 2]) for row_number, row in enumerate(scores)]
    best = scores.max(axis=1).astype(np.float64)
    every = np.arange(rows)
    weights = np.exp(logits.astype(np.float64) / np.float32(temperature))
    probability = weights / weights.sum(axis=1, keepdims=True)
    tensor = torch.from_numpy(logits)
    asked = (tokens, temperature, seeds, positions)
    ways = (replay(logits, *asked), replay_tensor(tensor, *asked), replay_by_tensor_ops(tensor, *asked))
    for way in ways:
        assert way.choice.tolist() == scores.argmax(axis=1).tolist()
        assert np.array_equal(way.gap, best - scores[every, tokens])
        assert np.array_equal(way.margin, best - np.sort(scores, axis=1)[:, -2])
        assert np.allclose(way.logprob, np.log(probability[every, tokens]), atol=2e-5)
        assert np.allclose(way.top_probability, probability.max(axis=1), atol=2e-5)
    for sampled in (sample, _sample_by_tensor_ops):
        choice, logprob = sampled(tensor, temperature, seeds, positions)
        assert choice.tolist() == scores.argmax(axis=1).tolist()
        assert np.allclose(logprob.numpy(), np.log(probability[every, choice.numpy()]), atol=2e-5)
    assert np.array_equal(tensor.numpy(), logits)


def test_ties_after_the_noise_go_to_the_lowest_id_by_all_ways() -> None:
    torch = pytest.importorskip("torch")
    from stannary.sampling.torch import _sample_by_tensor_ops, replay_by_tensor_ops, sample

    drawn = gumbel_batch([SEED], [0], 300)
    logits = -drawn  # every score is exactly 0
    assert choose(logits, 1.0, drawn).tolist() == [0]
    found = replay(logits, [299], 1.0, [SEED], [0])
    assert (found.choice.tolist(), found.gap.tolist(), found.margin.tolist()) == ([0], [0.0], [0.0])
    tensor = torch.from_numpy(logits)
    assert replay_by_tensor_ops(tensor, [299], 1.0, [SEED], [0]).choice.tolist() == [0]
    for way in (sample, _sample_by_tensor_ops):
        assert way(tensor, 1.0, [SEED], [0])[0].tolist() == [0]


def test_replay_of_a_completion_counts_positions_from_the_first() -> None:
    logits = random_logits(9, 100, 1)
    tokens = choose(logits, 0.8, gumbel_batch([SEED] * 9, range(5, 14), 100)).tolist()
    assert replay_completion(logits, tokens, 0.8, SEED, first_position=5).gap.tolist() == [0.0] * 9
    assert (replay_completion(logits, tokens, 0.8, SEED, first_position=6).gap > 0).any()


def test_replay_in_parts_equals_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    from stannary.sampling import choice

    logits = random_logits(9, 100, 2)
    whole = replay_completion(logits, [3] * 9, 1.0, SEED)
    monkeypatch.setattr(choice, "VALUES_A_CHUNK", 250)  # two rows of the softmax at once
    parts = joined(
        [
            replay_completion(logits[:4], [3] * 4, 1.0, SEED),
            replay_completion(logits[4:], [3] * 5, 1.0, SEED, first_position=4),
        ]
    )
    for field in dataclasses.fields(whole):
        assert np.array_equal(getattr(whole, field.name), getattr(parts, field.name))
    assert len(parts) == 9


@pytest.mark.parametrize(("tokens", "said"), [([0, 1], "logits: expected"), ([0, 1, 7], "ids"), ([0, -1, 2], "ids")])
def test_replay_of_tokens_that_do_not_fit_is_refused(tokens: list[int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        replay_completion(np.zeros((3, 7), np.float32), tokens, 1.0, SEED)


def test_replay_of_a_suppressed_token_is_refused() -> None:
    logits = np.zeros((2, 5), np.float32)
    logits[1, 3] = -np.inf
    assert len(replay_completion(logits, [3, 2], 1.0, SEED)) == 2
    with pytest.raises(ValueError, match="finite"):
        replay_completion(logits, [0, 3], 1.0, SEED)


def test_replay_in_threads_is_refused_what_does_not_fit() -> None:
    torch = pytest.importorskip("torch")
    from stannary.sampling.torch import replay_tensor

    logits = torch.zeros(4, 5)
    for tokens, seeds, positions in (([0] * 5, 4, 4), ([0] * 3, 4, 4), ([0] * 4, 5, 4), ([0] * 4, 4, 3)):
        with pytest.raises(ValueError, match="expected"):
            replay_tensor(logits, tokens, 1.0, [SEED] * seeds, list(range(positions)))


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_number_of_threads_changes_nothing(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    from stannary.sampling.torch import replay_tensor, sample

    logits, seeds, positions = random_logits(5, 300, 9), [SEED] * 5, list(range(5))
    whole = replay(logits, [1, 2, 3, 4, 5], 0.7, seeds, positions)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    parts = replay_tensor(torch.from_numpy(logits), [1, 2, 3, 4, 5], 0.7, seeds, positions)
    for field in dataclasses.fields(whole):
        assert np.array_equal(getattr(whole, field.name), getattr(parts, field.name))
    assert sample(torch.from_numpy(logits), 0.7, seeds, positions)[0].tolist() == whole.choice.tolist()


def test_replay_with_seeds_that_do_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="seeds: expected 2"):
        replay(np.zeros((2, 5), np.float32), [0, 1], 1.0, [SEED], [0, 1])
    with pytest.raises(ValueError, match="vocabulary"):
        replay(np.zeros((1, 1), np.float32), [0], 1.0, [SEED], [0])


def test_sampling_and_toploc_import_without_torch() -> None:
    code = "import sys, stannary.sampling, stannary.toploc; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
