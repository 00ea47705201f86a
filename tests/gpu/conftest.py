"""Everything here needs a GPU: without one it is skipped, and says so."""

from __future__ import annotations

import pytest
import torch

from tests.worker.conftest import plans, tiny

__all__ = ["plans", "tiny"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder, and skip them where there is no GPU."""
    for item in items:
        if "tests/gpu/" in item.path.as_posix():
            item.add_marker(pytest.mark.gpu)
            if not torch.cuda.is_available():
                item.add_marker(pytest.mark.skip(reason="there is no GPU"))
