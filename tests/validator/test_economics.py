"""What it pays to cheat: against the rules of a slash played out, against inequality 1, and as a command."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from demo.plan import plan_of
from stannary.commands.pool import terms_document
from stannary.errors import Malformed, SettingsError
from stannary.types import Address, Hash
from validator.economics import (
    COST_SHARES,
    SHARES,
    Attack,
    Terms,
    default_cost_share,
    flows,
    honest_loss,
    largest_slash,
    outlook,
    parse_attack,
    read_attacks,
    smallest_safe_audit_bps,
    smallest_safe_stake,
    survey,
)
from validator.economics_cli import economics
from validator.tails import lower_rate

BPS = 10_000
TERMS = Terms(
    price=1.0,
    cost=0.5,
    stake=100.0,
    audit_bps=1_000,
    fault_slash_bps=1_000,
    statistics_slash_bps=2_000,
    max_slash_bps=5_000,
    pay_cap_bps=10_000,
    max_open_steps=4,
    slots_per_step=16,
    step_seconds=60.0,
    slash_window_seconds=7 * 86_400.0,
    unbonding_seconds=86_400.0,
    reward_bps=2_000,
)
ALONE = replace(TERMS, max_open_steps=1, slots_per_step=1, statistics_slash_bps=0)
"""One slot at a time: nothing else is open when a slash reaches its cap."""
ROUNDED = Attack("int8", detection=0.3, fault_share=0.0, cost_share=0.5, submissions_to_slash={0.05: 900.0, 1.0: 12.0})
EDITED = Attack("edited", detection=0.9, fault_share=0.9, cost_share=0.1)

part = st.floats(0.0, 1.0)
share = st.floats(0.01, 1.0)
bps = st.integers(1, BPS)
counts = st.dictionaries(share, st.one_of(st.floats(1.0, 1e6), st.just(math.inf)), max_size=3)
attacks = st.builds(
    Attack,
    st.just("any"),
    detection=part,
    fault_share=part,
    cost_share=st.floats(0.0, 2.0),
    submissions_to_slash=counts,
)


@st.composite
def all_terms(draw: st.DrawFn) -> Terms:
    price = draw(st.floats(0.01, 100.0))
    return Terms(
        price=price,
        cost=price * draw(part),
        stake=price * draw(st.floats(0.0, 1e4)),
        audit_bps=draw(bps),
        fault_slash_bps=draw(st.integers(0, BPS)),
        statistics_slash_bps=draw(st.integers(0, BPS)),
        max_slash_bps=draw(bps),
        pay_cap_bps=draw(st.integers(1, 100_000)),
        max_open_steps=draw(st.integers(1, 16)),
        slots_per_step=draw(st.integers(1, 256)),
        step_seconds=draw(st.floats(1.0, 1e4)),
        slash_window_seconds=draw(st.floats(1.0, 1e6)),
        unbonding_seconds=draw(st.floats(1.0, 1e6)),
        reward_bps=draw(st.integers(0, BPS // 2)),
        stakes=draw(st.integers(1, 50)),
    )


def little(terms: Terms) -> float:
    """What rounding may move."""
    return 1e-9 * (terms.price + terms.stake)


# -- inequality 1 of docs/threat-model.md


@settings(deadline=None)
@given(part, part, st.floats(0.01, 10.0), st.floats(0.0, 1e3), bps)
def test_free_attack_on_work_that_is_worth_nothing_is_inequality_1(
    d: float, cost: float, price: float, stake: float, F: int
) -> None:
    """d F s > (1 − d) P is the case of everything audited, faults only, one slot at a time and one slash a window."""
    terms = replace(ALONE, price=price, cost=price * cost, stake=stake, audit_bps=BPS, fault_slash_bps=F)
    terms = replace(terms, max_slash_bps=F, pay_cap_bps=10**9)
    earned = cheating_profit(terms, Attack("bad leaf", d, 1.0, 0.0))
    left = (1 - d) * price - d * F / BPS * stake
    # What the cheat earns is the inequality whatever honest work costs: its alternative is not to work at all.
    assert earned == pytest.approx(left, abs=little(terms))
    # And its gain is, where honest work earns nothing.
    idle = replace(terms, cost=price)
    assert flows(idle, Attack("bad leaf", d, 1.0, 0.0), 1.0).gain == pytest.approx(left, abs=little(terms))


def cheating_profit(terms: Terms, attack: Attack) -> float:
    return terms.honest_profit + flows(terms, attack, 1.0).gain


def test_numbers_of_inequality_1_in_the_threat_model() -> None:
    terms = replace(ALONE, stake=20.0, cost=1.0, audit_bps=BPS, max_slash_bps=1_000)
    found = flows(terms, Attack("bad leaf", 0.9, 1.0, 0.0), 1.0)
    assert found.fault_slash == pytest.approx(1.8)
    assert found.saved - found.lost_pay == pytest.approx(0.1)


# -- the slash, against the contract's rule played out


def play(sizes: Iterator[int], cap: int) -> Iterator[float]:
    """What is left of a stake after each slash of a window, as StakeManager counts it."""
    left, counted = 1.0, 0
    for size in sizes:
        size = min(size, cap - counted)
        counted += size
        left *= 1 - size / BPS
        yield left


@settings(deadline=None)
@given(bps, bps)
def test_largest_slash_is_what_repeating_one_comes_to(size: int, cap: int) -> None:
    times = -(-cap // size)
    *_, left = play(iter([size] * times), cap)
    assert largest_slash(size, cap) == pytest.approx(1 - left)


@settings(deadline=None)
@given(part, st.integers(100, BPS), bps, st.integers(1, 60), st.integers(1, 120))
def test_no_way_to_stop_costs_a_cheat_less_than_is_counted(p: float, size: int, cap: int, opened: int, n: int) -> None:
    """All its slots at once; or one after the other up to a window's end or the cap, and then what is open for free."""
    terms = replace(ALONE, audit_bps=BPS, fault_slash_bps=size, max_slash_bps=cap, slots_per_step=opened)
    terms = replace(terms, stake=1e6)
    counted = flows(terms, Attack("any", p, 1.0, 0.0), 1.0).fault_slash / terms.stake
    to_cap = -(-cap // size)
    lost = [0.0, *(1 - left for left in play(iter([size] * to_cap), cap))]

    def loss_of(slots: int) -> tuple[float, float]:
        chances = binomial(slots, p, to_cap)
        return sum(chance * lost[k] for k, chance in enumerate(chances)), chances[to_cap]

    at_once, _ = loss_of(opened)
    assert at_once >= opened * counted * (1 - 1e-9) - 1e-12
    in_turn, capped = loss_of(n)
    slots = sum(1 - binomial(i, p, to_cap)[to_cap] for i in range(n)) + capped * (opened - 1)
    assert in_turn >= slots * counted * (1 - 1e-9) - 1e-12


def binomial(n: int, p: float, most: int) -> list[float]:
    """Chances of 0, 1, … hits in n trials, the last entry of `most` or more."""
    chances = [math.comb(n, k) * p**k * (1 - p) ** (n - k) if k <= n else 0.0 for k in range(most)]
    return [*chances, max(0.0, 1 - math.fsum(chances))]


def test_who_goes_on_to_the_cap_loses_exactly_what_is_counted() -> None:
    """The bound is reached: faults until the cap, then everything open for free, again and again."""
    terms = replace(TERMS, audit_bps=BPS, statistics_slash_bps=0)
    p, choose, lost, slots = 0.2, random.Random(1), 0.0, 0
    for _ in range(20_000):
        faults = 0
        while faults < 5:
            faults += choose.random() < p
            slots += 1
        lost += terms.stake * (1 - 0.9**5)
        slots += terms.max_open_steps * terms.slots_per_step - 1
    assert flows(terms, Attack("any", p, 1.0, 0.0), 1.0).fault_slash == pytest.approx(lost / slots, rel=0.01)


@pytest.mark.parametrize(("fault", "statistics"), [(1_000, 2_000), (2_000, 1_000), (700, 1_900), (3_000, 3_000)])
@pytest.mark.parametrize("every", [4, 30])
def test_faults_and_convictions_together_cost_no_less_than_is_counted(fault: int, statistics: int, every: int) -> None:
    terms = replace(TERMS, audit_bps=BPS, fault_slash_bps=fault, statistics_slash_bps=statistics, reward_bps=0)
    # With no time to unbond, leaving would be free; with for ever, the cheat stays.
    terms = replace(terms, unbonding_seconds=1e12, slots_per_step=4)
    p, choose, lost, slots, seen = 0.1, random.Random(2), 0.0, 0, 0
    for _ in range(4_000):
        left, counted = 1.0, 0
        while counted < terms.max_slash_bps:
            slots, seen = slots + 1, seen + 1
            sizes = [fault] * (choose.random() < p)
            if seen == every:
                seen, sizes = 0, [*sizes, statistics]
            for size in sizes:
                size = min(size, terms.max_slash_bps - counted)
                left, counted = left * (1 - size / BPS), counted + size
        slots += int(terms.free_slots)
        lost += terms.stake * (1 - left)
    found = flows(terms, Attack("any", p, 1.0, 0.0, {1.0: float(every)}), 1.0)
    assert found.idle == 0.0
    assert 0.5 * lost / slots < found.fault_slash + found.statistics_slash <= 1.02 * lost / slots


# -- what makes an attack a loss


@settings(deadline=None)
@given(all_terms(), attacks, share, st.floats(1.0, 100.0))
def test_gain_falls_with_the_stake(terms: Terms, attack: Attack, q: float, factor: float) -> None:
    more = replace(terms, stake=terms.stake * factor)
    assert flows(more, attack, q).gain <= flows(terms, attack, q).gain + little(more)


@settings(deadline=None)
@given(all_terms(), attacks, share, bps)
def test_gain_falls_with_the_audit_rate(terms: Terms, attack: Attack, q: float, other: int) -> None:
    lower, higher = (replace(terms, audit_bps=rate) for rate in sorted((terms.audit_bps, other)))
    assert flows(higher, attack, q).gain <= flows(lower, attack, q).gain + little(terms)


@settings(deadline=None)
@given(all_terms(), attacks, share, part)
def test_gain_falls_with_the_detection(terms: Terms, attack: Attack, q: float, other: float) -> None:
    lower, higher = (replace(attack, detection=found) for found in sorted((attack.detection, other)))
    assert flows(terms, higher, q).gain <= flows(terms, lower, q).gain + little(terms)


@settings(deadline=None)
@given(all_terms(), attacks, share, part)
def test_gain_falls_with_the_part_that_is_slashed_and_with_the_cost(
    terms: Terms, attack: Attack, q: float, other: float
) -> None:
    low, high = sorted((attack.fault_share, other))
    slashed = [flows(terms, replace(attack, fault_share=found), q).gain for found in (low, high)]
    assert slashed[1] <= slashed[0] + little(terms)
    low, high = sorted((attack.cost_share, other))
    spent = [flows(terms, replace(attack, cost_share=found), q).gain for found in (low, high)]
    assert spent[1] <= spent[0] + little(terms)


@settings(deadline=None)
@given(all_terms(), attacks, share, st.integers(1, 1_000))
def test_gain_rises_with_the_stakes_that_take_turns_up_to_never_idling(
    terms: Terms, attack: Attack, q: float, more: int
) -> None:
    richer = replace(terms, stakes=terms.stakes + more)
    assert flows(richer, attack, q).gain >= flows(terms, attack, q).gain - little(terms)
    found = outlook(terms, attack, q)
    enough = replace(terms, stakes=min((1 << 32) - 1, math.ceil(found.stakes_in_turn)))
    assert flows(enough, attack, q).gain == pytest.approx(found.gain_in_turn, abs=little(terms))


@settings(deadline=None)
@given(all_terms(), attacks, share)
def test_gain_is_what_its_parts_say(terms: Terms, attack: Attack, q: float) -> None:
    found = flows(terms, attack, q)
    costs = (found.lost_pay, found.fault_slash, found.statistics_slash, found.idle)
    assert min(costs) >= 0
    assert found.statistics_slash == 0 or found.idle == 0  # it is convicted, or it leaves
    assert found.saved == pytest.approx(q * (1 - attack.cost_share) * terms.cost)
    assert found.lost_pay == pytest.approx(q * terms.audit_bps / BPS * attack.detection * terms.price)
    assert found.gain == pytest.approx(found.saved - sum(costs), abs=little(terms))
    whole = q * terms.audit_bps / BPS * attack.detection * attack.fault_share * terms.fault_slash_bps / BPS
    assert found.fault_slash <= whole * terms.stake + little(terms)


@settings(deadline=None)
@given(all_terms(), attacks, share)
def test_safe_stake_is_tight(terms: Terms, attack: Attack, q: float) -> None:
    found = smallest_safe_stake(terms, attack, q)
    if found is None:
        assert flows(replace(terms, stake=terms.price * 2.0**79), attack, q).gain > 0
        return
    assert flows(replace(terms, stake=found), attack, q).gain <= 0
    if found:
        assert flows(replace(terms, stake=math.nextafter(found, 0.0)), attack, q).gain > 0


@settings(deadline=None)
@given(all_terms(), attacks, share)
def test_safe_audit_rate_is_tight(terms: Terms, attack: Attack, q: float) -> None:
    found = smallest_safe_audit_bps(terms, attack, q)
    if found is None:
        assert flows(replace(terms, audit_bps=BPS), attack, q).gain > 0
        return
    assert flows(replace(terms, audit_bps=found), attack, q).gain <= 0
    assert found == 1 or flows(replace(terms, audit_bps=found - 1), attack, q).gain > 0


def test_safe_stake_of_one_slot_at_a_time_in_closed_form() -> None:
    """(1 − κ) c − a d P = a d φ F s, where a window has one slash."""
    terms = replace(ALONE, max_slash_bps=1_000, audit_bps=2_000, pay_cap_bps=10**6)
    attack = Attack("any", 0.5, 0.8, 0.2)
    stake = (0.8 * 0.5 - 0.2 * 0.5) / (0.2 * 0.5 * 0.8 * 0.1)
    assert smallest_safe_stake(terms, attack, 1.0) == pytest.approx(stake)
    # A cheat with more open slots gets those of a step for nothing: one fault in 12.5 slots is worth as many more.
    assert smallest_safe_stake(replace(terms, slots_per_step=26), attack, 1.0) == pytest.approx(3 * stake)


@settings(deadline=None)
@given(all_terms(), share, part)
def test_what_is_never_found_pays_at_every_stake_and_rate_if_it_saves(
    terms: Terms, q: float, cost_share: float
) -> None:
    assume(cost_share < 1 and q * terms.cost * (1 - cost_share) > 0)
    found = outlook(terms, Attack("unseen", 0.0, 1.0, cost_share), q)
    assert found.pays
    assert (found.safe_stake, found.safe_audit_bps) == (None, None)
    assert found.gain == found.worth_unfound > 0
    assert not found.pays_in_turn  # it pays with one stake


@settings(deadline=None)
@given(all_terms(), attacks, share)
def test_what_costs_as_much_as_honest_work_never_pays(terms: Terms, attack: Attack, q: float) -> None:
    found = outlook(terms, replace(attack, cost_share=1.0), q)
    assert not found.pays
    assert not found.pays_in_turn
    assert found.safe_stake == 0.0


@settings(deadline=None)
@given(all_terms(), attacks, share)
def test_without_evidence_a_cheated_submission_is_worth_the_same_at_every_share(
    terms: Terms, attack: Attack, q: float
) -> None:
    unseen = replace(attack, submissions_to_slash={})
    assert flows(terms, unseen, q).gain == pytest.approx(q * flows(terms, unseen, 1.0).gain, abs=little(terms))


def test_conviction_is_spread_over_the_submissions_that_it_takes() -> None:
    """S of the stake each 10 audited submissions, of which the accuser's accomplice keeps R."""
    terms = replace(ALONE, statistics_slash_bps=1_000, max_slash_bps=1_000, audit_bps=5_000, reward_bps=0)
    attack = Attack("any", 0.2, 0.0, 0.5, {0.5: 10.0})
    assert flows(terms, attack, 1.0).statistics_slash == pytest.approx(0.1 * 100 * 0.5 / 10)
    assert flows(replace(terms, reward_bps=2_500), attack, 1.0).statistics_slash == pytest.approx(0.75 * 0.5)


def test_who_leaves_in_time_idles_for_as_long_as_its_stake_unbonds() -> None:
    terms = replace(TERMS, statistics_slash_bps=BPS, max_slash_bps=BPS, stake=1e9)
    found = flows(terms, ROUNDED, 1.0)
    # 1440 steps of unbonding, but for the 4 that were open when the exit began; 120 submissions, 12 of them audited.
    assert found.idle == pytest.approx(0.5 * 16 * 1_436 / 120)
    assert found.statistics_slash == 0
    assert flows(replace(terms, stakes=101), ROUNDED, 1.0).idle == pytest.approx(0.5 * (16 * 1_436 / 120 - 100))
    assert outlook(terms, ROUNDED, 1.0).stakes_in_turn == pytest.approx(1 + 16 * 1_436 / 120)


def test_open_slots_are_bounded_by_steps_and_by_the_pay_cap() -> None:
    assert (TERMS.open_slots, TERMS.free_slots, TERMS.filled_slots) == (64, 63, 16)
    poor = replace(TERMS, stake=4.0)
    assert (poor.open_slots, poor.free_slots, poor.filled_slots) == (32, 32, 4)
    assert replace(TERMS, unbonding_seconds=240.0).idle_slots == 0


def test_evidence_of_a_share_counts_for_higher_ones_only() -> None:
    assert [ROUNDED.audited_to_slash(q) for q in SHARES] == [math.inf, 900, 900, 12]
    assert Attack("any", 0.5, 0, 1).audited_to_slash(1.0) == math.inf


def test_slots_to_the_cap_are_counted_within_a_window() -> None:
    terms = replace(TERMS, audit_bps=BPS)
    attack = Attack("any", 0.5, 1.0, 0.0)
    assert outlook(terms, attack, 0.5).slots_to_cap == pytest.approx(0.5 / (0.25 * 0.1))
    short = replace(terms, slash_window_seconds=60.0)
    assert outlook(short, attack, 0.5).slots_to_cap == math.inf


def test_survey_holds_each_attack_at_each_share() -> None:
    found = survey(TERMS, [ROUNDED, EDITED])
    assert [(one.attack.name, one.share) for one in found] == [(a, q) for a in ("int8", "edited") for q in SHARES]
    assert all(one.cheating_profit == pytest.approx(0.5 + one.gain) for one in found)


def test_honest_loss_is_lost_pay_and_slashes() -> None:
    found = honest_loss(TERMS, 0.01, 0.001)
    assert found.lost_pay == pytest.approx(0.1 * 0.01)
    assert found.slashed == pytest.approx(0.1 * 0.001 * 0.1 * 100)
    assert found.profit_share == pytest.approx(found.loss / 0.5)
    assert honest_loss(replace(TERMS, max_slash_bps=500), 0.01, 0.001).slashed == pytest.approx(found.slashed / 2)
    assert honest_loss(replace(TERMS, cost=1.0), 0.01).profit_share == math.inf
    assert honest_loss(replace(TERMS, cost=1.0), 0.0).profit_share == 0.0
    with pytest.raises(Malformed, match="false_fault"):
        honest_loss(TERMS, 0.01, 0.02)


# -- what is refused

BAD_TERMS: list[tuple[str, object]] = [
    ("price", 0.0),
    ("price", math.inf),
    ("cost", -0.1),
    ("cost", 1.1),
    ("stake", math.nan),
    ("stake", "100"),
    ("audit_bps", 0),
    ("audit_bps", 10_001),
    ("audit_bps", 100.0),
    ("fault_slash_bps", -1),
    ("statistics_slash_bps", 10_001),
    ("max_slash_bps", 0),
    ("pay_cap_bps", 0),
    ("max_open_steps", 0),
    ("slots_per_step", True),
    ("step_seconds", 0.0),
    ("slash_window_seconds", -1.0),
    ("unbonding_seconds", math.inf),
    ("reward_bps", 10_001),
    ("stakes", 0),
]


@pytest.mark.parametrize(("name", "value"), BAD_TERMS)
def test_terms_out_of_range_are_refused(name: str, value: object) -> None:
    with pytest.raises(Malformed) as refused:
        replace(TERMS, **{name: value})
    assert (refused.value.field, refused.value.got) == (name, value)
    assert refused.value.expected


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": ""}, "attack"),
        ({"detection": 1.1}, "int8: detection"),
        ({"detection": math.nan}, "int8: detection"),
        ({"fault_share": -0.1}, "int8: fault_share"),
        ({"cost_share": math.inf}, "int8: cost_share"),
        ({"submissions_to_slash": {0.0: 5.0}}, "int8: submissions_to_slash"),
        ({"submissions_to_slash": {0.5: 0.5}}, "int8: submissions_to_slash[0.5]"),
        ({"submissions_to_slash": {0.5: math.nan}}, "int8: submissions_to_slash[0.5]"),
    ],
)
def test_attack_out_of_range_is_refused(changes: Mapping[str, object], field: str) -> None:
    with pytest.raises(Malformed) as refused:
        replace(ROUNDED, **changes)
    assert refused.value.field == field


@pytest.mark.parametrize("q", [0.0, -0.5, 1.01, math.nan])
def test_share_out_of_range_is_refused(q: float) -> None:
    for ask in (flows, outlook):
        with pytest.raises(Malformed, match="share"):
            ask(TERMS, ROUNDED, q)


# -- attacks from files and options


ROW = {"n": 64, "detected": 32, "rate_lower_95": 0.375, "faulted": 16, "cost_share": 0.7}


def test_file_of_attacks_is_read_in_its_order() -> None:
    rows = {
        "whatever": {**ROW, "submissions_to_slash": {"0.05": 800, "1": None}, "command": "decides nothing"},
        "int8 matrices": {name: value for name, value in ROW.items() if name != "cost_share"},
    }
    first, second = read_attacks(json.dumps({"name": "attacks", "attacks": rows}).encode())
    lower = lower_rate(16, 32)
    assert first == Attack("whatever", 0.375, lower, 0.7, {0.05: 800.0, 1.0: math.inf})
    assert 0.3 < lower < 0.5
    reason = COST_SHARES["int8"][1]
    assert second == Attack("int8 matrices", 0.375, lower, 0.5, {}, cost_reason=reason)


def test_grey_rejections_are_paid_on_appeal_and_count_as_not_detected() -> None:
    (found,) = read_attacks(json.dumps({"attacks": {"whatever": {**ROW, "grey": 12}}}).encode())
    assert (found.detection, found.fault_share) == (lower_rate(20, 64), lower_rate(16, 20))


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ({**ROW, "n": 0}, "x: n"),
        ({**ROW, "detected": 65}, "x: detected"),
        ({**ROW, "faulted": 33}, "x: faulted"),
        ({**ROW, "grey": 17}, "x: grey"),
        ({**ROW, "rate_lower_95": 0.51}, "x: rate_lower_95"),
        ({**ROW, "rate_lower_95": None}, "x: rate_lower_95"),
        ({**ROW, "cost_share": "cheap"}, "x: cost_share"),
        ({**ROW, "cost_share": None}, "x: cost_share"),
        ({name: value for name, value in ROW.items() if name != "cost_share"}, "x: cost_share"),
        ({**ROW, "submissions_to_slash": [1]}, "x: submissions_to_slash"),
        ({**ROW, "submissions_to_slash": {"all": 1}}, "x: submissions_to_slash"),
        ({**ROW, "submissions_to_slash": {"2": 5}}, "x: submissions_to_slash"),
        ({**ROW, "submissions_to_slash": {"1": 0}}, "x: submissions_to_slash[1]"),
        ([], "attacks.x"),
    ],
)
def test_malformed_file_of_attacks_is_refused(row: object, field: str) -> None:
    with pytest.raises(Malformed) as refused:
        read_attacks(json.dumps({"attacks": {"x": row}}).encode())
    assert refused.value.field == field


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"attacks": []}', b'{"attacks": {}}'])
def test_file_without_attacks_is_refused(data: bytes) -> None:
    with pytest.raises(Malformed, match="attacks"):
        read_attacks(data)


def test_not_a_number_in_a_file_is_refused() -> None:
    with pytest.raises(Malformed, match="rate_lower_95"):
        read_attacks(json.dumps({"attacks": {"x": {**ROW, "rate_lower_95": math.nan}}}).encode())


def test_attack_of_an_option_is_read() -> None:
    assert parse_attack("int8 = a=0.25:0.5") == Attack("int8 = a", 0.25, 0.0, 0.5)
    assert parse_attack("liar=0.9:0.1:1") == Attack("liar", 0.9, 1.0, 0.1)
    for text in ("", "int8", "int8=0.5", "=0.5:0.5", "int8=a:b", "int8=0.5:0.5:1:1"):
        with pytest.raises(Malformed, match="attack: expected NAME="):
            parse_attack(text)
    with pytest.raises(Malformed, match="detection"):
        parse_attack("int8=nan:0.5")


def test_assumed_costs_have_reasons() -> None:
    assert all(0 <= cost <= 1 and reason for cost, reason in COST_SHARES.values())
    assert default_cost_share("policy step 14 served as 15")[0] == 0.9
    with pytest.raises(Malformed, match="smaller policy: cost_share"):
        default_cost_share("a smaller policy")


# -- the command

OPTIONS = {
    "--price": "1",
    "--cost": "0.5",
    "--stake": "100",
    "--audit-bps": "1000",
    "--slots-per-step": "16",
    "--step-seconds": "60",
    "--fault-slash-bps": "1000",
    "--unbonding-seconds": "86400",
}
app = typer.Typer(pretty_exceptions_enable=False)
app.command()(economics)


def run(*more: str, without: str = "", **changed: str) -> Result:
    options = {**OPTIONS, **changed}
    words = [word for name, value in options.items() if name != without for word in (name, value)]
    return CliRunner().invoke(app, [*words, *more])


def test_command_shows_what_it_computes(tmp_path: Path) -> None:
    target = tmp_path / "new" / "economics.json"
    result = run("--attack", "liar=0.9:0.1:0.9", "--share", "100", "--json", str(target), "--false-reject", "0.001")
    assert result.exit_code == 0, result.output
    found = outlook(TERMS, replace(EDITED, name="liar"), 1.0)
    assert found.safe_stake is not None
    (written,) = json.loads(target.read_text())["outlooks"]
    assert written["gain"] == found.gain
    assert written["safe_stake"] == found.safe_stake
    assert written["fault_slash"] == found.flows.fault_slash
    assert written["slots_to_cap"] == found.slots_to_cap
    assert written["pays"] is found.pays
    row = next(line for line in result.output.splitlines() if line.lstrip().startswith("100 %"))
    assert f"{found.gain:+.4g}" in row.split()
    assert f"{found.cheating_profit:.4g}" in row.split()
    shown = float(row.split()[-4])
    assert found.safe_stake <= shown <= found.safe_stake * 1.001
    assert "for 64 slots before its stake can be taken" in result.output
    assert "0.020% of its profit of 0.5" in result.output


def test_shares_are_those_of_the_protocol_of_a_measurement_unless_given(tmp_path: Path) -> None:
    target = tmp_path / "economics.json"
    run("--attack", "liar=0.9:0.1", "--json", str(target))
    assert [one["share"] for one in json.loads(target.read_text())["outlooks"]] == list(SHARES)
    run("--attack", "liar=0.9:0.1", "--json", str(target), "--share", "2.5", "--share", "50")
    assert [one["share"] for one in json.loads(target.read_text())["outlooks"]] == [0.025, 0.5]


def test_strict_fails_where_an_attack_pays_and_only_there() -> None:
    paying, losing = ("--attack", "int8=0.3:0.5"), ("--attack", "int8=0.9:0.99:1")
    assert run(*paying).exit_code == 0
    result = run(*paying, "--strict")
    assert result.exit_code == 1
    assert "warning: int8, 100 % cheated pays 0.22 tokens a slot above honest work; no stake is enough" in result.output
    assert "PAYS" in result.output
    # 0.5 × 0.5 saved against a × 0.3 × 1 of lost pay.
    ways = "no stake at this audit rate, auditing 83.34 % at this stake"
    assert f"safe against all of them, for a cheat with one stake: {ways}" in result.output
    result = run(*losing, "--strict")
    assert result.exit_code == 0
    assert "warning" not in result.output
    assert "no attack given here pays a cheat with one stake" in result.output


def test_what_a_purse_of_stakes_could_do_is_told_but_not_strictly_refused(tmp_path: Path) -> None:
    rows = {"int8": {**ROW, "faulted": 0, "cost_share": 0.5, "submissions_to_slash": {"1": 2}}}
    file = tmp_path / "attacks.json"
    file.write_text(json.dumps({"attacks": rows}))
    result = run("--attacks", str(file), "--share", "100", "--strict")
    assert result.exit_code == 0
    found = outlook(TERMS, read_attacks(file.read_bytes())[0], 1.0)
    assert found.pays_in_turn
    assert f"{math.ceil(found.stakes_in_turn):,} stakes" in result.output
    rich = run("--attacks", str(file), "--share", "100", "--strict", **{"--stakes": "1200"})
    assert rich.exit_code == 1


def test_pay_cap_that_binds_is_told() -> None:
    result = run("--attack", "liar=1:0.1", **{"--stake": "4"})
    assert "the pay cap leaves this stake 4 of 16 slots a step" in result.output
    assert "the pay cap leaves" not in run("--attack", "liar=1:0.1").output


def test_residual_is_shown_with_its_worth() -> None:
    result = run("--attack", "selection=0:1", "--attack", "one step stale=0.02:0.8", "--attack", "liar=1:0.1")
    left = [line for line in result.output.splitlines() if line.startswith("left by the checks")]
    assert len(left) == 2
    assert "selection (found in 0 % of audits at least) is worth 0 tokens" in left[0]
    assert "one step stale (found in 2 % of audits at least) is worth 0.1 tokens" in left[1]


def test_option_wins_over_the_file(tmp_path: Path) -> None:
    file, target = tmp_path / "attacks.json", tmp_path / "out.json"
    file.write_text(json.dumps({"attacks": {"a": ROW, "b": ROW}}))
    run("--attacks", str(file), "--attack", "b=1:0.25", "--share", "100", "--json", str(target))
    found = {one["attack"]: one for one in json.loads(target.read_text())["outlooks"]}
    assert (found["a"]["cost_share"], found["b"]["cost_share"], found["b"]["detection"]) == (0.7, 0.25, 1.0)


def test_terms_of_a_pool_are_read_and_options_win(tmp_path: Path) -> None:
    account, digest = Address("0x" + "11" * 20), Hash(b"\x01" * 32)
    rules = plan_of("toy").terms(account, account, account, digest, digest)
    file, target = tmp_path / "terms.json", tmp_path / "out.json"
    file.write_text(json.dumps(terms_document(rules)))
    words = ["--terms", str(file), "--price", "1.3", "--cost", "0.2", "--audit-bps", "2500", "--slots-per-step", "4"]
    words += ["--step-seconds", "15", "--attack", "liar=1:0.1", "--json", str(target)]
    assert CliRunner().invoke(app, words).exit_code == 0
    read = json.loads(target.read_text())["terms"]
    assert read["stake"] == rules.min_worker_stake / 10**18
    for name in ("fault_slash_bps", "statistics_slash_bps", "max_slash_bps", "pay_cap_bps", "max_open_steps"):
        assert read[name] == getattr(rules, name)
    for name in ("slash_window_seconds", "unbonding_seconds", "reward_bps"):
        assert read[name] == getattr(rules, name)
    assert CliRunner().invoke(app, [*words, "--stake", "70", "--max-slash-bps", "900"]).exit_code == 0
    read = json.loads(target.read_text())["terms"]
    assert (read["stake"], read["max_slash_bps"]) == (70, 900)


@pytest.mark.parametrize("option", list(OPTIONS))
def test_missing_option_is_named(option: str) -> None:
    result = run("--attack", "liar=1:0.1", without=option)
    assert isinstance(result.exception, SettingsError)
    assert f"{option} is missing" in str(result.exception)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "which attacks"),
        (["--attack", "liar"], "attack: expected NAME="),
        (["--attack", "liar=2:1"], "liar: detection: expected a number at least 0, at most 1, got 2"),
        (["--attack", "liar=1:1", "--share", "0"], "share: expected a number above 0"),
        (["--attack", "liar=1:1", "--share", "101"], "at most 1"),
        (["--attack", "liar=1:1", "--audit-bps", "0"], "audit_bps: expected a whole number, 1 … 10000, got 0"),
        (["--attack", "liar=1:1", "--false-reject", "2"], "false_reject"),
        (["--attacks", "/no/such/file"], "attacks /no/such/file: No such file"),
        (["--terms", "/no/such/file", "--attack", "liar=1:1"], "terms /no/such/file: No such file"),
        (["--attack", "liar=1:1", "--json", "/proc/no/such"], "--json /proc/no/such"),
    ],
)
def test_senseless_options_are_refused_by_name(words: list[str], message: str) -> None:
    result = run(*words)
    assert isinstance(result.exception, SettingsError)
    assert message in str(result.exception)


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parents[2] / "validator" / "cards").glob("*.json")), ids=lambda path: path.stem
)
def test_attacks_of_a_card_are_read(path: Path) -> None:
    """Of a shipped card every attack has a detection, and a cost by its name or its own."""
    found = {attack.name: attack for attack in read_attacks(path.read_bytes())}
    measured = json.loads(path.read_bytes())["measured"]["attacks"]
    assert {name: attack.detection for name, attack in found.items()} == {
        name: pytest.approx(row["rate_lower_95"]) for name, row in measured.items()
    }
