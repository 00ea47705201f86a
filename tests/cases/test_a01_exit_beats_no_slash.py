"""A1. Stake in the exit queue cannot be slashed: here it can, whenever the exit began, until it is finished."""

from __future__ import annotations

import pytest

from stannary.chain import LeafOpening
from stannary.errors import Reverted
from stannary.structs import Submission
from stannary.types import Hash, Outcome, Role
from tests.chains import ROOT, TOKENS, Devnet

STAKE = 1_000 * TOKENS
SLASHED = STAKE // 10


def bad_leaf(devnet: Devnet, pool: int) -> Submission:
    worker = devnet.sender("worker").address
    return Submission(pool, 0, 0, worker, worker, 50, ROOT, Hash(b"\x22" * 32))


@pytest.mark.parametrize("moment", ["before the root", "after the root", "after the votes"])
def test_stake_that_leaves_is_slashed_for_the_step_it_was_at_work_in(devnet: Devnet, moment: str) -> None:
    pool = devnet.pool()
    devnet.judges(pool)
    worker = devnet.stake("worker", pool, Role.WORKER)
    stakes, panel = devnet.chain.stake_manager, devnet.chain.voting_panel
    devnet.mine()
    devnet.open_step(pool)
    leaf = bad_leaf(devnet, pool)

    def leave() -> int:
        return stakes.start_exit(
            worker, pool, Role.WORKER, stakes.position_of(pool, Role.WORKER, worker.address).shares
        )

    exit_id = leave() if moment == "before the root" else 0
    devnet.commit(pool, [leaf])
    exit_id = leave() if moment == "after the root" else exit_id
    outcomes = [Outcome.FAULT, Outcome.ABSTAIN, Outcome.ABSTAIN, Outcome.ABSTAIN]
    devnet.vote(pool, dict.fromkeys(devnet.draw(pool), outcomes))
    exit_id = leave() if moment == "after the votes" else exit_id

    devnet.advance(600)
    with pytest.raises(Reverted, match=r"StepsUnsettled|ExitNotReleased"):
        stakes.finish_exit(worker, exit_id)
    history = devnet.finalize(pool)
    with pytest.raises(Reverted, match=r"SlashWindowOpen|ExitNotReleased"):
        stakes.finish_exit(worker, exit_id)
    assert history.finalized is not None
    opening = LeafOpening.of([leaf], 4, 0)
    panel.slash_leaf(devnet.sender("trainer"), pool, 0, opening, history.finalized.outcomes)

    devnet.advance(600)
    stakes.finish_exit(worker, exit_id)
    assert stakes.idle_of(worker.address) == STAKE - SLASHED
    stakes.withdraw(worker, STAKE - SLASHED)
    assert stakes.position_of(pool, Role.WORKER, worker.address).tokens == 0


def test_release_time_of_an_exit_never_changes(devnet: Devnet) -> None:
    pool = devnet.pool()
    worker = devnet.stake("worker", pool, Role.WORKER)
    stakes = devnet.chain.stake_manager
    exit_id = stakes.start_exit(worker, pool, Role.WORKER, STAKE)
    started = stakes.exit_of(exit_id)
    assert started is not None
    assert started.release_at >= devnet.chain.pool_registry.clock_of(pool) + 600 - 1
    devnet.advance(300)
    assert stakes.exit_of(exit_id) == started
    with pytest.raises(Reverted, match=r"ExitNotReleased"):
        stakes.finish_exit(worker, exit_id)
    with pytest.raises(Reverted, match=r"UnbondingTooShort"):
        devnet.pool(funds=0, unbonding_seconds=60)
