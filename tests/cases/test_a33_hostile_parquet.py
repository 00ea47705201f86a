"""A33: hostile and odd Parquet files are refused with words, in little memory, and the next good one is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stannary.confined import ConfinedReader, Limits
from stannary.environments import Environment
from stannary.errors import Confinement, Malformed
from stannary.rollout import MAX_SUBMISSION_BYTES, Rollout, encode_group
from stannary.token_rules import TokenRules
from stannary.toploc import PROOF_BYTES
from stannary.types import Outcome, Reason
from tests.fuzz import thrift
from tests.fuzz.parquet import change_footer, column_metas, level_block, put_fields, with_pages
from tests.stannary.planted_readers import PLANTED
from tests.validator.conftest import FACTS, RULES, Bench, bench, bf16, card, environment, fp32, judge, leaf_of, toy
from trainer.consume import Group, GroupRules, Read, score_group
from validator import checks
from validator.checks import PolicyFacts
from validator.finding import FINE, Finding

__all__ = ["bench", "bf16", "card", "environment", "fp32", "judge", "toy"]

TOKENS = pa.list_(pa.field("element", pa.int32(), nullable=False))
NAMES = ("prompt_tokens", "completion_tokens", "proof")
ROWS = RULES.group_size
BILLION = 10**9
SEED = FACTS.seeds.slot_seed(3)
POLICY = PolicyFacts(64, TokenRules(frozenset({1})))
GROWN_KB = 160 << 10
"""Most memory that the child may ever have had; it has half of that before the first file."""
Make = Callable[[list[Rollout]], bytes]
"""Makes a file of an honest group."""


def table(*columns: tuple[str, pa.DataType, list[Any]]) -> bytes:
    """Write columns as a worker would, whatever they are."""
    schema = pa.schema([pa.field(name, kind, nullable=False) for name, kind, _ in columns])
    found = pa.table([pa.array(values, kind) for _, kind, values in columns], schema=schema)
    return written(found)


def written(found: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    plain = {"compression": "NONE", "use_dictionary": False, "write_statistics": False, "store_schema": False}
    pq.write_table(found, sink, **(plain | options))
    data: bytes = sink.getvalue().to_pybytes()
    return data


def columns(group: list[Rollout]) -> list[tuple[str, pa.DataType, list[Any]]]:
    """Return an honest group as columns."""
    return [
        (NAMES[0], TOKENS, [list(rollout.prompt) for rollout in group]),
        (NAMES[1], TOKENS, [list(rollout.completion) for rollout in group]),
        (NAMES[2], pa.binary(), [b"".join(rollout.proofs) for rollout in group]),
    ]


def split(data: bytes) -> tuple[bytes, bytes]:
    """Return what stands before a footer, and the footer."""
    end = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    return data[:end], data[end:-8]


def joined(body: bytes, footer: bytes) -> bytes:
    return body + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def cut_short(group: list[Rollout]) -> bytes:
    body, footer = split(encode_group(group))
    return joined(body, footer[:-9])


def varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def bare(footer: thrift.Struct) -> None:
    """Leave out all that a footer need not have."""
    needed = {1, 2, 3, 4, 5, 6, 7, 9}
    footer.fields = [field for field in footer.fields if field[0] in {1, 2, 3, 4}]
    for meta in column_metas(footer):
        meta.fields = [field for field in meta.fields if field[0] in needed]


def claiming(_group: list[Rollout]) -> bytes:
    """Return 400 bytes that say they hold a billion tokens, each kind of level in one run."""
    run = varint(BILLION << 1)
    page = level_block(run + b"\x00") + level_block(run + b"\x01")
    data = with_pages(change_footer(encode_group([Rollout((), (), ())] * ROWS), bare), 1, [(BILLION, page)])
    assert len(data) < 420
    return data


def forged(column: dict[int, Any] | None = None, file: dict[int, Any] | None = None) -> Make:
    def change(footer: thrift.Struct) -> None:
        put_fields(column_metas(footer)[1], column or {})
        put_fields(footer, file or {})

    return lambda group: change_footer(encode_group(group), change)


def many_row_groups(count: int, said: int | None = None) -> Make:
    """Return a file with its row group so many times over, or one that says so."""

    def make(group: list[Rollout]) -> bytes:
        body, footer = split(change_footer(encode_group(group), bare))
        tree, _ = thrift.read(footer)
        (one,) = next(value for number, _, value in tree.fields if number == 4).values
        raw = thrift.write(one)
        start = footer.index(raw)
        assert footer[start - 1] == 1 << 4 | thrift.STRUCT
        head = bytes([0xF0 | thrift.STRUCT]) + varint(said or count)
        return joined(body, footer[: start - 1] + head + raw * count + footer[start + len(raw) :])

    return make


def disagreeing(group: list[Rollout]) -> bytes:
    """Return levels of four rows of two tokens, and seven tokens."""
    page = level_block(b"\x03\xaa") + level_block(b"\x10\x01") + bytes(4 * 7)
    return with_pages(encode_group(group), 1, [(8, page)])


def shorter(group: list[Rollout]) -> bytes:
    """Return a file whose completions are of three rows, where all else has four."""
    page = level_block(b"\x06\x00") + level_block(b"\x06\x01") + bytes(4 * 3)
    return with_pages(encode_group(group), 1, [(3, page)])


def with_token(token: int) -> Make:
    def make(group: list[Rollout]) -> bytes:
        last = group[-1]
        return encode_group([*group[:-1], Rollout(last.prompt, (token, *last.completion[1:]), last.proofs)])

    return make


def without_completions(group: list[Rollout]) -> bytes:
    return encode_group([Rollout(rollout.prompt, (), ()) for rollout in group])


FILES: dict[str, Make] = {
    "400 bytes that claim 10^9 values": claiming,
    "a footer cut off": lambda group: encode_group(group)[:-20],
    "a footer cut short": cut_short,
    "a footer longer than the file": lambda group: encode_group(group)[:-8] + b"\xff\xff\xff\x7fPAR1",
    "10^9 values said by a column": forged(column={5: BILLION}),
    "fewer values said by a column": forged(column={5: 1}),
    "10^9 bytes said by a column": forged(column={6: BILLION, 7: BILLION}),
    "10^6 rows said by the file": forged(file={3: 10**6}),
    "a column more": lambda group: table(*columns(group), ("advantage", pa.int32(), [1] * ROWS)),
    "a reward of NaN": lambda group: table(*columns(group), ("reward", pa.float32(), [float("nan")] * ROWS)),
    "a column missing": lambda group: table(*columns(group)[:2]),
    "columns in another order": lambda group: table(*columns(group)[::-1]),
    "a column twice": lambda group: table(*columns(group)[:1], *columns(group)),
    "tokens of 64 bits": lambda group: table((NAMES[0], pa.list_(pa.int64()), [[1]] * ROWS), *columns(group)[1:]),
    "tokens as floats": lambda group: table((NAMES[0], pa.list_(pa.float32()), [[1.0]] * ROWS), *columns(group)[1:]),
    "more tokens than there are": disagreeing,
    "lists for three of four rows": shorter,
    "10^6 row groups said": many_row_groups(1, said=10**6),
    "a hundred row groups": many_row_groups(100),
    "10^5 row groups": many_row_groups(10**5),
    "10^6 row groups": many_row_groups(10**6),
    "no rows": lambda _group: encode_group([]),
    "rows of nothing": lambda _group: encode_group([Rollout((), (), ())] * ROWS),
    "completions of nothing": without_completions,
    "a token id beyond the vocabulary": with_token(64),
    "a token id of -1": with_token(-1),
    "the largest token id": with_token(2**31 - 1),
}
SMALL_FOOTER = (Reason.SCHEMA, "submission: expected a Parquet file with a small footer, got b'")
COLUMNS = (Reason.SCHEMA, "schema: expected prompt_tokens, completion_tokens, proof, all required, no others, got [")
REFUSALS: dict[str, tuple[Reason, str]] = {
    "400 bytes that claim 10^9 values": (
        Reason.SCHEMA,
        "column completion_tokens: expected values that fit the file, got 1000000000",
    ),
    "a footer cut off": SMALL_FOOTER,
    "a footer cut short": (Reason.SCHEMA, "footer: expected "),
    "a footer longer than the file": SMALL_FOOTER,
    "10^9 values said by a column": (
        Reason.SCHEMA,
        "column completion_tokens: expected values that fit the file, got 1000000000",
    ),
    "fewer values said by a column": (Reason.SCHEMA, "column completion_tokens: expected a page of 1 … 1 values, got "),
    "10^9 bytes said by a column": (Reason.SCHEMA, "submission: expected 1000000000 bytes more, got "),
    "10^6 rows said by the file": (Reason.GROUP, "rows: expected 4 in one row group, got [1000000, 4]"),
    "a column more": COLUMNS,
    "a reward of NaN": COLUMNS,
    "a column missing": COLUMNS,
    "columns in another order": COLUMNS,
    "a column twice": COLUMNS,
    "tokens of 64 bits": COLUMNS,
    "tokens as floats": COLUMNS,
    "more tokens than there are": (
        Reason.SCHEMA,
        "column completion_tokens: expected as many tokens as its levels say, got '28 bytes'",
    ),
    "lists for three of four rows": (
        Reason.SCHEMA,
        "column completion_tokens: expected 4 rows, the first at its start, got ",
    ),
    "10^6 row groups said": (Reason.SCHEMA, "footer: expected a list of type 12 that fits, got '1000000 of type 12'"),
    "a hundred row groups": (Reason.GROUP, "rows: expected 4 in one row group, got [4, 4, 4, "),
    "10^5 row groups": SMALL_FOOTER,
    "10^6 row groups": (Reason.SIZE, f"submission: expected 12 … {MAX_SUBMISSION_BYTES} bytes, got "),
    "no rows": (Reason.GROUP, "rows: expected 4 in one row group, got [0"),
    "rows of nothing": (Reason.PROMPT, "prompt: expected the prompt of the slot, got ()"),
    "completions of nothing": (Reason.LENGTH, "completion: expected 1 … 48 tokens, got 0"),
    "a token id beyond the vocabulary": (Reason.TOKEN, "token: expected 0 … 63, got 64"),
    "a token id of -1": (Reason.TOKEN, "token: expected 0 … 63, got -1"),
    "the largest token id": (Reason.TOKEN, "token: expected 0 … 63, got 2147483647"),
}
"""The validator's reason, and the trainer's words; where the file itself is wrong, both say the same."""
OTHER_WORDS = {
    Reason.SIZE: f" bytes, at most {MAX_SUBMISSION_BYTES} are taken",
    Reason.PROMPT: "rollout 0: the slot's prompt has 5 tokens, this one 0; they differ from token 0 on",
    Reason.LENGTH: "rollout 0: 0 tokens, expected 1 … 48",
    Reason.TOKEN: ", expected 0 … 63",
}
"""The validator's words about files that are well-formed, or too large."""


@pytest.fixture(scope="module")
def reader() -> Iterator[ConfinedReader]:
    with ConfinedReader() as found:
        yield found


def validate(environment: Environment, data: bytes, read: Read) -> Finding:
    """Check a file as a validator does before it needs a model."""
    finding, rollouts = checks.check_file(data, leaf_of([], data=data).leaf, RULES, read)
    if not finding.is_fine:
        return finding
    found = (
        checks.check_prompt(rollouts, environment.problem(SEED).prompt),
        checks.check_lengths(rollouts, RULES),
        checks.check_tokens(rollouts, POLICY),
    )
    return next((each for each in found if not each.is_fine), FINE)


def learn(environment: Environment, data: bytes, read: Read) -> Group:
    """Read a file as the trainer does."""
    rules = GroupRules(ROWS, RULES.max_completion_tokens, POLICY.vocabulary)
    leaf = leaf_of([], data=data).leaf.submission
    return score_group(leaf, data, environment.problem(SEED), environment, rules, read)


def peak_kb(reader: ConfinedReader, name: str) -> int:
    lines = Path(f"/proc/{reader.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
@pytest.mark.parametrize("name", FILES)
def test_a33_file_is_refused_by_validator_and_trainer_and_the_next_is_taken(
    environment: Environment, reader: ConfinedReader, name: str
) -> None:
    prompt = environment.problem(SEED).prompt
    group = [Rollout(prompt, tuple(range(12, 20 + row)), (bytes(PROOF_BYTES),)) for row in range(ROWS)]
    data = FILES[name](group)
    reason, words = REFUSALS[name]
    finding = validate(environment, data, reader.decode_group)
    with pytest.raises(Malformed) as caught:
        learn(environment, data, reader.decode_group)
    assert finding.reason is reason
    assert finding.outcome is (Outcome.FAULT if reason is Reason.PROMPT else Outcome.REJECT)
    assert OTHER_WORDS.get(reason, words) in finding.explanation
    assert str(caught.value).startswith(words)
    assert caught.value.field
    assert caught.value.expected

    good = encode_group(group)
    assert validate(environment, good, reader.decode_group) == FINE
    learnt = learn(environment, good, reader.decode_group)
    assert [sample.completion for sample in learnt.samples] == [rollout.completion for rollout in group]
    assert (reader.counts.starts, reader.counts.failed) == (1, 0)
    assert peak_kb(reader, "VmHWM") < GROWN_KB
    assert peak_kb(reader, "VmPeak") << 10 < Limits().memory_bytes


@pytest.mark.parametrize(("deaths", "is_learnt"), [(0, True), (1, True), (2, False)])
def test_a33_child_that_dies_gives_no_verdict_and_the_trainer_reads_once_more(
    environment: Environment, reader: ConfinedReader, deaths: int, is_learnt: bool
) -> None:
    data = encode_group([Rollout(environment.problem(SEED).prompt, (12, 13), (bytes(PROOF_BYTES),))] * ROWS)
    left = [b"signal 9"] * deaths
    with ConfinedReader(parse=PLANTED) as dying:

        def read(data: bytes, group_size: int) -> list[Rollout]:
            return dying.decode_group(left.pop(), group_size) if left else reader.decode_group(data, group_size)

        if is_learnt:
            assert len(learn(environment, data, read).samples) == ROWS
        else:
            with pytest.raises(Confinement, match="SIGKILL"):
                learn(environment, data, read)
        assert dying.counts.failed == deaths
        left.append(b"signal 9")
        with pytest.raises(Confinement, match="SIGKILL"):
            validate(environment, data, read)
    assert validate(environment, data, reader.decode_group) == FINE


def test_a33_judge_refuses_each_with_its_reason_and_accepts_the_honest_one_after_them(bench: Bench) -> None:
    for name, make in FILES.items():
        data = make(bench.rollouts)
        reason, words = REFUSALS[name]
        paid = [] if reason in (Reason.PROMPT, Reason.LENGTH) else bench.rollouts
        finding = bench.judge.judge(leaf_of(paid, data=data).leaf, data).finding
        assert (name, finding.reason) == (name, reason)
        assert finding.outcome is (Outcome.FAULT if reason is Reason.PROMPT else Outcome.REJECT), name
        assert OTHER_WORDS.get(reason, words) in finding.explanation, name
    assert bench.verdict(bench.rollouts).finding.is_fine
