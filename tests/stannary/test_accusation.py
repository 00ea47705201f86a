"""Accusations: one spelling, bound by two hashes, and counted so that no choice of the accuser helps it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from eth_utils.crypto import keccak
from hypothesis import given, settings
from hypothesis import strategies as st

from stannary.accusation import (
    MAX_NAMED,
    MAX_SCORE,
    Accusation,
    evidence_log10,
    is_convicted,
    slots_of,
)
from stannary.cards import evidence_rules
from stannary.chain import StepHistory, events
from stannary.documents import MAX_DOCUMENT_BYTES, canonical
from stannary.e_process import FAMILIES, NOTHING, Scores
from stannary.errors import Malformed
from stannary.slots import PayTable
from stannary.standing import ScoredLeaf
from stannary.structs import Submission
from stannary.types import ZERO_HASH, Address, Hash, parse_address

RULES = evidence_rules((0.05, 0.005, 0.0005), stop_log10=3.0, slash_log10=6.0)
ADA, BOB = (parse_address("0x" + digit * 40) for digit in "aB")
CARD_HASH = Hash(b"\x07" * 32)
PLACE = events.Place(1, Hash(b"\x04" * 32), 0, Hash(b"\x05" * 32))


def named(step: int, slot: int, score: float = 2.0) -> ScoredLeaf:
    return ScoredLeaf(step, slot, Hash(keccak(bytes([step, slot >> 8, slot & 255]))), in_one_part(score))


def in_one_part(score: float) -> Scores:
    return (score, 0.0, 0.0)


def accusation(*leaves: ScoredLeaf) -> Accusation:
    return Accusation(1, ADA, 2, 5, CARD_HASH, leaves or (named(2, 1), named(2, 3), named(4, 0)))


SCORES = st.floats(0, MAX_SCORE)
PLACES = st.lists(st.tuples(st.integers(2, 5), st.integers(0, 999)), unique=True, min_size=1, max_size=9).map(sorted)


@settings(deadline=None)
@given(PLACES.flatmap(lambda places: st.tuples(st.just(places), st.lists(SCORES, min_size=9, max_size=9))))
def test_accusation_reads_what_it_wrote(found: tuple[list[tuple[int, int]], list[float]]) -> None:
    own = accusation(*(named(step, slot, score) for (step, slot), score in zip(found[0], found[1], strict=False)))
    assert Accusation.parse(own.to_bytes()) == own
    assert own.evidence_hash() == keccak(own.to_bytes())
    assert own.list_hash() == keccak(b"".join(leaf.leaf_hash for leaf in own.leaves))


def test_list_hash_binds_every_leaf_their_number_and_their_order() -> None:
    first, second, third = accusation().leaves
    lists = [(first, second, third), (first, second), (first,), (second, third), (first, third)]
    swapped = (replace(first, leaf_hash=second.leaf_hash), replace(second, leaf_hash=first.leaf_hash), third)
    hashes = {accusation(*leaves).list_hash() for leaves in [*lists, swapped]}
    assert len(hashes) == 6
    assert accusation(replace(first, scores=in_one_part(3.0)), second, third).list_hash() == accusation().list_hash()
    assert (
        accusation(replace(first, scores=in_one_part(3.0)), second, third).evidence_hash()
        != accusation().evidence_hash()
    )


def test_largest_accusation_is_a_document() -> None:
    leaves = [named(5, slot, 1 / 3) for slot in range(MAX_NAMED)]
    data = Accusation(1, ADA, 0, (1 << 32) - 1, CARD_HASH, tuple(leaves)).to_bytes()
    assert len(data) < MAX_DOCUMENT_BYTES
    assert len(Accusation.parse(data).leaves) == MAX_NAMED


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda found: found.update(format="stannary.accusation.v2"), "accusation.format"),
        (lambda found: found.update(more=1), "accusation"),
        (lambda found: found.pop("pool"), "accusation"),
        (lambda found: found.update(pool=-1), "pool"),
        (lambda found: found.update(pool=1 << 63), "pool"),
        (lambda found: found.update(pool=True), "pool"),
        (lambda found: found.update(provider="0x12"), "provider"),
        (lambda found: found.update(provider=ADA.lower()), "accusation"),
        (lambda found: found.update(provider=None), "provider"),
        (lambda found: found.update(first_step=6), "first_step"),
        (lambda found: found.update(first_step=3), "leaves"),
        (lambda found: found.update(last_step=3), "leaves"),
        (lambda found: found.update(last_step=1 << 32), "last_step"),
        (lambda found: found.update(card_hash="0x" + "AB" * 32), "card_hash"),
        (lambda found: found.update(leaves=[]), "leaves"),
        (lambda found: found.update(leaves={}), "leaves"),
        (lambda found: found.update(leaves=found["leaves"] * 2000), "leaves"),
        (lambda found: found["leaves"].append(found["leaves"][-1]), "leaves"),
        (lambda found: found["leaves"].reverse(), "leaves"),
        (lambda found: found["leaves"][0].append(1), "leaves"),
        (lambda found: found["leaves"].append("0x"), "leaves"),
        (lambda found: found["leaves"][0].__setitem__(1, -1), "slot"),
        (lambda found: found["leaves"][0].__setitem__(1, 1.0), "slot"),
        (lambda found: found["leaves"][0].__setitem__(2, "0x" + "00" * 32), "leaf_hash"),
        (lambda found: found["leaves"][0].__setitem__(2, 7), "leaf_hash"),
        (lambda found: found["leaves"][0].__setitem__(3, 2), "score"),
        (lambda found: found["leaves"][0].__setitem__(3, -0.5), "score"),
        (lambda found: found["leaves"][0].__setitem__(3, 2 * MAX_SCORE), "score"),
        (lambda found: found["leaves"][0].__setitem__(3, None), "score"),
    ],
)
def test_anything_else_is_refused_by_name(change: Callable[[dict[str, Any]], object], field: str) -> None:
    found = json.loads(accusation().to_bytes())
    change(found)
    with pytest.raises(Malformed) as refused:
        Accusation.parse(canonical(found))
    assert refused.value.field == field


@settings(deadline=None)
@given(st.binary(max_size=300) | st.integers(0, 400).map(lambda cut: accusation().to_bytes()[:cut]))
def test_any_bytes_are_malformed_and_nothing_worse(data: bytes) -> None:
    with pytest.raises(Malformed):
        Accusation.parse(data)


def test_accuser_names_what_reaches_a_level_and_the_highest_if_there_are_too_many() -> None:
    leaves = [named(3, 7, 0.1), named(2, 9, math.inf), named(2, 1, 0.3)]
    own = Accusation.of(1, ADA, 2, 5, CARD_HASH, RULES, leaves)
    assert [(leaf.step, leaf.slot, leaf.scores[0]) for leaf in own.leaves] == [(2, 1, 0.3), (2, 9, MAX_SCORE)]
    assert Accusation.parse(own.to_bytes()) == own
    many = [named(2, slot, 0.5 + slot / 10_000) for slot in range(MAX_NAMED + 10)]
    highest = Accusation.of(1, ADA, 2, 5, CARD_HASH, RULES, many).leaves
    assert [leaf.slot for leaf in highest] == list(range(10, MAX_NAMED + 10))
    with pytest.raises(Malformed, match="leaves"):
        Accusation.of(1, ADA, 2, 5, CARD_HASH, RULES, leaves[:1])


def test_leaf_that_is_not_named_counts_as_the_best_there_is() -> None:
    others = [[5, 0, 0, 0]] * 2
    found = evidence_log10(RULES, 5, [in_one_part(2.0), NOTHING])
    assert found == pytest.approx(float(RULES.log10([[4, 0, 0, 1], *others])))
    assert evidence_log10(RULES, 2, []) == pytest.approx(float(RULES.log10([[2, 0, 0, 0]] * 3)))
    assert evidence_log10(RULES, 0, []) == pytest.approx(0.0, abs=1e-12)
    alone, among_many = (evidence_log10(RULES, total, [in_one_part(2.0)] * 5) for total in (5, 500))
    assert alone > RULES.slash_log10 > among_many
    with pytest.raises(Malformed, match="scores"):
        evidence_log10(RULES, 1, [in_one_part(2.0)] * 2)


@settings(deadline=None)
@given(st.lists(st.tuples(*[st.floats(0, 3)] * 3), max_size=40), st.data())
def test_naming_fewer_or_measuring_less_never_raises_the_evidence(scores: list[Scores], data: st.DataObject) -> None:
    total = len(scores) + data.draw(st.integers(0, 40))
    kept = [score for score in scores if data.draw(st.booleans())]
    assert evidence_log10(RULES, total, kept) <= evidence_log10(RULES, total, scores) + 1e-9


@settings(deadline=None)
@given(st.lists(st.tuples(*[st.floats(0, 3)] * 3), max_size=12), st.integers(0, 12), st.integers(0, 30))
def test_early_ruling_is_the_one_that_measuring_all_would_give(scores: list[Scores], done: int, others: int) -> None:
    total = len(scores) + others
    early = is_convicted(RULES, total, scores[:done], len(scores[done:]))
    assert early in (None, is_convicted(RULES, total, scores))
    assert is_convicted(RULES, total, scores) is not None


def test_honest_provider_is_convicted_no_more_often_than_the_bound_however_it_is_accused() -> None:
    """The worst honest provider, accused after every step by somebody who names only what speaks against it."""
    rules = evidence_rules((0.05, 0.005, 0.0005), stop_log10=0.5, slash_log10=1.0)
    draw = np.random.default_rng(5)
    convicted, providers = 0, 2_000
    for _ in range(providers):
        reached = draw.random((400, 3)) / (np.array(list(FAMILIES.values())) / 9)
        scores = np.select([reached < 0.0005, reached < 0.005, reached < 0.05], [0.8, 0.6, 0.3], 0.0)
        bad = np.flatnonzero(scores.any(axis=1))
        ends = [400, *(int(index) + 1 for index in bad)]
        convicted += any(is_convicted(rules, end, list(map(tuple, scores[bad[bad < end]]))) for end in ends)
    assert convicted / providers <= 0.1
    assert convicted > 0, "or this tests nothing"


def history(*leaves: Submission, delivered: Sequence[Submission] = (), is_cancelled: bool = False) -> StepHistory:
    found: list[events.Event] = [
        events.StepOpened(PLACE, 1, 3, 0, 6, 0, 7),
        events.RootCommitted(PLACE, 1, 3, ZERO_HASH, ZERO_HASH, PayTable.of(leaves, 6, 100), 9),
    ]
    found += [events.TakenSlotDelivered(PLACE, 1, 3, leaf.provider, leaf, b"", "") for leaf in delivered]
    if is_cancelled:
        found.append(events.StepCancelled(PLACE, 1, 3))
    return StepHistory.of(found, 1, 3)


def leaf(slot: int, provider: Address) -> Submission:
    return Submission(1, 3, slot, provider, provider, 50, Hash(bytes([slot]) * 32), CARD_HASH)


def test_leaves_of_a_provider_are_those_that_the_chain_pays_and_those_delivered() -> None:
    tree = [leaf(0, BOB), leaf(2, ADA), leaf(5, ADA)]
    found = history(*tree, delivered=[leaf(6, BOB), leaf(7, ADA)])
    assert slots_of(found, ADA) == {2, 5, 7}
    assert slots_of(found, BOB) == {0, 6}
    assert slots_of(history(*tree, is_cancelled=True), ADA) == frozenset()
    opened = StepHistory.of([events.StepOpened(PLACE, 1, 3, 0, 6, 0, 7)], 1, 3)
    assert slots_of(opened, ADA) == frozenset()
