"""A reader of Thrift's compact protocol, for the footer of a Parquet file: its fields by number, bounded by its bytes.

pyarrow's own view of a column's metadata ends the whole process when the footer says something it does not expect.
"""

from __future__ import annotations

from typing import TypeAlias

Value: TypeAlias = "int | bytes | list[Value] | dict[int, Value]"
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_MAX_DEPTH = 16
_MAX_VARINT_BYTES = 10


def read_struct(data: bytes) -> dict[int, Value]:
    """Return the fields of the struct that some bytes begin with, the last of each number.

    Raises: ValueError if they do not, or if it holds a map or is nested too deeply.
    """
    return _Reader(data).struct(0)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def struct(self, depth: int) -> dict[int, Value]:
        if depth > _MAX_DEPTH:
            raise ValueError("nested too deeply")
        found: dict[int, Value] = {}
        number = 0
        while head := self._take(1)[0]:
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            kind = head & 15
            found[number] = int(kind == _TRUE) if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return found

    def _value(self, kind: int, depth: int) -> Value:
        if kind in (_TRUE, _FALSE, _BYTE):
            return self._take(1)[0]
        if kind in (_I16, _I32, _I64):
            return self._zigzag()
        if kind == _DOUBLE:
            return self._take(8)
        if kind == _BINARY:
            return self._take(self._varint())
        if kind in (_LIST, _SET):
            if depth > _MAX_DEPTH:
                raise ValueError("nested too deeply")
            head = self._take(1)[0]
            count = head >> 4 if head >> 4 < 15 else self._varint()
            return [self._value(head & 15, depth + 1) for _ in range(count)]  # each takes a byte at least
        if kind == _STRUCT:
            return self.struct(depth + 1)
        raise ValueError(f"no type {kind} is read here")

    def _take(self, count: int) -> bytes:
        start = self._at
        if count > len(self._data) - start:
            raise ValueError("ends before its time")
        self._at = start + count
        return self._data[start : self._at]

    def _varint(self) -> int:
        value = 0
        for place in range(_MAX_VARINT_BYTES):
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                return value
        raise ValueError("a number is too long")

    def _zigzag(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)
