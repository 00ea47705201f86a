"""A12: processes that share a key never collide on a nonce, and a foreign transaction between does no harm."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from tests.chains import Devnet

SENDS = 10
PROGRAM = """
import json, sys
from pathlib import Path
from eth_account import Account
from stannary.chain import Chain, Sender
rpc_url, deployment, locks, key, to, sends = sys.argv[1:]
chain = Chain.open(rpc_url, Path(deployment))
sender = Sender(chain, Account.from_key(key), lock_folder=Path(locks), wait_s=60)
submitted = [sender.submit(chain.token.encode("transfer", to, 1)) for _ in range(int(sends))]
mined = [sender.wait(one) for one in submitted]
print(json.dumps([[one.nonce, done.is_success] for one, done in zip(submitted, mined)]))
"""


def test_a12_two_processes_with_one_key_get_different_nonces(devnet: Devnet, tmp_path: Path) -> None:
    account = devnet.account("shared")
    address = devnet.address(account)
    receiver = "0x00000000000000000000000000000000000000bB"
    command = [sys.executable, "-c", PROGRAM, devnet.chain.rpc_url, str(tmp_path / "deployment.json")]
    command += [str(devnet.lock_folder), account.key.hex(), receiver, str(SENDS)]
    with devnet.mining_paused():
        running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
        devnet.wait_for_pending(address, 2 * SENDS)
        devnet.mine()
    answers = [process.communicate(timeout=60) for process in running]
    assert [process.returncode for process in running] == [0, 0], [error.decode() for _, error in answers]
    done = [pair for output, _ in answers for pair in json.loads(output)]
    assert sorted(nonce for nonce, _ in done) == list(range(2 * SENDS))
    assert all(success for _, success in done)
    assert devnet.chain.token.balance_of(devnet.parse(receiver)) == 2 * SENDS


def test_a12_foreign_transaction_of_the_same_key_between_two_sends_does_no_harm(devnet: Devnet) -> None:
    sender = devnet.sender("shared")
    other_machine = devnet.sender("shared", lock_folder=devnet.lock_folder / "elsewhere")
    token, receiver = devnet.chain.token, devnet.parse("0x00000000000000000000000000000000000000bB")
    started = time.monotonic()
    for machine in (sender, other_machine, sender):
        token.transfer(machine, receiver, 1)
    assert token.balance_of(receiver) == 3
    assert time.monotonic() - started < 10
