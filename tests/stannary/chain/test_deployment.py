"""Deployments: predicted addresses, the file, and what does not fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from eth_account import Account

from stannary.chain import Chain, Deployment, deploy
from stannary.chain.deployment import created_address
from stannary.errors import FundsError, SettingsError
from stannary.types import Address
from tests.chains import Devnet


@pytest.mark.parametrize(
    ("nonce", "expected"),
    [
        (0, "0xcd234A471b72ba2F1Ccf0A70FCABA648a5eeCD8d"),
        (1, "0x343c43A37D37dfF08AE8C4A11544c718AbB4fCF8"),
        (2, "0xf778B86FA74E846c4f0a1fBd1335FE81c00a0C91"),
        (3, "0xffFd933A0bC612844eaF0C6Fe3E5b8E9B6C1d19c"),
    ],
)
def test_created_address_equals_the_published_examples(nonce: int, expected: str) -> None:
    """Source: https://ethereum.stackexchange.com/a/761, creator 0x6ac7ea33f8831ea9dcc53393aaa88b25a785dbf0."""
    assert created_address(Address("0x6ac7ea33f8831ea9dcc53393aaa88b25a785dbf0"), nonce) == expected


@pytest.mark.parametrize("nonce", [127, 128, 255, 256])
def test_created_address_equals_the_chain_at_every_length_of_nonce(devnet: Devnet, nonce: int) -> None:
    sender = devnet.sender("deployer")
    devnet.chain.rpc("anvil_setNonce", sender.address, hex(nonce))
    deployment = deploy(devnet.chain, devnet.account("deployer"))
    assert deployment.token == created_address(sender.address, nonce)


def test_deployment_file_reads_back(devnet: Devnet, tmp_path: Path) -> None:
    devnet.chain.deployment.write(tmp_path / "d.json")
    assert Chain.open(devnet.chain.rpc_url, tmp_path / "d.json").deployment == devnet.chain.deployment


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"chainId": 1, "deployedBlock": 0, "contracts": {}}'])
def test_deployment_file_that_is_none_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "d.json").write_text(text)
    with pytest.raises(SettingsError, match=r"d\.json"):
        Deployment.read(tmp_path / "d.json")


def test_place_is_shared_with_no_other_pool_ledger_or_chain(devnet: Devnet) -> None:
    here = devnet.chain.deployment
    others = [replace(here, chain_id=1), replace(here, submission_ledger=here.payout_vault)]
    places = {here.place_of(1), here.place_of(2), *(other.place_of(1) for other in others)}
    assert len(places) == 4
    assert not any(place.is_absolute() for place in places)


def test_deployment_of_another_chain_id_is_refused(devnet: Devnet) -> None:
    with pytest.raises(SettingsError, match="chain 1"):
        replace(devnet.chain.deployment, chain_id=1).verify(devnet.chain)


def test_deployment_without_code_is_refused(devnet: Devnet) -> None:
    nowhere = Address("0x00000000000000000000000000000000000000AA")
    with pytest.raises(SettingsError, match="PayoutVault"):
        replace(devnet.chain.deployment, payout_vault=nowhere).verify(devnet.chain)


def test_deployment_with_swapped_contracts_is_refused(devnet: Devnet) -> None:
    swapped = replace(devnet.chain.deployment, payout_vault=devnet.chain.deployment.token)
    with pytest.raises(SettingsError, match="no PayoutVault"):
        swapped.verify(devnet.chain)


def test_deploy_without_money_says_so(devnet: Devnet) -> None:
    with pytest.raises(FundsError):
        deploy(devnet.chain, Account.create())
