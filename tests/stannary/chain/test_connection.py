"""The connection: frozen reads, and the node's refusals as errors of ours."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stannary.chain import NodeRefused
from stannary.chain.connection import Block
from stannary.errors import ChainError, Malformed, NetworkError, Reverted, Unavailable
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
