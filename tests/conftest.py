"""Fixtures that tests of several packages share: a real chain with our contracts on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stannary.chain import Chain, deploy
from stannary.chain import devnet as local
from tests.chains import Devnet


@pytest.fixture(scope="session")
def anvil(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A running anvil that mines a block for each transaction; its RPC address."""
    node = local.start(tmp_path_factory.mktemp("anvil"), local.free_port(), block_time_s=0)
    try:
        yield node.rpc_url
    finally:
        node.end()


@pytest.fixture(scope="session")
def deployed_chain(anvil: str) -> Chain:
    """The contracts, deployed once; tests use `devnet`, which takes back what they did."""
    connection = local.Connection(anvil)
    return Chain(anvil, deploy(connection, local.faucet_account()))


@pytest.fixture
def devnet(deployed_chain: Chain, tmp_path: Path) -> Iterator[Devnet]:
    """A chain with fresh contracts and accounts with money; undone after the test."""
    snapshot = deployed_chain.rpc("evm_snapshot")
    world = Devnet(deployed_chain, lock_folder=tmp_path / "locks")
    deployed_chain.deployment.write(tmp_path / "deployment.json")
    try:
        yield world
    finally:
        deployed_chain.rpc("evm_revert", snapshot)
