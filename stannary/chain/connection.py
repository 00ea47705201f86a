"""The connection to one chain: blocks, balances, calls, logs. The only module that speaks to web3.

Every failure leaves here as one of ours: no answer or an unreadable one is `Unreachable`, a revert is `Reverted` with
its decoded error, any other refusal of the node is `NodeRefused`. It knows no contract of Stannary and keeps no state
but the session.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast
from urllib.parse import urlsplit

from hexbytes import HexBytes
from requests import RequestException
from web3 import Web3
from web3.exceptions import (
    BlockNotFound,
    ContractLogicError,
    TransactionNotFound,
    Web3Exception,
    Web3RPCError,
)
from web3.providers.rpc import HTTPProvider
from web3.types import RPCEndpoint

from stannary.chain.reverts import decode_revert
from stannary.errors import ChainError, Malformed, Reverted, Unavailable, Unreachable
from stannary.types import Address, Hash

REQUEST_TIMEOUT_S = 20.0
MAX_SHOWN_CHARACTERS = 200
"""Of an answer that cannot be read."""


class NodeRefused(ChainError):
    """The node answered with an error that is no revert, such as a nonce too low or a range too large."""


@dataclass(frozen=True, slots=True)
class Block:
    """One point of the chain; reads that belong together are given the same one."""

    number: int
    hash: Hash
    timestamp: int
    """Chain time in unix seconds."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a contract, encoded; `to` is None when it creates one."""

    name: str
    """For people, such as `StakeManager.deposit`."""
    to: Address | None
    data: bytes
    value_wei: int = 0


@dataclass(frozen=True, slots=True)
class Mined:
    """A transaction that is in a block."""

    transaction: Hash
    block_number: int
    gas_used: int
    fee_wei: int
    is_success: bool
    created: Address | None
    """The contract that it created."""


class _Sent(threading.local):
    count = 0


class _Provider(HTTPProvider):
    """Counts the requests that went out, by thread: what fails after that is the fault of an answer."""

    def __init__(self, rpc_url: str, timeout_s: float) -> None:
        super().__init__(rpc_url, request_kwargs={"timeout": timeout_s}, exception_retry_configuration=None)
        self.global_ccip_read_enabled = False  # a contract must not make us fetch addresses of its choice
        self.sent = _Sent()

    def encode_rpc_request(self, method: RPCEndpoint, params: Any) -> bytes:
        encoded = super().encode_rpc_request(method, params)
        self.sent.count += 1
        return encoded


class Connection:
    """A JSON-RPC endpoint of one chain."""

    def __init__(self, rpc_url: str, *, timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        self.rpc_url = rpc_url
        self.shown_url = _shown(rpc_url)
        """The endpoint without path and password, which may hold a key."""
        self._provider = _Provider(rpc_url, timeout_s)
        self._web3 = Web3(self._provider)

    @cached_property
    def chain_id(self) -> int:
        """The chain's id, asked once."""
        with self._translated("eth_chainId"):
            return int(self._web3.eth.chain_id)

    def frozen(self) -> Block:
        """Return the newest block, to be handed to every read that belongs together."""
        return self.block("latest")

    def block(self, which: int | bytes | str) -> Block:
        """Return a block by number, hash or tag. Raises: Unavailable if the chain has none such."""
        with self._translated(f"block {which!r}"):
            found = self._web3.eth.get_block(cast(Any, which))
            return Block(int(found["number"]), Hash(bytes(found["hash"])), int(found["timestamp"]))

    def balance_of(self, address: Address, at: Block | None = None) -> int:
        """Return an account's coins for fees. Units: wei."""
        with self._translated("eth_getBalance"):
            return int(self._web3.eth.get_balance(cast(Any, address), _identifier(at)))

    def code_of(self, address: Address) -> bytes:
        """Return the code at an address, empty if there is none."""
        with self._translated("eth_getCode"):
            return bytes(self._web3.eth.get_code(cast(Any, address)))

    def transaction_count(self, address: Address, *, is_pending: bool) -> int:
        """Return the account's next nonce, waiting transactions included if `is_pending`."""
        with self._translated("eth_getTransactionCount"):
            return int(self._web3.eth.get_transaction_count(cast(Any, address), "pending" if is_pending else "latest"))

    def simulate(self, call: Call, sender: Address, at: Block | None = None) -> bytes:
        """Return what a call would return. Raises: Reverted, Unreachable."""
        with self._translated(call.name):
            return bytes(self._web3.eth.call(self._fields(call, sender), _identifier(at)))

    def estimate_gas(self, call: Call, sender: Address) -> int:
        """Return the gas that a call takes now. Raises: Reverted, Unreachable."""
        with self._translated(call.name):
            return int(self._web3.eth.estimate_gas(self._fields(call, sender)))

    def fees(self) -> tuple[int, int]:
        """Return (highest fee per gas to offer, tip per gas): twice the base fee and the tip that the node suggests.

        Units: wei.
        """
        with self._translated("eth_maxPriorityFeePerGas"):
            tip = int(self._web3.eth.max_priority_fee)
            base = int(self._web3.eth.get_block("latest")["baseFeePerGas"])
        return 2 * base + tip, tip

    def send_raw(self, raw: bytes, name: str) -> Hash:
        """Hand a signed transaction to the node. Raises: NodeRefused, Reverted, Unreachable."""
        with self._translated(name):
            return Hash(bytes(self._web3.eth.send_raw_transaction(raw)))

    def is_known(self, transaction: Hash) -> bool:
        """Say whether the node holds a transaction, mined or waiting."""
        try:
            with self._translated("eth_getTransactionByHash"):
                self._web3.eth.get_transaction(HexBytes(transaction))
        except Unavailable:
            return False
        return True

    def mined(self, transaction: Hash) -> Mined | None:
        """Return the outcome of a transaction, None while it is in no block."""
        try:
            with self._translated("eth_getTransactionReceipt"):
                found = self._web3.eth.get_transaction_receipt(HexBytes(transaction))
                created = found.get("contractAddress")
                return Mined(
                    transaction=transaction,
                    block_number=int(found["blockNumber"]),
                    gas_used=int(found["gasUsed"]),
                    fee_wei=int(found["gasUsed"]) * int(found.get("effectiveGasPrice", 0)),
                    is_success=int(found["status"]) == 1,
                    created=Address(str(created)) if created else None,
                )
        except Unavailable:
            return None

    def logs(
        self,
        addresses: Sequence[Address],
        from_block: int,
        to_block: int,
        topics: Sequence[bytes | None] = (),
    ) -> list[Any]:
        """Return the logs of some contracts, both ends included, with these topics in their places, None for any.

        Raises: NodeRefused, Unreachable.
        """
        query: dict[str, object] = {"address": list(addresses), "fromBlock": from_block, "toBlock": to_block}
        if topics:
            query["topics"] = [None if topic is None else HexBytes(topic) for topic in topics]
        with self._translated("eth_getLogs"):
            return list(self._web3.eth.get_logs(cast(Any, query)))

    def rpc(self, method: str, *parameters: object) -> Any:
        """Call a method of the node itself, such as `evm_mine` of a development chain."""
        with self._translated(method):
            answer = self._provider.make_request(RPCEndpoint(method), list(parameters))
            refusal, result = answer.get("error"), answer.get("result")
        if refusal is not None:
            raise NodeRefused(f"{method}: {_node_message(answer)}")
        return result

    @contextmanager
    def _translated(self, name: str) -> Iterator[None]:
        sent = self._provider.sent.count
        try:
            yield
        except ContractLogicError as error:
            decoded = decode_revert(error.data, str(error.message or error))
            raise Reverted(name, decoded.reason, name=decoded.name, values=decoded.values) from None
        except (BlockNotFound, TransactionNotFound) as error:
            raise Unavailable(f"{name}: {self.shown_url} does not hold it ({error.message})") from None
        except Web3RPCError as error:
            raise NodeRefused(f"{name}: {_node_message(error.rpc_response) or error}") from None
        except RequestException as error:
            raise Unreachable(f"{name}: no answer from the chain at {self.shown_url} ({_cause(error)})") from None
        except Exception as error:
            if self._provider.sent.count != sent:  # a gateway's page of its own, an answer that was cut off
                why = f"{type(error).__name__}: {str(error)[:MAX_SHOWN_CHARACTERS]}"
                raise Unreachable(f"{name}: no readable answer from the chain at {self.shown_url} ({why})") from error
            if isinstance(error, (Web3Exception, ValueError, TypeError, OverflowError)):
                raise Malformed(name, expected="a request that web3 can send", got=str(error)) from error
            raise

    @staticmethod
    def _fields(call: Call, sender: Address) -> Any:
        fields: dict[str, object] = {"from": sender, "data": HexBytes(call.data), "value": call.value_wei}
        if call.to is not None:
            fields["to"] = call.to
        return fields


def _shown(rpc_url: str) -> str:
    parts = urlsplit(rpc_url)
    return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")


def _identifier(at: Block | None) -> Any:
    """Name a block by its hash: a read at a block that was re-organised away fails instead of answering for another.

    Source: EIP-1898.
    """
    return "latest" if at is None else {"blockHash": "0x" + at.hash.hex(), "requireCanonical": True}


def _node_message(response: Any) -> str:
    error = response.get("error") if isinstance(response, Mapping) else None
    if isinstance(error, Mapping):
        return str(error.get("message", error))
    return str(error or "")


def _cause(error: BaseException) -> str:
    return type(error).__name__
