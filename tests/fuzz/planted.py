"""Parsers with planted faults, by which the fuzzer itself is tested."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from stannary.errors import Malformed
from tests.fuzz.engine import Target

SOURCE = "tests.fuzz.planted:planted_targets"
BAD = b"the input that breaks it"


def planted_targets() -> Mapping[str, Target]:
    """Return a parser that keeps its contract, and one for each way to break it at the first input."""
    faults: dict[str, Callable[[bytes], object]] = {
        "good": _refuse,
        "crash": lambda _data: os.kill(os.getpid(), signal.SIGSEGV),
        "hang": lambda _data: time.sleep(600),
        "slow": lambda _data: _work(2.5),
        "memory": lambda _data: bytearray(3 << 30),
        "swallowed": _swallow_lack_of_memory,
        "wrong": lambda data: {}[data],
        "exit": lambda _data: os._exit(7),
    }
    return {
        name: Target(name, _only_bad(fault), (Malformed,), (b"fine", b""), bombs=lambda: (BAD,))
        for name, fault in faults.items()
    }


def _only_bad(fault: Callable[[bytes], object]) -> Callable[[bytes], object]:
    return lambda data: fault(data) if data == BAD else None


def _refuse(data: bytes) -> None:
    raise Malformed("planted", expected="anything else", got=data)


def _swallow_lack_of_memory(data: bytes) -> None:
    try:
        bytearray(3 << 30)
    except MemoryError as error:
        raise Malformed("planted", expected="what it takes", got=str(error)) from error


def _work(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def growing_targets() -> Mapping[str, Target]:
    """Return parsers that take 200 MiB for a moment at their first input; one of them may not."""
    grow = _only_bad(lambda _data: len(bytes(200 << 20).replace(b"\0", b"\1")))
    growing = Target("growing", grow, (), (b"fine",), bombs=lambda: (BAD,))
    return {"growing": growing, "too far": replace(growing, name="too far", growth_bytes=100 << 20)}
