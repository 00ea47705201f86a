"""The development chain: started once, kept over a restart, ended with all its processes."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from stannary.chain import devnet as local
from stannary.chain.connection import Connection
from stannary.errors import Reverted, SettingsError, Unreachable
from stannary.types import Address
from tests.chains import TOKENS

SOMEBODY = Address("0x00000000000000000000000000000000000000AA")


def test_devnet_up_twice_is_one_chain_and_down_keeps_its_state(tmp_path: Path) -> None:
    port = local.free_port()
    try:
        first = local.up(tmp_path, port, block_time_s=0)
        local.fund(first, SOMEBODY, 5, 7 * TOKENS)
        again = local.up(tmp_path, port, block_time_s=0)
        assert again.deployment == first.deployment
        assert again.frozen() == first.frozen()
        with pytest.raises(SettingsError, match="runs on port"):
            local.up(tmp_path, port + 1)
        before = first.frozen()
        assert local.down(tmp_path)
        with pytest.raises(Unreachable):
            first.frozen()
        assert not local.down(tmp_path)
        later = local.up(tmp_path, port, block_time_s=0)
        assert later.deployment == first.deployment
        assert later.block(before.number) == before
        assert (later.balance_of(SOMEBODY), later.token.balance_of(SOMEBODY)) == (5, 7 * TOKENS)
    finally:
        local.down(tmp_path)


def test_old_states_lie_in_the_folder_and_go_with_the_node(tmp_path: Path) -> None:
    """Anvil would put them below the home folder, without an end, and leave them there."""
    try:
        port = local.free_port()
        local.up(tmp_path, port, block_time_s=0)
        local.mine(Connection(f"http://127.0.0.1:{port}"), 1 + 4 * local.MOST_OLD_STATES)
        kept = [path for path in (tmp_path / "history").rglob("*") if path.is_file()]
        assert 0 < len(kept) <= local.MOST_OLD_STATES + 1
    finally:
        local.down(tmp_path)
    assert not (tmp_path / "history").exists()


def test_devnet_on_a_taken_port_says_so(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(SettingsError, match="in use"):
            local.up(tmp_path, taken.getsockname()[1])
    assert not local.down(tmp_path)


def test_devnet_with_a_damaged_process_file_says_which(tmp_path: Path) -> None:
    (tmp_path / "devnet.json").write_text("{")
    with pytest.raises(SettingsError, match=r"devnet\.json"):
        local.up(tmp_path)


def test_devnet_on_hardhat_serves_the_same_contracts(tmp_path: Path) -> None:
    try:
        chain = local.up(tmp_path, local.free_port(), is_hardhat=True)
        local.fund(chain, SOMEBODY, 5, 7 * TOKENS)
        at = chain.frozen()
        assert (chain.balance_of(SOMEBODY, at), chain.token.balance_of(SOMEBODY, at)) == (5, 7 * TOKENS)
        with pytest.raises(Reverted) as caught:
            chain.pool_registry.terms_of(3, at)
        assert (caught.value.name, caught.value.values) == ("UnknownPool", {"pool": 3})
    finally:
        local.down(tmp_path)
