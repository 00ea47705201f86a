"""Reverts in words: a revert's bytes decoded by the errors that our contracts declare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from eth_abi.exceptions import DecodingError

import contracts
from stannary.chain.abi import decode, plain, selector, type_of

_ERROR_STRING = "08c379a0"
_PANIC = "4e487b71"


@dataclass(frozen=True, slots=True)
class DecodedRevert:
    """A revert's declared error."""

    reason: str
    name: str | None = None
    """The Solidity error, None if the contract gave a text or nothing."""
    values: Mapping[str, object] = field(default_factory=dict)


def decode_revert(data: object, message: str) -> DecodedRevert:
    """Return the error in a revert's data, or the node's message if the data holds none that we know."""
    if not isinstance(data, str) or not data.startswith("0x") or len(data) < 10:
        return DecodedRevert(message.removeprefix("execution reverted: ") or "no reason given")
    prefix, body = data[2:10].lower(), bytes.fromhex(data[10:])
    try:
        if prefix == _ERROR_STRING:
            return DecodedRevert(str(decode(["string"], body)[0]))
        if prefix == _PANIC:
            return DecodedRevert(f"panic 0x{decode(['uint256'], body)[0]:02x}")
        declared = _declared_errors().get(prefix)
        if declared is None:
            return DecodedRevert(f"an error that no contract of ours declares (0x{prefix})")
        inputs = declared["inputs"]
        values = decode([type_of(item) for item in inputs], body)
    except DecodingError:
        return DecodedRevert(f"an error that cannot be decoded ({data[:74]})")
    named = {item["name"] or "value": plain(item, value) for item, value in zip(inputs, values, strict=True)}
    shown = ", ".join(f"{name}={_shown(value)}" for name, value in named.items())
    return DecodedRevert(f"{declared['name']}({shown})", declared["name"], named)


@cache
def _declared_errors() -> dict[str, Any]:
    items = [
        item for contract in contracts.CONTRACT_NAMES for item in contracts.abi(contract) if item["type"] == "error"
    ]
    return {selector(item).hex(): item for item in items}


def _shown(value: object) -> str:
    return "0x" + value.hex() if isinstance(value, bytes) else str(value)
