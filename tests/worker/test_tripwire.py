"""The ten-second tripwire on both engines; it must also fire."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from stannary.errors import OperatorError
from worker.engine import RolloutOutput, RolloutRequest
from worker.engine_transformers import TransformersEngine
from worker.tripwire import check

ON_VLLM = """
import sys
from pathlib import Path
from worker.engine_vllm import VllmEngine
from worker.tripwire import check
engine = VllmEngine()
check(engine, Path(sys.argv[1]))
print("runner", type(engine.capture.runner).__name__)
"""


def test_tripwire_on_vllm_passes(tmp_path: Path) -> None:
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", ON_VLLM, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "runner CPUModelRunner" in done.stdout


def test_tripwire_on_an_unknown_runner_is_refused() -> None:
    environment = os.environ | {"VLLM_USE_V2_MODEL_RUNNER": "1"}
    command = [sys.executable, "-c", "from worker.engine_vllm import VllmEngine; VllmEngine()"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "OperatorError: VLLM_USE_V2_MODEL_RUNNER: expected 0 or unset, got 1" in done.stderr


def test_tripwire_on_transformers_passes(tmp_path: Path) -> None:
    check(TransformersEngine(), tmp_path)


class Faulty(TransformersEngine):
    """An engine broken in one way."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault

    def load(self, folder: Path) -> None:
        head = self.head
        super().load(folder)
        if self.fault == "stale head" and len(head):
            self.head = head

    def generate(self, requests: Sequence[RolloutRequest], temperature: float) -> list[RolloutOutput]:
        good = super().generate(requests, 1.0 if self.fault == "temperature" else temperature)
        if self.fault == "shifted states":
            return [RolloutOutput(o.tokens, torch.roll(o.states, 1, 0)) for o in good]
        if self.fault == "last state lost":
            return [RolloutOutput(o.tokens, o.states[:-1]) for o in good]
        if self.fault == "foreign states":
            return [RolloutOutput(o.tokens, o.states * 1.25) for o in good]
        if self.fault == "stopped early":
            return [RolloutOutput(o.tokens[:2], o.states[:2]) for o in good]
        return good


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("stale head", "after new weights: tokens are not the choice"),
        ("temperature", "first load: tokens are not the choice"),
        ("shifted states", "tokens are not the choice"),
        ("last state lost", "came with states"),
        ("foreign states", "(tokens are not the choice|captured states are not)"),
        ("stopped early", "ended neither"),
    ],
)
def test_tripwire_on_a_broken_engine_fires(tmp_path: Path, fault: str, said: str) -> None:
    with pytest.raises(OperatorError, match=said):
        check(Faulty(fault), tmp_path)
