"""A pool's money told again from its events: who must have earned what, and been slashed for what. Pure.

Trusts no sum that the contracts report: positions, settlements, rulings and fines are computed anew from deposits,
votes and pay tables, by the rules of docs/protocol.md §3, §9 and §10, and each event of money is compared with them.
That the leaves stand behind the roots is another question, which `check_leaves` answers. Knows no connection.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from stannary.chain import PoolTerms, StepHistory, events
from stannary.chain.dispute_court import Case
from stannary.errors import Malformed
from stannary.slots import PayTable, submission_root
from stannary.structs import Submission
from stannary.types import Address, CaseKind, Hash, Outcome, Role, Ruling
from stannary.verdict import pack_outcomes, unpack_outcomes

BPS = 10_000
_APPEAL_ROUND = 2


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that the chain did and the rules do not give."""

    subject: str
    expected: object
    got: object

    def __str__(self) -> str:
        return f"{self.subject}: expected {self.expected}, got {self.got}"


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit covered and what it found. Money in wei."""

    steps: int
    settled_steps: int
    cases: int
    earned: Mapping[Address, int]
    """By provider, recomputed: payouts, fees, bonds that came back."""
    claimed: Mapping[Address, int]
    slashed: Mapping[Address, int]
    """By provider, in stake tokens, recomputed."""
    differences: tuple[Difference, ...]

    @property
    def is_clean(self) -> bool:
        """Say whether everything is as the rules give it."""
        return not self.differences


@dataclass(slots=True)
class _Position:
    tokens: int = 0
    shares: int = 0
    exiting: int = 0
    epoch: int = 0
    is_suspended: bool = False
    blocks: list[int] = field(default_factory=lambda: [-1])
    active: list[int] = field(default_factory=lambda: [0])

    def record(self, block: int, minimum: int) -> None:
        staying = self.tokens * (self.shares - self.exiting) // self.shares if self.shares else 0
        self.blocks.append(block)
        self.active.append(0 if self.is_suspended or staying < minimum else staying)

    def active_at(self, block: int) -> int:
        return self.active[bisect_right(self.blocks, block) - 1]


@dataclass(slots=True)
class _OpenCase:
    details: Case
    round: int = 0
    juries: dict[int, tuple[Address, ...]] = field(default_factory=dict)
    revealed: dict[int, dict[Address, Ruling]] = field(default_factory=lambda: defaultdict(dict))
    appellant: Address | None = None
    appeal_bond: int = 0
    is_ruled: bool = False
    """Convicted, and waiting for an appeal."""


def audit_pool(pool: int, found: Sequence[events.Event]) -> Audit:
    """Recompute a pool from all events of its deployment, in the order of the chain.

    Raises: Malformed if the pool was never created.
    """
    created = next((event for event in found if isinstance(event, events.PoolCreated) and event.pool == pool), None)
    if created is None:
        raise Malformed("pool", expected="one that was created", got=pool)
    return _Auditor(pool, created.terms, found).run()


def check_leaves(history: StepHistory, leaves: Sequence[Submission], max_units: int) -> list[Difference]:
    """Compare the leaves that a coordinator serves for a step with what is committed on chain."""
    if history.opened is None or history.committed is None:
        return []
    step, slots = history.step, history.opened.slots
    try:
        root, table = submission_root(leaves, slots), PayTable.of(leaves, slots, max_units)
    except Malformed as error:
        return [Difference(f"step {step}, leaves", "one a slot", str(error))]
    differences = []
    if root != history.committed.submission_root:
        differences.append(
            Difference(f"step {step}, root of the leaves", history.committed.submission_root.hex(), root.hex())
        )
    if table != history.pay_table:
        differences.append(Difference(f"step {step}, pay table of the leaves", history.pay_table, table))
    return differences


def decide(votes: Iterable[Outcome], quorum: int) -> Outcome:
    """Return what the votes on one slot decide (§9.5)."""
    counts = Counter(votes)
    if counts[Outcome.ACCEPT] >= quorum:
        return Outcome.ACCEPT
    if counts[Outcome.FAULT] >= quorum:
        return Outcome.FAULT
    return Outcome.REJECT if counts[Outcome.REJECT] + counts[Outcome.FAULT] >= quorum else Outcome.ABSTAIN


def rule(votes: Iterable[Ruling], seats: int, jury_size: int) -> Ruling:
    """Return what a jury's revealed votes rule (§10.6)."""
    counts = Counter(votes)
    quorum = max(seats, jury_size) // 2 + 1
    if counts[Ruling.ACCEPT] >= quorum:
        return Ruling.ACCEPT
    if counts[Ruling.ACCEPT] + counts[Ruling.GREY] >= quorum:
        return Ruling.GREY
    if counts[Ruling.FAULT] >= quorum:
        return Ruling.FAULT
    if counts[Ruling.FAULT] + counts[Ruling.REJECT] >= quorum:
        return Ruling.REJECT
    return Ruling.UNAVAILABLE if counts[Ruling.UNAVAILABLE] >= quorum else Ruling.NONE


def settle_leaf(outcome: Outcome, ruling: Ruling) -> tuple[Outcome, bool, bool]:
    """Return what holds of a disputed leaf, whether the bond is lost, and whether contrary votes are slashed."""
    if ruling is Ruling.UNAVAILABLE:
        return outcome, True, False
    if ruling is Ruling.ACCEPT:
        return Outcome.ACCEPT, outcome is Outcome.ACCEPT, True
    if ruling in (Ruling.REJECT, Ruling.FAULT):
        held = Outcome.FAULT if ruling is Ruling.FAULT else Outcome.REJECT
        if outcome is Outcome.ACCEPT:
            return held, False, True
        if outcome is Outcome.FAULT and held is Outcome.REJECT:
            return held, False, False
        return outcome, True, True
    return Outcome.ACCEPT, False, False


class _Auditor:
    def __init__(self, pool: int, terms: PoolTerms, found: Sequence[events.Event]) -> None:
        self.pool = pool
        self.terms = terms
        self.found = found
        self.offers = {0: terms.offer}
        self.positions: dict[tuple[int, Address], _Position] = defaultdict(_Position)
        self.exits: dict[int, tuple[int, Address, int, int]] = {}
        self.cases: dict[int, _OpenCase] = {}
        self.resolved: dict[tuple[int, int], tuple[Outcome, Ruling]] = {}
        self.case_wages: Counter[tuple[int, Address]] = Counter()
        self.plants: dict[Hash, tuple[int, int | None]] = {}
        self.planted_leaves: set[Hash] = set()
        self.judged: dict[Address, int] = defaultdict(int)
        self.offences: set[Hash] = set()
        self.differences: list[Difference] = []
        self.earned: Counter[Address] = Counter()
        self.claimed: Counter[Address] = Counter()
        self.slashed: Counter[Address] = Counter()
        self.due: dict[Hash, Counter[tuple[int, Address]]] = defaultdict(Counter)
        self.bonds: dict[Hash, Counter[Address]] = defaultdict(Counter)
        self.fines: dict[Hash, Counter[tuple[int, Address, int]]] = defaultdict(Counter)

    def run(self) -> Audit:
        # What follows from an event may stand before it in the same transaction: expectations first, money second.
        for event in self.found:
            self._expect(event)
        for event in self.found:
            self._compare(event)
        self._compare_rest()
        settled = [event for event in self.found if isinstance(event, events.StepFinalized) and event.pool == self.pool]
        opened = [event for event in self.found if isinstance(event, events.StepOpened) and event.pool == self.pool]
        return Audit(
            steps=len(opened),
            settled_steps=len(settled),
            cases=len(self.cases),
            earned=dict(self.earned),
            claimed=dict(self.claimed),
            slashed=dict(self.slashed),
            differences=tuple(self.differences),
        )

    # -- what the rules give

    def _expect(self, event: events.Event) -> None:
        here = event.place.transaction
        match event:
            case events.OfferAnnounced(pool=self.pool):
                self.offers[event.number] = event.offer
            case (
                events.Allocated()
                | events.ExitStarted()
                | events.ExitFinished()
                | events.Slashed()
                | events.Suspended()
                | events.Reinstated()
            ):
                self._replay_stake(event)
            case events.SeedBeaconSealed(pool=self.pool) | events.AuditBeaconSealed(pool=self.pool):
                self.due[here][event.step, event.sealer] += self.terms.seal_fee
            case events.OverlapProved(pool=self.pool):
                self.due[here][event.step, event.provider] += event.amount
            case events.TakenSlotDelivered(pool=self.pool):
                self.bonds[here][event.provider] += self._rates(event.step).slot_price
            case events.StepCancelled(pool=self.pool):
                history = StepHistory.of(self.found, self.pool, event.step)
                for slot, taken in history.taken.items():
                    if slot not in history.delivered:
                        self.bonds[here][taken.provider] += self._rates(event.step).slot_price
            case events.PanelRedrawn(pool=self.pool):
                self._fine(here, Role.VALIDATOR, event.silent, self.terms.silence_slash_bps)
            case events.StepFinalized(pool=self.pool):
                self._expect_settlement(event)
            case events.LeafSlashed(pool=self.pool):
                self._expect_fault(event)
            case events.CaseOpened(pool=self.pool):
                self.cases[event.case_id] = _OpenCase(event.details)
            case events.CaseAppealed() if event.case_id in self.cases:
                opened = self.cases[event.case_id]
                opened.round, opened.appellant, opened.appeal_bond = _APPEAL_ROUND, event.appellant, event.bond
                opened.is_ruled = False
            case events.JuryDrawn() if event.case_id in self.cases:
                self.cases[event.case_id].round = event.round
                self.cases[event.case_id].juries[event.round] = event.jury
            case events.JurorRevealed() if event.case_id in self.cases:
                opened = self.cases[event.case_id]
                opened.revealed[opened.round][event.provider] = Ruling(event.ruling)
            case events.JuryRedrawn() if event.case_id in self.cases:
                opened = self.cases[event.case_id]
                # Without a jury it is only the block of the draw that is another.
                if opened.round in opened.juries:
                    self._fine_silent_jurors(here, opened)
                    opened.round += 1
            case events.CaseRuled() if event.case_id in self.cases:
                self._fine_silent_jurors(here, self.cases[event.case_id])
                self.cases[event.case_id].is_ruled = True
            case events.CaseResolved() if event.case_id in self.cases:
                self._expect_resolution(event)
            case events.Planted(pool=self.pool):
                self.plants[event.commitment] = (event.bond, None)
            case events.PlantRevealed(pool=self.pool):
                bond, _ = self.plants[event.commitment]
                self.plants[event.commitment] = (bond, event.slot)
                self.planted_leaves.add(event.leaf_hash)
            case events.PlantSettled() if event.commitment in self.plants:
                self._expect_plant(event)
            case _:
                pass

    def _replay_stake(self, event: events.Event) -> None:
        if isinstance(event, events.ExitFinished):
            self._replay_exit(event)
            return
        if getattr(event, "pool", None) != self.pool:
            return
        assert isinstance(
            event, events.Allocated | events.ExitStarted | events.Slashed | events.Suspended | events.Reinstated
        )
        position = self.positions[event.role, event.provider]
        match event:
            case events.Allocated():
                shares = event.amount * position.shares // position.tokens if position.shares else event.amount
                self._differ(f"shares of {event.provider}", shares, event.shares)
                position.tokens += event.amount
                position.shares += event.shares
            case events.ExitStarted():
                position.exiting += event.shares
                self.exits[event.exit_id] = (event.role, event.provider, event.shares, position.epoch)
            case events.Slashed():
                amount = -(-position.tokens * event.bps // BPS)
                self._differ(f"slash of {event.provider} in block {event.place.block_number}", amount, event.amount)
                position.tokens -= event.amount
                if position.tokens == 0 and position.shares:
                    position.shares, position.exiting, position.epoch = 0, 0, position.epoch + 1
            case events.Suspended():
                position.is_suspended = True
            case events.Reinstated():
                position.is_suspended = False
        position.record(event.place.block_number, self._minimum(event.role))

    def _replay_exit(self, event: events.ExitFinished) -> None:
        if event.exit_id not in self.exits:
            return
        role, provider, shares, epoch = self.exits.pop(event.exit_id)
        position = self.positions[role, provider]
        amount = shares * position.tokens // position.shares if epoch == position.epoch else 0
        self._differ(f"exit {event.exit_id} of {provider}", amount, event.amount)
        if epoch == position.epoch:
            position.tokens -= event.amount
            position.shares -= shares
            position.exiting -= shares
            position.record(event.place.block_number, self._minimum(role))

    def _expect_settlement(self, event: events.StepFinalized) -> None:
        history = StepHistory.of(self.found, self.pool, event.step)
        assert history.opened is not None
        rates, step, here = self._rates(event.step), event.step, event.place.transaction
        ballots = [unpack_outcomes(vote, history.positions) for vote in history.votes_by_seat() if vote]
        decided = [decide(votes, self.terms.quorum) for votes in zip(*ballots, strict=True)] if ballots else []
        decided = decided or [Outcome.ABSTAIN] * history.positions
        self._differ(f"step {step}, outcomes", pack_outcomes(decided).hex(), event.outcomes.hex())

        wages: Counter[Address] = Counter()
        for slot, entry in enumerate(history.pay_table.entries(history.opened.slots)):
            if entry is not None and decided[slot] is Outcome.ACCEPT and slot not in history.held:
                wages[entry[0]] += rates.payout(entry[1])
        for slot, delivered in history.delivered.items():
            if decided[slot] is Outcome.ACCEPT and slot not in history.held:
                wages[delivered.provider] += rates.payout(delivered.leaf.units)
        for provider, wage in wages.items():
            self.due[here][step, provider] += min(wage, self._pay_cap(provider, history.opened))
        for member in history.panel:
            if member in history.votes:
                self.due[here][step, member] += self.terms.panel_fee
        silent = [member for member in history.panel if member not in history.votes]
        self._fine(here, Role.VALIDATOR, silent, self.terms.silence_slash_bps)

    def _expect_fault(self, event: events.LeafSlashed) -> None:
        history = StepHistory.of(self.found, self.pool, event.step)
        outcomes = history.outcomes() or []
        outcome = outcomes[event.slot] if event.slot < len(outcomes) else None
        self._differ(f"step {event.step}, slot {event.slot}, outcome of a slashed leaf", Outcome.FAULT, outcome)
        if event.slot in history.held or event.leaf_hash in self.planted_leaves:
            self._differ(f"step {event.step}, slot {event.slot}, slashed", "no slash", "one")
        self._fine(event.place.transaction, Role.WORKER, [event.provider], self.terms.fault_slash_bps)

    def _expect_resolution(self, event: events.CaseResolved) -> None:
        opened, here = self.cases[event.case_id], event.place.transaction
        seats = opened.juries.get(opened.round, ())
        ruling = rule(opened.revealed[opened.round].values(), len(seats), self.terms.jury_size)
        self._differ(f"case {event.case_id}, ruling", ruling, Ruling(event.ruling))
        if not opened.is_ruled:
            self._fine_silent_jurors(here, opened)
        if opened.details.kind is CaseKind.STATISTICS:
            self._expect_run(event, opened, ruling)
        else:
            self._expect_leaf(event, opened, ruling)

    def _expect_leaf(self, event: events.CaseResolved, opened: _OpenCase, ruling: Ruling) -> None:
        case, here = opened.details, event.place.transaction
        outcome, is_lost, is_clear = settle_leaf(case.outcome, ruling)
        self.resolved[case.step, case.slot] = outcome, ruling
        self._differ(f"case {event.case_id}, outcome", outcome, Outcome(event.outcome))
        history = StepHistory.of(self.found, self.pool, case.step)
        assert history.opened is not None
        fees = self._pay_jurors(here, case.step, opened, range(opened.round + 1), from_bond=is_lost)
        if outcome is Outcome.ACCEPT:
            # Of all its cases in a step, a worker is paid up to one pay cap.
            left = self._pay_cap(case.provider, history.opened) - self.case_wages[case.step, case.provider]
            wage = min(self._rates(case.step).payout(case.units), left)
            self.case_wages[case.step, case.provider] += wage
            self.due[here][case.step, case.provider] += wage
        if not is_lost:
            self.bonds[here][case.disputant] += case.bond
        elif case.kind is CaseKind.CHALLENGE:
            self.bonds[here][case.provider] += case.bond - fees
        if outcome is Outcome.FAULT and case.leaf_hash not in self.planted_leaves:
            self._fine(here, Role.WORKER, [case.provider], self.terms.fault_slash_bps)
        if is_clear:
            wrong = [
                member
                for seat, member in enumerate(history.panel)
                if (vote := Outcome(case.ballots >> 2 * seat & 3)) is not Outcome.ABSTAIN
                and (vote is Outcome.ACCEPT) != (ruling is Ruling.ACCEPT)
            ]
            self._fine(here, Role.VALIDATOR, wrong, self.terms.wrong_vote_slash_bps)

    def _expect_run(self, event: events.CaseResolved, opened: _OpenCase, ruling: Ruling) -> None:
        case, here = opened.details, event.place.transaction
        if ruling is Ruling.FAULT:
            first = range(_APPEAL_ROUND) if opened.appellant is not None else range(opened.round + 1)
            fees = self._pay_jurors(here, case.step, opened, first, from_bond=True)
            self.bonds[here][case.disputant] += case.bond - fees
            if opened.appellant is not None:
                self._pay_jurors(here, case.step, opened, range(_APPEAL_ROUND, opened.round + 1), from_bond=True)
            if case.first_step >= self.judged[case.provider]:
                self.judged[case.provider] = case.step + 1
                self._fine(here, Role.WORKER, [case.provider], self.terms.statistics_slash_bps)
            return
        fees = self._pay_jurors(here, case.step, opened, range(opened.round + 1), from_bond=True)
        is_unproven = ruling in (Ruling.NONE, Ruling.GREY)
        self.bonds[here][case.disputant if is_unproven else case.provider] += case.bond - fees
        if opened.appellant is not None:
            self.bonds[here][opened.appellant] += opened.appeal_bond

    def _expect_plant(self, event: events.PlantSettled) -> None:
        here = event.place.transaction
        planted = next(
            found for found in self.found if isinstance(found, events.Planted) and found.commitment == event.commitment
        )
        bond, slot = self.plants[event.commitment]
        history = StepHistory.of(self.found, self.pool, planted.step)
        outcomes = history.outcomes()
        is_fault = is_judged = False
        if slot is not None and outcomes is not None:
            # A jury that was not served the bytes lets a fault stand and fines nobody.
            outcome, ruling = self.resolved.get((planted.step, slot), (outcomes[slot], Ruling.UNAVAILABLE))
            is_fault, is_judged = outcome is Outcome.FAULT, ruling is not Ruling.UNAVAILABLE
        self._differ(f"plant {event.commitment.hex()}, fault", is_fault, event.was_fault)
        if is_fault or history.is_cancelled:
            self.bonds[here][planted.planter] += bond
        if is_fault and slot is not None and not is_judged:
            lazy = [
                member
                for member, vote in zip(history.panel, history.votes_by_seat(), strict=True)
                if vote and unpack_outcomes(vote, history.positions)[slot] is Outcome.ACCEPT
            ]
            self._fine(here, Role.VALIDATOR, lazy, self.terms.plant_slash_bps)

    def _pay_jurors(self, here: Hash, step: int, opened: _OpenCase, rounds: Iterable[int], *, from_bond: bool) -> int:
        total = 0
        for number in rounds:
            for juror in opened.juries.get(number, ()):
                if juror in opened.revealed[number]:
                    total += self.terms.juror_fee
                    if from_bond:
                        self.bonds[here][juror] += self.terms.juror_fee
                    else:
                        self.due[here][step, juror] += self.terms.juror_fee
        return total

    def _fine_silent_jurors(self, here: Hash, opened: _OpenCase) -> None:
        seats = opened.juries.get(opened.round, ())
        silent = [juror for juror in seats if juror not in opened.revealed[opened.round]]
        self._fine(here, Role.VALIDATOR, silent, self.terms.silence_slash_bps)

    def _fine(self, here: Hash, role: Role, providers: Iterable[Address], bps: int) -> None:
        for provider in providers:
            self.fines[here][role, provider, bps] += 1

    def _rates(self, step: int) -> PoolTerms:
        opened = next(
            event
            for event in self.found
            if isinstance(event, events.StepOpened) and event.pool == self.pool and event.step == step
        )
        return self.terms.under(self.offers[opened.offer])

    def _pay_cap(self, provider: Address, opened: events.StepOpened) -> int:
        staked = self.positions[Role.WORKER, provider].active_at(opened.place.block_number - 1)
        return staked * self.terms.pay_cap_bps // BPS

    def _minimum(self, role: int) -> int:
        return self.terms.min_worker_stake if role == Role.WORKER else self.terms.min_validator_stake

    # -- what the chain did

    def _compare(self, event: events.Event) -> None:
        here = event.place.transaction
        match event:
            case events.Earned(pool=self.pool) | events.Settled(pool=self.pool):
                for provider, amount in events.credits_of(event):
                    self.earned[provider] += amount
                    self.due[here][event.step, provider] -= amount
            case events.BondSpent(pool=self.pool):
                self.earned[event.provider] += event.amount
                self.bonds[here][event.provider] -= event.amount
            case events.Claimed(pool=self.pool):
                self.claimed[event.provider] += event.amount
                if self.claimed[event.provider] > self.earned[event.provider]:
                    self._differ(f"claims of {event.provider}", "no more than it earned", event.amount)
            case events.Slashed(pool=self.pool):
                self.slashed[event.provider] += event.amount
                self._compare_slash(event)
            case _:
                pass

    def _compare_slash(self, event: events.Slashed) -> None:
        if event.offence in self.offences:
            self._differ(f"offence {event.offence.hex()}", "punished once", "twice")
        self.offences.add(event.offence)
        fines = self.fines[event.place.transaction]
        # A cap on what one window may take can only lower the fraction.
        for kind in sorted(fines):
            role, provider, bps = kind
            if fines[kind] > 0 and (role, provider) == (event.role, event.provider) and event.bps <= bps:
                fines[kind] -= 1
                return
        self._differ(f"slash of {event.provider} in block {event.place.block_number}", "none", f"{event.bps} bps")

    def _compare_rest(self) -> None:
        for counter in self.due.values():
            for (step, provider), missing in counter.items():
                self._differ(f"step {step}, earnings of {provider}", missing, 0)
        for bonds in self.bonds.values():
            for provider, missing in bonds.items():
                self._differ(f"bonds to {provider}", missing, 0)
        for fines in self.fines.values():
            for (role, provider, bps), missing in fines.items():
                if missing:
                    self._differ(f"slash of {Role(role).name.lower()} {provider}", f"{bps} bps", "none")

    def _differ(self, subject: str, expected: object, got: object) -> None:
        if expected != got:
            self.differences.append(Difference(subject, expected, got))
