"""Calibration on a small real recording: the card accepts what it was measured on and stops what it was not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stannary.cards import Card
from stannary.corpus import Corpus, Recorded, policy_digest, recording_seeds
from stannary.environments import Environment
from stannary.errors import Malformed, SettingsError
from validator.calibrate import Attack, calibrate, cut
from validator.fit import BOUND_LEAST
from worker.engine_transformers import TransformersEngine, TransformersOptions
from worker.recording import Plan, record

GROUPS = 28


def recorded(folder: Path, environment: Environment, seed: int, groups: int = GROUPS, milli: int = 1000) -> Corpus:
    engine = TransformersEngine(TransformersOptions(keeps_states=True, max_sequences=128))
    done: list[int] = []
    plan = Plan(groups, 4, 48, milli, seed, batch=groups)
    corpus = record(engine, "transformers bf16", folder, environment, plan, done.append)
    assert done == [groups]
    return corpus


@pytest.fixture(scope="module")
def corpora(toy: Path, environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two honest recordings, and one at another temperature."""
    work = tmp_path_factory.mktemp("corpora")
    made = {
        "fitted": recorded(toy, environment, seed=1),
        "checked": recorded(toy, environment, seed=2, groups=6),
        "cool": recorded(toy, environment, seed=3, groups=6, milli=700),
    }
    for name, corpus in made.items():
        corpus.write(work / name)
    return {name: work / name for name in made}


@pytest.fixture(scope="module")
def measured(corpora: dict[str, Path], toy: Path, neighbour: Path) -> Card:
    attacks = [Attack("stale", corpora["checked"], neighbour, toy), Attack("cool", corpora["cool"], toy)]
    return calibrate([toy], [corpora["fitted"]], [corpora["checked"]], attacks, {"command": "a test"})


def test_corpus_file_reads_what_it_wrote(corpora: dict[str, Path]) -> None:
    read = Corpus.read(corpora["checked"])
    assert (read.engine, read.temperature_milli) == ("transformers bf16", 1000)
    assert [len(group) for group in read.groups] == [4] * 6
    seeds = recording_seeds(2)
    assert read.groups[1][2].seed == seeds.rollout_seed(1, 2)
    assert all(len(rollout.states) == len(rollout.completion) for rollout in read.rollouts)


def test_corpus_file_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "corpus").write_bytes(b"\xff" * 64)
    with pytest.raises(Malformed):
        Corpus.read(tmp_path / "corpus")


def test_card_accepts_what_it_was_measured_on_and_others_of_the_kind(measured: Card) -> None:
    assert Card.parse(measured.to_bytes()) == measured
    assert measured.thresholds.gap_bound >= BOUND_LEAST
    assert len(measured.thresholds.ladder) == len(measured.evidence.levels)
    for half, count in (("fitted", GROUPS), ("checked", 6)):
        honest: Any = measured.measured[half]
        assert (honest["submissions"], honest["rejected"]) == (count, 0)


def test_ladder_is_tighter_than_the_limits_of_a_rejection(measured: Card) -> None:
    limits = measured.thresholds
    for tight in limits.ladder:
        assert tight.mean_drift[0].mantissa_mean <= limits.mean_drift[0].mantissa_mean
        assert tight.sampling[0].mean_gap <= limits.sampling[0].mean_gap


def test_attacks_are_counted_with_their_power_and_set_no_limit(
    measured: Card, corpora: dict[str, Path], toy: Path
) -> None:
    attacks: Any = measured.measured["attacks"]
    for name in ("stale", "cool"):
        assert attacks[name]["n"] == 6
        assert attacks[name]["detected"] == 6, attacks[name]
        assert 0 <= attacks[name]["grey"] <= 6 - attacks[name]["faulted"]
        assert sum(attacks[name]["reasons"].values()) == 6
        assert all(caught <= pieces for pieces, caught in attacks[name]["power"].values())
        assert attacks[name]["beyond_levels"] == [6, 6, 6]
        assert attacks[name]["submissions_to_slash"] == {"1": 4}
    alone = calibrate([toy], [corpora["fitted"]], [], [], {"command": "a test"})
    assert alone.thresholds == measured.thresholds


def test_beginning_of_a_submission_is_cut_where_it_holds_so_many_informative_tokens(measured: Card) -> None:
    from tests.validator.test_statistics import measured as made

    whole = made()
    piece = cut(whole, 100)
    assert piece is not None
    assert (piece.replay.gap.size, piece.lengths) == (100, (100,))
    assert [chunk.chunk for chunk in piece.chunks] == [0, 1, 2]
    assert cut(whole, 257) is None


def test_corpus_of_a_policy_that_is_not_given_is_refused(corpora: dict[str, Path], neighbour: Path) -> None:
    with pytest.raises(SettingsError, match="none of those given"):
        calibrate([neighbour], [corpora["fitted"]], [], [], {})


def test_too_little_to_fit_to_is_refused(corpora: dict[str, Path], toy: Path) -> None:
    with pytest.raises(SettingsError, match="record more"):
        calibrate([toy], [corpora["checked"]], [], [], {})


def test_limits_that_other_honest_work_contradicts_are_refused(
    corpora: dict[str, Path], toy: Path, neighbour: Path, tmp_path: Path
) -> None:
    """A machine of the second half that is nothing like those of the first."""
    groups = Corpus.read(corpora["checked"]).groups
    Corpus("a strange machine", policy_digest(neighbour), 1000, groups).write(tmp_path / "strange")
    with pytest.raises(SettingsError, match=r"checked: .* at most 0\.0001 .* got 6 of 6 \(a strange machine; "):
        calibrate([toy, neighbour], [corpora["fitted"]], [tmp_path / "strange"], [], {})


def test_pairing_that_was_not_measured_is_told_of(corpora: dict[str, Path], toy: Path) -> None:
    said: list[str] = []
    calibrate([toy], [corpora["fitted"]], [], [], {}, report=said.append)
    assert any("the pairing is off" in line for line in said)


def test_recordings_of_two_temperatures_are_refused(
    corpora: dict[str, Path], toy: Path, environment: Environment, tmp_path: Path
) -> None:
    group = Corpus.read(corpora["checked"]).groups[0]
    assert all(isinstance(rollout, Recorded) for rollout in group)
    Corpus("another", policy_digest(toy), 700, (group,)).write(tmp_path / "corpus")
    with pytest.raises(SettingsError, match="temperature"):
        calibrate([toy], [corpora["fitted"], tmp_path / "corpus"], [], [], {})
