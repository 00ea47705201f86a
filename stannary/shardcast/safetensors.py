"""A strict reader of safetensors headers: what a policy folder's weights must look like before any engine loads them.

It checks every size against the file before it allocates, and holds no tensor in memory.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic_core import from_json

from stannary.errors import PolicyError

MAX_HEADER_BYTES = 32 << 20
MAX_TENSORS = 200_000
MAX_DIMENSIONS = 8
_SCAN_BYTES = 8 << 20
_DTYPE_BYTES = {"BF16": 2, "F16": 2, "F32": 4}
_BF16_EXPONENT = 0x7F80
_FIELDS = {"dtype", "shape", "data_offsets"}


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor as the header declares it."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    """Byte offset in the data section, as is `end`."""
    end: int


def read_header(path: Path) -> Mapping[str, TensorInfo]:
    """Return the tensors of a file by name.

    Raises: PolicyError for a header that is too long, no JSON object, names a tensor twice, an unknown dtype, a shape
    that does not fit its bytes, or ranges that overlap or leave gaps.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        prefix = file.read(8)
        length = int.from_bytes(prefix, "little")
        if len(prefix) < 8 or not 2 <= length <= min(MAX_HEADER_BYTES, size - 8):
            raise _wrong(path, f"its header claims {length} bytes of a file of {size}")
        raw = file.read(length)
    try:
        from_json(raw, allow_inf_nan=False)  # bounds the nesting, which json leaves to the process's recursion limit
        header = json.loads(raw, object_pairs_hook=_object, parse_constant=_refuse_constant)
    except ValueError as error:
        raise _wrong(path, f"its header is not readable: {error}") from error
    if not isinstance(header, dict):
        raise _wrong(path, f"its header is a JSON {type(header).__name__}, not an object")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise _wrong(path, "its metadata is not an object of texts")
    if len(header) > MAX_TENSORS:
        raise _wrong(path, f"it holds {len(header)} tensors, at most {MAX_TENSORS} are taken")
    tensors = {name: _tensor(path, name, entry) for name, entry in header.items()}
    expected = 0
    for name, tensor in sorted(tensors.items(), key=lambda item: (item[1].start, item[1].end)):
        if tensor.start != expected:
            kind = "overlaps the tensor before it" if tensor.start < expected else "leaves a gap before it"
            raise _wrong(path, f"tensor {name!r} starts at {tensor.start}, {expected} expected: it {kind}")
        expected = tensor.end
    if expected != size - 8 - length:
        raise _wrong(path, f"its tensors take {expected} bytes, its data section has {size - 8 - length}")
    return tensors


def require_bf16_finite(path: Path) -> Mapping[str, TensorInfo]:
    """Return the header of a file whose tensors are all bf16 without NaN and infinity. Raises: PolicyError."""
    tensors = read_header(path)
    for name, tensor in tensors.items():
        if tensor.dtype != "BF16":
            raise _wrong(path, f"tensor {name!r} is {tensor.dtype}, policies are BF16")
    with path.open("rb") as file:
        data_start = 8 + int.from_bytes(file.read(8), "little")
        file.seek(data_start)
        position = 0
        while block := file.read(_SCAN_BYTES):
            bits = np.frombuffer(block, dtype="<u2")
            wrong = np.flatnonzero((bits & _BF16_EXPONENT) == _BF16_EXPONENT)
            if wrong.size:
                offset = position + 2 * int(wrong[0])
                holder = next(name for name, tensor in tensors.items() if tensor.start <= offset < tensor.end)
                raise _wrong(path, f"tensor {holder!r} holds a value that is not finite")
            position += len(block)
    return tensors


def _tensor(path: Path, name: str, entry: Any) -> TensorInfo:
    if not isinstance(entry, dict) or set(entry) != _FIELDS:
        raise _wrong(path, f"tensor {name!r} must have dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _DTYPE_BYTES:
        raise _wrong(path, f"tensor {name!r} has the unknown dtype {dtype!r}")
    if not _is_naturals(shape) or len(shape) > MAX_DIMENSIONS:
        raise _wrong(path, f"tensor {name!r} has the shape {shape!r}")
    if not _is_naturals(offsets) or len(offsets) != 2:
        raise _wrong(path, f"tensor {name!r} has the offsets {offsets!r}")
    start, end = offsets
    if end - start != math.prod(shape) * _DTYPE_BYTES[dtype]:
        raise _wrong(path, f"tensor {name!r} of shape {shape} and dtype {dtype} cannot take {end - start} bytes")
    return TensorInfo(dtype, tuple(shape), start, end)


def _is_naturals(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is int and 0 <= item < 1 << 48 for item in value)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON number")


def _wrong(path: Path, what: str) -> PolicyError:
    return PolicyError(f"{path.name} is no acceptable safetensors file: {what}")
