"""Admission: who is suspended is told until when, and what an offer changed is what a role starts with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stannary.admission import admit
from stannary.errors import OperatorError
from stannary.structs import Submission
from stannary.types import Hash, Outcome, Role
from tests.chains import ROOT, Devnet


def test_admit_of_a_suspended_validator_says_until_when_and_what_to_do(devnet: Devnet) -> None:
    pool = devnet.pool(max_absences=1)
    worker = devnet.stake("worker", pool, Role.WORKER)
    devnet.judges(pool)
    devnet.open_step(pool, slots=1)
    devnet.commit(pool, [Submission(pool, 0, 0, worker.address, worker.address, 9, ROOT, ROOT)])
    lazy, *others = devnet.draw(pool)
    devnet.vote(pool, {lazy: [Outcome.ABSTAIN]} | {name: [Outcome.ACCEPT] for name in others})
    devnet.finalize(pool)
    chain, validator = devnet.chain, devnet.sender(lazy)
    until = chain.stake_manager.standing_of(pool, Role.VALIDATOR, validator.address).suspended_until
    assert until > chain.pool_registry.clock_of(pool, chain.frozen())
    with pytest.raises(OperatorError, match=rf"suspended in pool {pool} until {until} .*provider reinstate"):
        admit(chain, pool, validator.address, Role.VALIDATOR, chain.frozen())
    devnet.wait_until(pool, until)
    chain.stake_manager.reinstate(devnet.sender("trainer"), pool, Role.VALIDATOR, validator.address)
    assert admit(chain, pool, validator.address, Role.VALIDATOR, chain.frozen()).provider == validator.address


def test_admit_gives_the_terms_of_the_offer_in_force(devnet: Devnet) -> None:
    pool = devnet.pool(notice_seconds=0)
    worker, chain = devnet.stake("worker", pool, Role.WORKER), devnet.chain
    devnet.stake("judge", pool, Role.VALIDATOR)
    offer = replace(devnet.terms().offer, price_per_group=7, card_hash=Hash(b"c" * 32))
    chain.pool_registry.announce_offer(devnet.sender("owner"), pool, offer)
    assert admit(chain, pool, worker.address, Role.WORKER, chain.frozen()).terms.offer == devnet.terms().offer
    chain.pool_registry.attest_card(devnet.sender("judge"), pool, offer.card_hash)
    devnet.mine(2)
    assert admit(chain, pool, worker.address, Role.WORKER, chain.frozen()).terms.offer == offer
