"""Reads a run back from chain, coordinator and files, and writes it down: `report.json`, `record.json`, `report.html`.

Nothing here is taken from what the demo meant to happen: outcomes and money come from the chain's events, rewards are
recomputed from the submission files, reasons come from the evidence under the roots that the validators voted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from eth_utils.abi import collapse_if_tuple
from eth_utils.crypto import keccak

import contracts
from demo.page import render
from demo.record import (
    Account,
    AccusationRecord,
    Example,
    JurorRecord,
    LeafRecord,
    Measurement,
    PolicyRecord,
    ProviderRecord,
    Record,
    StepRecord,
    ValidatorRecord,
    VoteRecord,
)
from stannary.chain import Chain, Event, StepHistory, events
from stannary.client import CoordinatorClient
from stannary.environments import Environment
from stannary.errors import Malformed, Unavailable
from stannary.evidence import EvidenceFile, LeafEvidence
from stannary.rollout import decode_group
from stannary.seeds import StepSeeds
from stannary.slots import submission_root
from stannary.standing import SCORES
from stannary.structs import Submission
from stannary.types import Address, Hash, Outcome, PoolId, Reason, Role, Ruling, to_hex
from stannary.verdict import tally, unpack_outcomes
from stannary.wire import LeafOut

E = TypeVar("E", bound=Event)


@dataclass(frozen=True, slots=True)
class Party:
    """A provider of the demo, as the demo set it up."""

    name: str
    provider: Address
    node: Address


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a run is read back from."""

    chain: Chain
    pool: PoolId
    coordinator: CoordinatorClient
    environment: Environment
    providers: Sequence[Party]
    validators: Sequence[Party]


@dataclass(frozen=True, slots=True)
class Measured:
    """What no chain knows, measured by the demo and the trainer."""

    policy: str
    lr: float | None
    heldout_before: float
    heldout_after: float
    wall_s: float
    peak_rss_mb: int


@dataclass(slots=True)
class History:
    """All events of a chain and the times of their blocks."""

    chain: Chain
    events: list[Event] = field(default_factory=list)
    _next_block: int = 0
    _times: dict[int, int] = field(default_factory=dict)

    @classmethod
    def read(cls, chain: Chain) -> History:
        """Read everything since the deployment."""
        history = cls(chain, _next_block=chain.deployment.deployed_block)
        history.advance()
        return history

    def advance(self) -> None:
        """Read what has been added since."""
        head = self.chain.frozen().number
        if head >= self._next_block:
            self.events += self.chain.read_events(self._next_block, head)
            self._next_block = head + 1

    def of(self, kind: type[E], **values: object) -> list[E]:
        """Return the events of a kind whose fields have these values."""
        found = [event for event in self.events if isinstance(event, kind)]
        return [event for event in found if all(getattr(event, name) == value for name, value in values.items())]

    def at(self, event: Event) -> int:
        """Return when an event happened. Units: chain time in unix seconds."""
        number = event.place.block_number
        if number not in self._times:
            self._times[number] = self.chain.block(number).timestamp
        return self._times[number]

    def first_at(self, kind: type[E], **values: object) -> int | None:
        """Return when the first such event happened, None if there is none."""
        found = self.of(kind, **values)
        return self.at(found[0]) if found else None


def read_record(sources: Sources, measured: Measured) -> Record:
    """Read a finished run back.

    Raises: Malformed if coordinator and chain disagree; NetworkError, ChainError.
    """
    history = History.read(sources.chain)
    pool = sources.pool
    examples = Examples()
    steps = tuple(
        read_step(sources, history, opened.step, examples) for opened in history.of(events.StepOpened, pool=pool)
    )
    transactions, gas_used = _transactions(sources.chain)
    providers = _providers(sources, history)
    leaves = [leaf for step in steps for leaf in step.leaves]
    return Record(
        policy=measured.policy,
        chain_id=sources.chain.deployment.chain_id,
        lr=measured.lr,
        began_at=history.at(history.of(events.PoolCreated, pool=pool)[0]),
        ended_at=sources.chain.frozen().timestamp,
        steps=steps,
        policies=tuple(
            PolicyRecord(published.policy_step, history.at(published))
            for published in history.of(events.PolicyPublished, pool=pool)
        ),
        providers=providers,
        validators=_validators(sources, history),
        transactions=transactions,
        gas_used=gas_used,
        accounts=(_stake_account(sources.chain, history), _vault_account(sources.chain, history, pool)),
        accusations=tuple(_accusations(sources, history)),
        unearned=tuple(_unearned(history, providers, leaves)),
        accepted_example=examples.accepted,
        rejected_example=examples.rejected,
        heldout_before=measured.heldout_before,
        heldout_after=measured.heldout_after,
        wall_s=measured.wall_s,
        peak_rss_mb=measured.peak_rss_mb,
    )


def summary(record: Record) -> dict[str, Any]:
    """Return `report.json`."""
    rejected = [leaf for leaf in record.leaves if leaf.outcome in (Outcome.REJECT, Outcome.FAULT)]
    return {
        "policy": record.policy,
        "steps": len(record.steps),
        "reward_by_step": [step.reward for step in record.steps],
        "heldout_before": record.heldout_before,
        "heldout_after": record.heldout_after,
        "engines": sorted({provider.engine for provider in record.providers}),
        "accepted": sum(leaf.outcome == Outcome.ACCEPT for leaf in record.leaves),
        "accepted_by_role": _count(record, [leaf.role for leaf in record.leaves if leaf.outcome == Outcome.ACCEPT]),
        "rejected": dict(sorted(Counter(leaf.reason for leaf in rejected).items())),
        "rejected_by_role": _count(record, [leaf.role for leaf in rejected]),
        "undecided": sum(leaf.outcome == Outcome.ABSTAIN for leaf in record.leaves),
        "slashed_wei": {provider.role: provider.slashed_wei for provider in record.providers},
        "payout_claimed_wei": {provider.role: provider.payout_wei for provider in record.providers},
        "paid_for_rejected_wei": sum(leaf.paid_wei for leaf in record.leaves if leaf.outcome != Outcome.ACCEPT),
        "stake_wei": {provider.role: provider.stake_wei for provider in record.providers},
        "compensation_wei": {provider.role: provider.compensation_wei for provider in record.providers},
        "accusations": [_accusation_out(case) for case in record.accusations],
        "conserved": record.is_conserved,
        "failures": list(record.failures),
        "lag_max": record.lag_max,
        "transactions": sum(record.transactions.values()),
        "wall_s": round(record.wall_s, 1),
        "peak_rss_mb": record.peak_rss_mb,
    }


def _accusation_out(case: AccusationRecord) -> dict[str, Any]:
    return {
        "case": case.case_id,
        "step": case.step,
        "slot": case.slot,
        "accused": case.role,
        "jurors": [juror.validator for juror in case.jurors],
        "votes": {juror.validator: _ruling_name(juror.ruling) for juror in case.jurors},
        "ruling": _ruling_name(case.ruling),
        "bond_lost_wei": case.bond_lost_wei,
        "paid_to_worker_wei": case.paid_wei + case.compensation_wei,
        "slashed_from_worker_wei": case.slashed_wei,
        "overturned": case.is_overturned,
    }


def _ruling_name(ruling: Ruling | None) -> str:
    return "silent" if ruling is None else ruling.name.lower()


def write_report(record: Record, folder: Path) -> dict[str, Any]:
    """Write the three files and return what `report.json` says."""
    report = summary(record)
    (folder / "report.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    (folder / "record.json").write_text(json.dumps(asdict(record), indent=1) + "\n", encoding="utf-8")
    (folder / "report.html").write_text(render(record), encoding="utf-8")
    return report


def _count(record: Record, roles: Iterable[str]) -> dict[str, int]:
    counted = Counter(roles)
    return {provider.role: counted[provider.role] for provider in record.providers}


@dataclass(slots=True)
class Examples:
    """The newest accepted submission and, of the rejected ones, the first with the most numbers to show."""

    accepted: Example | None = None
    rejected: Example | None = None

    def see(self, leaf: LeafRecord, validator: str, evidence: LeafEvidence) -> None:
        """Consider a leaf with a validator's evidence on it."""
        example = Example(leaf, validator, tuple(_measurements(evidence)))
        if leaf.outcome == Outcome.ACCEPT:
            self.accepted = example
        elif leaf.outcome in (Outcome.REJECT, Outcome.FAULT):
            shown = len(self.rejected.measurements) if self.rejected is not None else -1
            if len(example.measurements) > shown:
                self.rejected = example


@dataclass(frozen=True, slots=True)
class _Ballot:
    """One panel member's vote with the evidence behind it."""

    name: str
    outcomes: list[Outcome]
    """By slot."""
    evidence: EvidenceFile | None
    """None if the validator has not published it (yet)."""

    def on(self, leaf_hash: Hash) -> LeafEvidence | None:
        """Return the evidence on one leaf."""
        leaves = () if self.evidence is None else self.evidence.leaves
        return next((leaf for leaf in leaves if leaf.leaf_hash == leaf_hash), None)


def read_step(sources: Sources, history: History, step: int, examples: Examples | None = None) -> StepRecord:
    """Read one step back, finished or not. Raises: as `read_record`."""
    pool = sources.pool
    opened = history.of(events.StepOpened, pool=pool, step=step)[0]
    names = {party.provider: party.name for party in sources.validators}
    chain = StepHistory.of(history.events, pool, step)
    return StepRecord(
        step=step,
        policy_step=opened.policy_step,
        slots=opened.slots,
        opened_at=history.at(opened),
        seeded_at=history.first_at(events.SeedBeaconSealed, pool=pool, step=step),
        committed_at=history.first_at(events.RootCommitted, pool=pool, step=step),
        audited_at=history.first_at(events.AuditBeaconSealed, pool=pool, step=step),
        finalized_at=history.first_at(events.StepFinalized, pool=pool, step=step),
        votes=tuple(
            VoteRecord(names[member], history.at(chain.commitments[member]), history.at(vote))
            for member, vote in chain.votes.items()
        ),
        leaves=tuple(_leaves(sources, history, chain, examples or Examples())),
    )


def _leaves(sources: Sources, history: History, chain: StepHistory, examples: Examples) -> Iterable[LeafRecord]:
    pool, step = sources.pool, chain.step
    terms = history.of(events.PoolCreated, pool=pool)[0].terms
    if chain.committed is None or chain.opened is None or chain.seeded is None:
        return
    leaves = checked_leaves(sources.coordinator, chain.committed, chain.opened.slots)
    names = {party.provider: party.name for party in sources.validators}
    ballots = [
        _Ballot(
            names[member],
            unpack_outcomes(vote.outcomes, chain.positions),
            _evidence(sources.coordinator, vote),
        )
        for member, vote in chain.votes.items()
    ]
    roles = {party.provider: party.name for party in sources.providers}
    seeds = StepSeeds(sources.chain.ledger_domain, pool, step, chain.seeded.beacon)
    for leaf in leaves:
        submission = leaf.submission.submission()
        slot, leaf_hash = submission.slot, submission.struct_hash()
        outcome = tally([ballot.outcomes[slot] for ballot in ballots], terms.quorum)
        agreeing = [ballot for ballot in ballots if _stands_behind(ballot.outcomes[slot], outcome)]
        record = LeafRecord(
            step=step,
            slot=slot,
            role=roles[submission.provider],
            provider=submission.provider,
            units=submission.units,
            outcome=outcome,
            reason=_reason(agreeing, leaf_hash),
            reward=_reward(sources, seeds, submission, terms.group_size),
            leased_at=leaf.lease.valid_from,
            paid_wei=terms.payout(submission.units) if _is_paid(history, chain, slot) else 0,
            slashed_wei=chain.slashed[slot].amount if slot in chain.slashed else 0,
        )
        for ballot in agreeing[:1]:
            evidence = ballot.on(leaf_hash)
            if evidence is not None:
                examples.see(record, ballot.name, evidence)
        yield record


def _is_paid(history: History, chain: StepHistory, slot: int) -> bool:
    """Say whether the chain settled a slot as accepted: in the step's settlement, or after a dispute."""
    if slot not in chain.held:
        outcomes = chain.outcomes()
        return outcomes is not None and outcomes[slot] is Outcome.ACCEPT
    cases = [
        case for case in history.of(events.CaseOpened) if (case.details.step, case.details.slot) == (chain.step, slot)
    ]
    resolved = [event for case in cases for event in history.of(events.CaseResolved, case_id=case.case_id)]
    return any(event.outcome == Outcome.ACCEPT for event in resolved)


def checked_leaves(coordinator: CoordinatorClient, committed: events.RootCommitted, slots: int) -> list[LeafOut]:
    """Return a step's leaves from the coordinator. Raises: Malformed if they are not those under the root on chain."""
    answer = coordinator.leaves(committed.step)
    found = submission_root([leaf.submission.submission() for leaf in answer.leaves], slots)
    if found != committed.submission_root:
        expected = to_hex(committed.submission_root)
        raise Malformed(f"leaves of step {committed.step}", expected=expected, got=to_hex(found))
    return answer.leaves


def _evidence(coordinator: CoordinatorClient, vote: events.VoteRevealed) -> EvidenceFile | None:
    try:
        found = EvidenceFile.parse(coordinator.evidence(vote.evidence_root))
    except Unavailable:
        return None
    if found.root() != vote.evidence_root:
        raise Malformed("evidence", expected=to_hex(vote.evidence_root), got=to_hex(found.root()))
    return found


def _stands_behind(vote: Outcome, outcome: Outcome) -> bool:
    return vote == outcome or (outcome == Outcome.REJECT and vote == Outcome.FAULT)


def _reason(agreeing: Sequence[_Ballot], leaf_hash: Hash) -> str:
    found = [evidence for ballot in agreeing if (evidence := ballot.on(leaf_hash)) is not None]
    counted = Counter(evidence.reason for evidence in found)
    reason = counted.most_common(1)[0][0] if counted else Reason.NONE
    return reason.name.lower()


def _reward(sources: Sources, seeds: StepSeeds, submission: Submission, group_size: int) -> float:
    """Score a group anew; a file that does not hold what it must scores nothing."""
    try:
        rollouts = decode_group(sources.coordinator.submission_file(submission.content_hash), group_size)
    except Malformed:
        return 0.0
    problem = sources.environment.problem(seeds.slot_seed(submission.slot))
    rewards = [sources.environment.reward(problem, rollout.completion) for rollout in rollouts]
    return sum(rewards) / len(rewards)


_FIGURES = {
    "exponent_mismatches": ("activations", "exponents that differ, worst chunk"),
    "mantissa_mean": ("activations", "mantissa difference, mean of the worst chunk"),
    "mantissa_median": ("activations", "mantissa difference, median of the worst chunk"),
    "mean_exponent_mismatches": ("activations", "exponents that differ, mean over the chunks"),
    "mean_mantissa_mean": ("activations", "mantissa difference, mean over the chunks"),
    "towards the policy step before": ("pairing", "standard errors towards the policy step before"),
    "share of the policy step before": ("pairing", "share of the way to it"),
    "tokens": ("sampling", "tokens replayed"),
    "informative": ("sampling", "informative ones among them"),
    "largest_gap": ("sampling", "largest gap to the token that the seed picks"),
    "beyond_margin": ("sampling", "tokens beyond the margin"),
    "not_chosen_rate": ("sampling", "informative tokens that it does not pick"),
    "mean_gap": ("sampling", "mean gap of the informative ones"),
    "concurring share of the policy step before": ("pairing", "share of the way to it, by the second compute"),
    **{name: ("", f"{name}, beyond 1 a rejection") for name in SCORES},
}
"""Names in the evidence → check and words. A name not here is shown as it is."""


def _measurements(evidence: LeafEvidence) -> Iterable[Measurement]:
    order = {name: place for place, name in enumerate(_FIGURES)}
    for name, measure in sorted(evidence.measures.items(), key=lambda item: (order.get(item[0], len(order)), item[0])):
        check, words = _FIGURES.get(name, ("", name.replace("_", " ")))
        is_passed = measure.limit is None or (measure.value is not None and measure.value <= measure.limit)
        value = "not finite" if measure.value is None else f"{measure.value:.4g}"
        bound = "" if measure.limit is None else f"≤ {measure.limit:.4g}"
        yield Measurement(check, words, value, bound, is_passed)


def _providers(sources: Sources, history: History) -> tuple[ProviderRecord, ...]:
    engines = {node.node: node.engine for node in sources.coordinator.nodes().nodes}
    return tuple(
        ProviderRecord(
            role=party.name,
            engine=engines.get(party.node, "never heard of"),
            provider=party.provider,
            node=party.node,
            allocated_wei=_allocated(sources, history, party, Role.WORKER),
            stake_wei=_stake(sources, party, Role.WORKER),
            slashed_wei=_amounts(history, events.Slashed, party),
            compensation_wei=_amounts(history, events.BondSpent, party),
            payout_wei=_amounts(history, events.Claimed, party),
        )
        for party in sources.providers
    )


def _validators(sources: Sources, history: History) -> tuple[ValidatorRecord, ...]:
    return tuple(
        ValidatorRecord(
            name=party.name,
            provider=party.provider,
            votes=len(history.of(events.VoteRevealed, pool=sources.pool, provider=party.provider)),
            rulings=len(history.of(events.JurorRevealed, provider=party.provider)),
            allocated_wei=_allocated(sources, history, party, Role.VALIDATOR),
            stake_wei=_stake(sources, party, Role.VALIDATOR),
            slashed_wei=_amounts(history, events.Slashed, party),
            fees_wei=_amounts(history, events.Claimed, party),
        )
        for party in sources.validators
    )


def _amounts(history: History, kind: type[Any], party: Party) -> int:
    return sum(event.amount for event in history.of(kind, provider=party.provider))


def _unearned(history: History, providers: Iterable[ProviderRecord], leaves: Sequence[LeafRecord]) -> Iterable[str]:
    """Yield, for each worker of whom it is so, that the chain credited another sum than its accepted leaves cost."""
    credited = events.credited([*history.of(events.Earned), *history.of(events.Settled)])
    for provider in providers:
        due = sum(leaf.paid_wei for leaf in leaves if leaf.provider == provider.provider)
        earned = credited[provider.provider]
        if due != earned:
            yield f"{provider.role} earned {earned} wei for leaves of {due} wei"


def _accusations(sources: Sources, history: History) -> Iterable[AccusationRecord]:
    names = {party.provider: party.name for party in (*sources.providers, *sources.validators)}
    for case in history.of(events.CaseOpened, pool=sources.pool):
        details, resolved = case.details, history.of(events.CaseResolved, case_id=case.case_id)
        settled = _beside(history, resolved[0]) if resolved else []
        rulings = {event.provider: event.ruling for event in history.of(events.JurorRevealed, case_id=case.case_id)}
        jury = [juror for drawn in history.of(events.JuryDrawn, case_id=case.case_id) for juror in drawn.jury]
        returned = _credited(settled, events.BondSpent, details.disputant)
        yield AccusationRecord(
            case_id=case.case_id,
            step=details.step,
            slot=details.slot,
            role=names.get(case.provider, case.provider),
            accuser=details.disputant,
            opened_at=history.at(case),
            resolved_at=history.at(resolved[0]) if resolved else None,
            jurors=tuple(
                JurorRecord(
                    names.get(juror, juror),
                    Ruling(rulings[juror]) if juror in rulings else None,
                    _credited(settled, events.BondSpent, juror) + _credited(settled, events.Earned, juror),
                )
                for juror in jury
            ),
            ruling=Ruling(resolved[0].ruling) if resolved else None,
            bond_wei=details.bond,
            bond_lost_wei=details.bond - returned if resolved else 0,
            paid_wei=_credited(settled, events.Earned, case.provider),
            compensation_wei=_credited(settled, events.BondSpent, case.provider),
            slashed_wei=_credited(settled, events.Slashed, case.provider),
        )


def _beside(history: History, event: Event) -> list[Event]:
    """Return all events of the transaction of one."""
    return [other for other in history.events if other.place.transaction == event.place.transaction]


def _credited(found: Iterable[Event], kind: type[Any], account: Address) -> int:
    return sum(event.amount for event in found if isinstance(event, kind) and event.provider == account)


def _allocated(sources: Sources, history: History, party: Party, role: Role) -> int:
    found = history.of(events.Allocated, pool=sources.pool, role=int(role), provider=party.provider)
    return sum(event.amount for event in found)


def _stake(sources: Sources, party: Party, role: Role) -> int:
    return sources.chain.stake_manager.position_of(sources.pool, role, party.provider).tokens


def _stake_account(chain: Chain, history: History) -> Account:
    manager = chain.stake_manager
    return Account(
        contract=manager.NAME,
        balance_wei=chain.token.balance_of(manager.address),
        owed_wei=manager.total_held(),
        inflows={"deposited": _sum(history, events.Deposited)},
        outflows={"withdrawn": _sum(history, events.Withdrawn), "burned": _sum(history, events.StakeBurned)},
    )


def _vault_account(chain: Chain, history: History, pool: PoolId) -> Account:
    vault = chain.payout_vault
    return Account(
        contract=vault.NAME,
        balance_wei=chain.token.balance_of(vault.address),
        owed_wei=vault.money_of(pool, events.credited(history.events)),
        inflows={"funded": _sum(history, events.Funded), "bonds": _sum(history, events.BondTaken)},
        outflows={
            "claimed": _sum(history, events.Claimed),
            "drained": _sum(history, events.Drained),
            "burned": _sum(history, events.Burned),
        },
    )


def _sum(history: History, kind: type[Any]) -> int:
    return sum(event.amount for event in history.of(kind))


def _transactions(chain: Chain) -> tuple[Mapping[str, int], int]:
    """Count the transactions of all blocks by the function they call, and their gas."""
    by_address = {address.lower(): name for name, address in chain.deployment.addresses.items()}
    counted: Counter[str] = Counter()
    gas_used = 0
    for number in range(chain.frozen().number + 1):
        block = chain.rpc("eth_getBlockByNumber", hex(number), True)
        gas_used += int(block["gasUsed"], 16)
        for transaction in block["transactions"]:
            contract = by_address.get(str(transaction["to"]).lower())
            if contract is not None:
                counted[f"{contract}.{_functions(contract).get(transaction['input'][:10], '?')}"] += 1
            else:
                counted["transfer of ether" if transaction["to"] else "deployment"] += 1
    return dict(counted.most_common()), gas_used


@cache
def _functions(contract: str) -> dict[str, str]:
    table = {}
    for item in contracts.abi(contract):  # type: ignore[arg-type]
        if item["type"] == "function":
            signature = f"{item['name']}({','.join(collapse_if_tuple(part) for part in item['inputs'])})"
            table["0x" + keccak(text=signature)[:4].hex()] = item["name"]
    return table
