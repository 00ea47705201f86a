"""What a contract answers or emits: whatever the bytes are, the caller meets the errors that are documented."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import pytest
from eth_abi.exceptions import DecodingError

import contracts
from stannary.chain.abi import decode, decode_event, topic
from stannary.chain.connection import Block, Call, Connection, Mined
from stannary.chain.contract import Contract
from stannary.chain.reverts import decode_revert
from stannary.errors import ChainError
from stannary.types import Address, Hash

SOMEWHERE = Address("0x00000000000000000000000000000000000000AA")
TRANSACTION = Hash(b"\x07" * 32)
DELIVERED = next(item for item in contracts.abi("SubmissionLedger") if item.get("name") == "TakenSlotDelivered")


def word(value: int) -> bytes:
    return value.to_bytes(32, "big")


ODD = {
    "an offset of 2^256 - 1": word((1 << 256) - 1),
    "an offset of 2^63": word(1 << 63),
    "a length of 2^64": word(32) + word(1 << 64),
    "a length of 2^63 - 1": word(32) + word((1 << 63) - 1),
    "a length of 2^40": word(32) + word(1 << 40),
    "nothing": b"",
}


class Node:
    """Answers every view and every question for logs with the same bytes."""

    def __init__(self, data: bytes, topics: list[bytes]) -> None:
        self.data, self.topics = data, topics

    def simulate(self, call: Call, sender: Address, at: Block | None = None) -> bytes:
        return self.data

    def logs(self, addresses: list[Address], from_block: int, to_block: int) -> list[dict[str, Any]]:
        return [{"topics": self.topics, "transactionHash": TRANSACTION, "data": self.data}]


class Token(Contract):
    NAME: ClassVar[contracts.ContractName] = "MockToken"


class Ledger(Contract):
    NAME: ClassVar[contracts.ContractName] = "SubmissionLedger"


def node(data: bytes, topics: list[bytes] | None = None) -> Connection:
    return cast(Connection, Node(data, topics or []))


@pytest.mark.parametrize("kind", ["string", "bytes", "uint256[]", "(uint8,bytes)[]", "string[]"])
@pytest.mark.parametrize("data", ODD.values(), ids=ODD)
def test_bytes_beyond_all_bounds_are_a_decoding_error(kind: str, data: bytes) -> None:
    with pytest.raises(DecodingError):
        decode([kind], data)


@pytest.mark.parametrize("data", ODD.values(), ids=ODD)
def test_view_with_odd_bytes_is_a_chain_error(data: bytes) -> None:
    with pytest.raises(ChainError, match=r"MockToken\.name with .* odd bytes"):
        Token(node(data), SOMEWHERE).read("name")


def test_view_is_read() -> None:
    assert Token(node(word(32) + word(2) + b"ok" + bytes(30)), SOMEWHERE).read("name") == "ok"


@pytest.mark.parametrize("data", ODD.values(), ids=ODD)
@pytest.mark.parametrize("indexed", [0, 1, 3])
def test_event_with_odd_bytes_or_topics_is_a_chain_error(data: bytes, indexed: int) -> None:
    topics = [topic(DELIVERED), *[word(1)] * indexed]
    mined = Mined(TRANSACTION, 1, 1, 1, True, None)
    with pytest.raises(ChainError, match="emits another"):
        Ledger(node(data, topics), SOMEWHERE).emitted(mined, "TakenSlotDelivered", "location")


def test_event_whose_text_has_no_end_is_a_decoding_error() -> None:
    indexed = [word(1) for part in DELIVERED["inputs"] if part["indexed"]]
    with pytest.raises(DecodingError):
        decode_event(DELIVERED, [topic(DELIVERED), *indexed], word(1 << 255) * 20)


@pytest.mark.parametrize("data", ODD.values(), ids=ODD)
def test_revert_with_odd_bytes_is_told_as_one(data: bytes) -> None:
    assert "cannot be decoded" in decode_revert("0x08c379a0" + data.hex(), "reverted").reason
