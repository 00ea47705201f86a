"""ABI items read as they are: signatures, selectors, topics, and the decoding of events. Knows no connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eth_abi.abi import encode
from eth_abi.codec import ABICodec
from eth_abi.decoding import StringDecoder
from eth_abi.encoding import TextStringEncoder
from eth_abi.exceptions import DecodingError
from eth_abi.registry import BaseEquals, registry
from eth_utils.abi import collapse_if_tuple
from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak


class _AnyText(StringDecoder):
    """Reads texts that contracts hand on as they came: bytes that are no UTF-8 become U+FFFD, and end no reading."""

    def __init__(self) -> None:
        super().__init__(handle_string_errors="replace")  # type: ignore[no-untyped-call]


def _codec() -> ABICodec:
    own = registry.copy()  # type: ignore[no-untyped-call]
    own.unregister("string")
    is_text = BaseEquals("string", with_sub=False)  # type: ignore[no-untyped-call]
    own.register(is_text, TextStringEncoder, _AnyText, label="string")
    return ABICodec(own)


_CODEC = _codec()


def decode(types: Sequence[str], data: bytes) -> tuple[Any, ...]:
    """Return the values of these types. Raises: eth_abi's DecodingError, also for an offset beyond all bounds."""
    try:
        return _CODEC.decode(types, data)
    except OverflowError as error:
        raise DecodingError("an offset or a length beyond all bounds") from error


def type_of(part: Mapping[str, Any]) -> str:
    """Return the canonical type of an argument, tuples spelled out."""
    return collapse_if_tuple(dict(part))


def signature(item: Mapping[str, Any]) -> str:
    """Return the canonical signature, such as `deposit(uint256)`."""
    return f"{item['name']}({','.join(type_of(part) for part in item['inputs'])})"


def selector(item: Mapping[str, Any]) -> bytes:
    """Return the four bytes by which a function or an error is known."""
    return keccak(text=signature(item))[:4]


def topic(item: Mapping[str, Any]) -> bytes:
    """Return the 32 bytes by which an event is known."""
    return keccak(text=signature(item))


def encode_arguments(inputs: Sequence[Mapping[str, Any]], values: Sequence[object]) -> bytes:
    """Return the encoding of arguments. Raises: ValueError or EncodingError if one does not fit, short bytes included.

    eth_abi pads a `bytes32` that is too short; here it is an error, since it is nobody's intention.
    """
    for part, value in zip(inputs, values, strict=True):
        _refuse_short(part, value)
    return encode([type_of(part) for part in inputs], values)


def decode_event(item: Mapping[str, Any], topics: Sequence[bytes], data: bytes) -> dict[str, object]:
    """Return an event's arguments by name, in the ABI's order; indexed ones must have a static type.

    Raises: DecodingError if the data is not what the event declares; ValueError for more or fewer topics.
    """
    indexed = [part for part in item["inputs"] if part["indexed"]]
    stored = [part for part in item["inputs"] if not part["indexed"]]
    values = dict(zip((part["name"] for part in stored), decode([type_of(part) for part in stored], data), strict=True))
    for part, word in zip(indexed, topics[1:], strict=True):
        values[part["name"]] = decode([type_of(part)], bytes(word))[0]
    return {part["name"]: plain(part, values[part["name"]]) for part in item["inputs"]}


def plain(part: Mapping[str, Any], value: Any) -> object:
    """Return a decoded value with addresses in checksum form; structs and arrays become tuples."""
    kind = str(part["type"])
    if kind.endswith("[]"):
        element = {**part, "type": kind[:-2]}
        return tuple(plain(element, one) for one in value)
    if kind == "tuple":
        return tuple(plain(inner, one) for inner, one in zip(part["components"], value, strict=True))
    return to_checksum_address(value) if kind == "address" else value


def _refuse_short(part: Mapping[str, Any], value: Any) -> None:
    kind = str(part["type"])
    if kind.endswith("[]"):
        for one in value:
            _refuse_short({**part, "type": kind[:-2]}, one)
    elif kind == "tuple":
        for inner, one in zip(part["components"], value, strict=True):
            _refuse_short(inner, one)
    elif kind.startswith("bytes") and kind != "bytes" and len(value) != int(kind[5:]):
        raise ValueError(f"{part['name']}: {len(value)} bytes for {kind}")
