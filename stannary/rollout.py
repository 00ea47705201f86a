"""The submission file: one group of rollouts with its proofs, as Parquet, named by its BLAKE3 hash.

One row a rollout, one row group, three columns, no compression, no nulls, nothing else. The file carries no reward, no
advantage and no length: whatever a worker could profit from is recomputed by others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from blake3 import blake3

from stannary.errors import Malformed
from stannary.thrift import Value, read_struct
from stannary.toploc.proof import PROOF_BYTES
from stannary.types import Hash

MAX_SUBMISSION_BYTES = 16 << 20
_FOOTER_LIMIT_BYTES = 1 << 16
_ROW_GROUPS, _COLUMNS, _META_DATA = 4, 1, 3
_CODEC, _NUM_VALUES, _UNCOMPRESSED_SIZE = 4, 5, 6
"""Fields of the footer by their numbers in Parquet's own definition."""
_OFFSETS_BYTES = 16
"""What Arrow keeps beside the values of a row: the offsets of three columns, of 4 bytes each, and some slack."""
_SCHEMA = pa.schema(
    [
        pa.field("prompt_tokens", pa.list_(pa.field("element", pa.int32(), nullable=False)), nullable=False),
        pa.field("completion_tokens", pa.list_(pa.field("element", pa.int32(), nullable=False)), nullable=False),
        pa.field("proof", pa.binary(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class Rollout:
    """One completion of a prompt with the proofs of its generation."""

    prompt: tuple[int, ...]
    completion: tuple[int, ...]
    proofs: tuple[bytes, ...]
    """One proof of 258 bytes a chunk of 32 completion tokens."""


def encode_group(rollouts: Sequence[Rollout]) -> bytes:
    """Return the submission file of a group."""
    table = pa.table(
        [
            pa.array([list(r.prompt) for r in rollouts], _SCHEMA.field(0).type),
            pa.array([list(r.completion) for r in rollouts], _SCHEMA.field(1).type),
            pa.array([b"".join(r.proofs) for r in rollouts], pa.binary()),
        ],
        schema=_SCHEMA,
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="NONE", use_dictionary=False, write_statistics=False, store_schema=False)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def decode_group(data: bytes, group_size: int) -> list[Rollout]:
    """Read a submission file strictly.

    Raises: Malformed if it is too large, is not exactly this schema, does not hold `group_size` rows, or holds a null.
    """
    if not 12 <= len(data) <= MAX_SUBMISSION_BYTES:
        raise Malformed("submission", expected=f"12 … {MAX_SUBMISSION_BYTES} bytes", got=len(data))
    footer_bytes = int.from_bytes(data[-8:-4], "little")
    if data[:4] != b"PAR1" or data[-4:] != b"PAR1" or footer_bytes > min(_FOOTER_LIMIT_BYTES, len(data) - 12):
        raise Malformed("submission", expected="a Parquet file with a small footer", got=data[-8:])
    try:
        file = pq.ParquetFile(
            pa.BufferReader(data),
            thrift_string_size_limit=_FOOTER_LIMIT_BYTES,
            thrift_container_size_limit=1024,
            page_checksum_verification=False,
        )
        _check_footer(file, data[-8 - footer_bytes : -8], len(data), group_size)
        table = file.read(use_threads=False)
        if table.nbytes > len(data) + _OFFSETS_BYTES * (group_size + 1):
            raise Malformed("submission", expected=f"plain values of {len(data)} bytes", got=table.nbytes)
        table.validate(full=True)
        rows = table.to_pydict()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Malformed("submission", expected="a readable Parquet file", got=str(error)) from error
    return [_rollout(*row) for row in zip(*(rows[name] for name in _SCHEMA.names), strict=True)]


def content_hash(data: bytes) -> Hash:
    """Return the BLAKE3 hash that names a file."""
    return Hash(blake3(data).digest())


def _check_footer(file: pq.ParquetFile, footer: bytes, size_bytes: int, group_size: int) -> None:
    meta = file.metadata
    if not file.schema_arrow.equals(_SCHEMA, check_metadata=True):
        raise Malformed("schema", expected=", ".join(_SCHEMA.names), got=file.schema_arrow.to_string()[:200])
    if meta.num_rows != group_size or meta.num_row_groups != 1:
        raise Malformed("rows", expected=f"{group_size} in one row group", got=(meta.num_rows, meta.num_row_groups))
    columns = _columns(footer)
    if len(columns) != len(_SCHEMA):
        raise Malformed("columns", expected=f"{len(_SCHEMA)} in the row group", got=len(columns))
    for name, column in zip(_SCHEMA.names, columns, strict=True):
        codec, values, uncompressed = (column.get(field) for field in (_CODEC, _NUM_VALUES, _UNCOMPRESSED_SIZE))
        if codec != 0 or not isinstance(uncompressed, int) or not 0 <= uncompressed <= size_bytes:
            raise Malformed(
                f"column {name}", expected=f"uncompressed, at most {size_bytes} bytes", got=(codec, uncompressed)
            )
        if not isinstance(values, int) or not 0 <= values <= size_bytes:
            raise Malformed(f"column {name}", expected="values that fit the file", got=values)


def _columns(footer: bytes) -> list[dict[int, Value]]:
    """Return the metadata of each column of the first row group. Raises: ValueError if the footer has none."""
    groups = read_struct(footer).get(_ROW_GROUPS)
    group = groups[0] if isinstance(groups, list) and groups else None
    chunks = group.get(_COLUMNS) if isinstance(group, dict) else None
    if not isinstance(chunks, list):
        raise ValueError("no columns in the footer")
    found = []
    for chunk in chunks:
        column = chunk.get(_META_DATA) if isinstance(chunk, dict) else None
        if not isinstance(column, dict):
            raise ValueError("a column without metadata")
        found.append(column)
    return found


def _rollout(prompt: list[int], completion: list[int], proof: bytes) -> Rollout:
    if len(proof) % PROOF_BYTES:
        raise Malformed("proof", expected=f"a multiple of {PROOF_BYTES} bytes", got=len(proof))
    proofs = tuple(proof[start : start + PROOF_BYTES] for start in range(0, len(proof), PROOF_BYTES))
    return Rollout(tuple(prompt), tuple(completion), proofs)
