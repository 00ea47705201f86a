"""The connection: frozen reads, and the node's refusals as errors of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from stannary.chain import NodeRefused
from stannary.chain.connection import Block, Call, Connection
from stannary.errors import ChainError, Malformed, NetworkError, Reverted, Unavailable, Unreachable
from stannary.types import Address, Hash, Role
from tests.chains import TOKENS, Devnet

NOBODY = Address("0x00000000000000000000000000000000000000AA")


def test_connection_read_at_a_frozen_block_does_not_see_what_came_later(devnet: Devnet) -> None:
    sender = devnet.sender("a")
    at = devnet.chain.frozen()
    devnet.chain.token.transfer(sender, NOBODY, 5)
    assert devnet.chain.token.balance_of(NOBODY, at) == 0
    assert devnet.chain.token.balance_of(NOBODY, devnet.chain.frozen()) == 5
    assert devnet.chain.block(at.hash) == at == devnet.chain.block(at.number)


def test_connection_read_at_a_block_that_was_reorganised_away_fails(devnet: Devnet) -> None:
    at: Block = replace(devnet.chain.frozen(), hash=Hash(b"\x42" * 32))
    with pytest.raises((NetworkError, NodeRefused)):
        devnet.chain.token.balance_of(NOBODY, at)
    with pytest.raises((NetworkError, NodeRefused)):
        devnet.chain.balance_of(NOBODY, at)


def test_connection_block_that_is_not_there_yet_is_unavailable(devnet: Devnet) -> None:
    with pytest.raises(Unavailable):
        devnet.chain.block(devnet.chain.frozen().number + 1000)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("balanceOf", ["0x12"]),
        ("balanceOf", []),
        ("transfer", [NOBODY, -1]),
        ("transfer", [NOBODY, 1 << 256]),
        ("transfer", [NOBODY, "5"]),
        ("transfer", [NOBODY, 1.5]),
    ],
)
def test_contract_arguments_that_do_not_fit_are_named(devnet: Devnet, function: str, arguments: list[object]) -> None:
    with pytest.raises(Malformed, match=function):
        devnet.chain.token.encode(function, *arguments)


def test_contract_hash_that_is_too_short_is_not_padded(devnet: Devnet) -> None:
    with pytest.raises(Malformed, match="31 bytes for bytes32"):
        devnet.chain.stake_manager.encode("allocate", 1, int(Role.WORKER), TOKENS, bytes(31))


def test_contract_at_an_address_without_code_is_a_chain_error(devnet: Devnet) -> None:
    elsewhere = type(devnet.chain.token)(devnet.chain, NOBODY)
    with pytest.raises(ChainError, match="balanceOf"):
        elsewhere.balance_of(NOBODY)


def test_connection_panics_and_texts_are_told(devnet: Devnet) -> None:
    from stannary.chain.reverts import decode_revert

    panic = "0x4e487b71" + (17).to_bytes(32).hex()
    text = "0x08c379a0" + (32).to_bytes(32).hex() + (2).to_bytes(32).hex() + b"no".ljust(32, b"\0").hex()
    assert decode_revert(panic, "").reason == "panic 0x11"
    assert decode_revert(text, "").reason == "no"
    assert "0xdeadbeef" in decode_revert("0xdeadbeef", "").reason
    assert decode_revert("0x4e487b71", "").reason.startswith("an error that cannot be decoded")
    assert decode_revert(None, "execution reverted").reason == "execution reverted"
    with pytest.raises(Reverted):
        devnet.chain.pool_registry.terms_of(99)


@contextmanager
def gateway(answer: bytes) -> Iterator[Connection]:
    """Serve one answer to whatever is asked."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield Connection(f"http://127.0.0.1:{server.server_address[1]}/v1/secret", timeout_s=5)
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    "answer",
    [
        *(
            b"<html>Too many requests</html>",
            b"",
            b"\xff\xfe",
            b"[]",
            b"7",
            b'"x"',
            b"{}",
            b'{"jsonrpc":"2.0","id":0,"res',
        ),
        *(b'{"jsonrpc":"2.0","id":0,"result":{}}', b'{"jsonrpc":"2.0","id":0,"result":"zz"}'),
    ],
)
def test_connection_answer_that_cannot_be_read_is_no_answer(answer: bytes) -> None:
    with gateway(answer) as chain:
        with pytest.raises(Unreachable) as caught:
            chain.frozen()
        assert "secret" not in str(caught.value)
        with pytest.raises((Unreachable, ChainError)):
            chain.simulate(Call("x", NOBODY, b""), NOBODY)


def test_connection_request_that_cannot_be_sent_is_malformed() -> None:
    with gateway(b"{}") as chain, pytest.raises(Malformed):
        chain.rpc("evm_mine", object())
