"""worker.engine: what is read of a policy folder, and which requests are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stannary.errors import PolicyError
from worker.engine import PolicyShape, RolloutRequest, read_shape

SEED = bytes(32)
CONFIG = {"max_position_embeddings": 128, "vocab_size": 64, "hidden_size": 128, "tie_word_embeddings": False}


def write(folder: Path, config: object, generation: object) -> Path:
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text(json.dumps(generation))
    return folder


@pytest.fixture
def shape(tmp_path: Path) -> PolicyShape:
    return read_shape(write(tmp_path, CONFIG, {"eos_token_id": [1, 5]}))


def test_read_shape_takes_one_or_several_end_ids(tmp_path: Path, shape: PolicyShape) -> None:
    assert (shape.tokens.end_ids, shape.context, shape.vocabulary, shape.hidden) == ({1, 5}, 128, 64, 128)
    assert read_shape(write(tmp_path, CONFIG, {"eos_token_id": 1})).tokens.end_ids == {1}


@pytest.mark.parametrize(
    ("config", "generation"),
    [
        (CONFIG, {}),
        (CONFIG, {"eos_token_id": "1"}),
        (CONFIG, {"eos_token_id": [1, -2]}),
        (CONFIG | {"vocab_size": None}, {"eos_token_id": 1}),
        ([], {"eos_token_id": 1}),
    ],
)
def test_read_shape_of_a_malformed_folder_is_refused(tmp_path: Path, config: object, generation: object) -> None:
    with pytest.raises(PolicyError, match="expected"):
        read_shape(write(tmp_path, config, generation))


def test_read_shape_of_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"config\.json cannot be read"):
        read_shape(tmp_path)


def test_reload_of_another_architecture_is_refused(tmp_path: Path, shape: PolicyShape) -> None:
    shape.check_reload(read_shape(write(tmp_path, CONFIG | {"transformers_version": "9"}, {"eos_token_id": 1})))
    with pytest.raises(PolicyError, match="hidden_size"):
        shape.check_reload(read_shape(write(tmp_path, CONFIG | {"hidden_size": 256}, {"eos_token_id": 1})))
    with pytest.raises(PolicyError, match="tie_word_embeddings"):
        shape.check_reload(read_shape(write(tmp_path, CONFIG | {"tie_word_embeddings": True}, {"eos_token_id": 1})))


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (RolloutRequest(b"short", (1,), 4), "seed"),
        (RolloutRequest(SEED, (), 4), "a prompt"),
        (RolloutRequest(SEED, (1,), 0), "a cap"),
        (RolloutRequest(SEED, (1, 64), 4), "ids 0 … 63"),
        (RolloutRequest(SEED, (-1,), 4), "ids 0 … 63"),
        (RolloutRequest(SEED, (2,) * 100, 29), "exceed the policy's context of 128"),
    ],
)
def test_request_that_the_policy_cannot_serve_is_refused(
    shape: PolicyShape, request_: RolloutRequest, said: str
) -> None:
    shape.check_requests([RolloutRequest(SEED, (2,) * 100, 28)], 1.0)
    with pytest.raises(PolicyError, match=said):
        shape.check_requests([request_], 1.0)


@pytest.mark.parametrize("temperature", [0.0, -1.0, 0.29, 1.51, float("nan"), float("inf")])
def test_temperature_outside_the_protocol_is_refused(shape: PolicyShape, temperature: float) -> None:
    with pytest.raises(PolicyError, match="temperature"):
        shape.check_requests([], temperature)
