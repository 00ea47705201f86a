"""demo.processes with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from demo.processes import ProcessEnded, Processes, last_lines

SLEEPER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]
DEAF_WITH_CHILD = [
    sys.executable,
    "-c",
    "import signal, subprocess, sys, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
    "print(child.pid, flush=True)\n"
    "time.sleep(60)\n",
]
DEMO = (
    "import sys, time\n"
    "from pathlib import Path\n"
    "from demo.processes import Processes, stop_on_signals\n"
    "with stop_on_signals(), Processes(Path(sys.argv[1])) as processes:\n"
    "    processes.start('sleeper', [sys.executable, '-c', 'import time; time.sleep(60)'])\n"
    "    print(*processes.sessions, flush=True)\n"
    "    time.sleep(60)\n"
)


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_processes_on_leaving_end_every_group_even_a_deaf_one_with_a_child(tmp_path: Path) -> None:
    with Processes(tmp_path, grace_s=0.5) as processes:
        deaf = processes.start("deaf", DEAF_WITH_CHILD)
        wait_for(lambda: bool(last_lines(deaf.log)), "the child's id")
        child = int(last_lines(deaf.log)[0])
        assert is_alive(deaf.pid)
        assert is_alive(child)
    wait_for(lambda: not is_alive(deaf.pid) and not is_alive(child), "the end of both")


def test_processes_on_failure_of_the_block_are_ended(tmp_path: Path) -> None:
    started = []

    def fail() -> None:
        with Processes(tmp_path) as processes:
            started.append(processes.start("sleeper", SLEEPER))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not is_alive(started[0].pid)


def test_check_with_a_dead_process_names_it_and_shows_its_last_lines(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        processes.start("sleeper", SLEEPER)
        dying = processes.start("dying", [sys.executable, "-c", "print('my last words'); raise SystemExit(3)"])
        wait_for(lambda: dying.status() is not None, "its end")
        with pytest.raises(ProcessEnded, match=r"dying ended \(exit status 3\)(.|\n)*my last words"):
            processes.check()


def test_finish_returns_when_a_command_succeeds(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        processes.finish(processes.start("good", [sys.executable, "-c", ""], may_finish=True), timeout_s=20)
        assert processes.sessions == frozenset()


@pytest.mark.parametrize(
    ("name", "command", "timeout_s"),
    [("failing", [sys.executable, "-c", "raise SystemExit(1)"], 20.0), ("late", SLEEPER, 0.1)],
)
def test_finish_of_a_command_that_fails_or_is_late_raises(
    tmp_path: Path, name: str, command: list[str], timeout_s: float
) -> None:
    with Processes(tmp_path) as processes, pytest.raises(ProcessEnded, match=f"{name} ended"):
        processes.finish(processes.start(name, command, may_finish=True), timeout_s=timeout_s)


def test_check_of_a_process_that_may_finish_minds_only_its_failure(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        done = processes.start("done", [sys.executable, "-c", ""], may_finish=True)
        other = processes.start("other", [sys.executable, "-c", ""])
        wait_for(lambda: done.status() is not None and other.status() is not None, "both ends")
        with pytest.raises(ProcessEnded, match="other ended"):
            processes.check()
        processes.end(other)
        processes.check()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_demo_stopped_by_a_signal_leaves_nothing_running(tmp_path: Path, number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", DEMO, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert is_alive(child)
        os.kill(parent.pid, number)
        parent.communicate(timeout=20)
    assert parent.returncode != 0
    assert not is_alive(child)


def test_start_hands_down_no_setting_of_the_callers_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANNARY_POOL", "7")
    with Processes(tmp_path) as processes:
        show = "import os; print(os.environ.get('STANNARY_POOL'), os.environ['OMP_NUM_THREADS'], os.environ['GIVEN'])"
        shown = processes.start("shown", [sys.executable, "-c", show], {"GIVEN": "yes"})
        wait_for(lambda: shown.status() == 0, "its end")
    assert last_lines(shown.log) == ["None 1 yes"]
