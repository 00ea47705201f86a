"""Manifests: canonical, bounded, and bound to everything that decides what the policy says."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from stannary.documents import canonical
from stannary.errors import Malformed, PolicyError
from stannary.shardcast import describe_folder, parse_manifest, publish


def test_manifest_of_folder_survives_encoding(policy: Path) -> None:
    manifest = describe_folder(policy)
    assert parse_manifest(manifest.encode()) == manifest
    weights = next(file for file in manifest.files if file.name == "model.safetensors")
    assert len(weights.chunks) == 4


@pytest.mark.parametrize(
    "name", ["config.json", "generation_config.json", "tokenizer.json", "model.safetensors", "chat_template.jinja"]
)
def test_policy_root_changes_with_every_file(policy: Path, name: str) -> None:
    before = describe_folder(policy)
    with (policy / name).open("ab") as file:
        file.write(b" ")
    after = describe_folder(policy)
    assert before.state_root != after.state_root
    assert before.policy_root != after.policy_root


@pytest.mark.parametrize("name", ["weights.bin", "modeling_evil.py", "data.pkl", "model.pt"])
def test_folder_with_file_that_may_run_code_is_refused(policy: Path, name: str) -> None:
    (policy / name).write_bytes(b"x")
    with pytest.raises(PolicyError, match="file name"):
        describe_folder(policy)


def test_folder_with_symlink_or_subfolder_is_refused(policy: Path) -> None:
    os.symlink("/etc/passwd", policy / "extra.txt")
    with pytest.raises(PolicyError, match="no ordinary file"):
        describe_folder(policy)
    (policy / "extra.txt").unlink()
    (policy / "sub").mkdir()
    with pytest.raises(PolicyError, match="no ordinary file"):
        describe_folder(policy)


def test_folder_without_tokenizer_is_refused(policy: Path) -> None:
    (policy / "tokenizer.json").unlink()
    with pytest.raises(PolicyError, match=r"tokenizer\.json"):
        describe_folder(policy)


def _changed(policy: Path, change: Any) -> bytes:
    document = json.loads(describe_folder(policy).encode())
    change(document)
    return canonical(document)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(extra=1),
        lambda d: d.update(format="other"),
        lambda d: d.update(chunk_bytes=1),
        lambda d: d.update(state_root="0x" + "00" * 32),
        lambda d: d.update(files=[]),
        lambda d: d.update(files="x"),
        lambda d: d["files"].reverse(),
        lambda d: d["files"].append(d["files"][0]),
        lambda d: d["files"][0].update(size=-1),
        lambda d: d["files"][0].update(size=1 << 60),
        lambda d: d["files"][0].update(size=True),
        lambda d: d["files"][0].update(chunks=[]),
        lambda d: d["files"][0].update(name=7),
        lambda d: d["files"][0].update(digest="0x00"),
        lambda d: d["files"][3]["chunks"].pop(),
    ],
)
def test_manifest_that_was_changed_is_refused(policy: Path, change: Any) -> None:
    with pytest.raises(Malformed):
        parse_manifest(_changed(policy, change))


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"{", b"[" * 100_000, b" {}"])
def test_manifest_that_is_no_manifest_is_refused(data: bytes) -> None:
    with pytest.raises(Malformed):
        parse_manifest(data)


def test_manifest_with_white_space_is_refused(policy: Path) -> None:
    with pytest.raises(Malformed, match="canonical"):
        parse_manifest(describe_folder(policy).encode() + b"\n")


def test_publish_twice_replaces_whole_layout(policy: Path, tmp_path: Path) -> None:
    publish(policy, tmp_path / "out")
    (policy / "config.json").write_text('{"model_type": "llama", "x": 1}')
    manifest = publish(policy, tmp_path / "out")
    assert parse_manifest((tmp_path / "out" / "manifest.json").read_bytes()) == manifest
    assert sorted(path.name for path in (tmp_path / "out" / "files").iterdir()) == [
        file.name for file in manifest.files
    ]
