"""Hostile submission files: what a worker may upload that no honest one writes. Knows Parquet, and no check."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from stannary.rollout import MAX_SUBMISSION_BYTES, Rollout, encode_group

PAGE = 4
"""Where the header of the first page begins: behind the magic."""
BEFORE_COUNT = 3
"""Numbers in a page's header before the struct that holds how many values there are: its type and two sizes."""


def _list(kind: pa.DataType, *, nullable: bool = False) -> pa.DataType:
    return pa.list_(pa.field("element", kind, nullable=nullable))


def _written(
    rollouts: Sequence[Rollout],
    *,
    tokens: pa.DataType | None = None,
    nullable: bool = False,
    extra: bool = False,
    has_null: bool = False,
    **options: Any,
) -> bytes:
    """Write a group by another schema or with other options than the protocol's."""
    kind = _list(tokens or pa.int32(), nullable=nullable)
    prompts: list[list[int] | None] = [list(rollout.prompt) for rollout in rollouts]
    if has_null:
        prompts[-1] = None
    columns: dict[str, tuple[list[Any], pa.DataType]] = {
        "prompt_tokens": (prompts, kind),
        "completion_tokens": ([list(rollout.completion) for rollout in rollouts], kind),
        "proof": ([b"".join(rollout.proofs) for rollout in rollouts], pa.binary()),
    }
    if extra:
        columns["reward"] = ([1.0] * len(rollouts), pa.float32())
    schema = pa.schema([pa.field(name, own, nullable=nullable or has_null) for name, (_, own) in columns.items()])
    table = pa.table([pa.array(values, own) for values, own in columns.values()], schema=schema)
    sink = pa.BufferOutputStream()
    plain = {"compression": "NONE", "use_dictionary": False, "write_statistics": False, "store_schema": False}
    pq.write_table(table, sink, **(plain | options))
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _forged_count(rollouts: Sequence[Rollout]) -> bytes:
    """Let the first page say that it holds one value more than it does."""
    data = bytearray(encode_group(rollouts))
    at = PAGE
    for _ in range(BEFORE_COUNT):
        at += 1  # the field's own head
        while data[at] & 0x80:
            at += 1
        at += 1
    at += 2  # the struct's head, and that of its first field
    data[at] = data[at] & 0x80 | (data[at] + 2) & 0x7F  # zigzag: one more is two
    return bytes(data)


def _forged_rows(rollouts: Sequence[Rollout]) -> bytes:
    """Let the footer, but not the columns, speak of as many rows as a group has."""
    whole, fewer = encode_group(rollouts), encode_group(rollouts[:-1])
    return fewer[: -8 - _footer_bytes(fewer)] + whole[-8 - _footer_bytes(whole) :]


def _footer_bytes(data: bytes) -> int:
    return int.from_bytes(data[-8:-4], "little")


HOSTILE: Mapping[str, Callable[[Sequence[Rollout]], bytes]] = {
    "tokens in 64 bits": lambda rollouts: _written(rollouts, tokens=pa.int64()),
    "tokens without a sign": lambda rollouts: _written(rollouts, tokens=pa.uint32()),
    "an extra column": lambda rollouts: _written(rollouts, extra=True),
    "lists that may be null": lambda rollouts: _written(rollouts, nullable=True),
    "a null list": lambda rollouts: _written(rollouts, has_null=True),
    "compressed": lambda rollouts: _written(rollouts, compression="ZSTD"),
    "a dictionary": lambda rollouts: _written(rollouts, use_dictionary=True),
    "a row group a row": lambda rollouts: _written(rollouts, row_group_size=1),
    "metadata of its own": lambda rollouts: _written(rollouts, store_schema=True),
    "a page that counts one too many": _forged_count,
    "a footer of another file": _forged_rows,
    "a byte appended": lambda rollouts: encode_group(rollouts) + b"\0",
    "half of it": lambda rollouts: encode_group(rollouts)[: len(encode_group(rollouts)) // 2],
    "nothing": lambda _: b"",
}
"""Files by what is wrong with them."""


def swollen(rollouts: Sequence[Rollout]) -> bytes:
    """Return a file beyond the size limit."""
    data = encode_group(rollouts)
    return data + bytes(MAX_SUBMISSION_BYTES + 1 - len(data))
