"""Canonical JSON: documents (cards, environments, manifests) that are named by a hash."""

from __future__ import annotations

import json
import math
from typing import TypeAlias

from eth_utils.crypto import keccak
from pydantic_core import from_json

from stannary.errors import Malformed
from stannary.types import Hash

MAX_DOCUMENT_BYTES = 1 << 20
_Place: TypeAlias = "tuple[_Place | None, str | int]"
"""A value's way from the root: the place of what holds it, and its key or index there."""


def canonical(document: object) -> bytes:
    """Return the one JSON encoding of a document: sorted keys, no white space, UTF-8, finite numbers.

    Raises: Malformed if the document cannot be written so.
    """
    _refuse_surprises(document, None)
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


def document_hash(document: object) -> Hash:
    """Return keccak256 of the canonical encoding."""
    return Hash(keccak(canonical(document)))


def parse_document(data: bytes, field: str = "document") -> dict[str, object]:
    """Read a canonical JSON object; any other spelling of the same content is refused. Raises: Malformed."""
    if len(data) > MAX_DOCUMENT_BYTES:
        raise Malformed(field, expected=f"at most {MAX_DOCUMENT_BYTES} bytes", got=len(data))
    try:
        # pydantic's reader bounds the nesting whatever the recursion limit of this process is.
        document = from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise Malformed(field, expected="JSON", got=data[:40]) from error
    if not isinstance(document, dict):
        raise Malformed(field, expected="a JSON object", got=type(document).__name__)
    if canonical(document) != data:
        raise Malformed(field, expected="the canonical encoding", got=data[:40])
    return document


def _refuse_surprises(value: object, place: _Place | None) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise Malformed(_field(place), expected="string keys", got=key)
            _refuse_surprises(item, (place, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _refuse_surprises(item, (place, index))
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise Malformed(_field(place), expected="a finite number", got=value)
    elif not (value is None or isinstance(value, bool | int | str)):
        raise Malformed(_field(place), expected="a JSON value", got=type(value).__name__)


def _field(place: _Place | None) -> str:
    """Return a place in words, which only a refusal needs: written for each value, long keys would take for ever."""
    if place is None:
        return "document"
    outer, step = place
    return _field(outer) + (f"[{step}]" if isinstance(step, int) else f".{step}")
