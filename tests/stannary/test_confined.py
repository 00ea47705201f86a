"""Files read in a process with limits: the same answers, and whatever becomes of that process is no verdict."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from stannary.confined import ConfinedReader, Limits
from stannary.confined_child import ANSWER, GROUP, LENGTHS, REFUSED, TEXT, TEXT_BYTES, TEXT_CHARACTERS
from stannary.errors import Confinement, Malformed
from stannary.rollout import MAX_SUBMISSION_BYTES, PROOF_BYTES, Rollout, decode_group, encode_group
from tests.fuzz.engine import input_of
from tests.fuzz.parquet import bombs
from tests.fuzz.targets import GROUP_SIZE, all_targets
from tests.stannary.planted_readers import PLANTED

ROOT = Path(__file__).resolve().parents[2]
SEED = 4711
INPUTS = 1500
RESTARTS = 200
TIGHT = Limits(memory_bytes=256 << 20, cpu_s=1, wall_s=20, start_s=60)
FILE = b"a good file"
"""To the planted readers."""
needs_proc = pytest.mark.skipif(not Path("/proc/self/limits").exists(), reason="needs Linux")


@pytest.fixture(scope="module")
def reader() -> Iterator[ConfinedReader]:
    with ConfinedReader() as found:
        yield found


@pytest.fixture
def planted() -> Iterator[ConfinedReader]:
    with ConfinedReader(TIGHT, PLANTED) as found:
        yield found


def expected(data: bytes, group_size: int) -> list[Rollout]:
    """Return what the planted reader makes of a file."""
    return [Rollout((), (zlib.crc32(data) >> 1,), ())] * group_size


def outcome(read: Callable[[bytes, int], list[Rollout]], data: bytes, group_size: int) -> object:
    """Return all that a caller may see of a reading."""
    try:
        return read(data, group_size)
    except Malformed as error:
        return error.field, error.expected, repr(error.got)[:TEXT_CHARACTERS], str(error)


def memory_kb(pid: int | None, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name + ":"))


def is_gone(pid: int) -> bool:
    """Whether a process has ended, within some seconds."""
    deadline = time.monotonic() + 20
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


# -- the same answers


@pytest.mark.parametrize(
    "group",
    [
        [Rollout((1, 2), (3, 4, 5), (b"p" * PROOF_BYTES,)), Rollout((1, 2), (6,), (b"q" * PROOF_BYTES, b"r" * 258))],
        [Rollout((), (), ())] * 3,
        [Rollout((2**31 - 1,), (-(2**31), -1, 0), ())],
        [Rollout((), (7,) * 5000, (b"\0" * PROOF_BYTES,) * 157), Rollout((8,) * 40, (), ())] * 20,
    ],
)
def test_group_is_read_as_by_the_parser_itself(reader: ConfinedReader, group: list[Rollout]) -> None:
    found = reader.decode_group(encode_group(group), len(group))
    assert found == group
    assert {type(part) for rollout in found for part in (*rollout.proofs, rollout.prompt)} <= {bytes, tuple}
    assert {type(token) for rollout in found for token in rollout.prompt + rollout.completion} <= {int}


def test_generated_files_good_and_hostile_give_the_same_answers_and_errors(reader: ConfinedReader) -> None:
    target = all_targets()["submission"]
    kinds = {list: 0, tuple: 0}
    for index in range(INPUTS):
        data = input_of(target, SEED, index)
        direct = outcome(decode_group, data, GROUP_SIZE)
        assert outcome(reader.decode_group, data, GROUP_SIZE) == direct, index
        kinds[type(direct)] += 1
    assert kinds[list] > 20
    assert kinds[tuple] > 1000
    assert reader.counts.starts == 1


@needs_proc
def test_files_that_would_grow_give_the_same_answers_in_little_memory(reader: ConfinedReader) -> None:
    for data in bombs(GROUP_SIZE, MAX_SUBMISSION_BYTES // 4):
        assert outcome(reader.decode_group, data, GROUP_SIZE) == outcome(decode_group, data, GROUP_SIZE)
    assert reader.counts.starts == 1
    assert memory_kb(reader.pid, "VmHWM") < 256 << 10


@needs_proc
def test_file_at_the_limit_is_read_with_half_of_the_memory_to_spare(reader: ConfinedReader) -> None:
    tokens = tuple(range(100_000, 100_000 + MAX_SUBMISSION_BYTES // 16 - 2000))
    group = [Rollout((1,), tokens, (b"p" * PROOF_BYTES,))] * 4
    data = encode_group(group)
    assert 15 << 20 < len(data) <= MAX_SUBMISSION_BYTES
    for _ in range(3):
        assert reader.decode_group(data, 4) == group
    assert reader.counts.starts == 1
    assert memory_kb(reader.pid, "VmPeak") << 10 < 0.6 * Limits().memory_bytes


def test_oversized_file_is_refused_without_a_process() -> None:
    data = b"PAR1" + bytes(MAX_SUBMISSION_BYTES)
    with ConfinedReader() as reader:
        assert outcome(reader.decode_group, data, 2) == outcome(decode_group, data, 2)
        assert (reader.pid, reader.counts.starts) == (None, 0)


def test_error_of_any_length_and_letters_arrives_and_stays_short(planted: ConfinedReader) -> None:
    with pytest.raises(Malformed) as caught:
        planted.decode_group(b"long", 1)
    assert caught.value.field == "f" * TEXT_CHARACTERS
    assert caught.value.expected == "e" * TEXT_CHARACTERS
    assert len(repr(caught.value.got)) == TEXT_CHARACTERS
    with pytest.raises(Malformed, match=r"^\\ud800: expected 😀, got '\\udfff…é'$"):
        planted.decode_group(b"odd", 1)
    assert planted.counts.starts == 1


# -- limits


LARGE = """
import sys, stannary.confined_child
assert "stannary.rollout" not in sys.modules and "numpy" not in sys.modules
import stannary.rollout
print({"torch", "vllm", "transformers", "web3", "numba", "httpx"}.intersection(sys.modules))
"""


@needs_proc
def test_child_is_small_and_knows_of_no_large_package() -> None:
    done = subprocess.run([sys.executable, "-c", LARGE], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout == "set()\n", done
    with ConfinedReader() as reader:
        reader.decode_group(encode_group([Rollout((1,), (2,), ())]), 1)
        assert memory_kb(reader.pid, "VmRSS") < 128 << 10


@needs_proc
def test_limits_hold_for_the_child_alone(planted: ConfinedReader) -> None:
    before = Path("/proc/self/limits").read_text()
    planted.decode_group(FILE, 1)
    lines = Path(f"/proc/{planted.pid}/limits").read_text().splitlines()
    found = {line[:26].strip(): line[26:].split()[:2] for line in lines}
    assert found["Max address space"] == [str(256 << 20)] * 2
    assert found["Max core file size"] == found["Max file size"] == found["Max processes"] == ["0", "0"]
    assert found["Max open files"] == ["3", "3"]
    assert found["Max cpu time"][0] == "2"
    assert Path("/proc/self/limits").read_text() == before


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (b"open /dev/null", "OSError: .*Too many open files"),
        (b"socket", "OSError: .*Too many open files"),
        (b"write FOLDER/x", "OSError: .*File too large"),
        (b"fork", "BlockingIOError: "),
        (b"thread", "RuntimeError: can't start new thread"),
    ],
)
def test_child_can_open_write_and_start_nothing(
    planted: ConfinedReader, tmp_path: Path, file: bytes, words: str
) -> None:
    if file in (b"fork", b"thread") and os.geteuid() == 0:
        pytest.skip("the kernel does not hold root to RLIMIT_NPROC")
    with pytest.raises(Malformed, match=words):
        planted.decode_group(file.replace(b"FOLDER", os.fsencode(tmp_path)), 1)
    assert all(path.stat().st_size == 0 for path in tmp_path.iterdir())


def test_child_gets_nothing_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANNARY_TRAINER_SECRET", "x")
    with ConfinedReader(TIGHT, PLANTED) as planted, pytest.raises(Malformed) as caught:
        planted.decode_group(b"environment", 1)
    assert "NUM_THREADS" in str(caught.value.got)
    assert "STANNARY" not in str(caught.value.got)


# -- failures of the child


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (b"bomb", "failed: MemoryError"),
        (b"grow", "failed: MemoryError"),
        (b"loop", "took more than 1 s of processor time"),
        (b"sleep 60", "gave no answer within 2 s"),
        (b"signal 9", "was ended by SIGKILL"),
        (b"signal 11", "was ended by SIGSEGV"),
        (b"leave", "ended with status 7$"),
        (b"leave one line\nlast words\n", "ended with status 7: last words$"),
        (b"wrong key", r"failed: KeyError: b'key'"),
        (b"nest", "failed: RecursionError"),
    ],
)
def test_child_that_fails_is_no_verdict_and_the_next_file_is_read(file: bytes, words: str) -> None:
    limits = Limits(memory_bytes=256 << 20, cpu_s=1, wall_s=2 if file.startswith(b"sleep") else 20)
    with ConfinedReader(limits, PLANTED) as planted:
        assert planted.decode_group(FILE, 2) == expected(FILE, 2)
        first = planted.pid
        assert first is not None
        with pytest.raises(Confinement, match=f"the process that reads submission files {words}"):
            planted.decode_group(file, 2)
        assert not psutil.pid_exists(first)
        assert planted.pid is None
        assert planted.decode_group(FILE, 2) == expected(FILE, 2)
        counts = planted.counts
        assert (counts.starts, counts.read, counts.refused, counts.failed) == (2, 2, 0, 1)


def test_processor_time_is_limited_whatever_the_parent_ignores_and_blocks() -> None:
    ignored = signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGXCPU})
    try:
        with (
            ConfinedReader(Limits(cpu_s=1, wall_s=15), PLANTED) as planted,
            pytest.raises(Confinement, match="took more than 1 s of processor time"),
        ):
            planted.decode_group(b"loop", 1)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(signal.SIGXCPU, ignored)


@needs_proc
def test_own_parser_that_lacks_memory_is_no_verdict() -> None:
    small, large = [Rollout((1,), (2,), ())], [Rollout((1,), tuple(range(100_000, 1_000_000)), ())] * 4
    with ConfinedReader() as reader:
        reader.decode_group(encode_group(small), 1)
        taken_bytes = memory_kb(reader.pid, "VmSize") << 10
    with ConfinedReader(Limits(memory_bytes=taken_bytes + (40 << 20))) as reader:
        for _ in range(2):
            with pytest.raises(Confinement, match="failed: MemoryError"):
                reader.decode_group(encode_group(large), 4)
            assert reader.decode_group(encode_group(small), 1) == small


@needs_proc
def test_child_that_is_killed_in_the_middle_of_a_file_is_replaced(planted: ConfinedReader) -> None:
    planted.decode_group(FILE, 1)
    pid = planted.pid
    assert pid is not None
    file = b"sleep 60 " + bytes(1 << 20)

    def taken() -> int:
        return int(Path(f"/proc/{pid}/io").read_text().split()[1])

    before = taken()
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(planted.decode_group, file[:8], 1)
        while taken() < before + 8:
            time.sleep(0.005)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(Confinement, match="was ended by SIGKILL"):
            reading.result()
    assert planted.decode_group(FILE, 1) == expected(FILE, 1)
    assert not psutil.pid_exists(pid)


def test_child_that_dies_between_two_files_is_replaced_and_no_file_fails(planted: ConfinedReader) -> None:
    planted.decode_group(FILE, 1)
    assert planted.pid is not None
    os.kill(planted.pid, signal.SIGKILL)
    assert is_gone(planted.pid)
    assert planted.decode_group(FILE, 1) == expected(FILE, 1)
    assert (planted.counts.starts, planted.counts.failed) == (2, 0)


@needs_proc
def test_many_deaths_leave_no_zombie_and_no_open_file(planted: ConfinedReader) -> None:
    planted.decode_group(FILE, 1)
    own = psutil.Process()
    children = {child.pid for child in own.children()} - {planted.pid}
    files = own.num_fds()
    begun = time.monotonic()
    for count in range(RESTARTS):
        with pytest.raises(Confinement):
            planted.decode_group((b"signal 9", b"leave", b"bomb", b"say \xff")[count % 4], 1)
        assert planted.decode_group(FILE, 1) == expected(FILE, 1)
        assert {child.pid for child in own.children()} - {planted.pid} == children
        assert own.num_fds() <= files
    assert planted.counts.starts == RESTARTS + 1
    assert time.monotonic() - begun < 120
    planted.close()
    assert {child.pid for child in own.children()} == children
    assert own.num_fds() == files - 3


@pytest.mark.parametrize("parse", ["no_such_module:parse", "tests.stannary.planted_readers:nothing", "os"])
def test_parser_that_is_not_there_is_named(parse: str) -> None:
    with ConfinedReader(TIGHT, parse) as reader:
        for _ in range(2):
            with pytest.raises(Confinement, match=r"failed: (ModuleNotFound|Attribute)Error"):
                reader.decode_group(FILE, 1)
        assert (reader.counts.starts, reader.pid) == (2, None)


def test_child_that_is_not_set_up_in_time_is_ended(planted: ConfinedReader) -> None:
    with ConfinedReader(Limits(start_s=0.0), PLANTED) as reader, pytest.raises(Confinement, match="not set up within"):
        reader.decode_group(FILE, 1)


# -- answers that lie


def text(*texts: bytes) -> bytes:
    return b"".join(TEXT.pack(len(each)) + each for each in texts)


ROW = LENGTHS.pack(2, 1, PROOF_BYTES)
BODY = bytes(12 + PROOF_BYTES)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (ANSWER.pack(GROUP, 1 << 62), "answered 4611686018427387904 bytes of 1 rollouts, in a file of"),
        (ANSWER.pack(GROUP, 1 << 24), "answered 16777216 bytes of 1 rollouts"),
        (ANSWER.pack(GROUP, 11) + bytes(11), "answered 11 bytes of 1 rollouts"),
        (ANSWER.pack(GROUP, 0), "answered 0 bytes of 1 rollouts"),
        (ANSWER.pack(GROUP, 281) + ROW + BODY[:-1], "of them 12 of tokens and 258 of proofs"),
        (ANSWER.pack(GROUP, 283) + ROW + BODY + b"x", "of them 12 of tokens and 258 of proofs"),
        (ANSWER.pack(GROUP, 282) + LENGTHS.pack(2**32 - 1, 2**32 - 1, 2**32 - 1) + BODY, "of tokens and 4294967295"),
        (ANSWER.pack(GROUP, 282) + LENGTHS.pack(3, 0, 258)[:8] + bytes(274), "of them 12 of tokens and 0 of proofs"),
        (ANSWER.pack(GROUP, 282) + LENGTHS.pack(2, 2, 254) + BODY, "of them 16 of tokens and 254 of proofs"),
        (ANSWER.pack(REFUSED, 1 << 40), "answered 1099511627776 bytes for 3 texts"),
        (ANSWER.pack(REFUSED, 3 * TEXT_BYTES + 1), "for 3 texts"),
        (ANSWER.pack(REFUSED, 10) + text(b"a", b"b"), "answered texts that are none"),
        (ANSWER.pack(REFUSED, 12) + text(b"", b"", b"")[:8] + struct.pack("<I", 9), "texts that take 21"),
        (ANSWER.pack(REFUSED, 12) + struct.pack("<I", 2**32 - 1) + bytes(8), "answered texts that are none"),
        (ANSWER.pack(REFUSED, 16) + text(b"", b"", b"") + b"more", "answered 16 bytes of texts that take 12"),
        (ANSWER.pack(REFUSED, 13) + text(b"", b"", b"\xff"), "answered texts that are none"),
        (ANSWER.pack(0, 0), "gave an answer of kind 0"),
        (ANSWER.pack(9, 5) + bytes(5), "gave an answer of kind 9"),
    ],
)
def test_answer_that_lies_about_its_sizes_is_refused(planted: ConfinedReader, answer: bytes, words: str) -> None:
    before = psutil.Process().memory_info().rss
    with pytest.raises(Confinement, match=words):
        planted.decode_group(b"say " + answer.ljust(300, b"\0"), 1)
    assert psutil.Process().memory_info().rss - before < 64 << 20
    assert planted.decode_group(FILE, 1) == expected(FILE, 1)


def test_answer_that_is_right_is_taken_whoever_wrote_it(planted: ConfinedReader) -> None:
    answer = ANSWER.pack(GROUP, 282) + ROW + struct.pack("=iii", -1, 2, 3) + b"p" * PROOF_BYTES
    assert planted.decode_group(b"say " + answer, 1) == [Rollout((-1, 2), (3,), (b"p" * PROOF_BYTES,))]


def test_answer_that_breaks_off_is_refused_when_time_is_up() -> None:
    with ConfinedReader(Limits(wall_s=1.0), PLANTED) as reader:
        for part in (b"\x01", ANSWER.pack(GROUP, 20), ANSWER.pack(REFUSED, 20)):
            with pytest.raises(Confinement, match="gave no answer within 1 s"):
                reader.decode_group(b"stall " + part, 1)


def test_child_that_says_more_than_it_was_asked_is_replaced(planted: ConfinedReader) -> None:
    assert planted.decode_group(b"extra 0.05", 1) == expected(b"extra 0.05", 1)
    first = planted.pid
    time.sleep(0.5)
    assert planted.decode_group(FILE, 1) == expected(FILE, 1)
    assert planted.pid != first
    assert planted.counts.failed == 0


# -- the parent


def test_interrupted_reading_leaves_no_answer_for_the_next_file(planted: ConfinedReader) -> None:
    planted.decode_group(FILE, 1)

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            planted.decode_group(b"sleep 1", 1)
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert planted.pid is None
    assert planted.decode_group(FILE, 1) == expected(FILE, 1)


def test_threads_get_each_its_own_answer(planted: ConfinedReader) -> None:
    def work(thread: int) -> list[bool]:
        files = [b"caller %d, file %d" % (thread, number) for number in range(50)]
        return [planted.decode_group(file, 2) == expected(file, 2) for file in files]

    with ThreadPoolExecutor(4) as pool:
        assert all(all(found) for found in pool.map(work, range(4)))
    assert (planted.counts.starts, planted.counts.read) == (1, 200)


def test_reader_that_is_closed_has_no_process_and_may_be_used_again() -> None:
    reader = ConfinedReader(TIGHT, PLANTED)
    reader.close()
    with reader:
        reader.decode_group(FILE, 1)
        pid = reader.pid
        assert pid is not None
    assert not psutil.pid_exists(pid)
    assert reader.decode_group(FILE, 1) == expected(FILE, 1)
    reader.close()
    reader.close()
    assert reader.pid is None


PARENT = f"""
import sys, time
from stannary.confined import ConfinedReader, Limits
reader = ConfinedReader(Limits(memory_bytes=256 << 20), {PLANTED!r})
reader.decode_group(b"a file", 1)
print(reader.pid, flush=True)
time.sleep(60)
"""


def test_child_ends_with_its_parent_however_that_ends() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert psutil.pid_exists(pid)
        parent.kill()
    assert is_gone(pid)


def test_interrupt_from_the_terminal_does_not_reach_the_child(planted: ConfinedReader) -> None:
    planted.decode_group(FILE, 1)
    assert planted.pid is not None
    assert os.getpgid(planted.pid) == planted.pid != os.getpgid(0)
    assert os.getsid(planted.pid) == os.getsid(0)


WITHOUT = """
import sys
sys.modules["resource"] = None
from stannary.confined import ConfinedReader
from stannary.errors import OperatorError
try:
    ConfinedReader()
except OperatorError as error:
    print(error)
"""


def test_platform_without_limits_is_refused_with_words() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("strangers' files are read in a process with limits, which linux does not have"), done
