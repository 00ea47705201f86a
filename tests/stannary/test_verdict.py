"""Votes: packed in two bits, tallied as on chain."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stannary.errors import Malformed
from stannary.types import Outcome
from stannary.verdict import is_decided, outcomes_by_slot, pack_outcomes, rewards_hash, tally, unpack_outcomes

A, R, F, X = Outcome.ACCEPT, Outcome.REJECT, Outcome.FAULT, Outcome.ABSTAIN


@given(st.lists(st.sampled_from(Outcome), min_size=1, max_size=70))
def test_outcomes_survive_packing(outcomes: list[Outcome]) -> None:
    assert unpack_outcomes(pack_outcomes(outcomes), len(outcomes)) == outcomes


def test_outcomes_by_slot_abstain_where_nothing_is_decided() -> None:
    assert outcomes_by_slot({2: F, 0: A}, 4) == [A, X, F, X]
    with pytest.raises(Malformed, match="slot"):
        outcomes_by_slot({4: A}, 4)


@pytest.mark.parametrize(("packed", "count"), [(b"", 1), (b"\x00\x00", 4), (b"\x04", 1), (b"\xc0", 3)])
def test_outcomes_of_wrong_length_or_with_spare_bits_are_refused(packed: bytes, count: int) -> None:
    with pytest.raises(Malformed, match="outcomes"):
        unpack_outcomes(packed, count)


@pytest.mark.parametrize(
    ("votes", "expected"),
    [
        ([A, A, F], A),
        ([F, F, A], F),
        ([F, R, A], R),
        ([R, R, X], R),
        ([A, R, X], X),
        ([X, X, X], X),
        ([A], X),
        ([F, X, X], X),
    ],
)
def test_tally_of_two_in_three(votes: list[Outcome], expected: Outcome) -> None:
    assert tally(votes, 2) == expected


@given(st.lists(st.sampled_from(Outcome), max_size=5), st.integers(1, 5), st.integers(0, 3))
def test_decided_acceptance_cannot_be_changed_by_outstanding_votes(
    votes: list[Outcome], quorum: int, outstanding: int
) -> None:
    best = tally(votes + [A] * outstanding, quorum) == A
    worst = tally(votes + [X] * outstanding, quorum) == A
    assert is_decided(votes, quorum, outstanding) == (best == worst)


def test_rewards_are_signed_as_millionths() -> None:
    assert rewards_hash([0.1 + 0.2]) == rewards_hash([0.3])
    assert rewards_hash([0.5, 0.25]) != rewards_hash([0.25, 0.5])


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), 1e9])
def test_reward_that_is_no_reward_is_refused(reward: float) -> None:
    with pytest.raises(Malformed, match="reward"):
        rewards_hash([reward])
