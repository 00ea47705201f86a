"""Transactions that stay out of blocks, on a chain of their own: base fees outlast what a snapshot takes back."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from eth_account.signers.local import LocalAccount

from stannary.chain import Chain, Sender
from stannary.chain import devnet as local
from stannary.errors import FeeAboveCap, Unmined
from stannary.fees import GWEI, FeeRules
from stannary.types import Address, Hash, to_hex
from tests.chains import ETHER, Devnet

NOBODY = Address("0x00000000000000000000000000000000000000AA")


@pytest.fixture
def market(tmp_path: Path) -> Iterator[Devnet]:
    """A chain whose base fee a test may move."""
    folder = tmp_path / "chain"
    try:
        yield Devnet(local.up(folder, local.free_port(), 0), lock_folder=tmp_path / "locks")
    finally:
        local.down(folder)


def test_sender_stuck_by_a_fee_spike_offers_more_with_the_same_nonce_until_it_is_mined(market: Devnet) -> None:
    sender = _patient(market, FeeRules(bump_after_s=0.2))
    with market.mining_paused():
        submitted = sender.submit(market.chain.token.encode("transfer", NOBODY, 1))
        _raise_base_fee(market, 20 * submitted.price.fee)
        assert sender.poll(submitted) is None
        time.sleep(0.25)
        assert sender.poll(submitted) is None
        assert len(submitted.transactions) == 2
        assert submitted.price.fee > 20 * _offered(market.chain, submitted.transactions[0])
        market.mine()
    mined = sender.wait(submitted)
    assert (mined.transaction, mined.is_success) == (submitted.transactions[1], True)
    assert market.chain.token.balance_of(NOBODY) == 1
    assert market.chain.transaction_count(sender.address, is_pending=False) == 1
    assert not list(market.lock_folder.glob("*.json"))


@pytest.mark.parametrize("max_fee_gwei", [3, 1000])
def test_sender_never_offers_more_than_its_cap_nor_more_often_than_its_rules_say(
    market: Devnet, max_fee_gwei: int
) -> None:
    rules = FeeRules(bump_after_s=0.05, max_bumps=3, max_fee_wei=max_fee_gwei * GWEI)
    sender = _patient(market, rules, wait_s=1.5)
    with market.mining_paused():
        submitted = sender.submit(market.chain.token.encode("transfer", NOBODY, 1))
        with pytest.raises(Unmined):
            sender.wait(submitted)
        offers = [_offered(market.chain, one) for one in submitted.transactions]
        assert 1 < len(offers) <= 4
        assert max(offers) == submitted.price.fee <= rules.max_fee_wei
        market.mine()
    assert sender.wait(submitted).transaction == submitted.transaction


def test_sender_stuck_above_its_cap_is_sent_again_when_the_fees_have_fallen(market: Devnet) -> None:
    sender = _patient(market, FeeRules(bump_after_s=0.05, max_fee_wei=40 * GWEI), wait_s=0.5)
    with market.mining_paused():
        submitted = sender.submit(market.chain.token.encode("transfer", NOBODY, 1))
        _raise_base_fee(market, 1000 * GWEI)
        with pytest.raises(Unmined):
            sender.wait(submitted)
        assert len(submitted.transactions) == 1
        _raise_base_fee(market, GWEI)
        time.sleep(0.1)
        assert sender.poll(submitted) is None
        market.mine()
    assert sender.wait(submitted).is_success
    assert market.chain.token.balance_of(NOBODY) == 1


def test_sender_over_its_cap_from_the_start_sends_nothing(market: Devnet) -> None:
    sender = _patient(market, FeeRules(max_fee_wei=2 * GWEI))
    _raise_base_fee(market, 50 * GWEI)
    with pytest.raises(FeeAboveCap, match=r"at most 2\.000"):
        market.chain.token.transfer(sender, NOBODY, 1)
    assert market.chain.transaction_count(sender.address, is_pending=True) == 0
    _raise_base_fee(market, GWEI)


def test_sender_frees_what_another_process_left_stuck_and_that_one_finds_its_receipt(market: Devnet) -> None:
    left, follower = _patient(market, FeeRules(bump_after_s=60)), _patient(market, FeeRules(bump_after_s=0.1))
    with market.mining_paused():
        stuck = left.submit(market.chain.token.encode("transfer", NOBODY, 1))
        _raise_base_fee(market, 20 * stuck.price.fee)
        time.sleep(0.2)
        later = follower.submit(market.chain.token.encode("transfer", NOBODY, 2))
        assert (stuck.nonce, later.nonce) == (0, 1)
        market.mine()
        market.mine()
    assert follower.wait(later).is_success
    mined = left.wait(stuck)
    assert mined.is_success
    assert mined.transaction not in stuck.transactions
    assert market.chain.token.balance_of(NOBODY) == 3


def test_sender_sends_nothing_again_that_was_meant_for_a_chain_begun_anew(market: Devnet) -> None:
    sender = _patient(market, FeeRules(bump_after_s=0.05))
    snapshot = market.chain.rpc("evm_snapshot")
    with market.mining_paused():
        market.mine()
        sender.submit(market.chain.token.encode("transfer", NOBODY, 1))
        market.chain.rpc("anvil_dropAllTransactions")
        market.chain.rpc("evm_revert", snapshot)
    market.mine(2)
    time.sleep(0.1)
    assert market.chain.token.transfer(sender, NOBODY, 2).is_success
    assert market.chain.token.balance_of(NOBODY) == 2
    assert not list(market.lock_folder.glob("*.json"))


def test_sender_whose_nonce_was_taken_while_it_was_stuck_sends_once_more_and_only_once(market: Devnet) -> None:
    sender, outcome = _patient(market, FeeRules(bump_after_s=60)), []
    thread = threading.Thread(target=lambda: outcome.append(market.chain.token.transfer(sender, NOBODY, 1)))
    with market.mining_paused():
        thread.start()
        market.wait_for_pending(sender.address, 1)
        _raise_base_fee(market, 100 * GWEI)
        _send_raw(market.chain, market.account("a"), 0, fee_gwei=300)
        market.mine()
        market.wait_for_pending(sender.address, 2)
        market.mine()
    thread.join(10)
    assert len(outcome) == 1
    assert market.chain.token.balance_of(NOBODY) == 1


def _patient(market: Devnet, rules: FeeRules, *, wait_s: float = 20.0) -> Sender:
    return Sender(
        market.chain, market.account("a", ether=1000), wait_s=wait_s, fee_rules=rules, lock_folder=market.lock_folder
    )


def _raise_base_fee(market: Devnet, wei: int) -> None:
    """Mine a block with this base fee; it changes little in the next."""
    market.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(wei))
    market.mine()


def _offered(chain: Chain, transaction: Hash) -> int:
    found = chain.rpc("eth_getTransactionByHash", to_hex(transaction))
    return 0 if found is None else int(found["maxFeePerGas"], 16)


def _send_raw(chain: Chain, account: LocalAccount, nonce: int, *, fee_gwei: int) -> None:
    signed = account.sign_transaction(
        {
            "type": 2,
            "chainId": chain.chain_id,
            "nonce": nonce,
            "gas": 21_000,
            "maxFeePerGas": fee_gwei * GWEI,
            "maxPriorityFeePerGas": fee_gwei * GWEI,
            "to": NOBODY,
            "value": ETHER // 10**6,
            "data": b"",
        }
    )
    chain.send_raw(bytes(signed.raw_transaction), "foreign")
