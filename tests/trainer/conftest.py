"""The toy policy, made once for all trainer tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from stannary.environments import Environment, describe_environment, load_environment
from trainer.base import make_toy

os.environ.setdefault("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy policy's folder."""
    return make_toy(tmp_path_factory.mktemp("base") / "toy")


@pytest.fixture(scope="session")
def sieve(toy: Path) -> Environment:
    """The toy's environment."""
    return load_environment(describe_environment("sieve", {}, toy), toy)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
