"""worker.admission on a real chain: what a worker is told before its engine is loaded."""

from __future__ import annotations

import pytest

from stannary.errors import OperatorError, Reverted
from stannary.types import ZERO_HASH, Phase, Role
from tests.chains import ETHER, ROOT, TOKENS, Devnet
from worker.admission import admit, read_step


def test_admit_of_a_staked_node_returns_the_pools_rules(devnet: Devnet) -> None:
    pool = devnet.pool()
    devnet.stake("miner", pool, Role.WORKER)
    node = devnet.add_node("miner", "rig")
    admission = admit(devnet.chain, pool, devnet.address(node))
    rules, terms = admission.rules, devnet.terms()
    assert (rules.provider, rules.node) == (devnet.sender("miner").address, devnet.address(node))
    assert (rules.group_size, rules.max_completion_tokens) == (terms.group_size, terms.max_completion_tokens)
    assert (rules.temperature, rules.max_units) == (1.0, terms.max_units)
    assert admission.terms == terms
    assert (admission.stake_wei, admission.fees_wei) == (1_000 * TOKENS, 10 * ETHER)


def test_admit_of_a_stranger_says_what_to_do(devnet: Devnet) -> None:
    pool = devnet.pool()
    with pytest.raises(OperatorError, match="is no node of any provider: let its provider stake and add it"):
        admit(devnet.chain, pool, devnet.address(devnet.account("stranger")))


def test_admit_with_too_little_stake_says_needed_and_present(devnet: Devnet) -> None:
    pool, provider = devnet.pool(), devnet.sender("miner")
    devnet.chain.token.require_allowance(provider, devnet.chain.deployment.stake_manager, TOKENS)
    devnet.chain.stake_manager.deposit(provider, TOKENS)
    with pytest.raises(
        OperatorError, match=r"has 0\.000000 stake tokens .* 100\.000000 needed: allocate .* 100\.000000"
    ):
        admit(devnet.chain, pool, provider.address)


def test_admit_with_stake_on_its_way_out_is_refused(devnet: Devnet) -> None:
    pool = devnet.pool()
    provider = devnet.stake("miner", pool, Role.WORKER)
    shares = devnet.chain.stake_manager.position_of(pool, Role.WORKER, provider.address).shares
    devnet.chain.stake_manager.start_exit(provider, pool, Role.WORKER, shares)
    with pytest.raises(OperatorError, match=r"has 0\.000000 stake tokens"):
        admit(devnet.chain, pool, provider.address)


def test_admit_to_a_pool_of_another_protocol_is_refused(devnet: Devnet) -> None:
    pool = devnet.pool(protocol_version=2)
    provider = devnet.stake("miner", pool, Role.WORKER)
    with pytest.raises(OperatorError, match="speaks protocol version 2, this worker version 1"):
        admit(devnet.chain, pool, provider.address)


def test_admit_to_a_pool_that_is_none_is_refused(devnet: Devnet) -> None:
    with pytest.raises(Reverted):
        admit(devnet.chain, 77, devnet.address(devnet.account("miner")))


def test_read_step_of_one_never_opened_has_no_phase(devnet: Devnet) -> None:
    pool = devnet.pool()
    provider = devnet.stake("miner", pool, Role.WORKER)
    facts = read_step(devnet.chain, admit(devnet.chain, pool, provider.address).rules, 5)
    assert (facts.phase, facts.policy_root, facts.card_hash) == (Phase.NONE, ZERO_HASH, ZERO_HASH)


def test_read_step_has_the_card_of_its_offer_and_the_pools_clock(devnet: Devnet) -> None:
    pool = devnet.pool()
    devnet.judges(pool)
    provider = devnet.stake("miner", pool, Role.WORKER)
    devnet.open_step(pool, slots=4)
    facts = read_step(devnet.chain, admit(devnet.chain, pool, provider.address).rules, 0)
    assert (facts.phase, facts.slots, facts.policy_root) == (Phase.SEEDED, 4, ROOT)
    assert facts.card_hash == devnet.terms().card_hash
    assert facts.pool_time == devnet.chain.frozen().timestamp
