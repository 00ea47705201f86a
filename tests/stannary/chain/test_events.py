"""Events: every one that the contracts declare has a class with the same arguments, and reading is whole."""

from __future__ import annotations

from dataclasses import fields

import pytest

import contracts
from stannary.chain import Chain, NodeRefused, events
from stannary.types import Role
from tests.chains import TOKENS, Devnet

INHERITED = {"Approval", "Transfer", "EIP712DomainChanged"}
"""Of OpenZeppelin's parts; nothing of ours is rebuilt from them."""


@pytest.mark.parametrize("contract", contracts.CONTRACT_NAMES)
def test_events_of_a_contract_all_have_classes_with_the_same_arguments(contract: contracts.ContractName) -> None:
    declared = {
        item["name"]: [events.field_name(part["name"]) for part in item["inputs"]]
        for item in events.event_items(contract)
        if item["name"] not in INHERITED
    }
    classes = {
        kind.__name__: [spec.name for spec in fields(kind) if spec.name != "place"]
        for kind in events.Event.__subclasses__()
        if contract == kind.CONTRACT
    }
    assert classes == declared


def test_events_read_in_small_ranges_equal_one_read(devnet: Devnet, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = devnet.pool()
    devnet.stake("worker", pool, Role.WORKER)
    chain = devnet.chain
    last = chain.frozen().number
    whole = chain.read_events(0, last)
    monkeypatch.setattr(events, "BLOCKS_A_READ", 1)
    assert chain.read_events(0, last) == whole
    assert [type(event).__name__ for event in whole[-4:]] == ["PoolCreated", "Funded", "Deposited", "Allocated"]
    deposited = whole[-2]
    assert isinstance(deposited, events.Deposited)
    assert (deposited.provider, deposited.amount) == (devnet.sender("worker").address, 1_000 * TOKENS)
    assert deposited.place.block_hash == chain.block(deposited.place.block_number).hash


def test_events_range_that_the_node_refuses_is_halved(devnet: Devnet) -> None:
    class Stingy(Chain):
        """A node that answers for three blocks at most."""

        def logs(self, addresses: object, from_block: int, to_block: int) -> list[object]:
            if to_block - from_block >= 3:
                raise NodeRefused("eth_getLogs: range too large")
            return super().logs(addresses, from_block, to_block)  # type: ignore[arg-type]

    devnet.pool()
    last = devnet.chain.frozen().number
    stingy = Stingy(devnet.chain.rpc_url, devnet.chain.deployment)
    assert stingy.read_events(0, last) == devnet.chain.read_events(0, last)
