"""Policy folders on disk: how one appears all at once, and what it must hold before an engine may load it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from stannary.errors import OperatorError, PolicyError
from stannary.shardcast.manifest import Manifest, describe_folder
from stannary.shardcast.safetensors import TensorInfo, require_bf16_finite

MAX_CONFIG_BYTES = 1 << 20
MAX_JSON_BYTES = 64 << 20
"""Of any other JSON file, such as a tokenizer; those in use take up to 35 MB."""
PARTIAL = ".partial-"
"""Prefix of folders that are not whole yet; whoever finds one after a crash may delete it."""


def check_policy_folder(folder: Path, like: Path | None = None) -> None:
    """Refuse a folder whose weights an engine must not load.

    `like` is a folder of the same policy: names, shapes and dtypes of the tensors must then be the same.
    Raises: PolicyError naming the file and what is wrong with it.
    """
    describe_config(folder)
    for path in sorted(folder.glob("*.json")):
        read_json(path, MAX_JSON_BYTES)  # an engine's own reader may not bound the nesting
    tensors = _tensors(folder)
    if like is None:
        return
    expected = _tensors(like)
    for name in sorted(expected.keys() | tensors.keys()):
        if name not in tensors:
            raise PolicyError(f"{folder} lacks the tensor {name!r}")
        if name not in expected:
            raise PolicyError(f"{folder} holds the tensor {name!r}, which the policy does not have")
        if tensors[name].shape != expected[name].shape:
            raise PolicyError(
                f"{folder}: tensor {name!r} has the shape {tensors[name].shape}, {expected[name].shape} expected"
            )


def describe_config(folder: Path) -> dict[str, object]:
    """Return the folder's config.json. Raises: PolicyError if it is unreadable or asks for code of its own."""
    config = read_object(folder / "config.json")
    if "auto_map" in config:
        raise PolicyError(f"{folder / 'config.json'} asks for code of its own (auto_map)")
    return config


def publish(folder: Path, out: Path) -> Manifest:
    """Lay a policy folder out as sources serve it: `out/manifest.json` and `out/files/{name}`, all or nothing.

    Files are hard links where the disk allows, since a policy folder never changes.
    Raises: PolicyError, OperatorError when the disk is full.
    """
    manifest = describe_folder(folder)
    with appearing(out) as work:
        (work / "files").mkdir()
        for file in manifest.files:
            try:
                os.link(folder / file.name, work / "files" / file.name)
            except OSError:
                shutil.copyfile(folder / file.name, work / "files" / file.name)
        (work / "manifest.json").write_bytes(manifest.encode())
    return manifest


@contextmanager
def appearing(folder: Path) -> Iterator[Path]:
    """Give a folder to write in that takes its name when the block ends well, and vanishes when it does not.

    Raises: OperatorError when the disk refuses, such as when it is full.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=PARTIAL, dir=folder.parent))
    except OSError as error:
        raise OperatorError(f"cannot write {folder}: {error.strerror or error}") from error
    try:
        yield work
        settle(work, folder)
    except OSError as error:
        raise OperatorError(f"cannot write {folder}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def settle(work: Path, folder: Path) -> None:
    """Flush a finished folder and give it its name, in place of a former one."""
    for path in work.rglob("*"):
        if path.is_file():
            path.chmod(0o644)
            with path.open("rb") as file:
                os.fsync(file.fileno())
    work.chmod(0o755)
    if folder.exists():
        shutil.rmtree(folder)
    work.rename(folder)
    parent = os.open(folder.parent, os.O_RDONLY)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)


def clear_partial(parent: Path) -> None:
    """Remove what interrupted writers left in a folder."""
    for left in parent.glob(f"{PARTIAL}*"):
        shutil.rmtree(left, ignore_errors=True)


def read_json(path: Path, limit_bytes: int = MAX_CONFIG_BYTES) -> object:
    """Return the value of a JSON file of a policy folder. Raises: PolicyError if it is unreadable, or longer.

    The reader bounds the nesting whatever the recursion limit of this process is.
    """
    try:
        size = path.stat().st_size
        if size > limit_bytes:
            raise PolicyError(f"{path} has {size} bytes, at most {limit_bytes} are read")
        return from_json(path.read_bytes(), allow_inf_nan=False)
    except (OSError, ValueError) as error:
        raise PolicyError(f"{path} cannot be read: {error}") from error


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object of a policy folder. Raises: PolicyError."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise PolicyError(f"{path}: expected a JSON object, got {type(value).__name__}")
    return value


def _tensors(folder: Path) -> dict[str, TensorInfo]:
    found: dict[str, TensorInfo] = {}
    for path in sorted(folder.glob("*.safetensors")):
        for name, tensor in require_bf16_finite(path).items():
            if name in found:
                raise PolicyError(f"{folder}: two files hold the tensor {name!r}")
            found[name] = tensor
    if not found:
        raise PolicyError(f"{folder} holds no weights")
    return found
