"""The compact protocol of Thrift as a tree, so that a Parquet footer can be changed in one place and stay readable.

A struct is a list of (field, type, value), a list is (element type, values); numbers, bytes and booleans are as in
Python.
"""

from __future__ import annotations

import struct as packing
from dataclasses import dataclass
from typing import Any

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
_MAX_DEPTH = 32


@dataclass(slots=True)
class Struct:
    """Fields in order, as (number, type, value)."""

    fields: list[tuple[int, int, Any]]


@dataclass(slots=True)
class List:
    """Values of one type, and another one that its header may show instead."""

    kind: int
    values: list[Any]
    shown: int = 0


def read(data: bytes) -> tuple[Struct, int]:
    """Return the struct at the start of some bytes and its length. Raises: ValueError, IndexError if there is none."""
    reader = _Reader(data)
    found = reader.value(STRUCT, 0)
    return found, reader.at


def write(value: Struct) -> bytes:
    """Return the bytes of a struct; numbers may be anything, a field's number must rise by less than 2^15."""
    out = bytearray()
    _write(out, STRUCT, value)
    return bytes(out)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value
            if shift > 70:
                raise ValueError("a number without an end")

    def zigzag(self) -> int:
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def take(self, count: int) -> bytes:
        if self.at + count > len(self.data):
            raise ValueError("bytes are missing")
        self.at += count
        return self.data[self.at - count : self.at]

    def value(self, kind: int, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise ValueError("too deep")
        if kind in (TRUE, FALSE):
            return kind == TRUE
        if kind == BYTE:
            return self.byte()
        if kind in (I16, I32, I64):
            return self.zigzag()
        if kind == DOUBLE:
            return packing.unpack("<d", self.take(8))[0]
        if kind == BINARY:
            return self.take(self.varint())
        if kind in (LIST, SET):
            head = self.byte()
            count, element = head >> 4, head & 15
            count = self.varint() if count == 15 else count
            if element in (TRUE, FALSE):
                return List(element, [self.byte() == TRUE for _ in range(count)])
            return List(element, [self.value(element, depth + 1) for _ in range(count)])
        if kind == STRUCT:
            return self.struct(depth)
        raise ValueError(f"no type {kind}")

    def struct(self, depth: int) -> Struct:
        fields: list[tuple[int, int, Any]] = []
        number = 0
        while head := self.byte():
            number = number + (head >> 4) if head >> 4 else self.zigzag()
            fields.append((number, head & 15, self.value(head & 15, depth + 1)))
        return Struct(fields)


def _varint(out: bytearray, value: int) -> None:
    value &= (1 << 64) - 1
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _write(out: bytearray, kind: int, value: Any) -> None:
    if kind == BYTE:
        out.append(value & 0xFF)
    elif kind in (I16, I32, I64):
        _varint(out, value << 1 ^ value >> 63)
    elif kind == DOUBLE:
        out += packing.pack("<d", value)
    elif kind == BINARY:
        _varint(out, len(value))
        out += value
    elif kind in (LIST, SET):
        shown = value.shown or value.kind
        if len(value.values) < 15:
            out.append(len(value.values) << 4 | shown)
        else:
            out.append(0xF0 | shown)
            _varint(out, len(value.values))
        for item in value.values:
            if value.kind in (TRUE, FALSE):
                out.append(TRUE if item else FALSE)
            else:
                _write(out, value.kind, item)
    elif kind == STRUCT:
        last = 0
        for number, inner, item in value.fields:
            shown = (TRUE if item else FALSE) if inner in (TRUE, FALSE) else inner
            if 0 < number - last < 16:
                out.append(number - last << 4 | shown)
            else:
                out.append(shown)
                _varint(out, number << 1 ^ number >> 63)
            if inner not in (TRUE, FALSE):
                _write(out, inner, item)
            last = number
        out.append(0)
