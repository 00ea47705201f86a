"""What is offered for gas: enough more for a node to replace, never more than the cap."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stannary.fees import GWEI, FeeRules, Price

RULES = FeeRules(max_fee_wei=100 * GWEI)
prices = st.integers(0, 200 * GWEI).flatmap(lambda fee: st.builds(Price, st.just(fee), st.integers(0, fee)))


@given(prices, prices)
def test_bump_offers_an_eighth_more_of_both_and_stays_under_the_cap(offered: Price, asked: Price) -> None:
    found = RULES.bumped(offered, asked)
    if found is None:
        assert offered.fee * 9 / 8 > RULES.max_fee_wei - 1 or (asked.fee - asked.tip) // 2 >= RULES.max_fee_wei
        return
    assert found.fee <= RULES.max_fee_wei
    assert found.fee * 8 >= offered.fee * 9
    assert found.tip * 8 >= offered.tip * 9 or found.tip == found.fee
    assert found.tip <= found.fee


@given(prices)
def test_first_offer_is_what_is_asked_up_to_the_cap(asked: Price) -> None:
    found = RULES.first(asked)
    base = (asked.fee - asked.tip) // 2
    if found is None:
        assert base >= RULES.max_fee_wei
    else:
        assert found.fee == min(asked.fee, RULES.max_fee_wei)
        assert found.tip == min(asked.tip, RULES.max_fee_wei - base)


@pytest.mark.parametrize(
    ("fee", "tip", "is_offered"), [(202, 2, False), (201, 2, True), (2, 0, True), (180, 170, True)]
)
def test_first_offer_over_the_cap_is_none(fee: int, tip: int, is_offered: bool) -> None:
    assert (RULES.first(Price(fee * GWEI, tip * GWEI)) is not None) == is_offered


def test_bump_of_nothing_is_something() -> None:
    assert RULES.bumped(Price(0, 0), Price(0, 0)) == Price(1, 1)
