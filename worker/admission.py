"""What must hold before a worker loads its engine: pool, protocol, node, stake, money for fees."""

from __future__ import annotations

from dataclasses import dataclass

from stannary import admission
from stannary.chain import Chain, PoolTerms
from stannary.errors import FundsError
from stannary.types import ZERO_HASH, Address, Phase, Role
from worker.leases import PoolRules, StepFacts

FEE_GAS = 300_000
"""Gas that a worker's account must be able to pay: a claim with room, so that earnings can be taken out."""


@dataclass(frozen=True, slots=True)
class Admission:
    """What was found on chain, all at one block."""

    rules: PoolRules
    terms: PoolTerms
    """With the offer for a step opened now."""
    stake_wei: int
    fees_wei: int


def admit(chain: Chain, pool: int, node: Address) -> Admission:
    """Read the pool's terms and check that this node may work in it.

    Raises: OperatorError or FundsError that says what to do; Reverted if there is no such pool; Unreachable.
    """
    at = chain.frozen()
    found = admission.admit(chain, pool, node, Role.WORKER, at)
    terms = found.terms
    fee_per_gas, _ = chain.fees()
    fees_wei = chain.balance_of(node, at)
    if fees_wei < FEE_GAS * fee_per_gas:
        raise FundsError("ether for fees", node, needed_wei=FEE_GAS * fee_per_gas, present_wei=fees_wei)
    rules = PoolRules(
        pool=pool,
        provider=found.provider,
        node=node,
        group_size=terms.group_size,
        max_completion_tokens=terms.max_completion_tokens,
        max_lag=terms.max_lag,
        lease_seconds=terms.lease_seconds,
        collect_seconds=terms.collect_seconds,
        temperature=terms.temperature_milli / 1000,
        protocol_version=terms.protocol_version,
        environment_hash=terms.environment_hash,
    )
    return Admission(rules, terms, found.stake_wei, fees_wei)


def read_step(chain: Chain, rules: PoolRules, step: int) -> StepFacts:
    """Read a step, its policy's root and its card at one block (zero for a step never opened).

    Raises: Unreachable, ChainError.
    """
    at = chain.frozen()
    state = chain.submission_ledger.step_of(rules.pool, step, at)
    root = card_hash = ZERO_HASH
    if state.phase is not Phase.NONE:
        root = chain.submission_ledger.policy_root_of(rules.pool, state.policy_step, at)
        card_hash = chain.pool_registry.offer_of(rules.pool, state.offer, at).card_hash
    return StepFacts(
        step=step,
        phase=state.phase,
        policy_step=state.policy_step,
        slots=state.slots,
        seeded_at=state.seeded_at,
        seed_beacon=state.seed_beacon,
        policy_root=root,
        card_hash=card_hash,
        pool_time=chain.pool_registry.clock_of(rules.pool, at),
    )
