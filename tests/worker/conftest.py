"""Tiny policies with fixed random weights, and vLLM run by plan in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.worker.matrix import EOS, OTHER_END, SUPPRESSED, Request, make_plans
from worker.tripwire import write_tiny_policy

PROBE = Path(__file__).with_name("probe_vllm.py")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two untied and two tied policies: untied-a, untied-b, tied-a, tied-b; suppressing is untied-b by other rules."""
    root = tmp_path_factory.mktemp("tiny")
    policies = {
        f"{kind}-{name}": write_tiny_policy(root / f"{kind}-{name}", seed, is_tied=kind == "tied")
        for kind in ("untied", "tied")
        for name, seed in (("a", 11), ("b", 12))
    }
    folder = policies["suppressing"] = root / "suppressing"
    shutil.copytree(policies["untied-b"], folder)
    rules = {"eos_token_id": [EOS, OTHER_END], "suppress_tokens": SUPPRESSED}
    (folder / "generation_config.json").write_text(json.dumps(rules))
    return policies


@pytest.fixture(scope="session")
def plans(tiny: dict[str, Path]) -> dict[str, list[Request]]:
    """Requests by what they are to bring about in an engine."""
    return make_plans(tiny)


def run_vllm(plan: list[dict[str, Any]], folder: Path) -> dict[str, Any]:
    """Run engines and requests by plan (see probe_vllm.py) in a new process and return what they made."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.json").write_text(json.dumps(plan))
    root = str(PROBE.parents[2])  # of the tests, which are not installed
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_WAIT_POLICY": "PASSIVE", "PYTHONPATH": root}
    command = [sys.executable, str(PROBE), str(folder / "plan.json"), str(folder / "result.pt")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-9000:]
    return torch.load(folder / "result.pt", weights_only=True)
