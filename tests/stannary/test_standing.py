"""How a provider stands: medians over what a panel published, so that no single member moves them."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import replace

import pytest

from stannary.cards import evidence_rules
from stannary.evidence import LeafEvidence, Measure
from stannary.published import Published
from stannary.standing import SCORES, ScoredLeaf, Standing, median_scores, scored_leaves
from stannary.structs import Submission
from stannary.types import Address, Hash, Outcome, Reason, parse_address

RULES = evidence_rules((0.05, 0.005, 0.0005), stop_log10=3.0, slash_log10=6.0)
"""Levels at a quarter, a half and three quarters."""
ADA, BOB = (parse_address("0x" + digit * 40) for digit in "12")


def leaf(step: int, slot: int, provider: Address = ADA) -> Submission:
    return Submission(1, step, slot, provider, provider, 50, Hash(bytes([step, slot]) * 16), Hash(b"\x05" * 32))


def entry(leaf: Submission, score: float | None, outcome: Outcome = Outcome.ACCEPT) -> LeafEvidence:
    measures = (
        {} if score is None else dict.fromkeys(SCORES, Measure.of(0.0, 1.0)) | {SCORES[0]: Measure.of(score, 1.0)}
    )
    return LeafEvidence(leaf.struct_hash(), outcome, Reason.NONE, "", measures, ())


def seat(said: Mapping[Submission, LeafEvidence]) -> Published:
    """A member that votes what it publishes, and abstains on the rest of five slots."""
    by_slot = {leaf.slot: published.outcome for leaf, published in said.items()}
    outcomes = [by_slot.get(slot, Outcome.ABSTAIN) for slot in range(5)]
    return Published(ADA, outcomes, entries={leaf.struct_hash(): published for leaf, published in said.items()})


def test_score_of_a_leaf_is_the_median_and_the_lower_of_two_middles() -> None:
    own = leaf(1, 0)

    def median(*scores: float | None) -> float | None:
        found = median_scores([entry(own, score) for score in scores], len(scores))
        return None if found is None else found[0]

    assert median(0.9, 0.1, 0.3) == 0.3
    assert median(0.9, 0.1) == 0.1
    assert median(0.4, 0.9, 0.3, 0.1) == 0.3
    assert median(0.2) == 0.2
    assert median(math.inf, math.inf, 0.1) == math.inf
    assert median() is None


def test_each_part_has_a_median_of_its_own() -> None:
    own = leaf(1, 0)
    said = [(0.1, 0.9, 0.5), (0.2, 0.8, 0.4), (0.3, 0.1, 2.0)]
    entries = [
        replace(
            entry(own, 0.0), measures={name: Measure.of(score, 1.0) for name, score in zip(SCORES, each, strict=True)}
        )
        for each in said
    ]
    assert median_scores(entries, 3) == (0.2, 0.8, 0.5)
    lacking = replace(entries[0], measures={SCORES[0]: Measure.of(9.0, 1.0)})
    assert median_scores([*entries, lacking], 4) == (0.2, 0.8, 0.5)
    assert median_scores([lacking], 1) is None


def test_one_liar_moves_nothing() -> None:
    own = leaf(1, 0)
    honest = [entry(own, 0.2), entry(own, 0.22)]
    for lie in (0.0, -1e9, 1e9, math.inf, None):
        scores = median_scores([*honest, entry(own, lie)], 3)
        assert scores is not None
        assert 0.0 < scores[0] <= 0.22
    # Where nobody else measured, what one claims is no score at all.
    assert median_scores([entry(own, 5.0), entry(own, None)], 2) is None
    assert median_scores([entry(own, 5.0), entry(own, None), entry(own, None)], 3) is None


def test_score_is_none_before_most_of_those_that_judged_have_published() -> None:
    """Or the first to publish would be the median, for good where the files of the others are withheld."""
    own = leaf(1, 3)
    lie, silent = seat({own: entry(own, 1e9)}), replace(seat({own: entry(own, 0.2)}), entries={})
    awaited = Published(BOB, None, is_awaited=True)
    for others in ([silent, silent], [silent], [awaited, awaited], [silent, awaited]):
        assert scored_leaves([lie, *others], [own]) == []
    honest = seat({own: entry(own, 0.2)})
    assert [found.scores[0] for found in scored_leaves([lie, honest, silent], [own])] == [0.2]
    assert [found.scores[0] for found in scored_leaves([lie, honest, awaited], [own])] == [0.2]


def test_abstention_and_a_seat_that_stays_silent_judge_nothing() -> None:
    own = leaf(1, 3)
    asleep, gone = seat({own: entry(own, None, Outcome.ABSTAIN)}), Published(BOB, None)
    assert [found.scores[0] for found in scored_leaves([asleep, gone, seat({own: entry(own, 0.7)})], [own])] == [0.7]


def test_standing_counts_the_own_leaves_of_all_steps_by_bracket() -> None:
    own = [leaf(2, 1), leaf(1, 4), leaf(1, 0), leaf(1, 2)]
    others = [leaf(1, 1, BOB), leaf(2, 0, BOB)]
    scores = {(1, 0): 0.1, (1, 1): 5.0, (1, 2): 0.6, (1, 4): None, (2, 0): 5.0, (2, 1): 2.0}
    panels = {
        step: [seat({one: entry(one, scores[step, one.slot]) for one in [*own, *others] if one.step == step})] * 3
        for step in (1, 2)
    }
    found = Standing.of(
        RULES,
        [scored for step in (1, 2) for scored in scored_leaves(panels[step], [one for one in own if one.step == step])],
    )
    assert found.counts == ((1, 0, 1, 1), (3, 0, 0, 0), (3, 0, 0, 0))
    assert [(one.step, one.slot, one.scores[0]) for one in found.leaves] == [(1, 0, 0.1), (1, 2, 0.6), (2, 1, 2.0)]
    assert found.leaves[0].leaf_hash == leaf(1, 0).struct_hash()
    assert found.log10 == pytest.approx(float(RULES.log10(found.counts)))
    assert found.log10 > 1


def test_provider_without_a_score_has_no_evidence() -> None:
    found = Standing.of(RULES, scored_leaves([], [leaf(1, 0)]))
    assert (found.counts, found.log10, found.leaves) == (((0, 0, 0, 0),) * 3, 0.0, ())


def test_score_that_no_validator_can_have_found_counts_as_none() -> None:
    own = leaf(1, 0)
    assert scored_leaves([seat({own: entry(own, -1.0)})] * 3, [own]) == []


def test_order_of_the_leaves_does_not_matter() -> None:
    leaves = [
        ScoredLeaf(step, slot, Hash(b"\x01" * 32), (slot / 10, 0.0, 0.1)) for step in range(3) for slot in range(9)
    ]
    mixed = random.Random(3).sample(leaves, len(leaves))
    assert Standing.of(RULES, mixed) == Standing.of(RULES, leaves)
    assert Standing.of(RULES, [replace(one, scores=(2.0, 0.0, 0.0)) for one in leaves]).log10 > 6
