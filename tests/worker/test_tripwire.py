"""The ten-second tripwire on both engines; it must also fire."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from stannary.errors import OperatorError
from stannary.toploc import build
from worker.engine import RolloutOutput, RolloutRequest
from worker.engine_transformers import TransformersEngine, TransformersOptions
from worker.tripwire import check

ON_VLLM = """
import sys
from dataclasses import replace
from pathlib import Path
from worker.engine_vllm import VllmEngine, VllmOptions
from worker.tripwire import check
engine = VllmEngine(VllmOptions(keeps_states=True))
check(engine, Path(sys.argv[1]))
print("runner", engine.runner)
"""


def test_tripwire_on_vllm_passes(tmp_path: Path) -> None:
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", ON_VLLM, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "runner vllm.v1.worker.cpu_model_runner.CPUModelRunner" in done.stdout


def test_tripwire_on_an_unknown_runner_is_refused() -> None:
    environment = os.environ | {"VLLM_USE_V2_MODEL_RUNNER": "1"}
    command = [sys.executable, "-c", "from worker.engine_vllm import VllmEngine; VllmEngine()"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "OperatorError: VLLM_USE_V2_MODEL_RUNNER: expected 0 or unset, got 1" in done.stderr


def test_tripwire_on_transformers_passes(tmp_path: Path) -> None:
    check(TransformersEngine(TransformersOptions(keeps_states=True)), tmp_path)


def states_of(output: RolloutOutput) -> torch.Tensor:
    assert output.states is not None
    return output.states


class Faulty(TransformersEngine):
    """An engine broken in one way."""

    def __init__(self, fault: str) -> None:
        super().__init__(TransformersOptions(keeps_states=True))
        self.fault = fault

    def load(self, folder: Path) -> None:
        head = self.head
        super().load(folder)
        if self.fault == "stale head" and len(head):
            self.head = head

    def generate(self, requests: Sequence[RolloutRequest], temperature: float) -> list[RolloutOutput]:
        good = super().generate(requests, 1.0 if self.fault == "temperature" else temperature)
        match self.fault:
            case "shifted states":
                return [replace(output, states=torch.roll(states_of(output), 1, 0)) for output in good]
            case "last state lost":
                return [replace(output, states=states_of(output)[:-1]) for output in good]
            case "no states":
                return [replace(output, states=None) for output in good]
            case "foreign proofs":
                return [replace(output, proofs=tuple(build(states_of(output) * 1.25))) for output in good]
            case "other log-probabilities":
                return [replace(output, logprobs=tuple(value - 0.1 for value in output.logprobs)) for output in good]
            case "no proofs":
                return [replace(output, proofs=(), reason="a state was lost") for output in good]
            case "stopped early":
                return [replace(output, tokens=output.tokens[:2], states=states_of(output)[:2]) for output in good]
        return good


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("stale head", "after new weights: tokens are not the choice"),
        ("temperature", "first load: tokens are not the choice"),
        ("shifted states", "tokens are not the choice"),
        ("last state lost", "came with states"),
        ("no states", "came with states: none"),
        ("foreign proofs", "proved states are not those of the policy"),
        ("other log-probabilities", "log-probabilities are not those"),
        ("no proofs", "has no proofs: a state was lost"),
        ("stopped early", "ended neither"),
    ],
)
def test_tripwire_on_a_broken_engine_fires(tmp_path: Path, fault: str, said: str) -> None:
    with pytest.raises(OperatorError, match=said):
        check(Faulty(fault), tmp_path)
