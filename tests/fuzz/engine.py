"""Gives inputs to a parser and judges what it does: here, or in a child process that may crash, hang or run out.

The contract of every parser: any bytes give a value or exactly the errors it documents, within a bound of time and
memory. A child writes down each input before it runs, so what ends it is known.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import mmap
import os
import random
import resource
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path

from tests.fuzz.mutate import mutated

ROOT = Path(__file__).resolve().parents[2]
SLOW_S = 2.0
"""Processor time that one input may take, and `SLOW_S_A_MIB` more for each MiB of it."""
SLOW_S_A_MIB = 0.5
HANG_S = 20.0
"""Wall time after which an input is ended from outside; inputs of many MiB have their part added."""
MEMORY_BYTES = 1 << 30
"""Address space that a child may take beyond what it has before its first input."""
GROWTH_BYTES = 512 << 20
"""Memory that a child may take beyond what it has before its first input, where a target names no other limit."""
KEPT_OF_A_KIND = 3
"""Inputs that are kept of failures that look the same."""
_POLL_S = 0.1
_BETWEEN = -1.0
"""In place of the time at which an input began: the next one is being made."""
_STATE = struct.Struct("<qdqqqdqqq")
_MAX_INPUT_BYTES = 80 << 20
_FATAL_LIMIT = 25
"""Crashes and hangs after which a target is given up."""


@dataclass(frozen=True, slots=True)
class Target:
    """One parser: valid samples, how they are changed, and what may come out."""

    name: str
    run: Callable[[bytes], object]
    allowed: tuple[type[BaseException], ...]
    """The documented errors."""
    seeds: tuple[bytes, ...]
    kind: str = "bytes"
    """Of mutation, see `mutate.mutated`."""
    weight: int = 1
    """Its share of the inputs."""
    bombs: Callable[[], Sequence[bytes]] = tuple
    """Large inputs written by hand, up to the parser's own limit of bytes; the first inputs of a long run."""
    growth_bytes: int = GROWTH_BYTES
    """Memory that any of its inputs may take."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An input that broke the contract."""

    target: str
    index: int
    what: str
    """`wrong exception`, `slow`, `crash`, `hang` or `growth`, with what there is to say about it."""
    file: str = ""
    count: int = 1
    """How many failures looked like this one."""


@dataclass(slots=True)
class Tally:
    """What came of the inputs of one target."""

    target: str
    inputs: int = 0
    accepted: int = 0
    refused: int = 0
    slowest_s: float = 0.0
    """Processor time of the slowest input."""
    slowest_index: int = -1
    grown_bytes: int = 0
    """How far the process grew over its size before the first input, at its peak."""
    growth_limit_bytes: int = GROWTH_BYTES
    wall_s: float = 0.0
    failures: list[Failure] = field(default_factory=list)


def input_of(target: Target, seed: int, index: int, bombs: Sequence[bytes] = ()) -> bytes:
    """Return an input: the bombs first, then the samples as they are, then mutations."""
    if index < len(bombs):
        return bombs[index]
    place = index - len(bombs)
    if place < len(target.seeds):
        return target.seeds[place]
    return mutated(target.kind, random.Random(f"{seed}/{target.name}/{place}"), target.seeds)


def judge(target: Target, data: bytes) -> tuple[bool, float, str]:
    """Run one input; return whether it was accepted, its processor time, and what is wrong, if anything.

    A refusal for lack of memory is wrong whatever it is called: it says nothing about the input.
    """
    wrong, is_accepted = "", False
    start = time.process_time()
    try:
        target.run(data)
        is_accepted = True
    except target.allowed as error:
        if _lacks_memory(error):
            wrong = f"wrong exception: MemoryError behind {type(error).__name__} at {_origin(error)}"
    except BaseException as error:  # noqa: BLE001  a panic of Rust is no Exception
        wrong = f"wrong exception: {type(error).__name__} at {_origin(error)}"
    spent = time.process_time() - start
    if not wrong and spent > _bound(data, SLOW_S):
        wrong = "slow"
    return is_accepted, spent, wrong


def run_here(target: Target, inputs: int, seed: int) -> Tally:
    """Run inputs in this process, without bombs; for what is known not to crash."""
    tally, start = Tally(target.name), time.monotonic()
    for index in range(inputs):
        data = input_of(target, seed, index)
        is_accepted, spent, wrong = judge(target, data)
        _count(tally, index, is_accepted, spent)
        if wrong:
            tally.failures.append(Failure(target.name, index, wrong, repr(data[:200])))
    tally.wall_s = time.monotonic() - start
    return tally


def run_apart(
    source: str,
    name: str,
    inputs: int,
    seed: int,
    folder: Path,
    *,
    hang_s: float = HANG_S,
    progress: Callable[[int, float], None] = lambda _inputs, _rate: None,
) -> Tally:
    """Run inputs in child processes, one after the other, each begun behind the input that ended the one before.

    `source` is `module:function`, which returns the targets by name; offending inputs are kept in `folder`.
    """
    tally, start, begin = Tally(name), time.monotonic(), 0
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        for _ in range(_FATAL_LIMIT):
            if begin >= inputs:
                break
            ended = _Child(Path(work), source, name, inputs, seed, begin, folder).watch(tally, start, hang_s, progress)
            if not ended:
                break
            what, index, data = ended
            file = _keep(folder, name, index, what, data) if index >= 0 else ""
            tally.failures.append(Failure(name, index, what, file))
            if index < 0:
                break
            begin = index + 1
    tally.failures = _merged(tally.failures)
    tally.growth_limit_bytes = load(source)[name].growth_bytes
    if tally.grown_bytes > tally.growth_limit_bytes:
        what = f"growth: {tally.grown_bytes >> 20} MiB, at most {tally.growth_limit_bytes >> 20} MiB"
        tally.failures.append(Failure(name, -1, what))
    tally.wall_s = time.monotonic() - start
    return tally


class _Child:
    """One child process and the memory that both see: where it is, what it counted, and the input it works on."""

    def __init__(self, work: Path, source: str, name: str, inputs: int, seed: int, begin: int, folder: Path) -> None:
        self._shared, self._found = work / "shared", work / "found.jsonl"
        with self._shared.open("wb") as file:
            file.truncate(_STATE.size + 8 + _MAX_INPUT_BYTES)
        self._found.write_text("")
        self._errors = (work / "errors").open("w+b")
        arguments = [source, name, str(inputs), str(seed), str(begin), str(self._shared), str(self._found), str(folder)]
        command = [sys.executable, "-c", "from tests.fuzz.engine import child; child()", *arguments]
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=self._errors)

    def watch(
        self, tally: Tally, start: float, hang_s: float, progress: Callable[[int, float], None]
    ) -> tuple[str, int, bytes] | None:
        """Wait for the end of the child; return what ended it before its time, at which input, and that input."""
        before = tally.inputs, tally.accepted, tally.refused, tally.grown_bytes
        with self._shared.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as shared:
            is_hung = False
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(_POLL_S)
                index, begun, *_ = _STATE.unpack_from(shared)
                data = shared[_STATE.size + 8 : _STATE.size + 8 + int.from_bytes(shared[_STATE.size : _STATE.size + 8])]
                self._take(tally, before, shared)
                progress(tally.inputs, tally.inputs / (time.monotonic() - start))
                if self._process.returncode is not None:
                    break
                if begun > 0 and time.monotonic() - begun > _bound(data, hang_s):
                    is_hung = True
                    self._process.kill()
                    self._process.wait()
                    break
        tally.failures += [Failure(**json.loads(line)) for line in self._found.read_text().splitlines()]
        code = self._process.returncode
        self._errors.seek(0)
        said = self._errors.read()[-300:].decode(errors="replace").strip()
        self._errors.close()
        if is_hung:
            return "hang", index, data
        if code == 0:
            return None
        if not begun:
            raise RuntimeError(f"the child of {tally.target} did not start: {said}")
        tally.inputs += 1
        return f"crash: exit {code}" + (f", {said.splitlines()[0]}" if said else ""), index, data

    def _take(self, tally: Tally, before: tuple[int, int, int, int], shared: mmap.mmap) -> None:
        _, _, done, accepted, refused, slowest, slowest_index, grown, _ = _STATE.unpack_from(shared)
        tally.inputs, tally.accepted, tally.refused = before[0] + done, before[1] + accepted, before[2] + refused
        tally.grown_bytes = max(before[3], grown)
        if slowest > tally.slowest_s:
            tally.slowest_s, tally.slowest_index = slowest, slowest_index


def child() -> None:
    """Be the child process: run inputs until they end, or until one ends this process."""
    source, name, inputs, seed, begin, shared_path, found_path, folder = sys.argv[1:]
    logging.disable()
    target = load(source)[name]
    bombs = list(target.bombs())
    for sample in target.seeds:
        judge(target, sample)  # what is imported and kept on first use shall not count
    tally, kept = Tally(name), dict[str, int]()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limit = _status("VmSize") + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    with (
        open(shared_path, "r+b") as file,
        mmap.mmap(file.fileno(), 0) as shared,
        open(found_path, "a", buffering=1) as found,
    ):
        _reset_peak()
        base = _status("VmRSS")
        for index in range(int(begin), int(inputs)):
            data = input_of(target, int(seed), index, bombs)
            if index < len(bombs):
                bombs[index] = b""  # used once
            shared[_STATE.size : _STATE.size + 8] = len(data).to_bytes(8)
            shared[_STATE.size + 8 : _STATE.size + 8 + len(data)] = data
            _STATE.pack_into(shared, 0, index, time.monotonic(), *_state(tally))
            is_accepted, spent, wrong = judge(target, data)
            _count(tally, index, is_accepted, spent)
            _STATE.pack_into(shared, 0, index, _BETWEEN, *_state(tally))
            if wrong:
                kept[wrong] = kept.get(wrong, 0) + 1
                path = _keep(Path(folder), name, index, wrong, data) if kept[wrong] <= KEPT_OF_A_KIND else ""
                found.write(json.dumps(asdict(Failure(name, index, wrong, path))) + "\n")
            if index % 256 == 0 or len(data) > 1 << 20:
                tally.grown_bytes = max(0, _status("VmHWM") - base)
        tally.grown_bytes = max(0, _status("VmHWM") - base)
        _STATE.pack_into(shared, 0, int(inputs), time.monotonic(), *_state(tally))


def load(source: str) -> Mapping[str, Target]:
    """Return the targets of `module:function`."""
    module, function = source.split(":")
    return dict(getattr(import_module(module), function)())


def _state(tally: Tally) -> tuple[object, ...]:
    return (tally.inputs, tally.accepted, tally.refused, tally.slowest_s, tally.slowest_index, tally.grown_bytes, 0)


def _count(tally: Tally, index: int, is_accepted: bool, spent: float) -> None:
    tally.inputs += 1
    tally.accepted += is_accepted
    tally.refused += not is_accepted
    if spent > tally.slowest_s:
        tally.slowest_s, tally.slowest_index = spent, index


def _bound(data: bytes, seconds: float) -> float:
    return seconds + SLOW_S_A_MIB * len(data) / (1 << 20)


def _lacks_memory(error: BaseException | None) -> bool:
    """Say whether an error is a failed allocation or was raised because of one."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if isinstance(one, MemoryError):
            return True
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            waiting += [one.__cause__, one.__context__]
    return False


def _origin(error: BaseException) -> str:
    """Return the innermost line of this repository that an error came through."""
    place, frame = "nowhere", error.__traceback__
    while frame is not None:
        path = Path(frame.tb_frame.f_code.co_filename)
        if path.is_relative_to(ROOT) and ".venv" not in path.parts:
            place = f"{path.relative_to(ROOT)}:{frame.tb_lineno}"
        frame = frame.tb_next
    return place


def _keep(folder: Path, name: str, index: int, what: str, data: bytes) -> str:
    path = folder / f"{name}-{hashlib.sha256(what.encode()).hexdigest()[:8]}-{index}.bin"
    path.write_bytes(data)
    return str(path)


def _merged(failures: Sequence[Failure]) -> list[Failure]:
    """Return one failure of each kind, the first, with how many there were."""
    counts: dict[str, int] = {}
    first: dict[str, Failure] = {}
    for failure in failures:
        counts[failure.what] = counts.get(failure.what, 0) + 1
        first.setdefault(failure.what, failure)
    return [Failure(one.target, one.index, what, one.file, counts[what]) for what, one in first.items()]


def _status(name: str) -> int:
    """Return a size of this process in bytes, as Linux counts it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) << 10
    raise RuntimeError(f"this system does not tell {name}")


def _reset_peak() -> None:
    """Let the peak of this process's size begin at what it is now, where the system allows."""
    if os.access("/proc/self/clear_refs", os.W_OK):
        Path("/proc/self/clear_refs").write_text("5")
