"""A strict reader of Thrift's compact protocol, for the headers of a Parquet file.

Each struct is read by a table of the fields that it may have, and each value has one spelling: fields in ascending
order, numbers in as few bytes as they need. What the bytes say is said once, and takes no more memory than they do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from stannary.errors import Malformed

BOOL, I16, I32, I64, BINARY = 2, 4, 5, 6, 8
_TRUE, _FALSE, _LIST, _STRUCT = 1, 2, 9, 12
_BITS = {I16: 16, I32: 32, I64: 64}

Kind: TypeAlias = "int | ListOf | Struct"


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of values of one kind, which is not BOOL."""

    kind: Kind


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct's name and its fields by number, each with its own name and kind."""

    name: str
    required: Mapping[int, tuple[str, Kind]]
    optional: Mapping[int, tuple[str, Kind]] = field(default_factory=dict)


class Reader:
    """Reads on through a part of some bytes; `what` names it in errors."""

    def __init__(self, data: bytes | memoryview, what: str) -> None:
        self.what = what
        self._data = memoryview(data)
        self.at = 0

    @property
    def left(self) -> int:
        """How many bytes are left."""
        return len(self._data) - self.at

    def take(self, count: int) -> memoryview:
        """Return the next bytes, not copied. Raises: Malformed if there are fewer."""
        if not 0 <= count <= self.left:
            raise self.wrong(f"{count} bytes more", self.left)
        self.at += count
        return self._data[self.at - count : self.at]

    def part(self, count: int, what: str) -> Reader:
        """Return a reader of the next bytes alone. Raises: Malformed if there are fewer."""
        return Reader(self.take(count), what)

    def varint(self, bits: int) -> int:
        """Return a number without a sign. Raises: Malformed if it takes more bits, or more bytes than it needs."""
        value = 0
        for place in range(0, bits, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << place
            if byte < 0x80:
                if value >> bits or (place and not byte):
                    break
                return value
        raise self.wrong(f"a number of {bits} bits in as few bytes as it needs", value)

    def struct(self, table: Struct) -> dict[str, Any]:
        """Return a struct's fields by name. Raises: Malformed if it is not exactly what the table says."""
        found: dict[str, Any] = {}
        number = 0
        while head := self.take(1)[0]:
            step = head >> 4
            if not step:
                step = self._zigzag(16) - number
                if step < 16:
                    raise self.wrong(f"the fields of {table.name} in order, written shortly", number + step)
            number += step
            name, kind = table.required.get(number) or table.optional.get(number) or ("", 0)
            if not name:
                raise self.wrong(f"no field of {table.name} but the known ones", f"field {number}")
            written = head & 15
            if written != (written if kind == BOOL and written in (_TRUE, _FALSE) else _written(kind)):
                raise self.wrong(f"{table.name}.{name} of its own type", f"type {written}")
            found[name] = written == _TRUE if kind == BOOL else self._value(kind)
        for name, _ in table.required.values():
            if name not in found:
                raise self.wrong(f"{table.name} with {name}", sorted(found))
        return found

    def wrong(self, expected: str, got: object) -> Malformed:
        """Return the error for these bytes."""
        return Malformed(self.what, expected=expected, got=got)

    def _value(self, kind: Kind) -> Any:
        if isinstance(kind, Struct):
            return self.struct(kind)
        if isinstance(kind, ListOf):
            head = self.take(1)[0]
            count = head >> 4
            if count == 15:
                count = self.varint(31)
                if count < 15:
                    raise self.wrong("a list's length written shortly", count)
            if head & 15 != _written(kind.kind) or count > self.left:  # each takes a byte at least
                raise self.wrong(f"a list of type {_written(kind.kind)} that fits", f"{count} of type {head & 15}")
            return [self._value(kind.kind) for _ in range(count)]
        return bytes(self.take(self.varint(31))) if kind == BINARY else self._zigzag(_BITS[kind])

    def _zigzag(self, bits: int) -> int:
        value = self.varint(bits)
        return value >> 1 ^ -(value & 1)


def _written(kind: Kind) -> int:
    """Return the type that stands in the bytes."""
    return kind if isinstance(kind, int) else _LIST if isinstance(kind, ListOf) else _STRUCT
