"""coordinator.event_rows: an event of any kind is the same after the database as before."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import IntEnum
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from coordinator.event_rows import event_of, row_of
from stannary.chain.events import Event, Place, event_kinds
from stannary.types import Hash

PLACE = Place(7, Hash(b"\x07" * 32), 3, Hash(b"\x08" * 32))


def sample(kind: Any) -> Any:
    """Return some value of a type, as large as it gets."""
    kind = getattr(kind, "__supertype__", kind)
    if get_origin(kind) is tuple:
        return (sample(get_args(kind)[0]),) * 3
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{spec.name: sample(hints[spec.name]) for spec in fields(kind)})  # type: ignore[operator]
    if issubclass(kind, IntEnum):
        return list(kind)[-1]
    return {int: 2**256 - 1, bool: True, str: "0xAb", bytes: b"\x00\xff" * 16}[kind]


@pytest.mark.parametrize("kind", event_kinds().values(), ids=lambda kind: kind.__name__)
def test_event_of_every_kind_survives_its_row(kind: type[Event]) -> None:
    hints = get_type_hints(kind)
    arguments = {spec.name: sample(hints[spec.name]) for spec in fields(kind) if spec.name != "place"}
    event = kind(PLACE, **arguments)
    row = row_of(event, "key")
    assert event_of(row) == event
    assert (row.step, row.slot) == (arguments.get("step"), arguments.get("slot"))
