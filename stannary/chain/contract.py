"""One contract at one address: encodes calls, reads views, finds emitted events. The base of the typed wrappers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from eth_abi.exceptions import DecodingError, EncodingError

import contracts
from contracts import ContractName
from stannary.chain.abi import decode, decode_event, encode_arguments, plain, selector, signature, topic, type_of
from stannary.chain.connection import Block, Call, Connection, Mined
from stannary.errors import ChainError, Malformed
from stannary.types import Address

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

S = TypeVar("S", bound="DataclassInstance")

_NOBODY = Address("0x0000000000000000000000000000000000000000")


class Contract:
    """A deployed contract; a subclass names it and types its functions."""

    NAME: ClassVar[ContractName]

    def __init__(self, connection: Connection, address: Address) -> None:
        self.address = address
        self._connection = connection

    def encode(self, function: str, *arguments: object) -> Call:
        """Return a call, ready to simulate or send. Raises: Malformed if an argument does not fit the ABI."""
        item = _item(self.NAME, "function", function)
        try:
            data = selector(item) + encode_arguments(item["inputs"], arguments)
        except (EncodingError, TypeError, ValueError) as error:
            raise Malformed(f"{self.NAME}.{function}", expected=signature(item), got=str(error)) from error
        return Call(f"{self.NAME}.{function}", self.address, data)

    def read(self, function: str, *arguments: object, at: Block | None = None) -> Any:
        """Return a view's result at a block; several results and structs come as a tuple.

        Raises: Reverted, Unreachable, Malformed; ChainError if the address holds another contract or none.
        """
        outputs = _item(self.NAME, "function", function)["outputs"]
        data = self._connection.simulate(self.encode(function, *arguments), _NOBODY, at)
        try:
            values = decode([type_of(part) for part in outputs], data)
        except DecodingError as error:
            raise ChainError(f"{self.address} answers {self.NAME}.{function} with {len(data)} odd bytes") from error
        decoded = [plain(part, value) for part, value in zip(outputs, values, strict=True)]
        return decoded[0] if len(decoded) == 1 else tuple(decoded)

    def emitted(self, mined: Mined, event: str, argument: str) -> Any:
        """Return an argument of the event that a transaction made this contract emit.

        Raises: Unreachable, Malformed; ChainError if it emitted none, or another than the ABI declares.
        """
        item = _item(self.NAME, "event", event)
        for log in self._connection.logs([self.address], mined.block_number, mined.block_number):
            topics = [bytes(word) for word in log["topics"]]
            if bytes(log["transactionHash"]) == mined.transaction and topics[0] == topic(item):
                try:
                    return decode_event(item, topics, bytes(log["data"]))[argument]
                except (DecodingError, ValueError) as error:
                    raise ChainError(f"{self.address} emits another {self.NAME}.{event} than declared") from error
        raise ChainError(f"{self.NAME} emitted no {event} in block {mined.block_number}")


def struct_of(kind: type[S], values: Sequence[object], kinds: Mapping[str, Callable[[Any], object]]) -> S:
    """Return a dataclass of a struct's members, in order; `kinds` says what some of them become.

    Raises: ValueError if there are more or fewer.
    """
    named = dict(zip((spec.name for spec in fields(kind)), values, strict=True))
    return kind(**named | {name: convert(named[name]) for name, convert in kinds.items()})


@cache
def _item(contract: ContractName, kind: str, name: str) -> dict[str, Any]:
    found = [item for item in contracts.abi(contract) if item["type"] == kind and item["name"] == name]
    if len(found) != 1:
        raise LookupError(f"{contract} declares {len(found)} of {kind} {name}, expected one")
    return found[0]
