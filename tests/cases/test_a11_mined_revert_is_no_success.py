"""A11: a transaction that passes the estimate and reverts in its block is a failure with a reason."""

from __future__ import annotations

import threading

from stannary.chain import Mined, Sender
from stannary.errors import Reverted
from stannary.types import Hash, Role
from tests.chains import Devnet

ROOT = Hash(b"\x11" * 32)


def test_a11_second_of_two_finalizations_in_one_block_is_reverted_with_its_reason(devnet: Devnet) -> None:
    pool = _pool_with_a_step_to_finalize(devnet)
    outcomes: dict[str, Mined | Reverted] = {}

    def finalize(name: str, sender: Sender) -> None:
        try:
            outcomes[name] = devnet.chain.submission_ledger.finalize(sender, pool, 0)
        except Reverted as error:
            outcomes[name] = error

    senders = {name: devnet.sender(name) for name in ("first", "second")}
    threads = [threading.Thread(target=finalize, args=item) for item in senders.items()]
    before = {name: devnet.chain.transaction_count(sender.address, is_pending=True) for name, sender in senders.items()}
    with devnet.mining_paused():
        for thread in threads:
            thread.start()
        for name, sender in senders.items():
            devnet.wait_for_pending(sender.address, before[name] + 1)
        devnet.mine()
    for thread in threads:
        thread.join(20)

    mined = [found for found in outcomes.values() if isinstance(found, Mined)]
    failed = [found for found in outcomes.values() if isinstance(found, Reverted)]
    assert len(mined) == len(failed) == 1
    assert failed[0].name == "WrongPhase"
    assert failed[0].transaction is not None
    assert failed[0].transaction in str(failed[0])


def _pool_with_a_step_to_finalize(devnet: Devnet) -> int:
    ledger = devnet.chain.submission_ledger
    pool = devnet.pool()
    for name in ("a", "b", "c"):
        devnet.stake(name, pool, Role.VALIDATOR)
    ledger.publish_policy(devnet.sender("trainer"), pool, 0, ROOT, ROOT)
    ledger.open_step(devnet.sender("trainer"), pool, 0, 0, 1)
    devnet.mine(2)
    ledger.seal_seed_beacon(devnet.sender("trainer"), pool, 0)
    ledger.commit_root(devnet.sender("coordinator"), pool, 0, ROOT, 1, ROOT)
    devnet.mine(2)
    ledger.seal_audit_beacon(devnet.sender("trainer"), pool, 0)
    for name in ("first", "second"):
        devnet.sender(name)
    terms = devnet.chain.pool_registry.terms_of(pool)
    devnet.advance(terms.vote_seconds + terms.challenge_seconds + 1)
    return pool
