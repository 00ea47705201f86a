"""What a worker accepts as a lease: pure checks against the chain. It must not know of HTTP, engines or files."""

from __future__ import annotations

from dataclasses import dataclass

from stannary.errors import Malformed, Unavailable
from stannary.structs import Lease
from stannary.types import Address, Hash, Phase, to_hex


@dataclass(frozen=True, slots=True)
class PoolRules:
    """Who works, and the terms of the pool as far as they bind a worker; read from the chain once, at start."""

    pool: int
    provider: Address
    node: Address
    group_size: int
    max_completion_tokens: int
    max_lag: int
    lease_seconds: int
    collect_seconds: int
    temperature: float
    protocol_version: int
    environment_hash: Hash

    @property
    def max_units(self) -> int:
        """The most tokens a group can have."""
        return self.group_size * self.max_completion_tokens


@dataclass(frozen=True, slots=True)
class StepFacts:
    """One step as it stands on chain, with the root of its policy."""

    step: int
    phase: Phase
    policy_step: int
    slots: int
    seeded_at: int
    """On the pool's clock; no lease is older."""
    seed_beacon: Hash
    policy_root: Hash
    card_hash: Hash
    """Of the offer that the step was opened under."""
    pool_time: int
    """The pool's clock at the newest block, which leases run by. Units: seconds."""


def check_lease(lease: Lease, rules: PoolRules, facts: StepFacts) -> None:
    """Refuse a lease that is not for us, not for this step as it stands on chain, or no longer valid.

    The coordinator's signature was checked when the lease came in.
    Raises: Malformed with the field at fault; Unavailable if the step's beacon is not sealed yet where we read.
    """
    expectations: list[tuple[str, object, object]] = [
        ("lease.pool", rules.pool, lease.pool),
        ("lease.provider", rules.provider, lease.provider),
        ("lease.node", rules.node, lease.node),
        ("lease.protocolVersion", rules.protocol_version, lease.protocol_version),
        ("lease.maxUnits", rules.max_units, lease.max_units),
        ("lease.step", facts.step, lease.step),
    ]
    for field, expected, got in expectations:
        if expected != got:
            raise Malformed(field, expected=str(expected), got=got)
    if facts.phase in (Phase.NONE, Phase.OPEN):
        raise Unavailable(f"the seed beacon of step {lease.step} (the chain says {facts.phase.name.lower()})")
    if facts.phase is not Phase.SEEDED:
        raise Malformed(
            "lease.step", expected="a step that still collects", got=f"{lease.step} {facts.phase.name.lower()}"
        )
    if lease.card_hash != facts.card_hash:
        raise Malformed("lease.cardHash", expected=to_hex(facts.card_hash), got=to_hex(lease.card_hash))
    if lease.policy_step != facts.policy_step:
        raise Malformed("lease.policyStep", expected=f"{facts.policy_step} as on chain", got=lease.policy_step)
    if not 0 <= lease.step - lease.policy_step <= rules.max_lag:
        raise Malformed("lease.policyStep", expected=f"a lag of at most {rules.max_lag}", got=lease.policy_step)
    if not 0 <= lease.slot < facts.slots:
        raise Malformed("lease.slot", expected=f"0 … {facts.slots - 1}", got=lease.slot)
    if not 0 < lease.valid_until - lease.valid_from <= rules.lease_seconds:
        raise Malformed(
            "lease.validUntil",
            expected=f"at most {rules.lease_seconds} s after {lease.valid_from}",
            got=lease.valid_until,
        )
    latest = facts.seeded_at + rules.collect_seconds
    if lease.valid_from < facts.seeded_at or lease.valid_until > latest:
        # Validators reject the work of such a lease, whoever is to blame for it.
        raise Malformed(
            "lease.validFrom",
            expected=f"within {facts.seeded_at} … {latest}",
            got=f"{lease.valid_from} … {lease.valid_until}",
        )
    if lease.valid_until <= facts.pool_time:
        raise Malformed("lease.validUntil", expected=f"later than {facts.pool_time}, now", got=lease.valid_until)
