"""A11: a transaction that passes the estimate and reverts in its block is a failure with a reason."""

from __future__ import annotations

import threading

from stannary.chain import Mined, Sender
from stannary.errors import Reverted
from stannary.structs import Submission
from stannary.types import Outcome
from tests.chains import ROOT, Devnet


def test_a11_second_of_two_finalizations_in_one_block_is_reverted_with_its_reason(devnet: Devnet) -> None:
    pool = _pool_with_a_step_to_finalize(devnet)
    outcomes: dict[str, Mined | Reverted] = {}

    history = devnet.chain.step_history(pool, 0)

    def finalize(name: str, sender: Sender) -> None:
        try:
            outcomes[name] = devnet.chain.voting_panel.finalize(
                sender, pool, 0, history.votes_by_seat(), history.pay_table
            )
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
    pool = devnet.pool()
    devnet.judges(pool)
    devnet.open_step(pool, slots=1)
    worker = devnet.sender("worker").address
    devnet.commit(pool, [Submission(pool, 0, 0, worker, worker, 1, ROOT, ROOT)])
    devnet.vote(pool, dict.fromkeys(devnet.draw(pool), (Outcome.ACCEPT,)))
    for name in ("first", "second"):
        devnet.sender(name)
    terms = devnet.chain.pool_registry.terms_of(pool)
    devnet.advance(terms.challenge_seconds + 1)
    return pool
