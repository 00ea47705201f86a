"""What must hold before a role starts in a pool: protocol version, provider and stake of its node, the coordinator."""

from __future__ import annotations

from dataclasses import dataclass

from stannary import PROTOCOL_VERSION
from stannary.chain import Block, Chain, PoolTerms
from stannary.errors import OperatorError
from stannary.types import Address, Role, parse_address
from stannary.wire import HealthOut

_NOBODY = "0x" + "0" * 40
_VERBS = {Role.WORKER: "work", Role.VALIDATOR: "validate"}


@dataclass(frozen=True, slots=True)
class Admission:
    """What was found on chain, all at one block."""

    terms: PoolTerms
    """With the offer for a step opened now."""
    provider: Address
    stake_wei: int


def admit(chain: Chain, pool: int, node: Address, role: Role, at: Block) -> Admission:
    """Read the pool's terms at a block and check that this node may act in it.

    Raises: OperatorError that says what to do; Reverted if there is no such pool; Unreachable.
    """
    terms = chain.terms_in_force(pool, at)
    if terms.protocol_version != PROTOCOL_VERSION:
        raise OperatorError(
            f"pool {pool} speaks protocol version {terms.protocol_version}, this {role.name.lower()} version "
            f"{PROTOCOL_VERSION}: install the version of stannary that fits"
        )
    provider = parse_address(chain.stake_manager.provider_of(node, at))
    if provider == _NOBODY:
        raise OperatorError(
            f"{node} is no node of any provider: let its provider stake and add it (`stannary provider add-node`)"
        )
    stake_wei = int(chain.stake_manager.active_stake_of(pool, role, provider, at))
    minimum_wei = terms.min_worker_stake if role is Role.WORKER else terms.min_validator_stake
    suspended_until = chain.stake_manager.standing_of(pool, role, provider, at).suspended_until
    if suspended_until:
        raise OperatorError(
            f"{provider} is suspended in pool {pool} until {suspended_until} of its clock, now "
            f"{chain.pool_registry.clock_of(pool, at)}: then reinstate it (`stannary provider reinstate`)"
        )
    if stake_wei < minimum_wei:
        raise OperatorError(
            f"{provider} has {stake_wei / 1e18:.6f} stake tokens allocated to {_VERBS[role]} in pool {pool}, "
            f"{minimum_wei / 1e18:.6f} needed: allocate at least "
            f"{(minimum_wei - stake_wei) / 1e18:.6f} more (`stannary provider stake`)"
        )
    return Admission(terms, provider, stake_wei)


def require_coordinator(health: HealthOut, chain: Chain, pool: int, terms: PoolTerms) -> None:
    """Refuse a coordinator of another deployment, pool or protocol. Raises: OperatorError naming what differs."""
    for what, expected, found in (
        ("protocol version", terms.protocol_version, health.protocol_version),
        ("chain", chain.deployment.chain_id, health.chain_id),
        ("ledger", chain.deployment.submission_ledger, health.ledger),
        ("pool", pool, health.pool),
        ("address", terms.coordinator, health.coordinator),
    ):
        if expected != found:
            raise OperatorError(
                f"the coordinator is another pool's: its {what} is {found}, on chain it is {expected}; "
                "check --coordinator-url, --pool and --deployment"
            )
