"""Sending on a real chain: reverts, money for fees, nonces, waits that end."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest
from eth_account.signers.local import LocalAccount

from stannary.chain import Chain, Sender
from stannary.chain.sender import default_lock_folder
from stannary.errors import ChainError, FundsError, Reverted, SettingsError, Unmined, Unreachable
from stannary.types import Address
from tests.chains import ETHER, TOKENS, Devnet

NOBODY = Address("0x00000000000000000000000000000000000000AA")


def test_sender_call_that_would_revert_is_not_sent_and_names_the_error(devnet: Devnet) -> None:
    poor = devnet.sender("poor", tokens=1)
    with pytest.raises(Reverted) as caught:
        devnet.chain.token.transfer(poor, NOBODY, 2 * TOKENS)
    assert caught.value.name == "ERC20InsufficientBalance"
    assert caught.value.values == {"sender": poor.address, "balance": TOKENS, "needed": 2 * TOKENS}
    assert devnet.chain.transaction_count(poor.address, is_pending=True) == 0


@pytest.mark.parametrize("wei", [0, 1, 10**10])
def test_sender_without_money_for_fees_says_needed_and_present(devnet: Devnet, wei: int) -> None:
    sender = devnet.sender("poor")
    devnet.chain.rpc("anvil_setBalance", sender.address, hex(wei))
    with pytest.raises(FundsError) as caught:
        devnet.chain.token.transfer(sender, NOBODY, 1)
    assert caught.value.present_wei == wei
    assert caught.value.needed_wei > wei
    assert sender.address in str(caught.value)
    with pytest.raises(FundsError):
        sender.require_fees(100_000)


def test_sender_balance_just_under_and_just_at_the_fee_is_told_apart(devnet: Devnet) -> None:
    sender = devnet.sender("poor")
    devnet.chain.rpc("anvil_setBalance", sender.address, hex(0))
    with pytest.raises(FundsError) as caught:
        sender.require_fees(100_000)
    needed = caught.value.needed_wei
    devnet.chain.rpc("anvil_setBalance", sender.address, hex(needed - 1))
    with pytest.raises(FundsError):
        sender.require_fees(100_000)
    devnet.chain.rpc("anvil_setBalance", sender.address, hex(needed))
    sender.require_fees(100_000)


def test_sender_without_a_block_gives_up_and_says_which_transaction(devnet: Devnet) -> None:
    sender = Sender(devnet.chain, devnet.account("a"), wait_s=0.3, lock_folder=devnet.lock_folder)
    with devnet.mining_paused(), pytest.raises(Unmined) as caught:
        devnet.chain.token.transfer(sender, NOBODY, 1)
    assert caught.value.transaction in str(caught.value)
    assert devnet.chain.token.balance_of(NOBODY) == 1  # it was mined when mining went on: hence the error's advice


def test_sender_nonce_taken_by_another_machine_is_read_again(devnet: Devnet) -> None:
    class Raced(Sender):
        """Another machine sends with our key right after we have read the nonce."""

        raced = False

        def next_nonce(self) -> int:
            nonce = super().next_nonce()
            if not self.raced:
                self.raced = True
                _send_raw(devnet.chain, devnet.account("a"), nonce, fee_gwei=50)
            return nonce

    sender = Raced(devnet.chain, devnet.account("a"), lock_folder=devnet.lock_folder)
    with devnet.mining_paused():
        submitted = sender.submit(devnet.chain.token.encode("transfer", NOBODY, 1))
        devnet.mine()
    assert sender.wait(submitted).is_success
    assert submitted.nonce == 1


def test_sender_transaction_replaced_by_another_machine_is_sent_again(devnet: Devnet) -> None:
    account = devnet.account("a")
    sender = devnet.sender("a")
    outcome: list[object] = []
    thread = threading.Thread(target=lambda: outcome.append(devnet.chain.token.transfer(sender, NOBODY, 1)))
    with devnet.mining_paused():
        thread.start()
        devnet.wait_for_pending(sender.address, 1)
        _send_raw(devnet.chain, account, 0, fee_gwei=500)
        devnet.mine()
        devnet.wait_for_pending(sender.address, 2)
        devnet.mine()
    thread.join(10)
    assert len(outcome) == 1
    assert devnet.chain.token.balance_of(NOBODY) == 1


def test_sender_replaced_for_good_is_no_success(devnet: Devnet) -> None:
    sender = devnet.sender("a")
    with devnet.mining_paused():
        submitted = sender.submit(devnet.chain.token.encode("transfer", NOBODY, 1))
        _send_raw(devnet.chain, devnet.account("a"), 0, fee_gwei=500)
        devnet.mine()
    with pytest.raises(ChainError, match="nonce 0"):
        sender.wait(submitted)


def test_sender_with_a_held_lock_gives_up_and_names_the_account(
    devnet: Devnet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stannary.chain.sender.LOCK_WAIT_S", 0.2)
    first, second = devnet.sender("a"), devnet.sender("a")
    with first._exclusive(), pytest.raises(ChainError, match=second.address):
        second.submit(devnet.chain.token.encode("transfer", NOBODY, 1))


def test_lock_folder_is_the_users_own_and_closed_to_others(
    devnet: Devnet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert default_lock_folder() == tmp_path / "state" / "stannary"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_lock_folder() == tmp_path / ".local" / "state" / "stannary"
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    sender = devnet.sender("a", lock_folder=folder)
    with sender._exclusive():
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_lock_folder_of_another_user_is_refused(devnet: Devnet, tmp_path: Path) -> None:
    folder = tmp_path / "foreign"
    folder.mkdir()
    os.chown(folder, 12345, 12345)
    with pytest.raises(SettingsError, match="another user"):
        devnet.sender("a", lock_folder=folder).pay(NOBODY, 1)


def test_record_that_is_damaged_holds_up_nobody(devnet: Devnet) -> None:
    sender = devnet.sender("a")
    with sender._exclusive():
        sender._record(0).write_text("{")
    assert devnet.chain.token.transfer(sender, NOBODY, 1).is_success


def test_sender_without_a_chain_is_unreachable_and_hides_the_path() -> None:
    from stannary.chain import Connection

    connection = Connection("http://user:hunter2@127.0.0.1:1/v1/secret", timeout_s=1)
    with pytest.raises(Unreachable) as caught:
        connection.frozen()
    assert "secret" not in str(caught.value)
    assert "hunter2" not in str(caught.value)


def _send_raw(chain: Chain, account: LocalAccount, nonce: int, *, fee_gwei: int) -> None:
    signed = account.sign_transaction(
        {
            "type": 2,
            "chainId": chain.chain_id,
            "nonce": nonce,
            "gas": 21_000,
            "maxFeePerGas": fee_gwei * 10**9,
            "maxPriorityFeePerGas": fee_gwei * 10**9,
            "to": NOBODY,
            "value": ETHER // 10**6,
            "data": b"",
        }
    )
    chain.send_raw(bytes(signed.raw_transaction), "foreign")
