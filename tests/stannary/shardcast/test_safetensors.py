"""Hostile weights (case A32): refused with a clear message, before anything is allocated or loaded."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from stannary.errors import PolicyError
from stannary.shardcast import check_policy_folder
from stannary.shardcast.safetensors import read_header, require_bf16_finite
from tests.stannary.shardcast.conftest import write_raw, write_safetensors


def entry(start: int, end: int, shape: list[int], dtype: str = "BF16") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def test_header_written_by_the_library_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    save_file({"b": torch.ones(2, 3, dtype=torch.bfloat16), "a": torch.ones(5, dtype=torch.bfloat16)}, path)
    tensors = require_bf16_finite(path)
    assert {name: tensor.shape for name, tensor in tensors.items()} == {"a": (5,), "b": (2, 3)}


@pytest.mark.parametrize(
    ("header", "data", "message"),
    [
        ([1, 2], b"", "JSON list"),
        ({"a": entry(0, 4, [2]), "b": entry(0, 4, [2])}, b"0000", "overlaps"),
        ({"a": entry(0, 4, [2]), "b": entry(5, 9, [2])}, b"0" * 9, "gap"),
        ({"a": entry(0, 4, [1000, 1000])}, b"0000", "cannot take 4 bytes"),
        ({"a": entry(0, 4, [4], "FP4")}, b"0000", "unknown dtype"),
        ({"a": entry(0, 4, [2])}, b"0" * 6, "data section has 6"),
        ({"a": entry(0, 4, [2])}, b"0" * 2, "data section has 2"),
        ({"a": entry(4, 0, [2])}, b"0" * 4, "cannot take"),
        ({"a": entry(0, 4, [-2])}, b"0" * 4, "shape"),
        ({"a": entry(0, 4, [1] * 9 + [2])}, b"0" * 4, "shape"),
        ({"a": {"dtype": "BF16", "shape": [2]}}, b"0" * 4, "data_offsets"),
        ({"a": entry(0, 4, [2]), "__metadata__": {"x": 1}}, b"0" * 4, "metadata"),
    ],
)
def test_a32_hostile_header_is_refused(tmp_path: Path, header: object, data: bytes, message: str) -> None:
    path = tmp_path / "x.safetensors"
    write_raw(path, json.dumps(header).encode(), data)
    with pytest.raises(PolicyError, match=message):
        read_header(path)


def test_a32_duplicate_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    one = json.dumps(entry(0, 4, [2]))
    write_raw(path, f'{{"a": {one}, "a": {one}}}'.encode(), b"0000")
    with pytest.raises(PolicyError, match="twice"):
        read_header(path)


@pytest.mark.parametrize("header", [b"[" * 100_000, b'{"a":' * 100_000, b"{" + b"\xff" * 9])
def test_a32_nested_or_unreadable_header_is_refused(tmp_path: Path, header: bytes) -> None:
    path = tmp_path / "x.safetensors"
    write_raw(path, header, b"")
    with pytest.raises(PolicyError, match="not readable"):
        read_header(path)


@pytest.mark.parametrize("length", [1 << 63, 1 << 20, 0, 1])
def test_a32_header_length_outside_file_is_refused(tmp_path: Path, length: int) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(struct.pack("<Q", length) + b"{}")
    with pytest.raises(PolicyError, match="header claims"):
        read_header(path)


@pytest.mark.parametrize("data", [b"", b"\x02", b"\x02\x00\x00\x00\x00\x00\x00\x00{"])
def test_a32_cut_file_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(data)
    with pytest.raises(PolicyError):
        read_header(path)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a32_value_that_is_not_finite_is_named(tmp_path: Path, value: float) -> None:
    path = tmp_path / "x.safetensors"
    write_safetensors(path, {"fine": np.ones(9, "f4"), "bad": np.array([1, value], "f4")})
    with pytest.raises(PolicyError, match="'bad'"):
        require_bf16_finite(path)


def test_weights_of_other_dtype_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    save_file({"a": torch.ones(2)}, path)
    with pytest.raises(PolicyError, match="F32"):
        require_bf16_finite(path)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({}, "lacks the tensor 'a.weight'"),
        ({"a.weight": (7 << 18,), "b": (1,)}, "'b'"),
        ({"a.weight": (2,)}, "shape"),
    ],
)
def test_a32_folder_with_other_tensors_than_its_policy_is_refused(
    policy: Path, tmp_path: Path, tensors: dict[str, tuple[int, ...]], message: str
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text("{}")
    write_safetensors(other / "model.safetensors", {name: np.ones(shape, "f4") for name, shape in tensors.items()})
    with pytest.raises(PolicyError, match=message if tensors else "holds no weights|lacks"):
        check_policy_folder(other, like=policy)
    check_policy_folder(policy, like=policy)


def test_folder_that_asks_for_code_is_refused(policy: Path) -> None:
    (policy / "config.json").write_text('{"auto_map": {"AutoModel": "evil.Model"}}')
    with pytest.raises(PolicyError, match="auto_map"):
        check_policy_folder(policy)


@pytest.mark.parametrize("text", ["[" * 100_000, "[]", "", "{"])
def test_folder_with_config_that_is_none_is_refused(policy: Path, text: str) -> None:
    (policy / "config.json").write_text(text)
    with pytest.raises(PolicyError, match=r"config\.json"):
        check_policy_folder(policy)
