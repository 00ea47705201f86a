"""The submission file: one group of rollouts with its proofs, as Parquet, named by its BLAKE3 hash.

One row a rollout, one row group, three columns, no compression, no nulls, nothing else. The file carries no reward, no
advantage and no length: whatever a worker could profit from is recomputed by others.

pyarrow writes it. Strangers' files are read here, in this one form of Parquet's many, so that nothing grows beyond what
the file's own bytes pay for, and all who read a file read the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from blake3 import blake3

from stannary.errors import Malformed
from stannary.thrift import BINARY, BOOL, I16, I32, I64, ListOf, Reader, Struct
from stannary.toploc.proof import PROOF_BYTES
from stannary.types import Hash

MAX_SUBMISSION_BYTES = 16 << 20
_MAGIC = b"PAR1"
_FOOTER_LIMIT_BYTES = 1 << 16
_MAX_PAGES = 64
"""Of a column; Arrow begins another after 1 MiB of tokens."""
_RUNS_A_ROW = 8
"""Levels change twice a row at most, and a change costs a run of equal ones and one of mixed ones."""

# What a submission may hold of Parquet's own definition (apache/parquet-format, parquet.thrift), by its numbers there.

_INT32, _BYTE_ARRAY = 1, 6
_REQUIRED, _REPEATED = 0, 2
_CONVERTED_LIST = 3
_UNCOMPRESSED = 0
_DATA_PAGE = 0
_PLAIN, _RLE = 0, 3
_EMPTY = Struct("an empty struct", {})
_ELEMENT = Struct(
    "SchemaElement",
    {4: ("name", BINARY)},
    {
        1: ("type", I32),
        3: ("repetition_type", I32),
        5: ("num_children", I32),
        6: ("converted_type", I32),
        10: ("logicalType", Struct("LogicalType", {3: ("LIST", _EMPTY)})),
    },
)
_STATISTICS = Struct(
    "Statistics",
    {},
    {
        1: ("max", BINARY),
        2: ("min", BINARY),
        3: ("null_count", I64),
        4: ("distinct_count", I64),
        5: ("max_value", BINARY),
        6: ("min_value", BINARY),
        7: ("is_max_value_exact", BOOL),
        8: ("is_min_value_exact", BOOL),
    },
)
_SIZE_STATISTICS = Struct(
    "SizeStatistics",
    {},
    {
        1: ("unencoded_byte_array_data_bytes", I64),
        2: ("repetition_level_histogram", ListOf(I64)),
        3: ("definition_level_histogram", ListOf(I64)),
    },
)
_PAGES_OF_A_KIND = Struct("PageEncodingStats", {1: ("page_type", I32), 2: ("encoding", I32), 3: ("count", I32)})
_COLUMN = Struct(
    "ColumnMetaData",
    {
        1: ("type", I32),
        2: ("encodings", ListOf(I32)),
        3: ("path_in_schema", ListOf(BINARY)),
        4: ("codec", I32),
        5: ("num_values", I64),
        6: ("total_uncompressed_size", I64),
        7: ("total_compressed_size", I64),
        9: ("data_page_offset", I64),
    },
    {
        11: ("dictionary_page_offset", I64),
        12: ("statistics", _STATISTICS),
        13: ("encoding_stats", ListOf(_PAGES_OF_A_KIND)),
        16: ("size_statistics", _SIZE_STATISTICS),
    },
)
_CHUNK = Struct("ColumnChunk", {2: ("file_offset", I64), 3: ("meta_data", _COLUMN)})
_ROW_GROUP = Struct(
    "RowGroup",
    {1: ("columns", ListOf(_CHUNK)), 2: ("total_byte_size", I64), 3: ("num_rows", I64)},
    {5: ("file_offset", I64), 6: ("total_compressed_size", I64), 7: ("ordinal", I16)},
)
_FILE = Struct(
    "FileMetaData",
    {
        1: ("version", I32),
        2: ("schema", ListOf(_ELEMENT)),
        3: ("num_rows", I64),
        4: ("row_groups", ListOf(_ROW_GROUP)),
    },
    {
        6: ("created_by", BINARY),
        7: ("column_orders", ListOf(Struct("ColumnOrder", {1: ("TYPE_ORDER", _EMPTY)}))),
    },
)
_DATA = Struct(
    "DataPageHeader",
    {
        1: ("num_values", I32),
        2: ("encoding", I32),
        3: ("definition_level_encoding", I32),
        4: ("repetition_level_encoding", I32),
    },
    {5: ("statistics", _STATISTICS)},
)
_PAGE = Struct(
    "PageHeader",
    {
        1: ("type", I32),
        2: ("uncompressed_page_size", I32),
        3: ("compressed_page_size", I32),
        5: ("data_page_header", _DATA),
    },
)
_ROOT = {"name": b"schema", "repetition_type": _REQUIRED, "num_children": 3}
_LIST = {
    "repetition_type": _REQUIRED,
    "num_children": 1,
    "converted_type": _CONVERTED_LIST,
    "logicalType": {"LIST": {}},
}
_INSIDE_LIST = (
    {"name": b"list", "repetition_type": _REPEATED, "num_children": 1},
    {"name": b"element", "type": _INT32, "repetition_type": _REQUIRED},
)
_ELEMENTS = [
    _ROOT,
    {"name": b"prompt_tokens", **_LIST},
    *_INSIDE_LIST,
    {"name": b"completion_tokens", **_LIST},
    *_INSIDE_LIST,
    {"name": b"proof", "type": _BYTE_ARRAY, "repetition_type": _REQUIRED},
]
"""The schema as it stands in the footer: a tree in the order of its writing."""
_PATHS = [[b"prompt_tokens", b"list", b"element"], [b"completion_tokens", b"list", b"element"], [b"proof"]]


@dataclass(frozen=True, slots=True)
class Rollout:
    """One completion of a prompt with the proofs of its generation."""

    prompt: tuple[int, ...]
    completion: tuple[int, ...]
    proofs: tuple[bytes, ...]
    """One proof of 258 bytes a chunk of 32 completion tokens."""


def encode_group(rollouts: Sequence[Rollout]) -> bytes:
    """Return the submission file of a group."""
    import pyarrow as pa  # 40 MiB that a reader of files has no use for
    import pyarrow.parquet as pq

    tokens = pa.list_(pa.field("element", pa.int32(), nullable=False))
    columns = {
        "prompt_tokens": (tokens, [list(rollout.prompt) for rollout in rollouts]),
        "completion_tokens": (tokens, [list(rollout.completion) for rollout in rollouts]),
        "proof": (pa.binary(), [b"".join(rollout.proofs) for rollout in rollouts]),
    }
    table = pa.table(
        [pa.array(values, kind) for kind, values in columns.values()],
        schema=pa.schema([pa.field(name, kind, nullable=False) for name, (kind, _) in columns.items()]),
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="NONE", use_dictionary=False, write_statistics=False, store_schema=False)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def decode_group(data: bytes, group_size: int) -> list[Rollout]:
    """Read a submission file strictly.

    Raises: Malformed if it is too large, is not exactly of this form, or does not hold `group_size` rows.
    """
    if not 12 <= len(data) <= MAX_SUBMISSION_BYTES:
        raise Malformed("submission", expected=f"12 … {MAX_SUBMISSION_BYTES} bytes", got=len(data))
    footer_bytes = int.from_bytes(data[-8:-4], "little")
    if data[:4] != _MAGIC or data[-4:] != _MAGIC or footer_bytes > min(_FOOTER_LIMIT_BYTES, len(data) - 12):
        raise Malformed("submission", expected="a Parquet file with a small footer", got=data[-8:])
    end = len(data) - 8 - footer_bytes
    footer = Reader(memoryview(data)[end:-8], "footer")
    columns = _columns(footer.struct(_FILE), group_size)
    if footer.left:
        raise footer.wrong("nothing after its struct", f"{footer.left} bytes")
    file = Reader(memoryview(data)[:end], "submission")
    file.take(len(_MAGIC))
    prompts, completions = (_token_lists(file, column, group_size) for column in columns[:2])
    proofs = _byte_arrays(file, columns[2], group_size)
    if file.left:
        raise file.wrong("nothing between its columns and its footer", f"{file.left} bytes")
    return [_rollout(*row) for row in zip(prompts, completions, proofs, strict=True)]


def content_hash(data: bytes) -> Hash:
    """Return the BLAKE3 hash that names a file."""
    return Hash(blake3(data).digest())


def _columns(file: dict[str, Any], group_size: int) -> list[dict[str, Any]]:
    """Return the metadata of the three columns. Raises: Malformed if the footer describes anything else."""
    if file["schema"] != _ELEMENTS:
        names = [element["name"] for element in file["schema"]]
        raise Malformed(
            "schema", expected="prompt_tokens, completion_tokens, proof, all required, no others", got=names
        )
    rows = [file["num_rows"], *(group["num_rows"] for group in file["row_groups"])]
    if rows != [group_size, group_size]:
        raise Malformed("rows", expected=f"{group_size} in one row group", got=rows)
    columns: list[dict[str, Any]] = [chunk["meta_data"] for chunk in file["row_groups"][0]["columns"]]
    if [column["path_in_schema"] for column in columns] != _PATHS:
        raise Malformed("columns", expected="those of the schema in the row group", got=len(columns))
    for column, kind in zip(columns, (_INT32, _INT32, _BYTE_ARRAY), strict=True):
        name, codec, encodings = _name(column), column["codec"], column["encodings"]
        if codec != _UNCOMPRESSED or column["total_uncompressed_size"] != column["total_compressed_size"]:
            raise Malformed(name, expected="no compression", got=f"codec {codec}")
        if column["type"] != kind or "dictionary_page_offset" in column or not {_PLAIN, _RLE}.issuperset(encodings):
            raise Malformed(name, expected="plain values without a dictionary", got=f"encodings {encodings}")
    return columns


def _name(column: dict[str, Any]) -> str:
    return f"column {column['path_in_schema'][0].decode()}"


def _pages(file: Reader, column: dict[str, Any]) -> Iterator[tuple[int, Reader]]:
    """Yield the number of values and the bytes of each page of the column that begins here.

    Raises: Malformed unless plain data pages fill exactly the place that the footer gives the column.
    """
    name, values_left = _name(column), column["num_values"]
    if column["data_page_offset"] != file.at:
        raise Malformed(name, expected=f"to begin at {file.at}", got=column["data_page_offset"])
    chunk = file.part(column["total_compressed_size"], name)
    for _ in range(_MAX_PAGES):
        page = chunk.struct(_PAGE)
        data, size_bytes = page["data_page_header"], page["compressed_page_size"]
        if (page["type"], data["encoding"]) != (_DATA_PAGE, _PLAIN) or page["uncompressed_page_size"] != size_bytes:
            raise chunk.wrong("plain data pages without compression", page)
        if (data["definition_level_encoding"], data["repetition_level_encoding"]) != (_RLE, _RLE):
            raise chunk.wrong("levels in runs", page)
        if not 1 <= data["num_values"] <= values_left:
            raise chunk.wrong(f"a page of 1 … {values_left} values", data["num_values"])
        values_left -= data["num_values"]
        yield data["num_values"], chunk.part(size_bytes, name)
        if not chunk.left:
            break
    if chunk.left or values_left:
        raise chunk.wrong(f"{column['num_values']} values in at most {_MAX_PAGES} pages", f"{values_left} fewer")


def _token_lists(file: Reader, column: dict[str, Any], rows: int) -> list[tuple[int, ...]]:
    """Return the rows of a column of lists. Raises: Malformed if it is none, or has more or fewer rows.

    Each entry has two levels: its repetition is 0 where a row begins, its definition 0 where that row is empty.
    """
    if column["num_values"] > column["total_compressed_size"] // 4 + rows:
        raise Malformed(_name(column), expected="values that fit the file", got=column["num_values"])
    pages = []
    for count, page in _pages(file, column):
        levels = _levels(page, count, rows), _levels(page, count, rows)
        if page.left != 4 * np.count_nonzero(levels[1]):
            raise page.wrong("as many tokens as its levels say", f"{page.left} bytes")
        pages.append((*levels, np.frombuffer(page.take(page.left), "<i4")))
    repetition, definition, tokens = (np.concatenate(parts) for parts in zip(*pages, strict=True))
    begun = len(repetition) - np.count_nonzero(repetition)
    if repetition[0] or begun != rows:
        raise Malformed(_name(column), expected=f"{rows} rows, the first at its start", got=int(begun))
    starts = np.flatnonzero(repetition == 0)
    entries = np.diff(starts, append=len(repetition))
    is_empty = definition[starts] == 0
    if (entries[is_empty] != 1).any() or len(tokens) + np.count_nonzero(is_empty) != len(repetition):
        raise Malformed(_name(column), expected="rows that are empty or full", got=f"{len(tokens)} tokens")
    ends = np.cumsum(entries - is_empty).tolist()
    return [tuple(tokens[start:end].tolist()) for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def _levels(page: Reader, count: int, rows: int) -> npt.NDArray[np.uint8]:
    """Return levels of one bit each, stored as runs of an equal one, and of eights packed into bytes.

    Raises: Malformed if there are more or fewer, or in more runs than so many rows need.
    """
    block = page.part(int.from_bytes(page.take(4), "little"), page.what)
    levels, at = np.empty(count, np.uint8), 0
    for _ in range(_RUNS_A_ROW * (rows + 1)):
        head, left = block.varint(32), count - at
        is_packed = head & 1
        length = (head >> 1) * (8 if is_packed else 1)
        if not 1 <= length <= left + 7 * is_packed:
            raise block.wrong(f"{count} levels", f"{length} at {at}")
        if is_packed:
            bits = np.unpackbits(np.frombuffer(block.take(head >> 1), np.uint8), bitorder="little")
            levels[at : at + length] = bits[:left]
            is_known = not bits[left:].any()
        else:
            levels[at : at + length] = level = block.take(1)[0]
            is_known = level <= 1
        if not is_known:
            raise block.wrong("levels of 0 or 1, and 0 behind the last", f"others in the run at {at}")
        at += length
        if at >= count:
            break
    if at < count or block.left:
        raise block.wrong(f"{count} levels in few runs", f"{at}, and {block.left} bytes behind them")
    return levels


def _byte_arrays(file: Reader, column: dict[str, Any], rows: int) -> list[bytes]:
    """Return the rows of a column of bytes. Raises: Malformed if it is none, or has more or fewer rows."""
    if column["num_values"] != rows:
        raise Malformed(_name(column), expected=f"{rows} values", got=column["num_values"])
    found = []
    for count, page in _pages(file, column):
        found += [bytes(page.take(int.from_bytes(page.take(4), "little"))) for _ in range(count)]
        if page.left:
            raise page.wrong("nothing behind its values", f"{page.left} bytes")
    return found


def _rollout(prompt: tuple[int, ...], completion: tuple[int, ...], proof: bytes) -> Rollout:
    if len(proof) % PROOF_BYTES:
        raise Malformed("proof", expected=f"a multiple of {PROOF_BYTES} bytes", got=len(proof))
    proofs = tuple(proof[start : start + PROOF_BYTES] for start in range(0, len(proof), PROOF_BYTES))
    return Rollout(prompt, completion, proofs)
