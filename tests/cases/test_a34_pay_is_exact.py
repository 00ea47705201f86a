"""A34. Rewards paid twice, never, or lost in rounding: here every wei of a step is paid, released or locked."""

from __future__ import annotations

import pytest

from stannary.chain import events
from stannary.errors import Reverted
from stannary.structs import Submission
from stannary.types import Hash, Outcome, Role
from tests.chains import ROOT, TOKENS, Devnet

ACCEPT, ABSTAIN = Outcome.ACCEPT, Outcome.ABSTAIN


def pool_money(devnet: Devnet, pool: int) -> int:
    chain = devnet.chain
    found = chain.read_events(chain.deployment.deployed_block, chain.frozen().number)
    earners = events.credited(event for event in found if getattr(event, "pool", None) == pool)
    return chain.payout_vault.money_of(pool, earners)


def run_step(devnet: Devnet, pool: int, workers: list[str], outcomes: list[Outcome], *, step: int = 0) -> None:
    leaves = []
    for slot, name in enumerate(workers):
        provider = devnet.sender(name).address
        leaves.append(Submission(pool, step, slot, provider, provider, 7, Hash(bytes([slot + 1]) * 32), ROOT))
    devnet.open_step(pool, step)
    devnet.commit(pool, leaves, step)
    devnet.vote(pool, dict.fromkeys(devnet.draw(pool, step), outcomes), step)
    devnet.finalize(pool, step)


def test_claims_pay_each_worker_once_and_to_the_wei(devnet: Devnet) -> None:
    pool = devnet.pool(price_per_group=33, price_per_token=1)
    devnet.judges(pool)
    for name in ("ada", "bob", "eve"):
        devnet.stake(name, pool, Role.WORKER)
    devnet.mine()
    vault, token = devnet.chain.payout_vault, devnet.chain.token
    funded = pool_money(devnet, pool)
    run_step(devnet, pool, ["ada", "bob", "eve"], [ACCEPT, ACCEPT, ACCEPT, ABSTAIN])
    assert pool_money(devnet, pool) == funded

    before = {name: token.balance_of(devnet.sender(name).address) for name in ("ada", "bob", "eve")}
    call, racers = vault.encode("claim", pool, devnet.sender("ada").address), ("trainer", "coordinator")
    with devnet.mining_paused():  # twice in one block: both are estimated well, one reverts
        sent = [devnet.sender(name).submit(call) for name in racers]
    devnet.sender(racers[0]).wait(sent[0])
    with pytest.raises(Reverted, match="AmountZero"):
        devnet.sender(racers[1]).wait(sent[1])
    with pytest.raises(Reverted, match="AmountZero"):
        vault.claim(devnet.sender("trainer"), pool, devnet.sender("ada").address)
    for name in ("bob", "eve"):
        vault.claim(devnet.sender("trainer"), pool, devnet.sender(name).address)
    paid = {name: token.balance_of(devnet.sender(name).address) - before[name] for name in before}
    assert paid == {"ada": 40, "bob": 40, "eve": 40}
    assert pool_money(devnet, pool) == funded - 120
    assert token.balance_of(devnet.chain.deployment.payout_vault) >= pool_money(devnet, pool)


def test_step_without_accepted_work_pays_no_worker_and_gives_nothing_back_to_the_owner(devnet: Devnet) -> None:
    pool = devnet.pool()
    devnet.judges(pool)
    devnet.stake("ada", pool, Role.WORKER)
    devnet.mine()
    terms, vault = devnet.chain.pool_registry.terms_of(pool), devnet.chain.payout_vault
    free = vault.escrow_of(pool).free
    run_step(devnet, pool, ["ada"], [Outcome.REJECT, ABSTAIN, ABSTAIN, ABSTAIN])
    escrow = vault.escrow_of(pool)
    spent = 3 * terms.panel_fee + 2 * terms.seal_fee
    assert (escrow.free, escrow.reserved, escrow.locked) == (free - spent - terms.slot_price, 0, terms.slot_price)
    with pytest.raises(Reverted, match="AmountZero"):
        vault.claim(devnet.sender("trainer"), pool, devnet.sender("ada").address)


def test_step_is_not_opened_with_the_pool_one_wei_short(devnet: Devnet) -> None:
    pool = devnet.pool(funds=0)
    devnet.judges(pool)
    devnet.mine()
    price = devnet.chain.pool_registry.terms_of(pool).step_price(4)
    owner, vault = devnet.sender("owner"), devnet.chain.payout_vault
    devnet.chain.token.require_allowance(owner, devnet.chain.deployment.payout_vault, price)
    vault.fund(owner, pool, price - 1)
    with pytest.raises(Reverted, match="EscrowTooLow"):
        devnet.open_step(pool)
    vault.fund(owner, pool, 1)
    devnet.open_step(pool)
    assert vault.escrow_of(pool).free == 0
    assert vault.reservation_of(pool, 0) == price - devnet.chain.pool_registry.terms_of(pool).seal_fee


def test_worker_is_paid_for_many_steps_in_one_claim_and_never_above_its_cap(devnet: Devnet) -> None:
    pool = devnet.pool(pay_cap_bps=100)
    devnet.judges(pool)
    worker = devnet.stake("ada", pool, Role.WORKER, 150).address
    devnet.mine()
    for step in (0, 1):
        run_step(devnet, pool, ["ada"], [ACCEPT, ABSTAIN, ABSTAIN, ABSTAIN], step=step)
    cap = 150 * TOKENS // 100
    before = devnet.chain.token.balance_of(worker)
    devnet.chain.payout_vault.claim(devnet.sender("trainer"), pool, worker)
    assert devnet.chain.token.balance_of(worker) - before == 2 * cap
