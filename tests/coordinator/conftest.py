"""The office as a fixture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.coordinator.office import Office


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Office]:
    """An open office whose pool has one worker, `wendy`, and one open step of eight slots."""
    office = Office(tmp_path)
    monkeypatch.setattr("stannary.client.time", SimpleNamespace(time=office.now))
    office.open()
    office.see()
    office.stake("wendy")
    office.step()
    try:
        yield office
    finally:
        office.close()
