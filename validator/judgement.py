"""From the leaves of a step to judgements: the order of the checks, and what each needs. No chain, HTTP or clock.

Cheap checks first; a leaf that fails one is not looked at further. Activations and sampling are both measured, and the
graver finding decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from stannary.audit_choice import is_audited
from stannary.cards import Allowance, Card, Thresholds
from stannary.e_process import Scores
from stannary.environments.environment import Environment
from stannary.errors import AbstainError
from stannary.evidence import LeafEvidence, Measure
from stannary.rollout import Rollout, decode_group
from stannary.standing import scores_of
from stannary.structs import Verdict
from stannary.token_rules import TokenRules
from stannary.types import ZERO_HASH, Address, Hash, Outcome
from stannary.verdict import rewards_hash
from validator import checks, statistics
from validator.checks import Leaf, PolicyFacts, Read, Rules, StepFacts
from validator.finding import FINE, Finding, worse
from validator.pairing import Pairing, Way
from validator.statistics import Measured, is_statistical

if TYPE_CHECKING:
    import torch

GREY_FACTOR = 1.25
"""A rejection by numbers of which every one lies within this many times its limit is grey: a juror says so."""


class Recompute(Protocol):
    """What a judgement needs of a loaded policy; `validator.prefill.Prefill` is one."""

    vocabulary: int
    hidden_size: int
    tokens: TokenRules
    compute: str
    """What recomputes, such as `transformers 5.19.0 fp32 on cpu`."""
    is_exact: bool
    """Whether it computes in more than bf16."""

    @property
    def head_rows(self) -> int:
        """Positions whose logits may be asked for at once."""
        ...

    def states(self, prompt: Sequence[int], completions: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        """Return the states [T, H] bfloat16 that predicted each completion."""
        ...

    def unrounded_states(self, prompt: Sequence[int], completions: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        """Return the same in the compute's own type."""
        ...

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """Return the logits [T, V] float32 of states."""
        ...


@dataclass(frozen=True, slots=True)
class Computes:
    """The ways in which this validator can recompute a policy step."""

    first: Recompute
    """In more than bf16."""
    second: Callable[[], Recompute]
    """The same policy in bf16. Opened only where the first has something against a leaf."""
    before: Callable[[], Recompute] | None = None
    """The policy step before, in more than bf16; None where there is none."""


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
    computes: Computes
    read: Read = decode_group
    is_jury: bool = False
    """A juror holds what it rejects against the wider limits of the grey band as well."""

    def __post_init__(self) -> None:
        """Refuse a card of another policy or temperature. Raises: AbstainError."""
        card, policy = self.card, self.computes.first
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
        finding, rollouts = checks.check_file(data, leaf, self.rules, self.read)
        if finding.is_fine:
            finding = self._read(leaf, rollouts)
        is_grey, is_whole = False, self.looks_at(leaf.submission.slot)
        if finding.is_fine and is_whole:
            measured = self.measure(leaf, rollouts)
            finding = decide(measured, self.card.thresholds)
            if self.is_jury and finding.outcome is Outcome.REJECT and is_statistical(finding):
                is_grey = decide(measured, widened(self.card.thresholds)).is_fine
        rewards: tuple[float, ...] = ()
        # A text that nobody replayed is any text that its worker liked: no scorer reads it, and nobody learns from it.
        if finding.is_fine and is_whole:
            problem = self.environment.problem(self.facts.seeds.slot_seed(leaf.submission.slot))
            rewards = tuple(float(self.environment.reward(problem, rollout.completion)) for rollout in rollouts)
        return Judgement(leaf.submission.struct_hash(), finding, rewards, is_grey)

    def looks_at(self, slot: int) -> bool:
        """Say whether a slot gets the checks that need a forward pass: the audit beacon chose, for all."""
        return is_audited(self.facts.audit_beacon, slot, self.card.audit_bps)

    def measure(self, leaf: Leaf, rollouts: Sequence[Rollout]) -> Sequence[Measured]:
        """Measure by the first compute, and by the second if the first has something against the leaf."""
        first = self.computes.first
        prompt, completions = rollouts[0].prompt, [rollout.completion for rollout in rollouts]
        states = first.unrounded_states(prompt, completions)
        ways = []
        if self.computes.before is not None:
            before = self.computes.before().unrounded_states(prompt, completions)
            ways.append(Way("the policy step before", states, before))
        found = [self._measure(leaf, rollouts, first, states, ways)]
        if not statistics.judge(found[0], self.card.thresholds).is_fine:
            second = self.computes.second()
            found.append(self._measure(leaf, rollouts, second, second.unrounded_states(prompt, completions), ways))
        return found

    def _read(self, leaf: Leaf, rollouts: Sequence[Rollout]) -> Finding:
        """Everything that needs no model."""
        problem = self.environment.problem(self.facts.seeds.slot_seed(leaf.submission.slot))
        policy = PolicyFacts(self.computes.first.vocabulary, self.computes.first.tokens)
        steps: tuple[Callable[[], Finding], ...] = (
            lambda: checks.check_prompt(rollouts, problem.prompt),
            lambda: checks.check_units(rollouts, leaf),
            lambda: checks.check_lengths(rollouts, self.rules),
            lambda: checks.check_tokens(rollouts, policy),
            lambda: checks.check_termination(rollouts, self.rules, policy),
            lambda: checks.check_proofs(rollouts),
        )
        return next((found for found in (step() for step in steps) if not found.is_fine), FINE)

    def _measure(
        self,
        leaf: Leaf,
        rollouts: Sequence[Rollout],
        policy: Recompute,
        states: Sequence[torch.Tensor],
        ways: Sequence[Way],
    ) -> Measured:
        slot = leaf.submission.slot
        return statistics.measure(
            rollouts,
            states,
            [self.facts.seeds.rollout_seed(slot, index) for index in range(len(rollouts))],
            self.rules.temperature_milli / 1000,
            policy,
            ways,
        )


def decide(measured: Sequence[Measured], thresholds: Thresholds) -> Finding:
    """Return what the computes find together: a part of the checks finds only what all of them find by that part.

    What one compute alone has against a leaf is no rejection, whatever another has against it by another part.
    """
    found = [statistics.judge(each, thresholds) for each in measured]
    if len(found) == 1:
        return found[0]
    parts = agreed_by_part(measured, thresholds)
    decided = worse(*parts)
    if decided.is_fine:
        alone = [
            f"passed by {each.compute}" if own.is_fine else f"by {each.compute} alone: {own.explanation}"
            for each, own in zip(measured, found, strict=True)
        ]
        decided = replace(decided, explanation="; ".join(alone))
    lowest = _lowest(found, is_paired=not parts[1].is_fine)
    return decided if lowest is None else statistics.with_scores(decided, lowest)


def agreed_by_part(measured: Sequence[Measured], thresholds: Thresholds) -> tuple[Finding, Finding, Finding]:
    """Return what the computes find together, by part of the checks: of activations and sampling the milder finding.

    Pairings are measured by the exact compute; the other concurs where by its states as well the proofs are nearer to
    the other policy. Where it does not, they are evidence that rejects nothing.
    """
    held = [statistics.held_by_part(each, thresholds) for each in measured]
    if len(held) == 1:
        return held[0]
    activations, _, sampling = (min(part, key=lambda finding: finding.outcome) for part in zip(*held, strict=True))
    paired = statistics.judge_pairings(agreed_pairings(measured), thresholds)
    measures = dict(paired.measures)
    for each, (_, pairing, _) in zip(measured, held, strict=True):
        concurring = (
            {}
            if each.is_exact
            else {f"concurring share of {other.name}": Measure.of(other.share) for other in each.pairings}
        )
        measures |= {**pairing.measures, **concurring}
    return activations, replace(paired, measures=measures), sampling


def _lowest(found: Sequence[Finding], *, is_paired: bool) -> Scores | None:
    """Return the lower scores of the computes; of the pairing, which one alone has, the higher, at most 1 unless all
    agree on it. None where the submission is too short to tell from.
    """
    scores = [own for finding in found if (own := scores_of(finding.measures)) is not None]
    if not scores:
        return None
    activations, pairing, sampling = (tuple(part) for part in zip(*scores, strict=True))
    return min(activations), max(pairing) if is_paired else min(1.0, max(pairing)), min(sampling)


def agreed_pairings(measured: Sequence[Measured]) -> list[Pairing]:
    """Return the pairings of the exact compute, without those that another compute does not concur with."""
    return [
        pairing
        for exact in measured
        if exact.is_exact
        for pairing in exact.pairings
        if all(
            other.is_nearer
            for each in measured
            if each is not exact
            for other in each.pairings
            if other.name == pairing.name
        )
    ]


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
        mean_drift=tuple(
            replace(
                band,
                exponent_mismatches=GREY_FACTOR * band.exponent_mismatches,
                mantissa_mean=GREY_FACTOR * band.mantissa_mean,
            )
            for band in limits.mean_drift
        ),
        beyond_margin=wide(limits.beyond_margin),
        sampling=tuple(
            replace(band, not_chosen_rate=GREY_FACTOR * band.not_chosen_rate, mean_gap=GREY_FACTOR * band.mean_gap)
            for band in limits.sampling
        ),
        pairing=replace(limits.pairing, deviation=GREY_FACTOR * limits.pairing.deviation),
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
