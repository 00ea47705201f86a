"""The submission file: what is written is read back to the token, and everything else is refused with words."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stannary.errors import Malformed
from stannary.rollout import MAX_SUBMISSION_BYTES, Rollout, content_hash, decode_group, encode_group
from stannary.toploc import PROOF_BYTES

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
    with pytest.raises(Malformed, match=r"schema|readable"):
        decode_group(written(pa.table(arrays, schema=pa.schema(fields))), 1)


def test_compressed_column_is_refused() -> None:
    table = pq.read_table(pa.BufferReader(encode_group(GROUP)))
    with pytest.raises(Malformed, match=r"column|schema"):
        decode_group(written(table, compression="ZSTD"), 2)


def test_file_that_grows_when_it_is_read_is_refused() -> None:
    table = pq.read_table(pa.BufferReader(encode_group([Rollout((1,), (2,), (b"p" * PROOF_BYTES * 40,))] * 64)))
    with pytest.raises(Malformed, match="plain values"):
        decode_group(written(table, use_dictionary=True), 64)


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
