"""A14. The same offence is punished (or rewarded) twice: here one key an offence, shared by all paths to it."""

from __future__ import annotations

import pytest

from stannary.chain import LeafOpening
from stannary.commitments import ruling_commitment
from stannary.disputes import open_dispute
from stannary.errors import Reverted
from stannary.structs import Submission
from stannary.types import CaseKind, Outcome, Role, Ruling
from tests.chains import ROOT, TOKENS, Devnet

STAKE = 1_000 * TOKENS


def total_stake(devnet: Devnet) -> int:
    return devnet.chain.stake_manager.total_held()


def test_fault_is_slashed_once_by_whoever_calls(devnet: Devnet) -> None:
    pool = devnet.pool()
    devnet.judges(pool)
    worker = devnet.stake("worker", pool, Role.WORKER).address
    devnet.mine()
    devnet.open_step(pool)
    leaf = Submission(pool, 0, 0, worker, worker, 50, ROOT, ROOT)
    devnet.commit(pool, [leaf])
    outcomes = [Outcome.FAULT, Outcome.ABSTAIN, Outcome.ABSTAIN, Outcome.ABSTAIN]
    devnet.vote(pool, dict.fromkeys(devnet.draw(pool), outcomes))
    history = devnet.finalize(pool)
    assert history.finalized is not None
    held, arguments = total_stake(devnet), (pool, 0, LeafOpening.of([leaf], 4, 0), history.finalized.outcomes)
    devnet.chain.voting_panel.slash_leaf(devnet.sender("trainer"), *arguments)
    for name in ("trainer", "coordinator"):
        with pytest.raises(Reverted, match="OffenceSlashed"):
            devnet.chain.voting_panel.slash_leaf(devnet.sender(name), *arguments)
    stakes = devnet.chain.stake_manager
    assert stakes.position_of(pool, Role.WORKER, worker).tokens == STAKE - STAKE // 10
    # Slashed stake is held until it is burned, and burned once.
    assert total_stake(devnet) == held
    stakes.burn_slashed(devnet.sender("trainer"))
    assert total_stake(devnet) == held - STAKE // 10
    with pytest.raises(Reverted, match="AmountZero"):
        stakes.burn_slashed(devnet.sender("trainer"))


def test_leaf_that_a_jury_found_at_fault_is_not_slashed_again(devnet: Devnet) -> None:
    pool = devnet.pool()
    devnet.judges(pool, 5)
    worker = devnet.stake("worker", pool, Role.WORKER).address
    devnet.mine()
    devnet.open_step(pool)
    leaf = Submission(pool, 0, 0, worker, worker, 50, ROOT, ROOT)
    devnet.commit(pool, [leaf])
    outcomes = [Outcome.ACCEPT, Outcome.ABSTAIN, Outcome.ABSTAIN, Outcome.ABSTAIN]
    devnet.vote(pool, dict.fromkeys(devnet.draw(pool), outcomes))

    challenger = devnet.sender("challenger")
    case = open_dispute(
        devnet.chain, challenger, pool, 0, 0, [leaf], kind=CaseKind.CHALLENGE, location="http://127.0.0.1:1"
    )
    with pytest.raises(Reverted, match="SlotIsHeld"):
        open_dispute(devnet.chain, challenger, pool, 0, 0, [leaf], kind=CaseKind.CHALLENGE, location="")
    devnet.mine(2)
    court = devnet.chain.dispute_court
    court.draw_jury(challenger, case)
    (juror,) = court.jury_of(case)
    member = devnet.sender(devnet.name_of(juror))
    sealed = ruling_commitment(devnet.chain.court_domain, case, 0, juror, Ruling.FAULT, ROOT)
    court.commit_ruling(member, case, sealed)
    court.reveal_ruling(challenger, case, juror, Ruling.FAULT, ROOT)
    court.resolve(challenger, case)

    stakes = devnet.chain.stake_manager
    assert stakes.position_of(pool, Role.WORKER, worker).tokens == STAKE - STAKE // 10
    for again in (court.resolve, court.draw_jury):
        with pytest.raises(Reverted, match="WrongCasePhase"):
            again(challenger, case)
    history = devnet.finalize(pool)
    assert history.finalized is not None
    with pytest.raises(Reverted, match=r"LeafNotFaulted|SlotIsHeld"):
        devnet.chain.voting_panel.slash_leaf(
            challenger, pool, 0, LeafOpening.of([leaf], 4, 0), history.finalized.outcomes
        )
    assert stakes.position_of(pool, Role.WORKER, worker).tokens == STAKE - STAKE // 10
    assert devnet.chain.payout_vault.earnings_of(pool, worker).earned == 0
