"""The simulation of evidence: histories have the distributions it says, and times are right where they are known."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks import simulate_evidence as simulation
from benchmarks.simulate_evidence import BONDS, Bond, Cheat
from stannary.e_process import EvidenceRules, Level

RULES = EvidenceRules((Level(0.25, 0.05), Level(0.5, 0.005), Level(0.75, 0.0005)), 3.0, 6.0)
WORST = simulation.by_part([0.05, 0.005, 0.0005])


def honest(beyond: np.ndarray, bond: Bond, providers: int = 400, submissions: int = 200, seed: int = 0) -> np.ndarray:
    return simulation.honest(RULES, beyond, bond, providers, submissions, np.random.default_rng(seed))


def test_gains_are_those_of_the_rules() -> None:
    """One submission of each bracket, by the rules themselves."""
    gains = simulation.gains(RULES)
    for part in range(3):
        for bracket in range(4):
            counts = [[0, 0, 0, 0] for _ in range(3)]
            counts[part][bracket] = 1
            expected = (gains[part, bracket].mean() + 2) / 3
            assert np.log10(expected) == pytest.approx(float(RULES.log10(counts)))


def test_largest_evidence_is_never_below_none() -> None:
    assert (honest(np.zeros((1, 3, 3)), BONDS["apart"]) == 0).all()


def test_provider_always_beyond_every_level_has_known_evidence() -> None:
    found = honest(np.ones((1, 3, 3)), BONDS["in bad hours"], providers=3, submissions=20)
    assert found == pytest.approx(float(RULES.log10([[0, 0, 0, 20]] * 3)))


def test_evidence_stays_a_finite_number() -> None:
    found = honest(np.ones((1, 3, 3)), BONDS["apart"], providers=2, submissions=400)
    assert ((found > 200) & (found <= 250)).all()


@pytest.mark.parametrize("bond", BONDS.values(), ids=BONDS)
def test_each_class_keeps_its_own_distribution(bond: Bond) -> None:
    """Of one submission, the evidence says its bracket: as many reach each as the class says."""
    beyond = np.array([[0.4, 0.2, 0.1], [0.2, 0.1, 0.0]])
    in_one_part = np.stack([beyond, np.zeros((2, 3)), np.zeros((2, 3))], axis=1)
    found = honest(in_one_part, bond, providers=40_000, submissions=1)
    values = np.maximum(0.0, [float(RULES.log10([row, [1, 0, 0, 0], [1, 0, 0, 0]])) for row in np.eye(4, dtype=int)])
    shares = [float((found >= value - 1e-9).mean()) for value in values[1:]]
    assert shares == pytest.approx(beyond.mean(axis=0).tolist(), abs=0.01)


def test_worse_and_more_clustered_providers_reach_more() -> None:
    base = honest(WORST, BONDS["apart"])
    worse = honest(5 * WORST, BONDS["apart"])
    clustered = honest(WORST, Bond(0.0, 0.6, 0.95))
    assert (base < RULES.slash_log10).all()
    assert np.mean(worse) > np.mean(base) + 0.5
    assert clustered.max() > base.max()


def test_cheat_of_all_submissions_is_slashed_when_the_rules_say() -> None:
    times = simulation.slashed_at(RULES, 1.0, Cheat(3, 1.0), 5, 100, np.random.default_rng(0))
    first = next(
        count
        for count in range(1, 100)
        if RULES.log10([[0, 0, 0, count], *[[count, 0, 0, 0]] * 2]) >= RULES.slash_log10
    )
    assert times.tolist() == [first] * 5
    banked = simulation.slashed_at(RULES, 1.0, Cheat(2, 1.0), 2, 1000, np.random.default_rng(0), 3000)
    first = next(
        count
        for count in range(1, 1000)
        if RULES.log10([[3000, 0, count, 0], *[[3000 + count, 0, 0, 0]] * 2]) >= RULES.slash_log10
    )
    assert banked.tolist() == [first] * 2


def test_rarer_and_weaker_cheats_take_longer_and_honest_ones_forever() -> None:
    generator = np.random.default_rng(1)
    often = np.median(simulation.slashed_at(RULES, 0.5, Cheat(3, 1.0), 50, 2000, generator))
    rarely = np.median(simulation.slashed_at(RULES, 0.05, Cheat(3, 1.0), 50, 2000, generator))
    weakly = np.median(simulation.slashed_at(RULES, 0.5, Cheat(2, 0.2), 50, 2000, generator))
    assert often < weakly
    assert often < rarely
    assert np.isinf(simulation.slashed_at(RULES, 0.0, Cheat(3, 1.0), 5, 500, generator)).all()


def test_figures_of_histories() -> None:
    entry = simulation.of_honest(RULES, np.array([0.0, 3.5, 6.5, 0.1] * 25), "<= 0.0001")
    assert (entry["slashed"], entry["stopped"], entry["histories"], entry["met"]) == (25, 50, 100, False)
    assert 0.25 < float(entry["value"]) < 0.35  # type: ignore[arg-type]
    none = simulation.of_honest(RULES, np.zeros(100_000), "<= 0.0001")
    assert (none["slashed"], none["met"]) == (0, True)


def test_figures_of_cheats() -> None:
    entry = simulation.of_cheats(np.array([5.0, 50.0, 500.0, math.inf]))
    assert (entry["value"], entry["late_95"]) == (500.0, None)
    assert entry["slashed_within"] == {"100": 2, "1000": 3, "10000": 3}
    assert simulation.of_cheats(np.full(4, math.inf))["value"] == -1.0


def test_upper_ends_of_many_events_agree_with_the_exact_ones() -> None:
    assert simulation._upper(1001, 2500) == pytest.approx(simulation.upper_rate(1001, 2500), abs=5e-4)


def test_what_is_simulated(tmp_path: Path) -> None:
    """Scores that equal a level are within it; only what is no worse than the card has a target."""
    from stannary.cards import Card

    card = Card.parse((Path(__file__).parents[2] / "validator" / "cards" / "toy.json").read_bytes())
    levels = [level.score for level in card.evidence.levels]
    (tmp_path / "scores.json").write_text(
        json.dumps({"one": [[score, 0.0, 0.0] for score in (0.0, levels[0], levels[0] + 0.01, 1.2)], "none": []})
    )
    found = simulation.histories(card, tmp_path / "scores.json")
    beyond, bond, target = found["honest as measured, apart"]
    assert beyond.tolist() == [[[0.5, *[0.25] * (len(levels) - 1)], *[[0.0] * len(levels)] * 2]]
    assert (bond, target) == (BONDS["apart"], "<= 0.0001")
    assert {target for name, (_, _, target) in found.items() if "times as often" in name} == {""}
