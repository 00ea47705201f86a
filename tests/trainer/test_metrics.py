"""The run's record."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainer.metrics import Metrics


def test_metrics_are_read_back_by_kind_and_survive_a_cut_line(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path / "run" / "metrics.jsonl")
    assert metrics.read("step") == []
    metrics.write("step", step=0, reward=0.5)
    metrics.write("heldout", reward=0.1)
    with metrics.path.open("a") as file:
        file.write('{"kind": "step", "st')
    assert [entry["reward"] for entry in metrics.read("step")] == [0.5]


def test_metrics_refuse_a_number_that_is_not_finite(tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        Metrics(tmp_path / "metrics.jsonl").write("step", loss=float("nan"))
