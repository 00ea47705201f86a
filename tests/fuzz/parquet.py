"""Parquet files that are well formed but no submissions: other schemas, encodings, compressions, nulls, growth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from stannary.rollout import Rollout, encode_group
from stannary.toploc.proof import PROOF_BYTES

_ELEMENT = pa.field("element", pa.int32(), nullable=False)
_TOKENS = pa.list_(_ELEMENT)
_NAMES = ("prompt_tokens", "completion_tokens", "proof")
_PLAIN: dict[str, Any] = {
    "compression": "NONE",
    "use_dictionary": False,
    "write_statistics": False,
    "store_schema": False,
}


def variants(group: Sequence[Rollout], group_size: int) -> tuple[bytes, ...]:
    """Return files close to a submission in all but one respect, and some that are far from it."""
    return tuple(_options(group)) + tuple(_schemas(group_size)) + tuple(_rows(group))


def bombs(group_size: int, limit_bytes: int) -> list[bytes]:
    """Return files of at most `limit_bytes` that grow when they are read."""
    tokens = limit_bytes // 4 // group_size - 4096
    long = Rollout((1,), (7,) * tokens, ())
    block = bytes(limit_bytes // 2 // PROOF_BYTES * PROOF_BYTES)
    value = Rollout((1,), (2,), (block,))
    some = [
        Rollout(
            (0,) * (limit_bytes // 16),
            (0,) * (limit_bytes // 6),
            (bytes(limit_bytes // 64 // PROOF_BYTES * PROOF_BYTES),),
        )
    ] * group_size
    many = [Rollout((), (), ())] * (limit_bytes // 16)
    return [
        encode_group([long] * group_size),
        _written(_table([value] * group_size), use_dictionary=True, dictionary_pagesize_limit=limit_bytes),
        _written(_table(some), use_dictionary=True),
        _written(_table(some), compression="ZSTD"),
        _written(_table(some), column_encoding="DELTA_BINARY_PACKED", columns=("completion_tokens",)),
        _written(_table([value] * 64), use_dictionary=True, dictionary_pagesize_limit=limit_bytes),
        _written(_table(many)),
    ]


def _table(group: Sequence[Rollout]) -> pa.Table:
    schema = pa.schema(
        [
            pa.field(name, kind, nullable=False)
            for name, kind in zip(_NAMES, (_TOKENS, _TOKENS, pa.binary()), strict=True)
        ]
    )
    return pa.table(
        [
            pa.array([list(rollout.prompt) for rollout in group], _TOKENS),
            pa.array([list(rollout.completion) for rollout in group], _TOKENS),
            pa.array([b"".join(rollout.proofs) for rollout in group], pa.binary()),
        ],
        schema=schema,
    )


def _written(table: pa.Table, columns: Sequence[str] = (), **options: Any) -> bytes:
    if "column_encoding" in options:
        encoding = options["column_encoding"]
        options["column_encoding"] = {
            f"{name}.list.element" if pa.types.is_list(table.schema.field(name).type) else name: encoding
            for name in columns or table.schema.names
        }
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **(_PLAIN | options))
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _options(group: Sequence[Rollout]) -> Iterator[bytes]:
    table = _table(group)
    for compression in ("SNAPPY", "GZIP", "ZSTD", "BROTLI", "LZ4"):
        yield _written(table, compression=compression)
    for option in (
        {"use_dictionary": True},
        {"write_statistics": True},
        {"store_schema": True},
        {"data_page_version": "2.0"},
        {"data_page_version": "2.0", "use_dictionary": True},
        {"row_group_size": 1},
        {"data_page_size": 64},
        {"version": "1.0"},
        {"write_page_checksum": True},
        {"write_page_index": True, "write_statistics": True},
        {"use_compliant_nested_type": False},
        {"column_encoding": "PLAIN"},
        {"column_encoding": "DELTA_BINARY_PACKED", "columns": ("prompt_tokens",)},
        {"column_encoding": "DELTA_LENGTH_BYTE_ARRAY", "columns": ("proof",)},
        {"column_encoding": "DELTA_BYTE_ARRAY", "columns": ("proof",)},
        {"column_encoding": "BYTE_STREAM_SPLIT", "columns": ("completion_tokens",)},
    ):
        yield _written(table, **option)


def _schemas(rows: int) -> Iterator[bytes]:
    """Return files with one column of another type, or other columns."""
    kinds: dict[str, tuple[pa.DataType, Any]] = {
        "null": (pa.null(), None),
        "int64": (pa.list_(pa.int64()), [1]),
        "nullable": (pa.list_(pa.int32()), [None, 1]),
        "null list": (_TOKENS, None),
        "large": (pa.large_list(_ELEMENT), [1]),
        "fixed": (pa.list_(_ELEMENT, 2), [1, 2]),
        "nested": (pa.list_(pa.list_(pa.list_(_ELEMENT))), [[[1]]]),
        "struct": (pa.struct([("x", pa.int32()), ("y", pa.string())]), {"x": 1, "y": "z"}),
        "list of struct": (pa.list_(pa.struct([("x", pa.int32())])), [{"x": 1}]),
        "map": (pa.map_(pa.string(), pa.int32()), [("a", 1)]),
        "text": (pa.string(), "é"),
        "large binary": (pa.large_binary(), b"x"),
        "float": (pa.list_(pa.float16()), [1.0]),
        "decimal": (pa.decimal128(38, 10), 1),
        "date": (pa.date64(), 0),
        "time": (pa.timestamp("ns", "UTC"), 0),
        "duration": (pa.duration("us"), 0),
        "boolean": (pa.bool_(), True),
        "dictionary": (pa.dictionary(pa.int8(), pa.string()), "x"),
        "fixed bytes": (pa.binary(258), bytes(258)),
    }
    for kind, value in kinds.values():
        for place, store_schema in ((0, False), (2, True)):
            columns: list[tuple[str, pa.DataType, Any]] = [
                (name, kind if at == place else (_TOKENS if at < 2 else pa.binary()), ([1], [1], b"")[at])
                for at, name in enumerate(_NAMES)
            ]
            arrays = [pa.array([value if at == place else one] * rows, of) for at, (_, of, one) in enumerate(columns)]
            yield _written(pa.table(arrays, names=list(_NAMES)), store_schema=store_schema)
    tokens, proof = pa.array([[1]] * rows, _TOKENS), pa.array([b""] * rows, pa.binary())
    yield _written(pa.table([tokens, proof], names=["prompt_tokens", "proof"]))
    yield _written(pa.table([tokens, tokens, proof, tokens], names=[*_NAMES, "reward"]))
    yield _written(pa.table([tokens] * 300, names=[f"c{n}" for n in range(300)]))
    yield _written(pa.table([tokens, tokens, proof], names=["x" * 60_000, "", "\u202e"]))
    metadata = {b"k" * 1000: b"v" * 40_000, b"ARROW:schema": b"AAAA"}
    yield _written(_table([Rollout((1,), (2,), ())] * rows).replace_schema_metadata(metadata), store_schema=True)


def _rows(group: Sequence[Rollout]) -> Iterator[bytes]:
    yield _written(_table([]))
    yield _written(_table(list(group) * 50))
    yield _written(_table([Rollout((), (), ())] * 50_000))
    yield _written(_table([Rollout((1,), (2,), (bytes(PROOF_BYTES * 40),))] * 64), use_dictionary=True)
    yield _written(_table([Rollout((5,) * 5000, (5,) * 5000, ())] * len(group)), use_dictionary=True)
