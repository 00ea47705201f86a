"""The manifest of a policy step: its files in chunks that are hashed one by one, under one root that goes on chain.

The root covers everything that decides what the policy says: weights, config, tokenizer, chat template, generation
config. Only plain data formats are named, so nothing in a policy folder can be unpickled or run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from blake3 import blake3
from eth_abi.abi import encode
from eth_utils.crypto import keccak
from pydantic_core import from_json

from stannary.documents import canonical, document_hash
from stannary.errors import Malformed, PolicyError
from stannary.types import ZERO_HASH, Hash, parse_hash, to_hex

FORMAT = "stannary.manifest.v1"
CHUNK_BYTES = 1 << 20
MAX_MANIFEST_BYTES = 16 << 20
MAX_FILES = 512
MAX_FILE_BYTES = 1 << 40
SUFFIXES = (".safetensors", ".json", ".jinja", ".txt", ".model")
REQUIRED = ("config.json", "generation_config.json", "tokenizer.json")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_POLICY = keccak(text="stannary.policy.v1")


@dataclass(frozen=True, slots=True)
class File:
    """One file of a policy step."""

    name: str
    size: int
    """Bytes."""
    digest: Hash
    """BLAKE3 of the whole file."""
    chunks: tuple[Hash, ...]
    """BLAKE3 of each chunk of 1 MiB; the last may be shorter."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """All files of a policy step, in order of their names."""

    files: tuple[File, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def state_root(self) -> Hash:
        """keccak256 of the canonical JSON of [name, size, BLAKE3] of each file: the policy, however it was cut."""
        return document_hash([[file.name, file.size, to_hex(file.digest)] for file in self.files])

    @property
    def policy_root(self) -> Hash:
        """What the trainer puts on chain: H(tag, state root, hash of this manifest, hash of the delta manifests)."""
        kinds = ["bytes32", "bytes32", "bytes32", "bytes32"]
        return Hash(keccak(encode(kinds, [_POLICY, self.state_root, Hash(keccak(self.encode())), ZERO_HASH])))

    def encode(self) -> bytes:
        """Return the canonical JSON."""
        return canonical(
            {
                "format": FORMAT,
                "chunk_bytes": CHUNK_BYTES,
                "state_root": to_hex(self.state_root),
                "files": [
                    {
                        "name": file.name,
                        "size": file.size,
                        "digest": to_hex(file.digest),
                        "chunks": [to_hex(chunk) for chunk in file.chunks],
                    }
                    for file in self.files
                ],
            }
        )


def describe_folder(folder: Path) -> Manifest:
    """Return the manifest of a policy folder.

    Raises: PolicyError for a file that does not belong in a policy folder or one that is missing.
    """
    files = []
    for path in sorted(folder.iterdir()):
        if path.is_symlink() or not path.is_file():
            raise PolicyError(f"{path} is no ordinary file")
        whole = blake3()
        chunks = []
        for block in _blocks(path):
            whole.update(block)
            chunks.append(Hash(blake3(block).digest()))
        files.append(File(path.name, path.stat().st_size, Hash(whole.digest()), tuple(chunks)))
    manifest = Manifest(tuple(files))
    try:
        _check(manifest)
    except Malformed as error:
        raise PolicyError(f"{folder} is no policy folder: {error}") from error
    return manifest


def parse_manifest(data: bytes) -> Manifest:
    """Read a manifest strictly.

    Raises: Malformed if it is too long, is not the canonical encoding of a manifest, or names a file that could leave
    the folder, runs code, or has a chunk too many or too few.
    """
    if len(data) > MAX_MANIFEST_BYTES:
        raise Malformed("manifest", expected=f"at most {MAX_MANIFEST_BYTES} bytes", got=len(data))
    try:
        # This reader bounds the nesting whatever the recursion limit of the process is.
        found = from_json(data, allow_inf_nan=False)
        manifest = Manifest(
            tuple(
                File(
                    name=_text(entry["name"]),
                    size=_natural(entry["size"]),
                    digest=parse_hash(entry["digest"]),
                    chunks=tuple(parse_hash(chunk) for chunk in entry["chunks"]),
                )
                for entry in found["files"]
            )
        )
    except (ValueError, TypeError, KeyError) as error:
        raise Malformed("manifest", expected=FORMAT, got=data[:60]) from error
    _check(manifest)
    if manifest.encode() != data:
        raise Malformed("manifest", expected=f"the canonical encoding of {FORMAT} with its state root", got=data[:60])
    return manifest


def is_file_name(name: str) -> bool:
    """Say whether a file of a policy step may have this name: one that leaves no folder and names no code."""
    return _NAME.fullmatch(name) is not None and name.endswith(SUFFIXES)


def chunk_length(file: File, index: int) -> int:
    """Return the bytes of one chunk of a file."""
    return min(CHUNK_BYTES, file.size - index * CHUNK_BYTES)


def _check(manifest: Manifest) -> None:
    names = [file.name for file in manifest.files]
    if not 1 <= len(names) <= MAX_FILES:
        raise Malformed("files", expected=f"1 … {MAX_FILES}", got=len(names))
    if names != sorted(names) or len({name.lower() for name in names}) != len(names):
        raise Malformed("files", expected="different names in order", got=names)
    for file in manifest.files:
        if not is_file_name(file.name):
            raise Malformed("file name", expected=f"a plain name ending in {' '.join(SUFFIXES)}", got=file.name)
        if not 0 <= file.size <= MAX_FILE_BYTES:
            raise Malformed(f"{file.name} size", expected=f"0 … {MAX_FILE_BYTES}", got=file.size)
        count = -(-file.size // CHUNK_BYTES)
        if len(file.chunks) != count:
            raise Malformed(f"{file.name} chunks", expected=str(count), got=len(file.chunks))
    missing = [name for name in REQUIRED if name not in names]
    if missing or not any(name.endswith(".safetensors") for name in names):
        raise Malformed("files", expected=f"{', '.join(REQUIRED)} and safetensors", got=names)


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(CHUNK_BYTES):
            yield block


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a name must be a text")
    return value


def _natural(value: object) -> int:
    if type(value) is not int:
        raise TypeError("a size must be a whole number")
    return value
