"""What the demo's pool is: its sizes, prices and windows, and who takes part. Numbers only, nothing runs here.

Prices, in test tokens (1 token = 10^18 wei), for both policies:
    a group of rollouts     1 token, and 0.001 a generated token: a full toy group of 8 × 48 tokens earns 1.384
    a vote on a step        0.5 token to each panel member that revealed one, 0.25 to each juror of a case
    stake                   100 tokens to begin with, 50 at least; each fault takes a tenth of what is left,
                            so that a provider is out after seven faults
The pool is funded for every step at its dearest: nothing that was set aside needs to come back before the end.
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
STATISTICS_SLASH_BPS = 2000
SILENCE_SLASH_BPS = 200
WRONG_VOTE_SLASH_BPS = 500
PLANT_SLASH_BPS = 500
MAX_SLASH_BPS = 7000
SLASH_WINDOW_S = 3600
REWARD_BPS = 2000
PAY_CAP_BPS = 10_000
PRICE_PER_GROUP_WEI = TOKEN_WEI
PRICE_PER_TOKEN_WEI = TOKEN_WEI // 1000
PANEL_FEE_WEI = TOKEN_WEI // 2
JUROR_FEE_WEI = TOKEN_WEI // 4
SEAL_FEE_WEI = TOKEN_WEI // 20
LEASE_BOND_WEI = TOKEN_WEI
FEES_WEI = 100 * ETHER_WEI
"""Coins for transaction fees, given to every wallet of the demo's own chain."""

BLOCK_TIME_S = 1
MAX_LAG = 1
MAX_OPEN_STEPS = 8
PANEL_SIZE = 3
QUORUM = 2
JURY_SIZE = 3
MAX_ABSENCES = 3
NOBODY = Address("0x" + "0" * 40)

WORKERS = ("honest_vllm", "honest_transformers", "cheat", "liar")
HONEST = ("honest_vllm", "honest_transformers")
VALIDATORS = tuple(f"validator-{number}" for number in range(1, PANEL_SIZE + JURY_SIZE + 1))
"""As few as a step needs: whoever does not sit on its panel can be drawn as a juror of a case about it."""
ACCUSER = "accuser"
SINGLE_WALLETS = ("owner", "coordinator", "trainer", ACCUSER)

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
    reveal_seconds: int = 60
    """Commitments and reveals end when all have acted, long before these times."""
    challenge_seconds: int = 8
    """The one window that is always waited out: long enough for an accuser that looks twice a second."""
    beacon_delay_blocks: int = 1
    leases_at_once: int = 4
    """Slots that a worker holds at once."""
    cheat: Literal["stale", "int4"] = "stale"
    accused_step: int = 0
    """The first step in which an accepted leaf of an honest worker is said to be bad."""
    step_timeout_s: float = 180.0
    """Without a step's end for so long, the demo says that it hangs and fails."""

    def terms(self, token: Address, coordinator: Address, trainer: Address, card: Hash, environment: Hash) -> PoolTerms:
        """Return the pool's terms."""
        deciding = self.vote_seconds + self.reveal_seconds
        return PoolTerms(
            payout_token=token,
            pauser=NOBODY,
            unpauser=NOBODY,
            coordinator=coordinator,
            trainer=trainer,
            price_per_group=PRICE_PER_GROUP_WEI,
            price_per_token=PRICE_PER_TOKEN_WEI,
            card_hash=card,
            panel_fee=PANEL_FEE_WEI,
            juror_fee=JUROR_FEE_WEI,
            seal_fee=SEAL_FEE_WEI,
            lease_bond=LEASE_BOND_WEI,
            min_worker_stake=MIN_STAKE_WEI,
            pay_cap_bps=PAY_CAP_BPS,
            max_open_steps=MAX_OPEN_STEPS,
            group_size=self.group_size,
            max_completion_tokens=self.max_tokens,
            max_slots=self.slots,
            reserved_slots=0,
            max_lag=MAX_LAG,
            temperature_milli=1000,
            protocol_version=PROTOCOL_VERSION,
            min_validator_stake=MIN_STAKE_WEI,
            panel_size=PANEL_SIZE,
            quorum=QUORUM,
            jury_size=JURY_SIZE,
            max_absences=MAX_ABSENCES,
            beacon_delay_blocks=self.beacon_delay_blocks,
            lease_seconds=self.lease_seconds,
            collect_seconds=self.collect_seconds,
            take_seconds=0,
            vote_seconds=self.vote_seconds,
            reveal_seconds=self.reveal_seconds,
            challenge_seconds=self.challenge_seconds,
            unbonding_seconds=2 * (self.lease_seconds + deciding) + self.collect_seconds + self.challenge_seconds,
            notice_seconds=0,
            fault_slash_bps=FAULT_SLASH_BPS,
            statistics_slash_bps=STATISTICS_SLASH_BPS,
            silence_slash_bps=SILENCE_SLASH_BPS,
            wrong_vote_slash_bps=WRONG_VOTE_SLASH_BPS,
            plant_slash_bps=PLANT_SLASH_BPS,
            max_slash_bps=MAX_SLASH_BPS,
            slash_window_seconds=SLASH_WINDOW_S,
            reward_bps=REWARD_BPS,
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
        reveal_seconds=120,
        cheat="int4",
        step_timeout_s=480.0,
    )
