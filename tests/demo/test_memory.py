"""demo.memory on real processes."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from demo.memory import MemoryPeak, pss_kb, summed_pss_kb
from demo.processes import Processes, last_lines

HOLD_MB = 64
HOLDER = [sys.executable, "-c", f"import time; x = b'x' * ({HOLD_MB} << 20); print('held', flush=True); time.sleep(60)"]

pytestmark = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux")


def test_summed_pss_counts_the_members_of_the_sessions_and_no_others(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        before_kb = summed_pss_kb(processes.sessions)
        holder = processes.start("holder", HOLDER)
        deadline = time.monotonic() + 20
        while not last_lines(holder.log):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert summed_pss_kb(processes.sessions) - before_kb > HOLD_MB * 1024
        assert summed_pss_kb(()) < before_kb + HOLD_MB * 1024 / 2
        with MemoryPeak(lambda: processes.sessions, interval_s=0.05) as memory:
            while not memory.peak_kb:
                time.sleep(0.02)
        assert memory.peak_mb > HOLD_MB


def test_pss_of_a_process_that_is_gone_is_zero() -> None:
    assert pss_kb(2**22 + 1) == 0
