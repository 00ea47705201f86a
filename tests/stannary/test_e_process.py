"""Evidence: no honest provider gains any in expectation, whatever its scores and whatever came before."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stannary.e_process import FAMILIES, PARTS, STAKES, EvidenceRules, Level, Scores
from stannary.errors import Malformed

SHARES = st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=5)
UNIT = st.floats(0.0, 1.0)
COUNTS = st.integers(0, 10**9)
TRIPLE = st.tuples(*[st.floats(0, 8)] * 3)
CARD = EvidenceRules((Level(0.25, 0.05), Level(0.5, 0.005), Level(0.75, 0.0005)), 3.0, 6.0)


@st.composite
def rules(draw: st.DrawFn) -> EvidenceRules:
    """Any rules that a fair bet can be placed on: brackets that get rarer."""
    brackets = sorted(draw(SHARES), reverse=True)
    scale = draw(st.floats(0.01, 0.99)) / sum(brackets)
    reached = [scale * sum(brackets[place:]) for place in range(len(brackets))]
    return EvidenceRules(tuple(Level(float(place + 1), share) for place, share in enumerate(reached)), 3.0, 6.0)


@st.composite
def honest(draw: st.DrawFn, of: EvidenceRules, part: str) -> list[float]:
    """The probability of each bracket of a part, for a provider that goes beyond no level more often than allowed."""
    beyond, before = [], 1.0
    for level in of.levels:
        allowed = level.honest_at_most * FAMILIES[part] / sum(FAMILIES.values())
        before = min(before, draw(UNIT) * allowed if draw(st.booleans()) else allowed)
        beyond.append(before)
    return [high - low for high, low in pairwise([1.0, *beyond, 0.0])]


def one(bracket: int, part: str, of: EvidenceRules = CARD) -> np.ndarray:
    """Counts of one submission that is in this bracket in one part, and in the lowest in the others."""
    counts = np.zeros((len(PARTS), len(of.levels) + 1), dtype=int)
    counts[:, 0] = 1
    counts[PARTS.index(part)] = np.eye(len(of.levels) + 1, dtype=int)[bracket]
    return counts


@given(st.data())
def test_evidence_against_honest_providers_does_not_grow_in_expectation(data: st.DataObject) -> None:
    """However the parts of a submission hang together: each alone, and then all of them, independent."""
    own = data.draw(rules())
    size = len(own.levels) + 1
    chances = [data.draw(honest(own, part)) for part in PARTS]
    drawn = st.lists(st.integers(0, 10_000), min_size=size, max_size=size)
    before = np.array([data.draw(drawn) for _ in PARTS])
    expected = 0.0
    for brackets in product(range(size), repeat=len(PARTS)):
        weight = math.prod(part[bracket] for part, bracket in zip(chances, brackets, strict=True))
        after = before + np.eye(size, dtype=int)[list(brackets)]
        expected += weight * 10 ** float(own.log10(after) - own.log10(before))
    assert expected <= 1 + 1e-9


@given(rules())
def test_bet_is_fair_for_the_worst_that_the_card_allows(own: EvidenceRules) -> None:
    for payoffs, families in zip(own.payoffs, FAMILIES.values(), strict=True):
        beyond = [level.honest_at_most * families / sum(FAMILIES.values()) for level in own.levels]
        chances = np.array([high - low for high, low in pairwise([1.0, *beyond, 0.0])])
        assert chances @ payoffs == pytest.approx(1.0)
        assert (np.diff(payoffs) >= -1e-9 * payoffs[1:]).all()


def test_bet_is_unfair_for_who_goes_beyond_a_level_too_often() -> None:
    twice = np.array([0.9, 0.09, 0.009, 0.001]) * FAMILIES["pairing"] / 9
    twice[0] = 1 - twice[1:].sum()
    gained = 10 ** CARD.log10([one(bracket, "pairing") for bracket in range(4)])
    others = 10 ** float(CARD.log10(one(0, "pairing")))
    assert twice @ gained > others


def test_few_honest_histories_ever_reach_a_level_of_evidence() -> None:
    """The exact probability, by all histories of 40 submissions of a provider that is at its worst in one part."""
    own = EvidenceRules((Level(0.5, 0.2), Level(1.0, 0.05)), 1.0, 2.0)
    for part in PARTS:
        share = FAMILIES[part] / sum(FAMILIES.values())
        chances = (1 - 0.2 * share, 0.15 * share, 0.05 * share)
        for bound in (3.0, 10.0):
            ever = 0.0
            alive: dict[tuple[int, ...], float] = {(0, 0, 0): 1.0}
            for number in range(1, 41):
                reached: dict[tuple[int, ...], float] = {}
                for counts, weight in alive.items():
                    for bracket, chance in enumerate(chances):
                        then = tuple(count + (place == bracket) for place, count in enumerate(counts))
                        reached[then] = reached.get(then, 0.0) + weight * chance
                rest = [number, 0, 0]
                every = [[list(counts) if each == part else rest for each in PARTS] for counts in reached]
                stopped = {
                    counts for counts, log in zip(reached, own.log10(every), strict=True) if log >= math.log10(bound)
                }
                ever += sum(reached[counts] for counts in stopped)
                alive = {counts: weight for counts, weight in reached.items() if counts not in stopped}
            assert 0.0002 < ever <= 1 / bound


def test_value_by_hand() -> None:
    own = EvidenceRules((Level(0.5, 0.1), Level(1.0, 0.02)), 3.0, 6.0)
    assert FAMILIES == {"activations": 5, "pairing": 1, "sampling": 3}
    whole = np.array([0.0, 6.25, 25.0])
    assert own.payoffs == pytest.approx(np.array([whole * 9 / 5, whole * 9, whole * 3]))
    assert STAKES == (0.1, 0.02, 0.004, 0.001)
    # One submission in the lowest bracket of every part: 1 − s for each stake s.
    assert float(own.log10([[1, 0, 0]] * 3)) == pytest.approx(math.log10((0.9 + 0.98 + 0.996 + 0.999) / 4))
    # The highest bracket of the pairing pays 225, so 1 + 224 s.
    pairing = 23.4 + 5.48 + 1.896 + 1.224
    assert float(own.log10([[1, 0, 0], [0, 0, 1], [1, 0, 0]])) == pytest.approx(
        math.log10((2 * (0.9 + 0.98 + 0.996 + 0.999) + pairing) / 12)
    )
    assert float(own.log10([[0, 0, 0]] * 3)) == 0.0


def test_what_shows_in_one_part_is_more_evidence_than_as_much_in_any() -> None:
    """A submission that reaches the first level in the pairing does so a ninth as often as one that does in any."""
    many = [10 * one(1, part) for part in PARTS]
    activations, pairing, sampling = CARD.log10(many)
    assert pairing > sampling > activations > 1


@given(own=rules(), scores=st.lists(TRIPLE, max_size=12), seed=st.randoms())
def test_order_does_not_matter(own: EvidenceRules, scores: list[Scores], seed: object) -> None:
    shuffled = list(scores)
    seed.shuffle(shuffled)  # type: ignore[attr-defined]
    assert own.count(scores) == own.count(shuffled)
    assert [sum(part) for part in own.count(scores)] == [len(scores)] * len(PARTS)


@given(own=rules(), scores=st.lists(TRIPLE, min_size=1, max_size=12), more=TRIPLE, data=st.data())
def test_higher_score_is_never_less_evidence(
    own: EvidenceRules, scores: list[Scores], more: Scores, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(scores) - 1))
    higher = tuple(score + added for score, added in zip(scores[place], more, strict=True))
    raised = [*scores[:place], higher, *scores[place + 1 :]]
    assert own.log10(own.count(raised)) >= own.log10(own.count(scores)) - 1e-9


@given(own=rules(), counts=st.data())
def test_submission_below_every_level_lowers_the_evidence(own: EvidenceRules, counts: st.DataObject) -> None:
    size = len(own.levels) + 1
    before = np.array([counts.draw(st.lists(COUNTS, min_size=size, max_size=size)) for _ in PARTS])
    assert own.log10(before + one(0, "pairing", own)) <= own.log10(before) + 1e-9


@given(own=rules(), data=st.data())
def test_counts_of_a_billion_are_finite(own: EvidenceRules, data: st.DataObject) -> None:
    size = len(own.levels) + 1
    counts = [data.draw(st.lists(st.sampled_from([0, 1, 10**9]), min_size=size, max_size=size)) for _ in PARTS]
    assert math.isfinite(float(own.log10(counts)))


def test_counts_of_many_providers_at_once() -> None:
    own = np.array([[[10, 0, 0, 0], [9, 1, 0, 0]], [[9, 0, 0, 1], [0, 0, 0, 10**9]]])
    counts = np.stack([own, np.zeros_like(own), own], axis=2)
    found = CARD.log10(counts)
    assert found.shape == (2, 2)
    assert [float(CARD.log10(row)) for row in counts.reshape(-1, 3, 4)] == pytest.approx(found.ravel().tolist())
    assert found[1, 1] > 1e9


@pytest.mark.parametrize(
    ("score", "bracket"),
    [(0.0, 0), (0.25, 0), (0.2500001, 1), (0.5, 1), (0.75, 2), (0.76, 3), (math.inf, 3), (math.nan, 0)],
)
def test_score_that_equals_a_level_is_within_it(score: float, bracket: int) -> None:
    assert CARD.bracket(score) == bracket


def made(*levels: tuple[float, float], stop: float = 3.0, slash: float = 6.0) -> Callable[[], EvidenceRules]:
    return lambda: EvidenceRules(tuple(Level(*level) for level in levels), stop, slash)


@pytest.mark.parametrize(
    ("make", "field", "expected", "got"),
    [
        (made(), "levels", "rising scores", []),
        (made((0.5, 0.1), (0.5, 0.01)), "levels", "rising scores", [0.5, 0.5]),
        (made((0.5, 0.1), (math.nan, 0.01)), "levels", "rising scores", None),
        (made((0.5, 0.01), (0.6, 0.1)), "levels", "falling probabilities within 0 … 1", [0.01, 0.1]),
        (made((0.5, 1.0)), "levels", "falling probabilities within 0 … 1", [1.0]),
        (made((0.5, 0.0)), "levels", "falling probabilities within 0 … 1", [0.0]),
        (made((0.5, math.nan)), "levels", "falling probabilities within 0 … 1", None),
        (made((0.5, 0.1), (0.6, 0.09)), "levels", "probabilities that fall less and less", [0.1, 0.09]),
        (made((0.5, 0.1), (0.6, 1e-300)), "levels", "probabilities at least 1e-12 apart", [0.1, 1e-300]),
        (made((0.5, 0.1), stop=6.0), "stop_log10", "between 0 and 6", 6.0),
        (made((0.5, 0.1), stop=0.0), "stop_log10", "between 0 and 6", 0.0),
        (made((0.5, 0.1), stop=math.nan), "stop_log10", "between 0 and 6", None),
    ],
)
def test_rules_without_a_fair_bet_are_refused(
    make: Callable[[], EvidenceRules], field: str, expected: str, got: object
) -> None:
    with pytest.raises(Malformed) as caught:
        make()
    assert (caught.value.field, caught.value.expected) == (field, expected)
    assert got is None or caught.value.got == got


def test_equal_steps_are_accepted_whatever_their_rounding() -> None:
    own = made((0.1, 0.3), (0.2, 0.2), (0.3, 0.1))()
    assert own.payoffs[1].tolist() == pytest.approx([0.0, 30.0, 30.0, 30.0])
    assert made((0.5, 0.9), (0.6, 0.3))().payoffs[1][1] == pytest.approx(9 / 1.2)


@pytest.mark.parametrize("counts", [[1, 2, 3, 4], [[1, 2, 3]] * 3, [[1, 2, 3, 4]] * 2, [[1], [2]], 7])
def test_counts_of_other_brackets_are_refused(counts: object) -> None:
    with pytest.raises(Malformed) as caught:
        CARD.log10(counts)  # type: ignore[arg-type]
    assert (caught.value.field, caught.value.expected) == ("counts", "[…, 3, 4]")


@pytest.mark.parametrize("wrong", [-1, math.nan, math.inf])
def test_what_counts_nothing_is_refused(wrong: float) -> None:
    with pytest.raises(Malformed) as caught:
        CARD.log10([[0, 0, wrong, 0], [0, 0, 0, 0], [0, 0, 0, 0]])
    assert (caught.value.field, caught.value.expected) == ("counts", "numbers of submissions")
