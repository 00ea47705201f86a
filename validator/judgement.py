"""From the leaves of a step to judgements: the order of the checks, and what each needs. No chain, HTTP or clock.

Cheap checks first; a leaf that fails one is not looked at further. Activations and sampling are both measured, and the
graver finding decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from stannary.cards import Allowance, Card, Thresholds
from stannary.environments.environment import Environment
from stannary.errors import AbstainError
from stannary.evidence import LeafEvidence
from stannary.rollout import Rollout
from stannary.structs import Verdict
from stannary.token_rules import TokenRules
from stannary.types import ZERO_HASH, Address, Hash, Outcome, Reason
from stannary.verdict import rewards_hash
from validator import checks
from validator.checks import FINE, Finding, Leaf, PolicyFacts, Rules, StepFacts

if TYPE_CHECKING:
    import torch

GREY_FACTOR = 1.25
"""A statistical rejection of which every number lies within this many times its limit is grey: a juror says so."""
STATISTICAL = (Reason.ACTIVATIONS, Reason.SAMPLING)
"""Reasons that hold a measured number against a limit of the card. The bound of the sampling check is a fault."""


class Recompute(Protocol):
    """What a judgement needs of a loaded policy; `validator.prefill.Prefill` is one."""

    vocabulary: int
    hidden_size: int
    tokens: TokenRules

    @property
    def head_rows(self) -> int:
        """Positions whose logits may be asked for at once."""
        ...

    def states(self, prompt: Sequence[int], completions: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        """Return the states [T, H] bfloat16 that predicted each completion."""
        ...

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """Return the logits [T, V] float32 of states."""
        ...


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is decided about one leaf, and why."""

    leaf_hash: Hash
    finding: Finding
    rewards: tuple[float, ...] = ()
    is_grey: bool = False
    """Whether a rejection lies within the grey band. Asked of jurors alone."""

    @property
    def is_decided(self) -> bool:
        """Whether this is a verdict and not an abstention."""
        return self.finding.outcome is not Outcome.ABSTAIN

    def verdict(self, pool: int, step: int) -> Verdict:
        """Return the struct that is signed. Rewards are signed only with an acceptance."""
        accepted = self.finding.outcome is Outcome.ACCEPT
        return Verdict(
            pool,
            step,
            self.leaf_hash,
            int(self.finding.outcome),
            int(self.finding.reason),
            rewards_hash(self.rewards) if accepted else ZERO_HASH,
        )

    def evidence(self) -> LeafEvidence:
        """Return the entry of the evidence file."""
        finding = self.finding
        return LeafEvidence(
            self.leaf_hash, finding.outcome, finding.reason, finding.explanation, finding.measures, self.rewards
        )


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges the leaves of one step."""

    rules: Rules
    facts: StepFacts
    card: Card
    environment: Environment
    policy: Recompute
    has_grey_band: bool = False
    """Whether a statistical rejection is held against the wider limits as well: a second forward pass, only then."""

    def __post_init__(self) -> None:
        """Refuse a card of another policy or temperature. Raises: AbstainError."""
        card, policy = self.card, self.policy
        if (card.hidden_size, card.vocabulary) != (policy.hidden_size, policy.vocabulary):
            raise AbstainError(
                f"the card is for hidden size {card.hidden_size} and {card.vocabulary} token ids, "
                f"the policy has {policy.hidden_size} and {policy.vocabulary}"
            )
        if card.temperature_milli != self.rules.temperature_milli:
            raise AbstainError(
                f"the card is for temperature {card.temperature_milli} ‰, "
                f"the pool's is {self.rules.temperature_milli} ‰"
            )

    def judge(self, leaf: Leaf, data: bytes) -> Judgement:
        """Judge a leaf that passed `screen`, by its file. Raises: only for failures of this validator itself."""
        finding, rollouts = checks.check_file(data, leaf, self.rules)
        if finding.is_fine:
            finding = self._read(leaf, rollouts)
        is_grey = False
        if finding.is_fine:
            finding = self._recompute(leaf, rollouts, self.card.thresholds)
            if self.has_grey_band and finding.outcome is Outcome.REJECT and finding.reason in STATISTICAL:
                is_grey = self._recompute(leaf, rollouts, widened(self.card.thresholds)).is_fine
        rewards: tuple[float, ...] = ()
        if finding.is_fine:
            problem = self.environment.problem(self.facts.seeds.slot_seed(leaf.submission.slot))
            rewards = tuple(float(self.environment.reward(problem, rollout.completion)) for rollout in rollouts)
        return Judgement(leaf.submission.struct_hash(), finding, rewards, is_grey)

    def _read(self, leaf: Leaf, rollouts: Sequence[Rollout]) -> Finding:
        """Everything that needs no model."""
        problem = self.environment.problem(self.facts.seeds.slot_seed(leaf.submission.slot))
        policy = PolicyFacts(self.policy.vocabulary, self.policy.tokens)
        steps: tuple[Callable[[], Finding], ...] = (
            lambda: checks.check_prompt(rollouts, problem.prompt),
            lambda: checks.check_units(rollouts, leaf),
            lambda: checks.check_lengths(rollouts, self.rules),
            lambda: checks.check_tokens(rollouts, policy),
            lambda: checks.check_termination(rollouts, self.rules, policy),
            lambda: checks.check_proofs(rollouts),
        )
        return next((found for found in (step() for step in steps) if not found.is_fine), FINE)

    def _recompute(self, leaf: Leaf, rollouts: Sequence[Rollout], thresholds: Thresholds) -> Finding:
        """Everything that needs the policy's own states: one forward pass."""
        slot = leaf.submission.slot
        states = self.policy.states(rollouts[0].prompt, [rollout.completion for rollout in rollouts])
        activations = checks.check_activations(rollouts, states, thresholds)
        sampling = checks.check_sampling(
            rollouts,
            states,
            [self.facts.seeds.rollout_seed(slot, index) for index in range(len(rollouts))],
            self.rules.temperature_milli / 1000,
            thresholds,
            self.policy.logits,
            self.policy.head_rows,
        )
        return checks.worse(activations, sampling)


def widened(limits: Thresholds) -> Thresholds:
    """Return the limits at the far end of the grey band. What is a fault stays one."""

    def wide(allowance: Allowance) -> Allowance:
        return Allowance(GREY_FACTOR * allowance.base, GREY_FACTOR * allowance.each)

    return replace(
        limits,
        drift=tuple(
            replace(
                band,
                exponent_mismatches=int(GREY_FACTOR * band.exponent_mismatches),
                mantissa_mean=GREY_FACTOR * band.mantissa_mean,
                mantissa_median=GREY_FACTOR * band.mantissa_median,
            )
            for band in limits.drift
        ),
        mantissa_sum=wide(limits.mantissa_sum),
        beyond_margin=wide(limits.beyond_margin),
        capped_sum=wide(limits.capped_sum),
    )


def screen(
    leaves: Sequence[Leaf], rules: Rules, facts: StepFacts, provider_of: Callable[[Address], Address]
) -> list[Finding]:
    """Return what signatures, places and leases say of each leaf, before any file is fetched."""
    return [_screen_one(leaf, rules, facts, provider_of) for leaf in leaves]


def _screen_one(leaf: Leaf, rules: Rules, facts: StepFacts, provider_of: Callable[[Address], Address]) -> Finding:
    place = checks.check_place(leaf, rules, facts)
    if not place.is_fine:
        return place
    signature = checks.check_signature(leaf, rules, provider_of(leaf.submission.node))
    return signature if not signature.is_fine else checks.check_lease(leaf, rules, facts)
