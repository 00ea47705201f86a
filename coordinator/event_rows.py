"""Events as rows and back: what the chain keeps only as events is read once and then from the database."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import IntEnum
from typing import Any, get_args, get_origin, get_type_hints

from sqlalchemy import select
from sqlalchemy.orm import Session

from coordinator.tables import EventRow
from stannary.chain import StepHistory
from stannary.chain.events import Event, Place, event_kinds
from stannary.types import to_hex

_PLACE = {spec.name for spec in fields(Event)}


def row_of(event: Event, stale_key: str) -> EventRow:
    """Return the row of an event."""
    place = event.place
    arguments = {spec.name: _plain(getattr(event, spec.name)) for spec in fields(event) if spec.name not in _PLACE}
    return EventRow(
        block_number=place.block_number,
        log_index=place.log_index,
        block_hash=place.block_hash,
        transaction=place.transaction,
        name=type(event).__name__,
        step=getattr(event, "step", None),
        slot=getattr(event, "slot", None),
        arguments=json.dumps(arguments, sort_keys=True),
        stale_key=stale_key,
    )


def event_of(row: EventRow) -> Event:
    """Return the event of a row."""
    kind = event_kinds()[row.name]
    place = Place(row.block_number, row.block_hash, row.log_index, row.transaction)
    hints, arguments = _hints(kind), json.loads(row.arguments)
    return kind(place, **{name: _typed(hints[name], value) for name, value in arguments.items()})


def history_of(session: Session, pool: int, step: int) -> StepHistory:
    """Return all that has happened to a step up to the mirrored block."""
    rows = session.scalars(
        select(EventRow).where(EventRow.step == step).order_by(EventRow.block_number, EventRow.log_index)
    ).all()
    return StepHistory.of([event_of(row) for row in rows], pool, step)


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return to_hex(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if is_dataclass(value):
        return {spec.name: _plain(getattr(value, spec.name)) for spec in fields(value)}
    if isinstance(value, int) and not isinstance(value, bool):
        return str(int(value))
    return value


def _typed(kind: Any, value: Any) -> object:
    kind = getattr(kind, "__supertype__", kind)
    if get_origin(kind) is tuple:
        return tuple(_typed(get_args(kind)[0], item) for item in value)
    if kind is bytes:
        return bytes.fromhex(value[2:])
    if is_dataclass(kind):
        hints = _hints(kind)
        return kind(**{name: _typed(hints[name], item) for name, item in value.items()})  # type: ignore[operator]
    if isinstance(kind, type) and issubclass(kind, IntEnum):
        return kind(int(value))
    return int(value) if kind is int else value


def _hints(kind: Any) -> Mapping[str, Any]:
    if kind not in _HINTS:
        _HINTS[kind] = get_type_hints(kind)
    return _HINTS[kind]


_HINTS: dict[Any, Mapping[str, Any]] = {}
