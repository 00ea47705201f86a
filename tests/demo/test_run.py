"""demo.run: the parts that need no chain."""

from __future__ import annotations

from pathlib import Path

import pytest

from demo.run import read_heldout, run_folder
from stannary.errors import SettingsError, Unavailable

METRICS = (
    '{"kind": "run", "steps": 3}\n'
    '{"kind": "heldout", "policy_step": 0, "reward": 0.15}\n'
    '{"kind": "step", "policy_step": 0, "reward": 0.2}\n'
    '{"kind": "heldout", "policy_step": 3, "reward": 0.5}\n'
)


def test_run_folder_is_cleared_of_an_earlier_run(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    with run_folder(folder):
        (folder / "wallets").mkdir()
        (folder / "wallets" / "key").touch()
        (folder / "report.json").touch()
    with run_folder(folder):
        assert [entry.name for entry in folder.iterdir()] == [".stannary-demo"]


def test_run_folder_with_foreign_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(SettingsError, match="not the demo's"), run_folder(tmp_path):
        pass
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]


def test_run_folder_of_a_running_demo_is_refused(tmp_path: Path) -> None:
    with run_folder(tmp_path), pytest.raises(SettingsError, match="another demo"), run_folder(tmp_path):
        pass


def test_heldout_is_read_from_the_trainers_metrics(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(METRICS)
    assert read_heldout(path, 3) == (0.15, 0.5)
    with pytest.raises(Unavailable, match=r"only of \[0, 3\]"):
        read_heldout(path, 4)
