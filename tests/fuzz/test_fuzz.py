"""A short run over every parser that strangers' bytes reach, and tests that the fuzzer sees what it is for."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fuzz import planted, thrift
from tests.fuzz.__main__ import LEAST_INPUTS, report, share_out
from tests.fuzz.engine import Failure, Tally, Target, input_of, judge, run_apart, run_here
from tests.fuzz.mutate import MAX_BYTES, mutated
from tests.fuzz.parquet import bombs as parquet_bombs
from tests.fuzz.targets import BOMBS_SOURCE, GROUP_SIZE, all_targets

SEED = 20_260
INPUTS = 400
"""Of each target; a long run (`python -m tests.fuzz`) has a million in all."""


@pytest.mark.parametrize("target", all_targets().values(), ids=lambda target: target.name)
def test_any_bytes_give_a_value_or_the_documented_error(target: Target) -> None:
    tally = run_here(target, INPUTS, SEED)
    assert tally.failures == []
    assert tally.inputs == tally.accepted + tally.refused == INPUTS


@pytest.mark.parametrize("target", all_targets().values(), ids=lambda target: target.name)
def test_first_sample_of_each_target_is_valid_so_that_mutations_reach_what_lies_behind(target: Target) -> None:
    if target.name == "address":  # no machine resolves names here
        return
    is_accepted, _, wrong = judge(target, target.seeds[0])
    assert (is_accepted, wrong) == (True, "")


@pytest.mark.parametrize("target", all_targets().values(), ids=lambda target: target.name)
def test_inputs_are_the_same_for_the_same_seed_and_others_for_another(target: Target) -> None:
    first = [input_of(target, 1, index) for index in range(len(target.seeds), len(target.seeds) + 40)]
    assert first == [input_of(target, 1, index) for index in range(len(target.seeds), len(target.seeds) + 40)]
    assert first != [input_of(target, 2, index) for index in range(len(target.seeds), len(target.seeds) + 40)]
    assert len(set(first)) > 20


@pytest.mark.parametrize("kind", ["bytes", "json", "parquet", "safetensors"])
def test_mutations_of_anything_at_all_stay_within_the_bound(kind: str) -> None:
    rng = random.Random(1)
    samples = [b"", b"\0", b"PAR1" * 4, b'{"a":[1,{"b":"c"}]}', rng.randbytes(3000)]
    found = [mutated(kind, random.Random(index), samples) for index in range(400)]
    assert max(map(len, found)) <= MAX_BYTES
    assert min(map(len, found)) == 0


def test_parquet_bombs_are_read_or_refused_within_the_bounds_of_time_and_memory(tmp_path: Path) -> None:
    bombs = len(parquet_bombs(GROUP_SIZE, 1 << 16))
    tally = run_apart(BOMBS_SOURCE, "submission", bombs, SEED, tmp_path)
    assert tally.failures == []
    assert (tally.inputs, tally.accepted) == (bombs, 1)
    assert tally.slowest_s < 0.5
    assert 16 << 20 < tally.grown_bytes <= tally.growth_limit_bytes == 64 << 20


def test_footer_of_a_submission_is_written_as_it_was_read() -> None:
    for data in all_targets()["submission"].seeds:
        length = int.from_bytes(data[-8:-4], "little")
        footer = data[-8 - length : -8]
        tree, read = thrift.read(footer)
        assert (read, thrift.write(tree)) == (length, footer)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("crash", "crash: exit -11"),
        ("exit", "crash: exit 7"),
        ("hang", "hang"),
        ("slow", "slow"),
        ("memory", "wrong exception: MemoryError at tests/fuzz/planted.py"),
        ("swallowed", "wrong exception: MemoryError behind Malformed at tests/fuzz/planted.py"),
        ("wrong", "wrong exception: KeyError at tests/fuzz/planted.py"),
    ],
)
def test_planted_fault_is_found_its_input_kept_and_the_run_goes_on(tmp_path: Path, name: str, what: str) -> None:
    hang_s = 3.0 if name == "hang" else 60.0
    tally = run_apart(planted.SOURCE, name, 50, SEED, tmp_path, hang_s=hang_s)
    (failure,) = tally.failures
    assert (failure.target, failure.index, failure.count) == (name, 0, 1)
    assert failure.what.startswith(what)
    assert Path(failure.file).read_bytes() == planted.BAD
    assert tally.inputs in (49, 50)
    assert tally.accepted >= 49


def test_parser_that_keeps_its_contract_has_no_failures(tmp_path: Path) -> None:
    tally = run_apart(planted.SOURCE, "good", 300, SEED, tmp_path)
    assert (tally.inputs, tally.accepted, tally.refused, tally.failures) == (300, 299, 1, [])
    assert list(tmp_path.iterdir()) == []


def test_growth_of_a_process_is_measured(tmp_path: Path) -> None:
    tally = run_apart("tests.fuzz.planted:growing_targets", "growing", 10, SEED, tmp_path)
    assert tally.failures == []
    assert 150 << 20 <= tally.grown_bytes <= 400 << 20


def test_parser_that_grows_beyond_its_limit_fails(tmp_path: Path) -> None:
    tally = run_apart("tests.fuzz.planted:growing_targets", "too far", 10, SEED, tmp_path)
    (failure,) = tally.failures
    assert failure.what.startswith("growth: ")
    assert failure.what.endswith(" MiB, at most 100 MiB")
    assert report([tally], SEED)["figures"]["grown beyond their limit"]["met"] is False


def test_lack_of_memory_is_a_failure_whatever_it_is_called() -> None:
    def fail(data: bytes) -> None:
        try:
            raise MemoryError
        except MemoryError:
            raise ValueError("a bad input") from None

    target = Target("x", fail, (ValueError, MemoryError), (b"",))
    assert judge(target, b"")[2].startswith("wrong exception: MemoryError behind ValueError")


def test_inputs_are_shared_out_by_weight_and_each_target_has_its_least() -> None:
    targets = all_targets()
    shares = share_out(1_000_000, targets)
    assert sum(shares.values()) == 1_000_000
    assert min(shares.values()) >= LEAST_INPUTS
    assert shares["submission"] > shares["document"] > shares["consent"]
    assert sum(share_out(1000, targets).values()) == 1000
    assert share_out(500, targets, ["proof"]) == {"proof": 500}


def test_report_misses_its_targets_for_any_failure() -> None:
    tally = Tally("x", inputs=1_000_000, accepted=1, refused=999_999, wall_s=1.0)
    clean = report([tally], 1)["figures"]
    assert all(entry.get("met", True) for entry in clean.values())
    tally.failures.append(Failure("x", 3, "crash: exit -11", "x.bin", 2))
    figures = report([tally], 1)["figures"]
    assert figures["crashes"] == {"value": 2, "unit": "inputs", "target": "== 0", "met": False}
    tally.grown_bytes = 800 << 20
    assert report([tally], 1)["figures"]["largest growth"]["met"] is False


def _submission_of_codec(codec: int) -> bytes:
    data = all_targets()["submission"].seeds[0]
    length = int.from_bytes(data[-8:-4], "little")
    tree, _ = thrift.read(data[-8 - length : -8])
    (group,) = next(value for number, _, value in tree.fields if number == 4).values
    chunk = next(value for number, _, value in group.fields if number == 1).values[0]
    column = next(value for number, _, value in chunk.fields if number == 3)
    column.fields = [(number, kind, codec if number == 4 else value) for number, kind, value in column.fields]
    footer = thrift.write(tree)
    return data[: -8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def _wrong_dtype() -> bytes:
    header = b'{"a":{"dtype":[],"shape":[],"data_offsets":[0,0]}}'
    return len(header).to_bytes(8, "little") + header


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("submission", lambda: _submission_of_codec(255)),
        ("document", lambda: b'{"' + b"k" * 500_000 + b'":[' + b"0," * 200_000 + b"0]}"),
        ("safetensors", _wrong_dtype),
        ("tokenizer", lambda: b"{}"),
        ("location", lambda: b"http://example.org/\xff"),
        ("consent", lambda: b"[" * 120_000),
        ("shape-generation", lambda: b"[" * 120_000),
        ("config", lambda: b'{"a":"' + b" " * (1 << 21) + b'"}'),
        ("answer-StepsOut", lambda: b'{"steps":[' + b"{}," * 300_000 + b"{}]}"),
        ("answer-StepOut", lambda: b"{" + b",".join(b'"%x":0' % index for index in range(100_000)) + b"}"),
    ],
)
def test_input_that_once_broke_its_parser_is_handled(name: str, data: Callable[[], bytes]) -> None:
    assert judge(all_targets()[name], data())[2] == ""
