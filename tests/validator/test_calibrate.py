"""Calibration on a small real corpus: the card accepts what it was measured on and stops what it was not."""

from __future__ import annotations

from pathlib import Path

import pytest

from stannary.cards import Card
from stannary.environments import Environment
from stannary.errors import Malformed, SettingsError
from validator.calibrate import BOUND_LEAST, calibrate
from validator.corpus import Corpus, Recorded, policy_digest
from worker.engine import RolloutRequest
from worker.engine_transformers import TransformersEngine, TransformersOptions


@pytest.fixture(scope="module")
def corpus(toy: Path, environment: Environment) -> Corpus:
    engine = TransformersEngine(TransformersOptions(keeps_states=True))
    engine.load(toy)
    groups = []
    for slot in range(5):
        prompt = environment.problem(bytes([slot]) * 32).prompt
        seeds = [bytes([slot, rollout]) * 16 for rollout in range(4)]
        made = engine.generate([RolloutRequest(seed, prompt, 48) for seed in seeds], 1.0)
        groups.append(
            tuple(Recorded(seed, prompt, out.tokens, out.states) for seed, out in zip(seeds, made, strict=True))
        )
    return Corpus("transformers bf16", policy_digest(toy), 1000, tuple(groups))


def test_corpus_file_reads_what_it_wrote(corpus: Corpus, tmp_path: Path) -> None:
    corpus.write(tmp_path / "corpus")
    read = Corpus.read(tmp_path / "corpus")
    assert (read.engine, read.policy, read.temperature_milli) == (corpus.engine, corpus.policy, 1000)
    for one, other in zip(corpus.rollouts, read.rollouts, strict=True):
        assert (one.seed, one.prompt, one.completion) == (other.seed, other.prompt, other.completion)
        assert one.states.equal(other.states)
    assert [len(group) for group in read.groups] == [4] * 5


def test_corpus_file_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "corpus").write_bytes(b"\xff" * 64)
    with pytest.raises(Malformed):
        Corpus.read(tmp_path / "corpus")


def test_card_of_a_corpus_accepts_it_and_stops_cheats(
    corpus: Corpus, toy: Path, neighbour: Path, tmp_path: Path
) -> None:
    corpus.write(tmp_path / "corpus")
    attack = ("stale", tmp_path / "corpus", neighbour)
    card = calibrate([toy], [tmp_path / "corpus"], [attack], ["bf16", "fp32"], {"command": "a test"})
    assert Card.parse(card.to_bytes()) == card
    assert card.thresholds.gap_bound >= BOUND_LEAST
    honest, attacks = card.evidence["honest_rejected"], card.evidence["attacks"]
    assert isinstance(honest, dict)
    assert isinstance(attacks, dict)
    assert (honest["submissions"], honest["checks"], honest["rejected"]) == (5, 10, 0)
    for name in (
        "stale",
        "one token of each rollout replaced by any",
        "one rollout of a group drawn with another seed",
    ):
        assert attacks[name]["stopped"] == 5, name


def test_corpus_of_a_policy_that_is_not_given_is_refused(corpus: Corpus, neighbour: Path, tmp_path: Path) -> None:
    corpus.write(tmp_path / "corpus")
    with pytest.raises(SettingsError, match="none of those given"):
        calibrate([neighbour], [tmp_path / "corpus"], [], ["fp32"], {})
