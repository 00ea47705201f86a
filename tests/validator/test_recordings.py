"""Recording by the worker's own command: the seeds of a step, whole groups, states that predicted each token."""

from __future__ import annotations

from pathlib import Path

import pytest

from stannary.corpus import Corpus, policy_digest, recording_seeds
from stannary.environments import Environment
from stannary.errors import OperatorError, SettingsError
from validator.recordings import MACHINES, Machine, Task, record, record_all

EAGER = Machine("eager", ("--engine", "transformers", "--attention", "eager", "--batch", "2", "--threads", "1"))
TASK = Task("sieve", group_size=2, max_tokens=12)


def test_worker_records_what_a_step_of_these_seeds_asks_for(
    toy: Path, environment: Environment, tmp_path: Path
) -> None:
    said: list[str] = []
    path = record(tmp_path / "one.corpus", toy, TASK, EAGER, groups=3, seed=5, report=said.append)
    corpus = Corpus.read(path)
    assert "bf16 eager, batch 2, threads 1" in corpus.engine
    assert (corpus.policy, corpus.temperature_milli) == (policy_digest(toy), 1000)
    seeds = recording_seeds(5)
    for slot, group in enumerate(corpus.groups):
        assert [rollout.seed for rollout in group] == [seeds.rollout_seed(slot, index) for index in range(2)]
        assert {rollout.prompt for rollout in group} == {environment.problem(seeds.slot_seed(slot)).prompt}
        assert all(1 <= len(rollout.completion) == len(rollout.states) <= 12 for rollout in group)
    assert len(said) == 1
    before = path.stat().st_mtime_ns
    assert record(path, toy, TASK, EAGER, groups=3, seed=5, report=said.append) == path
    assert (path.stat().st_mtime_ns, len(said)) == (before, 1)


def test_worker_that_cannot_record_is_told_of(toy: Path, tmp_path: Path) -> None:
    unknown = Machine("unknown", ("--engine", "transformers", "--attention", "none such"))
    with pytest.raises(OperatorError, match="stannary worker record failed"):
        record(tmp_path / "none.corpus", toy, TASK, unknown, groups=1, seed=1)
    assert not (tmp_path / "none.corpus").exists()


def test_no_two_recordings_share_their_seeds(toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def note(out: Path, *_: object, seed: int, **__: object) -> Path:
        seen.append(seed)
        return out

    monkeypatch.setattr("validator.recordings.record", note)
    for half in (0, 1):
        record_all(tmp_path, [toy, toy, toy], TASK, groups=2, seed=half)
    assert len(seen) == len(set(seen)) == 30


def test_machines_go_by_name_or_by_options_of_their_own() -> None:
    assert Machine.named("vllm-one") == MACHINES[1]
    assert Machine.named("vllm-one").is_single_threaded
    own = Machine.named("big=--engine vllm --batch 256")
    assert own == Machine("big", ("--engine", "vllm", "--batch", "256"))
    assert not own.is_single_threaded
    for text in ("unknown", "=--engine vllm", "big="):
        with pytest.raises(SettingsError, match=r"expected NAME=OPTIONS, or one of vllm-many, vllm-one"):
            Machine.named(text)
