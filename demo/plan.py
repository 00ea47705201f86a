"""What the demo's pool is: its sizes, prices and windows, and who takes part. Numbers only, nothing runs here.

Prices, in test tokens (1 token = 10^18 wei), for both policies:
    a group of rollouts     1 token, and 0.001 a generated token: a full toy group of 8 × 48 tokens earns 1.384
    a vote on a step        0.5 token to each panel member that voted
    stake                   100 tokens to begin with, 50 at least; each fault takes a tenth of what is left,
                            so that a provider is suspended after seven faults
The pool is funded for every step at its dearest: nothing is claimed, and so nothing released, before the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from stannary import PROTOCOL_VERSION
from stannary.chain import PoolTerms
from stannary.types import Address, Hash

TOKEN_WEI = 10**18
ETHER_WEI = 10**18

STAKE_WEI = 100 * TOKEN_WEI
MIN_STAKE_WEI = 50 * TOKEN_WEI
FAULT_SLASH_BPS = 1000
PRICE_PER_GROUP_WEI = TOKEN_WEI
PRICE_PER_TOKEN_WEI = TOKEN_WEI // 1000
PANEL_FEE_WEI = TOKEN_WEI // 2
FEES_WEI = 100 * ETHER_WEI
"""Coins for transaction fees, given to every wallet of the demo's own chain."""

BLOCK_TIME_S = 1
MAX_LAG = 1
PANEL_SIZE = 3
QUORUM = 2

WORKERS = ("honest_vllm", "honest_transformers", "cheat", "liar")
VALIDATORS = ("validator-1", "validator-2", "validator-3")
SINGLE_WALLETS = ("owner", "coordinator", "trainer")

PolicyName = Literal["toy", "smollm2"]


@dataclass(frozen=True, slots=True)
class Plan:
    """One way to run the demo."""

    policy: PolicyName
    steps: int
    learning_rate: float
    optimizer_steps: int
    environment: str
    workers: tuple[str, ...] = WORKERS
    parameters: Mapping[str, object] = field(default_factory=dict)
    slots: int = 16
    group_size: int = 8
    max_tokens: int = 48
    heldout: int = 128
    """Unseen prompts that are scored before and after."""
    lease_seconds: int = 60
    collect_seconds: int = 60
    vote_seconds: int = 120
    challenge_seconds: int = 2
    beacon_delay_blocks: int = 1
    leases_at_once: int = 4
    """Slots that a worker holds at once."""
    cheat: Literal["stale", "int4"] = "stale"
    step_timeout_s: float = 180.0
    """Without a step's end for so long, the demo says that it hangs and fails."""

    def terms(self, token: Address, coordinator: Address, trainer: Address, card: Hash, environment: Hash) -> PoolTerms:
        """Return the pool's terms."""
        windows = self.lease_seconds + self.collect_seconds + self.vote_seconds + self.challenge_seconds
        return PoolTerms(
            payout_token=token,
            coordinator=coordinator,
            trainer=trainer,
            price_per_group=PRICE_PER_GROUP_WEI,
            price_per_token=PRICE_PER_TOKEN_WEI,
            panel_fee=PANEL_FEE_WEI,
            min_worker_stake=MIN_STAKE_WEI,
            min_validator_stake=MIN_STAKE_WEI,
            group_size=self.group_size,
            max_completion_tokens=self.max_tokens,
            max_slots=self.slots,
            max_lag=MAX_LAG,
            panel_size=PANEL_SIZE,
            quorum=QUORUM,
            beacon_delay_blocks=self.beacon_delay_blocks,
            lease_seconds=self.lease_seconds,
            collect_seconds=self.collect_seconds,
            vote_seconds=self.vote_seconds,
            challenge_seconds=self.challenge_seconds,
            unbonding_seconds=windows,
            fault_slash_bps=FAULT_SLASH_BPS,
            temperature_milli=1000,
            protocol_version=PROTOCOL_VERSION,
            card_hash=card,
            environment_hash=environment,
        )


def plan_of(policy: PolicyName, steps: int | None = None, learning_rate: float | None = None) -> Plan:
    """Return the plan of a policy; what is not given is the policy's own."""
    if policy == "toy":
        return Plan(
            policy="toy",
            steps=15 if steps is None else steps,
            learning_rate=2e-3 if learning_rate is None else learning_rate,
            optimizer_steps=2,
            environment="sieve",
        )
    return Plan(
        policy="smollm2",
        steps=3 if steps is None else steps,
        learning_rate=1e-5 if learning_rate is None else learning_rate,
        optimizer_steps=1,
        environment="reasoning_gym",
        parameters={
            "dataset": "chain_sum",
            "config": {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 2},
            "scoring": "last_number",
        },
        max_tokens=32,
        heldout=64,
        lease_seconds=180,
        collect_seconds=150,
        vote_seconds=300,
        cheat="int4",
        step_timeout_s=480.0,
    )
