"""What a run was, as read back from chain and files: the shapes that the report and its page are made from.

Values only; who reads them and how is `demo.report`'s, how they look is `demo.page`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stannary.types import Address, Outcome, Ruling


@dataclass(frozen=True, slots=True)
class LeafRecord:
    """One submission and what became of it."""

    step: int
    slot: int
    role: str
    provider: Address
    units: int
    outcome: Outcome
    """What the panel's revealed votes came to."""
    reason: str
    """Why, in the words of the validators who voted so."""
    reward: float
    """Mean reward of the group, recomputed from the submission file."""
    leased_at: int
    """On the pool's clock, which is the chain's as long as nobody stops it."""
    paid_wei: int
    slashed_wei: int


@dataclass(frozen=True, slots=True)
class VoteRecord:
    """One validator's vote on a step. Units: chain time in unix seconds."""

    validator: str
    committed_at: int
    revealed_at: int


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step from opening to finality. Units: chain time in unix seconds, None for what never happened."""

    step: int
    policy_step: int
    slots: int
    opened_at: int
    seeded_at: int | None
    committed_at: int | None
    audited_at: int | None
    finalized_at: int | None
    votes: tuple[VoteRecord, ...]
    leaves: tuple[LeafRecord, ...]

    @property
    def reward(self) -> float | None:
        """Mean reward over the accepted rollouts; groups have one size, so means of groups average to it."""
        accepted = [leaf.reward for leaf in self.leaves if leaf.outcome == Outcome.ACCEPT]
        return sum(accepted) / len(accepted) if accepted else None


@dataclass(frozen=True, slots=True)
class PolicyRecord:
    """A version of the weights."""

    policy_step: int
    published_at: int


@dataclass(frozen=True, slots=True)
class ProviderRecord:
    """A provider and its money. Units: wei."""

    role: str
    engine: str
    provider: Address
    node: Address
    allocated_wei: int
    stake_wei: int
    slashed_wei: int
    compensation_wei: int
    """From bonds that accusers lost."""
    payout_wei: int
    """Claimed: for accepted work and as compensation."""


@dataclass(frozen=True, slots=True)
class ValidatorRecord:
    """A validator and its money. Units: wei."""

    name: str
    provider: Address
    votes: int
    rulings: int
    """As a juror."""
    allocated_wei: int
    stake_wei: int
    slashed_wei: int
    fees_wei: int


@dataclass(frozen=True, slots=True)
class Measurement:
    """One number of a check beside the bound that it was held to."""

    check: str
    name: str
    value: str
    bound: str
    is_passed: bool


@dataclass(frozen=True, slots=True)
class Example:
    """One submission with the numbers that decided it."""

    leaf: LeafRecord
    validator: str
    measurements: tuple[Measurement, ...]


@dataclass(frozen=True, slots=True)
class Account:
    """One contract's tokens: what it holds, what it says it owes, and what its events add up to. Units: wei."""

    contract: str
    balance_wei: int
    owed_wei: int
    """By its own views: idle stake and positions, or free, reserved and locked escrow."""
    inflows: Mapping[str, int]
    outflows: Mapping[str, int]

    @property
    def flow_wei(self) -> int:
        """What must be there by the events alone."""
        return sum(self.inflows.values()) - sum(self.outflows.values())

    @property
    def is_conserved(self) -> bool:
        """Whether balance, debts and events agree to the wei."""
        return self.balance_wei == self.owed_wei == self.flow_wei


@dataclass(frozen=True, slots=True)
class JurorRecord:
    """One juror of a case. Units: wei."""

    validator: str
    ruling: Ruling | None
    """None if it has revealed nothing."""
    paid_wei: int


@dataclass(frozen=True, slots=True)
class AccusationRecord:
    """One leaf that was said to be bad, and what a jury made of it. Units: wei; chain time in unix seconds."""

    case_id: int
    step: int
    slot: int
    role: str
    """Whose leaf it is."""
    accuser: Address
    opened_at: int
    resolved_at: int | None
    """None while it is not resolved."""
    jurors: tuple[JurorRecord, ...]
    ruling: Ruling | None
    bond_wei: int
    bond_lost_wei: int
    paid_wei: int
    """To the worker, for the leaf."""
    compensation_wei: int
    """To the worker, out of the bond."""
    slashed_wei: int
    """From the worker, for this leaf."""

    @property
    def is_overturned(self) -> bool:
        """Whether the accuser lost its bond and the worker nothing."""
        return (
            self.ruling is Ruling.ACCEPT
            and self.bond_lost_wei == self.bond_wei > 0
            and self.paid_wei > 0
            and self.slashed_wei == 0
        )


@dataclass(frozen=True, slots=True)
class Record:
    """The whole run."""

    policy: str
    chain_id: int
    lr: float | None
    began_at: int
    ended_at: int
    steps: tuple[StepRecord, ...]
    policies: tuple[PolicyRecord, ...]
    providers: tuple[ProviderRecord, ...]
    validators: tuple[ValidatorRecord, ...]
    transactions: Mapping[str, int]
    """Contract and function → transactions mined."""
    gas_used: int
    accounts: tuple[Account, ...]
    accusations: tuple[AccusationRecord, ...]
    unearned: tuple[str, ...]
    """Workers whose earnings on chain are not the price of their accepted leaves, in words; none if all is well."""
    accepted_example: Example | None
    rejected_example: Example | None
    heldout_before: float
    heldout_after: float
    wall_s: float
    peak_rss_mb: int

    @property
    def leaves(self) -> tuple[LeafRecord, ...]:
        """All submissions that were committed, in order."""
        return tuple(leaf for step in self.steps for leaf in step.leaves)

    @property
    def is_conserved(self) -> bool:
        """Whether the books of every contract agree, and every worker has earned what it was to be paid."""
        return all(account.is_conserved for account in self.accounts) and not self.unearned

    @property
    def failures(self) -> tuple[str, ...]:
        """What of the run must not be so, in words."""
        found = [f"{account.contract} does not conserve" for account in self.accounts if not account.is_conserved]
        found += self.unearned
        if not self.accusations:
            found.append("no accusation was made")
        found += [f"case {case.case_id} was not overturned" for case in self.accusations if not case.is_overturned]
        return tuple(found)

    @property
    def lag_max(self) -> int:
        """The largest distance between a step and the policy it was generated by."""
        return max((step.step - step.policy_step for step in self.steps), default=0)
