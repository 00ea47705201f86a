"""The submission file: what is written is read back to the token, and everything else is refused with words."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stannary.errors import Malformed
from stannary.rollout import MAX_SUBMISSION_BYTES, Rollout, content_hash, decode_group, encode_group
from stannary.thrift import BINARY, BOOL, I16, I32, I64, ListOf, Reader, Struct
from stannary.toploc import PROOF_BYTES
from tests.fuzz import thrift
from tests.fuzz.parquet import change_footer, column_metas, crowds, level_block, lies, put_fields, with_pages

tokens = st.lists(st.integers(-(2**31), 2**31 - 1), max_size=80).map(tuple)
rollouts = st.builds(
    Rollout, tokens, tokens, st.lists(st.binary(min_size=PROOF_BYTES, max_size=PROOF_BYTES), max_size=3).map(tuple)
)
GROUP = [Rollout((1, 2), (3, 4, 5), (b"p" * PROOF_BYTES,)), Rollout((1, 2), (6,), (b"q" * PROOF_BYTES,))]
INT_LIST = pa.list_(pa.field("element", pa.int32(), nullable=False))


def written(table: pa.Table, **options: object) -> bytes:
    sink = pa.BufferOutputStream()
    defaults: dict[str, object] = {"compression": "NONE", "use_dictionary": False, "store_schema": False}
    pq.write_table(table, sink, **{**defaults, **options})
    data: bytes = sink.getvalue().to_pybytes()
    return data


@settings(max_examples=50)
@given(st.lists(rollouts, min_size=1, max_size=6))
def test_group_survives_the_file(group: list[Rollout]) -> None:
    assert decode_group(encode_group(group), len(group)) == group


def test_content_hash_changes_with_one_byte() -> None:
    data = encode_group(GROUP)
    assert content_hash(data) != content_hash(data[:-1] + b"x")


def test_wrong_group_size_is_refused() -> None:
    with pytest.raises(Malformed, match="rows"):
        decode_group(encode_group(GROUP), 3)


def test_oversized_file_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(Malformed, match="submission"):
        decode_group(b"PAR1" + bytes(MAX_SUBMISSION_BYTES), 2)


@pytest.mark.parametrize(
    "columns",
    [
        {"prompt_tokens": INT_LIST, "completion_tokens": INT_LIST},
        {"prompt_tokens": INT_LIST, "completion_tokens": INT_LIST, "proof": pa.binary(), "reward": pa.float32()},
        {"completion_tokens": INT_LIST, "prompt_tokens": INT_LIST, "proof": pa.binary()},
        {"prompt_tokens": pa.list_(pa.int64()), "completion_tokens": INT_LIST, "proof": pa.binary()},
        {"prompt_tokens": pa.null(), "completion_tokens": INT_LIST, "proof": pa.binary()},
    ],
    ids=["missing", "extra", "reordered", "int64", "null typed"],
)
def test_other_schema_is_refused(columns: dict[str, pa.DataType]) -> None:
    fields = [pa.field(name, kind, nullable=kind == pa.null()) for name, kind in columns.items()]
    values = {"prompt_tokens": [1], "completion_tokens": [2], "proof": b"", "reward": 0.5}
    arrays = [pa.array([None if f.type == pa.null() else values[f.name]], f.type) for f in fields]
    with pytest.raises(Malformed, match=r"schema|footer"):
        decode_group(written(pa.table(arrays, schema=pa.schema(fields))), 1)


def read_by_arrow(data: bytes) -> pa.Table:
    return pq.read_table(pa.BufferReader(data))


def long_group(rows: int, longest: int, seed: int) -> list[Rollout]:
    """Return rollouts of all lengths up to the longest, some of them empty."""
    rng = np.random.default_rng(seed)
    proofs = [rng.bytes(PROOF_BYTES) for _ in range(4)]
    found = []
    for _ in range(rows):
        lengths = rng.choice([0, 1, longest // 2, longest, int(rng.integers(0, longest + 1))], 2)
        prompt, completion = (tuple(rng.integers(-(2**31), 2**31, length).tolist()) for length in lengths)
        found.append(Rollout(prompt, completion, tuple(proofs[: rng.integers(0, 5)])))
    return found


@pytest.mark.parametrize(
    ("rows", "longest", "seed"),
    [
        *[(rows, longest, rows) for rows in (1, 2, 3, 7, 8, 9, 31, 64, 127, 128) for longest in (0, 1, 2, 9, 65, 1000)],
        *[(rows, longest, rows) for rows in (1, 5, 40) for longest in (8_191, 32_767, 32_768)],
    ],
)
def test_group_reads_as_arrow_reads_it(rows: int, longest: int, seed: int) -> None:
    group = long_group(rows, longest, seed)
    data = encode_group(group)
    found = decode_group(data, rows)
    columns = read_by_arrow(data).to_pydict()
    assert found == group
    assert [list(rollout.prompt) for rollout in found] == columns["prompt_tokens"]
    assert [list(rollout.completion) for rollout in found] == columns["completion_tokens"]
    assert [b"".join(rollout.proofs) for rollout in found] == columns["proof"]


@pytest.mark.parametrize("rows", [1, 8, 128])
@pytest.mark.parametrize("length", [1, 7, 8, 9, 4096])
def test_group_of_equal_rollouts_reads_as_it_was(rows: int, length: int) -> None:
    group = [Rollout((1, 2), tuple(range(length)), (b"p" * PROOF_BYTES,))] * rows
    assert decode_group(encode_group(group), rows) == group


@pytest.mark.parametrize("page_bytes", [4_096, 10_000, 1 << 17])
def test_column_of_several_pages_is_read_and_a_row_may_lie_in_two(page_bytes: int) -> None:
    group = long_group(20, 3_000, 5)
    data = written(read_by_arrow(encode_group(group)), data_page_size=page_bytes)
    assert decode_group(data, 20) == group
    if page_bytes < 1 << 17:
        assert data.count(b"\x15\x00\x15") > 6  # page headers


@pytest.mark.parametrize(
    "options",
    [{"write_statistics": True}, {"version": "1.0"}, {"version": "2.4", "write_statistics": True}],
    ids=["statistics", "version 1", "older version with statistics"],
)
def test_statistics_and_the_version_make_no_difference(options: dict[str, object]) -> None:
    group = [Rollout((1, 2), (), (b"\0" * PROOF_BYTES,)), Rollout((1, 2), (6,), (b"\xff" * PROOF_BYTES,) * 20)]
    assert decode_group(written(read_by_arrow(encode_group(group)), **options), 2) == group


def test_who_wrote_the_file_makes_no_difference() -> None:
    for fields in ({6: b"another writer"}, {6: b""}, {}):
        data = change_footer(encode_group(GROUP), lambda footer, fields=fields: put_fields(footer, fields))  # type: ignore[misc]
        assert decode_group(data, 2) == GROUP


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"compression": "ZSTD"}, "column prompt_tokens: expected no compression"),
        ({"use_dictionary": True}, "column prompt_tokens: expected plain values without a dictionary"),
        ({"data_page_version": "2.0"}, "column prompt_tokens: expected no field of PageHeader but the known ones"),
        ({"write_page_checksum": True}, "column prompt_tokens: expected no field of PageHeader but the known ones"),
        ({"store_schema": True}, "footer: expected no field of FileMetaData but the known ones"),
        ({"write_page_index": True, "write_statistics": True}, "footer: expected no field of ColumnChunk but"),
        ({"row_group_size": 1}, "rows: expected 2 in one row group"),
        ({"column_encoding": {"proof": "DELTA_BYTE_ARRAY"}}, "column proof: expected plain values"),
    ],
)
def test_what_arrow_writes_otherwise_is_refused_with_words(options: dict[str, object], words: str) -> None:
    data = written(read_by_arrow(encode_group(GROUP)), **options)
    with pytest.raises(Malformed, match=words):
        decode_group(data, 2)


FOUR = [Rollout((1, 2), (3, 4, 5), (b"p" * PROOF_BYTES,))] * 4
EIGHTS = b"\x03\x55"
"""One packed run: 1, 0, 1, 0, 1, 0, 1, 0."""


@pytest.mark.parametrize(
    ("count", "repetition", "definition", "values"),
    [
        (4, b"\x08\x00", b"\x08\x01", 4),
        (5, b"\x03\x08", b"\x0a\x01", 5),
        (8, b"\x03\xaa", b"\x10\x01", 8),
        (4, b"\x02\x00" * 4, b"\x02\x00\x06\x01", 3),
        (4, b"\x08\x00", b"\x08\x00", 0),
    ],
    ids=["a token each", "two in one", "two each", "in many runs, one empty", "all empty"],
)
def test_levels_may_be_written_in_other_runs(count: int, repetition: bytes, definition: bytes, values: int) -> None:
    page = level_block(repetition) + level_block(definition) + bytes(4 * values)
    data = with_pages(encode_group(FOUR), 1, [(count, page)])
    found = [list(rollout.completion) for rollout in decode_group(data, 4)]
    assert found == read_by_arrow(data).column("completion_tokens").to_pylist()
    assert sum(map(len, found)) == values


@pytest.mark.parametrize(
    ("count", "repetition", "definition", "values", "words"),
    [
        (8, EIGHTS, b"\x10\x01", 8, "4 rows, the first at its start"),
        (5, b"\x0a\x00", b"\x0a\x01", 5, "4 rows"),
        (3, b"\x06\x00", b"\x06\x01", 3, "4 rows"),
        (8, b"\x03\xaa", b"\x03\x55", 4, "rows that are empty or full"),
        (8, b"\x03\xaa", b"\x03\xaa", 4, "rows that are empty or full"),
        (4, b"\x08\x00", b"\x08\x01", 5, "as many tokens as its levels say"),
        (4, b"\x08\x00", b"\x08\x01", 3, "as many tokens as its levels say"),
        (4, b"\x08\x00", b"\x08\x02", 4, "levels of 0 or 1"),
        (4, b"\x03\x10", b"\x08\x01", 4, "levels of 0 or 1, and 0 behind the last"),
        (4, b"\x05\x00\x00", b"\x08\x01", 4, "4 levels, got '16 at 0'"),
        (4, b"\x0a\x00", b"\x08\x01", 4, "4 levels, got '5 at 0'"),
        (4, b"\x00\x00\x08\x00", b"\x08\x01", 4, "4 levels, got '0 at 0'"),
        (4, b"\x01\x08\x00", b"\x08\x01", 4, "4 levels, got '0 at 0'"),
        (4, b"\x06\x00", b"\x08\x01", 4, "1 bytes more"),
        (4, b"\x08\x00\x00", b"\x08\x01", 4, "4 levels in few runs"),
        (4, b"\x88\x00\x00", b"\x08\x01", 4, "in as few bytes as it needs"),
        (4, b"", b"\x08\x01", 4, "1 bytes more"),
        (24, b"\x02\x00" * 4 + b"\x02\x01" * 20, b"\x02\x01" * 24, 24, ""),
        (50, b"\x02\x00" * 4 + b"\x02\x01" * 46, b"\x64\x01", 50, "50 levels in few runs"),
        (0, b"", b"", 0, "a page of 1 … 0 values"),
    ],
)
def test_levels_that_are_no_rows_are_refused(
    count: int, repetition: bytes, definition: bytes, values: int, words: str
) -> None:
    page = level_block(repetition) + level_block(definition) + bytes(4 * values)
    data = with_pages(encode_group(FOUR), 1, [(count, page)])
    if not words:
        assert len(decode_group(data, 4)[3].completion) == 21
        return
    with pytest.raises(Malformed, match=f"column completion_tokens: expected .*{words}"):
        decode_group(data, 4)


PROOF = b"\x02\x01\x00\x00" + b"q" * PROOF_BYTES


def test_proofs_may_lie_in_several_pages() -> None:
    data = with_pages(encode_group(FOUR), 2, [(1, PROOF), (3, PROOF * 2 + bytes(4))])
    assert [len(rollout.proofs) for rollout in decode_group(data, 4)] == [1, 1, 1, 0]


@pytest.mark.parametrize(
    "pages",
    [
        [(4, PROOF * 3)],
        [(4, PROOF * 4 + b"\0")],
        [(3, PROOF * 3)],
        [(5, PROOF * 5)],
        [(4, PROOF * 3 + b"\xff\xff\xff\xff")],
        [(2, PROOF * 2), (3, PROOF * 3)],
        [(1, PROOF)] * 3,
        [(4, PROOF * 4), (0, b"")],
        [],
    ],
)
def test_proof_column_that_does_not_hold_a_value_a_row_is_refused(pages: list[tuple[int, bytes]]) -> None:
    with pytest.raises(Malformed, match="column proof: expected"):
        decode_group(with_pages(encode_group(FOUR), 2, pages), 4)


def test_proof_of_another_length_has_a_name_of_its_own() -> None:
    data = encode_group([Rollout((1,), (2,), (b"p" * (PROOF_BYTES - 1),))])
    with pytest.raises(Malformed) as caught:
        decode_group(data, 1)
    assert caught.value.field == "proof"


def _columns(change: dict[int, object]) -> Callable[[thrift.Struct], None]:
    return lambda footer: put_fields(column_metas(footer)[1], change)


def _extra(footer: thrift.Struct) -> None:
    footer.fields.append((5, thrift.LIST, thrift.List(thrift.STRUCT, [])))
    footer.fields.sort(key=lambda field: field[0])


def _unknown(footer: thrift.Struct) -> None:
    footer.fields.append((40, thrift.I32, 1))


def _group_twice(footer: thrift.Struct) -> None:
    groups = next(value for number, _, value in footer.fields if number == 4)
    groups.values *= 2


def _no_group(footer: thrift.Struct) -> None:
    next(value for number, _, value in footer.fields if number == 4).values.clear()


def _no_schema(footer: thrift.Struct) -> None:
    footer.fields = [field for field in footer.fields if field[0] != 2]


@pytest.mark.parametrize(
    "change",
    [
        _columns({1: 6}),
        _columns({2: thrift.List(thrift.I32, [3, 0, 8])}),
        _columns({3: thrift.List(thrift.BINARY, [b"prompt_tokens", b"list", b"element"])}),
        _columns({4: 1}),
        _columns({4: -1}),
        _columns({5: 11}),
        _columns({5: -1}),
        _columns({6: 1}),
        _columns({7: -1, 6: -1}),
        _columns({7: 1 << 40, 6: 1 << 40}),
        _columns({7: 5, 6: 5}),
        _columns({9: 4}),
        _columns({9: -1}),
        _extra,
        _unknown,
        _group_twice,
        _no_group,
        _no_schema,
        lambda footer: put_fields(footer, {3: 3}),
        lambda footer: footer.fields.reverse(),
    ],
)
def test_footer_that_says_anything_else_is_refused(change: Callable[[thrift.Struct], None]) -> None:
    data = encode_group(FOUR)
    assert decode_group(change_footer(data, lambda _footer: None), 4) == FOUR
    with pytest.raises(Malformed):
        decode_group(change_footer(data, change), 4)


def test_bytes_that_belong_to_nothing_are_refused() -> None:
    data = encode_group(FOUR)
    length = int.from_bytes(data[-8:-4], "little")
    body, footer = data[: -8 - length], data[-8 - length : -8]
    for spoilt in (
        body + b"\0" + footer + data[-8:],
        body[:4] + b"\0" + body[4:] + footer + data[-8:],
        body + footer + b"\0" + (length + 1).to_bytes(4, "little") + b"PAR1",
    ):
        with pytest.raises(Malformed):
            decode_group(spoilt, 4)


CHILD = """
import json, resource, sys, time
from pathlib import Path
from stannary.errors import Malformed
from stannary.rollout import Rollout, decode_group, encode_group

def size(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name + ":"))

decode_group(encode_group([Rollout((1,), (2,), ())]), 1)
room = int(sys.argv[1])
found = {}
for path in sorted(Path(sys.argv[3]).iterdir()):
    data = path.read_bytes()
    Path("/proc/self/clear_refs").write_text("5")
    base = size("VmRSS")
    resource.setrlimit(resource.RLIMIT_AS, (size("VmSize") + room, resource.RLIM_INFINITY))
    start = time.process_time()
    try:
        decode_group(data, int(sys.argv[2]))
        what = "read"
    except Malformed as error:
        what = "refused"
    except MemoryError as error:
        what = "no memory"
    spent = time.process_time() - start
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    found[path.name] = [what, spent, size("VmHWM") - base]
print(json.dumps(found))
"""


def read_apart(
    folder: Path, files: dict[str, bytes], group_size: int, room_bytes: int
) -> dict[str, tuple[str, float, int]]:
    """Return what came of each file in another process, the processor time and the bytes that it took."""
    for name, data in files.items():
        (folder / name).write_bytes(data)
    command = [sys.executable, "-c", CHILD, str(room_bytes), str(group_size), str(folder)]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120, check=True)
    return {name: (what, spent, grown) for name, (what, spent, grown) in json.loads(done.stdout).items()}


def test_file_that_would_grow_is_refused_quickly_and_in_little_memory(tmp_path: Path) -> None:
    files = {**lies(64), **crowds(64, 8 << 20)}
    assert all(len(data) <= MAX_SUBMISSION_BYTES for data in files.values())
    found = read_apart(tmp_path, files, 64, 1 << 30)
    assert len(found) == len(files) == 16
    for name, (what, spent_s, grown_bytes) in found.items():
        assert (name, what) == (name, "refused")
        assert spent_s < 0.2, name
        assert grown_bytes < 64 << 20, name


def test_file_at_the_limit_is_read_in_time_and_memory_that_its_size_pays_for(tmp_path: Path) -> None:
    tokens = tuple(range(100_000, 110_000))
    group = [Rollout(tokens[:100], tokens, (b"p" * PROOF_BYTES,) * 313)] * 128
    data = encode_group(group)
    assert 14 << 20 < len(data) <= MAX_SUBMISSION_BYTES
    ((what, spent_s, grown_bytes),) = read_apart(tmp_path, {"whole": data}, 128, 1 << 30).values()
    assert what == "read"
    assert spent_s < 2
    assert grown_bytes < 160 << 20


def test_own_lack_of_memory_is_no_fault_of_the_file(tmp_path: Path) -> None:
    data = encode_group([Rollout((1,), tuple(range(100_000)), (b"p" * PROOF_BYTES,) * 3_000)] * 8)
    assert read_apart(tmp_path, {"whole": data}, 8, 4 << 20)["whole"][0] == "no memory"


def test_lack_of_memory_inside_numpy_is_no_fault_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object) -> None:
        raise MemoryError

    data = encode_group(GROUP)
    monkeypatch.setattr(np, "concatenate", fail)
    with pytest.raises(MemoryError):
        decode_group(data, 2)


INNER = Struct("inner", {1: ("flag", BOOL)}, {2: ("small", I16)})
OUTER = Struct(
    "outer",
    {1: ("number", I32), 3: ("name", BINARY), 4: ("inner", INNER)},
    {20: ("longs", ListOf(I64)), 21: ("inners", ListOf(INNER))},
)
SOUND = bytes([0x15, 2, 0x28, 1, 0x61, 0x1C, 0x11, 0, 0x09, 40, 0x26, 1, 2, 0x19, 0x1C, 0x12, 0, 0])


def test_struct_is_read_by_its_table() -> None:
    reader = Reader(SOUND + b"more", "sample")
    assert reader.struct(OUTER) == {
        "number": 1,
        "name": b"a",
        "inner": {"flag": True},
        "longs": [-1, 1],
        "inners": [{"flag": False}],
    }
    assert (reader.left, bytes(reader.take(4))) == (4, b"more")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "1 bytes more"),
        (SOUND[:-1], "1 bytes more"),
        (b"\x16" + SOUND[1:], "outer.number of its own type"),
        (b"\x11" + SOUND[2:], "outer.number of its own type"),
        (b"\x05\x02" + SOUND[1:], "in order, written shortly"),
        (SOUND[:2] + b"\x05\x02" + SOUND[1:], "in order, written shortly"),
        (SOUND[:2] + b"\x05\x82\x80\x08" + SOUND[1:], "a number of 16 bits"),
        (b"\x15\x82\x00" + SOUND[2:], "in as few bytes as it needs"),
        (b"\x15\xff\xff\xff\xff\x1f" + SOUND[2:], "a number of 32 bits"),
        (b"\x15\xff\xff\xff\xff\xff\x01" + SOUND[2:], "a number of 32 bits"),
        (b"\x25\x02" + SOUND[2:], "no field of outer but the known ones"),
        (b"\x15\x02\x28\x01a\x00", "outer with inner"),
        (SOUND.replace(b"\x28\x01\x61", b"\x28\x7f\x61"), "127 bytes more"),
        (SOUND.replace(b"\x28\x01\x61", b"\x28\xff\xff\xff\xff\x0f"), "a number of 31 bits"),
        (SOUND.replace(b"\x09\x28\x26", b"\x0a\x28\x26"), "outer.longs of its own type"),
        (SOUND.replace(b"\x09\x28\x26", b"\x09\x28\x25"), "a list of type 6 that fits"),
        (SOUND.replace(b"\x09\x28\x26", b"\x09\x28\xf6\x02"), "a list's length written shortly"),
        (SOUND.replace(b"\x09\x28\x26", b"\x09\x28\xf6\xff\xff\xff\xff\x07"), "a list of type 6 that fits"),
        (SOUND.replace(b"\x19\x1c", b"\x19\x18"), "a list of type 12 that fits"),
        (SOUND.replace(b"\x1c\x11\x00", b"\x1c\x13\x00"), "inner.flag of its own type"),
    ],
)
def test_struct_of_another_spelling_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(Malformed, match=f"sample: expected .*{words}"):
        Reader(data, "sample").struct(OUTER)


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.data())
def test_damaged_file_is_refused_or_read_but_never_crashes(data: st.DataObject) -> None:
    damaged = bytearray(encode_group(GROUP))
    for _ in range(data.draw(st.integers(1, 6))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(damaged)))
    for candidate in (bytes(damaged), bytes(damaged[:cut])):
        try:
            decode_group(candidate, 2)
        except Malformed:
            continue
