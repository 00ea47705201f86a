"""What it pays to cheat: a worker's expected gain from an attack under a pool's terms, and what makes it a loss. Pure.

It owns the arithmetic and its assumptions, all of them in favour of the cheat, so what is called safe stays safe for a
cheat that stops when it likes, hands in everything at once or leaves before it is found. It must not know of the chain,
of files, or of how an attack is detected.

Money is in whole tokens, all of one kind: a stake in another token counts at the lowest price that it may fall to.
Every flow is an expectation for one submission (one slot) of a worker that cheats in a share q of its submissions:

    saved        q (1 − κ) c           κ: what the attack costs of the honest cost c
    lost pay     q a d P               a: audit rate, d: detection, P: payout
    slashes      s λ r / (M + r O/q)   s: stake, r: fraction of it that offences take for a submission
    or idle      h B / N               h: honest profit, B: slots missed while unbonding, N: submissions per identity

Offences are faults (F for q a d φ of the submissions, φ: fault share) and convictions on evidence (S for one of N).
Until they add up to the cap of a window, at most M/r submissions pass; the cap takes λ of the stake in all; what is
open at that moment, at most O slots, goes free. Taken over the whole way to the cap, a slash costs least, for it is a
fraction of what the ones before it left. So s λ r / (M + r O/q) is the least that a cheat can bring its loss down to.
Docs: docs/verification.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from stannary.errors import Malformed
from validator.tails import lower_rate

BPS = 10_000
SHARES = (0.01, 0.05, 0.2, 1.0)
"""Shares of the submissions that are cheated, unless others are asked for."""
NEAR_NOTHING = 0.05
"""An attack whose detection is below this counts as one that the checks leave."""
MOST_SUBMISSIONS = 1_000_000
"""Of one attack in a file of measurements."""
LARGEST_STAKE = 2.0**80
"""In prices: what no stake below it stops, no stake stops."""

COST_SHARES: Mapping[str, tuple[float, str]] = {
    "int4": (0.25, "a quarter of the bytes of bf16 weights, and decoding waits for weights"),
    "int8": (0.5, "half the bytes of bf16 weights, and decoding waits for weights"),
    "fp8": (0.5, "half the bytes of bf16 weights, and decoding waits for weights"),
    "stale": (0.9, "the same generation; fetching and loading weights is saved, taken as a tenth"),
    "policy step": (0.9, "the same generation by older weights; fetching and loading is saved, taken as a tenth"),
    "temperature": (1.0, "the same generation; the divisor costs nothing"),
    "replaced": (1.0, "the whole completion is generated before a token of it is edited"),
    "another seed": (1.0, "one generation, as for an honest draw"),
    "tolerance": (1.0, "the same generation; what is chosen among costs nothing more"),
    "selection": (1.0, "every try is generated; one is the least"),
    "made up": (0.1, "no decoding, only the prefill that the proofs need, taken as a tenth"),
}
"""What an attack costs of honest work where nobody has measured it, by a word of its name, and why. Assumptions all:
where one decides, measure it and give it."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a pool and its worker are like. Units: tokens for a slot, tokens, hundredths of a percent, seconds."""

    price: float
    """What an accepted slot earns."""
    cost: float
    """Of generating a slot honestly."""
    stake: float
    audit_bps: int
    fault_slash_bps: int
    statistics_slash_bps: int
    max_slash_bps: int
    pay_cap_bps: int
    max_open_steps: int
    slots_per_step: int
    """That this worker fills."""
    step_seconds: float
    """From one step's opening to the next."""
    slash_window_seconds: float
    unbonding_seconds: float
    reward_bps: int = 0
    """Of a slash on evidence: goes to the accuser, who may be the cheat's accomplice."""
    stakes: int = 1
    """How many stakes like this one a cheat can hold in turn, each under a new name."""

    def __post_init__(self) -> None:
        """Refuse what is no pool's terms. Raises: Malformed."""
        _real("price", self.price, above=0.0)
        # Without a profit nobody works honestly, and there is nothing to compare with.
        _real("cost", self.cost, most=self.price)
        _real("stake", self.stake)
        for name, least in (("audit_bps", 1), ("fault_slash_bps", 0), ("statistics_slash_bps", 0), ("reward_bps", 0)):
            _whole(name, getattr(self, name), least, BPS)
        _whole("max_slash_bps", self.max_slash_bps, 1, BPS)
        for name in ("pay_cap_bps", "max_open_steps", "slots_per_step", "stakes"):
            _whole(name, getattr(self, name), 1, (1 << 32) - 1)
        for name in ("step_seconds", "slash_window_seconds", "unbonding_seconds"):
            _real(name, getattr(self, name), above=0.0)

    @property
    def honest_profit(self) -> float:
        """What an honest slot earns above its cost."""
        return self.price - self.cost

    @property
    def filled_slots(self) -> float:
        """Slots of a step that this worker fills: the pay cap leaves it no more leases than it pays for."""
        return min(float(self.slots_per_step), self._cap_of_step / self.price)

    @property
    def open_slots(self) -> float:
        """Slots that a cheat can be paid for before its stake can be taken: those of the steps not yet settled.

        The cap is that of a settlement and as much again of its cases (docs/protocol.md 4.8).
        """
        return min(float(self.max_open_steps * self.slots_per_step), self._capped_slots)

    @property
    def free_slots(self) -> float:
        """Of these, how many may be settled for nothing once one of them has brought the slashes to their cap."""
        return min(self.max_open_steps * self.slots_per_step - 1.0, self._capped_slots)

    @property
    def idle_slots(self) -> float:
        """Slots that a stake misses while it is unbonding; an exit may begin with the last steps still open."""
        return self.filled_slots * max(0.0, self.unbonding_seconds / self.step_seconds - self.max_open_steps)

    @property
    def _cap_of_step(self) -> float:
        return self.stake * self.pay_cap_bps / BPS

    @property
    def _capped_slots(self) -> float:
        return 2 * self._cap_of_step * self.max_open_steps / self.price


@dataclass(frozen=True, slots=True)
class Attack:
    """A way to cheat, as it was measured. Shares and probabilities are numbers within 0 … 1."""

    name: str
    detection: float
    """Probability that an audited cheated submission is not accepted: the lower end of its 95 % interval."""
    fault_share: float
    """Of those, the part that is a fault and so slashed."""
    cost_share: float
    """What a cheated submission costs of an honest one; above 1 for more."""
    submissions_to_slash: Mapping[float, float] = field(default_factory=dict, hash=False)
    """By share of submissions cheated: audited submissions, honest ones among them, until evidence convicts; expected,
    infinite if it never does. Whoever cheats more is found no later, so a share counts as the next lower one here."""
    cost_reason: str = ""
    """Why it costs that, where that is an assumption."""

    def __post_init__(self) -> None:
        """Refuse what is no attack. Raises: Malformed."""
        if not self.name:
            raise Malformed("attack", expected="a name", got=self.name)
        _real(f"{self.name}: detection", self.detection, most=1.0)
        _real(f"{self.name}: fault_share", self.fault_share, most=1.0)
        _real(f"{self.name}: cost_share", self.cost_share)
        for share, count in self.submissions_to_slash.items():
            _real(f"{self.name}: submissions_to_slash", share, above=0.0, most=1.0)
            if count != math.inf:
                _real(f"{self.name}: submissions_to_slash[{share:g}]", count, least=1.0)

    def audited_to_slash(self, share: float) -> float:
        """Return the audited submissions until evidence convicts at this share cheated; infinite if it never does."""
        known = [measured for measured in self.submissions_to_slash if measured <= share * (1 + 1e-9)]
        return self.submissions_to_slash[max(known)] if known else math.inf


@dataclass(frozen=True, slots=True)
class Flows:
    """What an attack changes, against honest work, for one submission. Units: tokens."""

    saved: float
    """Cost that is not spent; negative for an attack that costs more."""
    lost_pay: float
    fault_slash: float
    statistics_slash: float
    """On evidence, spread over the submissions until it convicts."""
    idle: float
    """Honest profit missed while unbonding, for a cheat that leaves before the evidence convicts it."""

    @property
    def gain(self) -> float:
        """What remains of the saving: above 0 the attack pays."""
        return self.saved - self.lost_pay - self.fault_slash - self.statistics_slash - self.idle


@dataclass(frozen=True, slots=True)
class Outlook:
    """One attack at one share. Units: tokens for a submission, unless a name says otherwise."""

    attack: Attack
    share: float
    honest_profit: float
    flows: Flows
    safe_stake: float | None
    """The smallest stake at which it does not pay, 0 for any; None if no stake is enough."""
    safe_audit_bps: int | None
    """The smallest audit rate at which it does not pay; None if auditing everything is not enough."""
    slots_to_cap: float
    """Submissions until its slashes are expected to reach the cap and suspend it; infinite if not within a window."""
    gain_in_turn: float
    """The gain of who has stakes enough to change its name each time before evidence convicts it, and never idles."""
    stakes_in_turn: float
    """How many stakes that takes."""

    @property
    def gain(self) -> float:
        """Expected gain from cheating."""
        return self.flows.gain

    @property
    def cheating_profit(self) -> float:
        """Expected profit of the cheat."""
        return self.honest_profit + self.flows.gain

    @property
    def pays(self) -> bool:
        """Say whether cheating earns more than honest work."""
        return self.gain > 0

    @property
    def pays_in_turn(self) -> bool:
        """Say whether it would pay only for somebody with so many stakes."""
        return not self.pays and self.gain_in_turn > 0

    @property
    def worth_unfound(self) -> float:
        """What it would bring if it were never found."""
        return self.flows.saved


@dataclass(frozen=True, slots=True)
class HonestLoss:
    """What false verdicts cost a provider that does nothing wrong. Units: tokens for a slot."""

    lost_pay: float
    slashed: float
    profit_share: float
    """Both together as a part of the honest profit; infinite where there is none."""

    @property
    def loss(self) -> float:
        """Both together."""
        return self.lost_pay + self.slashed


def flows(terms: Terms, attack: Attack, share: float) -> Flows:
    """Return what cheating in a share of the submissions brings and costs, for one submission.

    After the evidence the cheat does what costs it less: it is convicted again and again, or it leaves in time, loses
    what the stake would have earned while unbonding, and comes back under a new name.
    Raises: Malformed for a share outside 0 … 1, 0 excluded.
    """
    _real("share", share, above=0.0, most=1.0)
    rate = terms.audit_bps / BPS
    found = share * rate * attack.detection
    faults = found * attack.fault_share * terms.fault_slash_bps
    audited = attack.audited_to_slash(share)
    convictions = rate * terms.statistics_slash_bps / audited
    saved, lost_pay = share * (1 - attack.cost_share) * terms.cost, found * terms.price
    leaving = Flows(
        saved, lost_pay, _slashed(terms, share, faults, (terms.fault_slash_bps,)), 0.0, _idle(terms, audited / rate)
    )
    if math.isinf(audited):
        return leaving
    total = _staying_slash(terms, share, faults, convictions)
    part = faults / (faults + convictions) if total else 0.0
    staying = Flows(saved, lost_pay, total * part, total * (1 - part), 0.0)
    return max(staying, leaving, key=lambda flow: flow.gain)


def outlook(terms: Terms, attack: Attack, share: float) -> Outlook:
    """Return everything about one attack at one share. Raises: Malformed, as `flows`."""
    found = flows(terms, attack, share)
    rate = terms.audit_bps / BPS
    audited = attack.audited_to_slash(share)
    bps = share * rate * attack.detection * attack.fault_share * terms.fault_slash_bps
    in_turn = Flows(found.saved, found.lost_pay, _slashed(terms, share, bps, (terms.fault_slash_bps,)), 0.0, 0.0)
    bps += rate * terms.statistics_slash_bps / audited
    slots_to_cap = terms.max_slash_bps / bps if bps else math.inf
    window = terms.filled_slots * terms.slash_window_seconds / terms.step_seconds
    return Outlook(
        attack=attack,
        share=share,
        honest_profit=terms.honest_profit,
        flows=found,
        safe_stake=smallest_safe_stake(terms, attack, share),
        safe_audit_bps=smallest_safe_audit_bps(terms, attack, share),
        slots_to_cap=slots_to_cap if slots_to_cap <= window else math.inf,
        gain_in_turn=max(found.gain, in_turn.gain),
        stakes_in_turn=1.0 if math.isinf(audited) else 1.0 + terms.idle_slots * rate / audited,
    )


def survey(terms: Terms, attacks: Iterable[Attack], shares: Iterable[float] = SHARES) -> list[Outlook]:
    """Return the outlook of each attack at each share, in their order. Raises: Malformed, as `flows`."""
    chosen = tuple(shares)
    return [outlook(terms, attack, share) for attack in attacks for share in chosen]


def smallest_safe_stake(terms: Terms, attack: Attack, share: float) -> float | None:
    """Return the smallest stake at which the attack does not pay, all else as in the terms. Units: tokens.

    0 if it pays at no stake, None if no stake is enough. The gain never rises with the stake, so it is bisected down to
    neighbouring numbers: at the result it is not above 0, just below it is.
    """

    def is_safe(stake: float) -> bool:
        return flows(replace(terms, stake=stake), attack, share).gain <= 0

    if is_safe(0.0):
        return 0.0
    low, high = 0.0, terms.price
    while not is_safe(high):
        low, high = high, 2 * high
        if high > LARGEST_STAKE * terms.price:
            return None
    while low < (middle := low + (high - low) / 2) < high:
        low, high = (low, middle) if is_safe(middle) else (middle, high)
    return high


def smallest_safe_audit_bps(terms: Terms, attack: Attack, share: float) -> int | None:
    """Return the smallest audit rate at which the attack does not pay, all else as in the terms.

    None if not even auditing everything is enough. Units: hundredths of a percent, 1 … 10000.
    """

    def is_safe(audit_bps: int) -> bool:
        return flows(replace(terms, audit_bps=audit_bps), attack, share).gain <= 0

    if not is_safe(BPS):
        return None
    low, high = 0, BPS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_safe(middle) else (middle, high)
    return high


def honest_loss(terms: Terms, false_reject: float, false_fault: float = 0.0) -> HonestLoss:
    """Return what false verdicts cost an honest provider.

    `false_reject` is the probability that an audited honest submission is not accepted, `false_fault` that it is called
    a fault, which is a part of the former; give upper ends of intervals. Raises: Malformed.
    """
    _real("false_reject", false_reject, most=1.0)
    _real("false_fault", false_fault, most=false_reject)
    rate = terms.audit_bps / BPS
    lost_pay = rate * false_reject * terms.price
    slashed = rate * false_fault * min(terms.fault_slash_bps, terms.max_slash_bps) / BPS * terms.stake
    loss, profit = lost_pay + slashed, terms.honest_profit
    return HonestLoss(lost_pay, slashed, loss / profit if profit else math.inf if loss else 0.0)


def read_attacks(data: bytes) -> tuple[Attack, ...]:
    """Read measured attacks, in the order of the file; members of an attack that are not named here decide nothing.

    {"attacks": {NAME: {"n": submissions, "detected": of them, "rate_lower_95": of the rate, "faulted": of the detected,
     "grey"?: of the detected, "cost_share"?: number, "submissions_to_slash"?: {SHARE: number or null}}}}
    A card has the same below "measured". What is grey is paid on appeal and counts as not detected. The fault share is
    the lower end of its own exact one-sided 95 % interval, as the rate is. Raises: Malformed.
    """
    try:
        document = json.loads(data)
    except ValueError as error:
        raise Malformed("attacks", expected="JSON", got=data[:40]) from error
    found = document.get("measured", document) if isinstance(document, dict) else None
    rows = found.get("attacks") if isinstance(found, dict) else None
    if not isinstance(rows, dict) or not rows:
        raise Malformed("attacks", expected="an object of attacks by name", got=rows)
    return tuple(_read_attack(name, row) for name, row in rows.items())


def parse_attack(text: str) -> Attack:
    """Return the attack of NAME=DETECTION:COST_SHARE or NAME=DETECTION:COST_SHARE:FAULT_SHARE. Raises: Malformed."""
    expected = "NAME=DETECTION:COST_SHARE[:FAULT_SHARE]"
    name, _, rest = text.rpartition("=")
    numbers = rest.split(":")
    if not name or len(numbers) not in (2, 3):
        raise Malformed("attack", expected=expected, got=text)
    try:
        detection, cost_share, fault_share = map(float, [*numbers, "0"][:3])
    except ValueError:
        raise Malformed("attack", expected=expected, got=text) from None
    return Attack(name, detection, fault_share, cost_share)


def default_cost_share(name: str) -> tuple[float, str]:
    """Return what an attack of this name is taken to cost, and why. Raises: Malformed for a name that says nothing."""
    for word, entry in COST_SHARES.items():
        if word in name.lower():
            return entry
    raise Malformed(f"{name}: cost_share", expected=f"a number, or a name with one of {sorted(COST_SHARES)}", got=None)


def largest_slash(part_bps: int, max_slash_bps: int) -> float:
    """Return the fraction of a stake that slashes of one size take before the cap of a window is reached."""
    parts, rest = divmod(max_slash_bps, part_bps)
    return 1 - (1 - part_bps / BPS) ** parts * (1 - rest / BPS)


def _slashed(terms: Terms, share: float, rate_bps: float, parts: tuple[int, ...], smallest: int | None = None) -> float:
    """Return what offences of these sizes cost at least for a submission, if they come to `rate_bps` for one."""
    sizes = [part for part in parts if part]
    if not rate_bps or not sizes:
        return 0.0
    # Before the last one counts, they add up to less than the cap, and to a multiple of their common divisor.
    divisor = math.gcd(*sizes)
    until_cap_bps = divisor * ((terms.max_slash_bps - 1) // divisor) + max(sizes)
    taken = terms.stake * largest_slash(smallest or min(sizes), terms.max_slash_bps)
    return taken * rate_bps / (until_cap_bps + rate_bps * terms.free_slots / share)


def _staying_slash(terms: Terms, share: float, faults_bps: float, convictions_bps: float) -> float:
    """Return what faults and convictions cost together at least: each bound holds, so the highest does.

    An accomplice who brings the accusation keeps a part, and what is taken for evidence leaves less for faults: that
    part comes back of all of it.
    """
    fault, statistics = terms.fault_slash_bps, terms.statistics_slash_bps
    smallest = min((size for size in (fault, statistics) if size), default=None)
    bounds = (
        _slashed(terms, share, faults_bps, (fault,), smallest),
        _slashed(terms, share, convictions_bps, (statistics,), smallest),
        _slashed(terms, share, faults_bps + convictions_bps, (fault, statistics), smallest),
    )
    return max(bounds) * (1 - terms.reward_bps / BPS)


def _idle(terms: Terms, submissions: float) -> float:
    """Return the profit missed for a submission if a stake unbonds after so many; other stakes work in the meantime."""
    if math.isinf(submissions):
        return 0.0
    return terms.honest_profit * max(0.0, terms.idle_slots / submissions - (terms.stakes - 1))


def _read_attack(name: str, row: object) -> Attack:
    if not isinstance(row, dict):
        raise Malformed(f"attacks.{name}", expected="an object", got=row)
    total = _whole(f"{name}: n", row.get("n"), 1, MOST_SUBMISSIONS)
    detected = _whole(f"{name}: detected", row.get("detected"), 0, total)
    faulted = _whole(f"{name}: faulted", row.get("faulted"), 0, detected)
    lower = _real(f"{name}: rate_lower_95", row.get("rate_lower_95"), most=detected / total)
    grey = _whole(f"{name}: grey", row.get("grey", 0), 0, detected - faulted)
    unpaid = detected - grey
    cost_share, reason = (row["cost_share"], "") if "cost_share" in row else default_cost_share(name)
    return Attack(
        name=name,
        detection=min(lower, lower_rate(unpaid, total)) if grey else lower,
        fault_share=lower_rate(faulted, unpaid) if unpaid else 0.0,
        cost_share=_real(f"{name}: cost_share", cost_share),
        submissions_to_slash=_read_evidence(name, row.get("submissions_to_slash", {})),
        cost_reason=reason,
    )


def _read_evidence(name: str, found: object) -> dict[float, float]:
    place = f"{name}: submissions_to_slash"
    if not isinstance(found, dict):
        raise Malformed(place, expected="an object of numbers by share", got=found)
    counts = {}
    for key, value in found.items():
        try:
            share = float(key)
        except ValueError:
            raise Malformed(place, expected="shares such as 0.05", got=key) from None
        counts[share] = math.inf if value is None else _real(f"{place}[{key}]", value, least=1.0)
    return counts


def _real(name: str, value: object, *, least: float = 0.0, above: float | None = None, most: float = math.inf) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and math.isfinite(value) and least <= value <= most and (above is None or value > above):  # type: ignore[arg-type, operator]
        return float(value)  # type: ignore[arg-type]
    start = f"above {above:g}" if above is not None else f"at least {least:g}"
    raise Malformed(name, expected=f"a number {start}" + (f", at most {most:g}" if most < math.inf else ""), got=value)


def _whole(name: str, value: object, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise Malformed(name, expected=f"a whole number, {least} … {most}", got=value)
    return value
