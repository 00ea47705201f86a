"""Parquet files that are no submissions: other schemas, encodings, compressions, nulls, growth, and lies about it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stannary.rollout import Rollout, encode_group
from stannary.toploc.proof import PROOF_BYTES
from tests.fuzz import thrift

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
    long = Rollout((1,), tuple(range(1000, 1000 + tokens)), ())
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
        *lies(group_size).values(),
        *crowds(group_size, limit_bytes).values(),
    ]


def lies(group_size: int) -> Mapping[str, bytes]:
    """Return files that grow to 128 MiB for a reader that believes one thing they say and not another.

    Those with a dictionary have 2 MiB themselves and grow to that a row.
    """
    count = (128 << 20) // 4 // group_size
    zeros = pa.array(np.zeros(count * group_size, np.int32))
    offsets = pa.array(np.arange(group_size + 1, dtype=np.int32) * count)
    tokens = pa.ListArray.from_arrays(offsets, zeros, type=_TOKENS)
    short = _table([Rollout((1,), (2,), (bytes(PROOF_BYTES),))] * group_size)
    table = short.set_column(1, short.schema.field(1), tokens)
    squeezed = _written(table, compression="ZSTD")
    repeated = _written(
        _table([Rollout((1,), (2,), (bytes((2 << 20) // PROOF_BYTES * PROOF_BYTES),))] * group_size),
        use_dictionary=True,
        dictionary_pagesize_limit=4 << 20,
    )
    changes: dict[str, Callable[[thrift.Struct], None]] = {
        "as it is": lambda _footer: None,
        "wrong wire types": _in_columns(_append((4, thrift.I64, 0), (5, thrift.I32, 10), (6, thrift.I32, 10))),
        "repeated fields": _in_columns(_append((4, thrift.I32, 0), (5, thrift.I64, 10), (6, thrift.I64, 10))),
        "repeated fields first": _in_columns(_prepend((4, thrift.I32, 0), (5, thrift.I64, 10), (6, thrift.I64, 10))),
        "numbers that wrap": _in_columns(_wrapped),
        "a set of row groups": _decoy(thrift.SET),
        "a list of row groups": _decoy(thrift.LIST),
        "lists that show another type": _show_another,
        "no compression": _in_columns(_honest),
    }
    found = {name: change_footer(squeezed, change) for name, change in changes.items()}
    found["a dictionary"] = repeated
    found["a dictionary, denied"] = change_footer(repeated, _in_columns(_without_dictionary))
    return found


def crowds(group_size: int, limit_bytes: int) -> Mapping[str, bytes]:
    """Return files of very many small things, some of which they only say they have."""
    data = encode_group([Rollout((1,), (2,), ())] * group_size)
    room = limit_bytes // 2 // 40
    one = level_block(b"\x02\x00") + level_block(b"\x02\x01") + bytes(4)
    runs = b"\x02\x01" * (limit_bytes // 10)
    count = len(runs) // 2
    return {
        "pages": with_pages(data, 1, [(1, one)] * room),
        "runs": with_pages(data, 1, [(count, level_block(runs) + level_block(runs) + bytes(4 * count))]),
        "values": with_pages(data, 1, [((1 << 31) - 1, (level_block(_varint(0xFFFF_FFFE) + b"\x00")) * 2)]),
        "proofs": with_pages(data, 2, [((1 << 31) - 1, bytes(4))]),
        "groups": with_pages(
            data, 1, [(8, level_block(_varint((limit_bytes // 4) << 1 | 1) + bytes(limit_bytes // 4)))]
        ),
    }


def change_footer(data: bytes, change: Callable[[thrift.Struct], None]) -> bytes:
    """Return a file whose footer was changed."""
    length = int.from_bytes(data[-8:-4], "little")
    tree, _ = thrift.read(data[-8 - length : -8])
    change(tree)
    footer = thrift.write(tree)
    return data[: -8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def level_block(runs: bytes) -> bytes:
    """Return levels as they stand in a page."""
    return struct.pack("<I", len(runs)) + runs


def with_pages(data: bytes, column: int, pages: Sequence[tuple[int, bytes]]) -> bytes:
    """Return a file of which one column consists of other pages, each a number of values and its bytes."""
    length = int.from_bytes(data[-8:-4], "little")
    tree, _ = thrift.read(data[-8 - length : -8])
    metas = [{number: value for number, _, value in meta.fields} for meta in column_metas(tree)]
    bodies = [data[meta[9] : meta[9] + meta[7]] for meta in metas]
    bodies[column] = b"".join(_page(count, body) + body for count, body in pages)
    counts = [meta[5] for meta in metas]
    counts[column] = sum(count for count, _ in pages)
    at = 4
    for meta, body, count in zip(column_metas(tree), bodies, counts, strict=True):
        put_fields(meta, {5: count, 6: len(body), 7: len(body), 9: at})
        at += len(body)
    footer = thrift.write(tree)
    return b"PAR1" + b"".join(bodies) + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def column_metas(footer: thrift.Struct) -> list[thrift.Struct]:
    """Return the metadata of each column of each row group."""
    groups = next(value for number, _, value in footer.fields if number == 4)
    return [
        meta
        for group in groups.values
        for number, _, chunks in group.fields
        if number == 1
        for chunk in chunks.values
        for place, _, meta in chunk.fields
        if place == 3
    ]


def put_fields(found: thrift.Struct, values: Mapping[int, Any]) -> None:
    """Give fields that are there other values."""
    found.fields = [(number, kind, values.get(number, value)) for number, kind, value in found.fields]


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _page(count: int, body: bytes) -> bytes:
    inner = thrift.Struct([(1, thrift.I32, count), (2, thrift.I32, 0), (3, thrift.I32, 3), (4, thrift.I32, 3)])
    sizes = [(place, thrift.I32, len(body)) for place in (2, 3)]
    return thrift.write(thrift.Struct([(1, thrift.I32, 0), *sizes, (5, thrift.STRUCT, inner)]))


def _in_columns(change: Callable[[thrift.Struct], None]) -> Callable[[thrift.Struct], None]:
    def changed(footer: thrift.Struct) -> None:
        for meta in column_metas(footer):
            change(meta)

    return changed


def _append(*fields: tuple[int, int, Any]) -> Callable[[thrift.Struct], None]:
    return lambda meta: meta.fields.extend(fields)


def _prepend(*fields: tuple[int, int, Any]) -> Callable[[thrift.Struct], None]:
    def changed(meta: thrift.Struct) -> None:
        meta.fields[:0] = fields

    return changed


def _wrapped(meta: thrift.Struct) -> None:
    """Move the true fields to numbers that are theirs in 16 bits, and put harmless ones where they were."""
    harmless = {4: 0, 5: 1, 6: 1}
    true = [(number + (1 << 16), kind, value) for number, kind, value in meta.fields if number in harmless]
    put_fields(meta, harmless)
    meta.fields += true


def _honest(meta: thrift.Struct) -> None:
    size_bytes = next(value for number, _, value in meta.fields if number == 7)
    put_fields(meta, {4: 0, 6: size_bytes})


def _without_dictionary(meta: thrift.Struct) -> None:
    meta.fields = [field for field in meta.fields if field[0] != 11]
    put_fields(meta, {2: thrift.List(thrift.I32, [3, 0])})


def _decoy(kind: int) -> Callable[[thrift.Struct], None]:
    def changed(footer: thrift.Struct) -> None:
        groups = deepcopy(next(value for number, _, value in footer.fields if number == 4))
        _in_columns(lambda meta: put_fields(meta, {4: 0, 5: 1, 6: 1}))(thrift.Struct([(4, thrift.LIST, groups)]))
        footer.fields.append((4, kind, groups))

    return changed


def _show_another(footer: thrift.Struct) -> None:
    _in_columns(_honest)(footer)
    for _, _, value in footer.fields:
        if isinstance(value, thrift.List):
            value.shown = thrift.BINARY


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
