"""A card's page: whole and self-contained whatever the card says of its measurements, and its figures are right."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stannary.cards import Card
from stannary.errors import Malformed
from stannary.sampling import Replay
from stannary.toploc import ChunkDrift
from stannary.types import to_hex
from validator.card_page import area_interval, card_page, curve, decided
from validator.fit import SCORE_MOST, Sample
from validator.pairing import Pairing
from validator.samples import CardSamples, Record
from validator.statistics import ChunkMeasure, Measured

VOID = {"meta", "br"}
ENGINE = "engine one"


class Reader(HTMLParser):
    """Reads a page: every element is closed, nothing is loaded from elsewhere, nothing runs."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not {name for name, _ in attrs} & {"src", "href", "onload", "onerror", "onclick"}
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.words)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    assert "script" not in reader.tags
    assert "url(" not in page
    return reader


def record(submission: int, score: float | None, **changes: Any) -> Record:
    base = Record(
        submission=submission, is_fine=True, score=score, of_activations=score, of_pairing=score, of_sampling=score,
        mean_mantissa=0.4, mean_mismatches=2.0, largest_mantissa=0.9,
        largest_mismatches=6, not_chosen_rate=0.001, mean_gap=1e-5, largest_gap=0.01, informative=300, chunks=16,
        pairing=None,
    )  # fmt: skip
    return replace(base, **changes)


@pytest.fixture
def samples(card: Card) -> CardSamples:
    honest = {f"{ENGINE}; fp32": [record(n, 0.01 * n) for n in range(8)], f"{ENGINE}; bf16": [record(0, 0.5)]}
    attacks = {"stale": [record(0, 12.0, is_fine=False, mean_mantissa=40.0, pairing=30.0), record(0, 9.0)]}
    return CardSamples(to_hex(card.hash()), honest, {f"{ENGINE}; fp32": [record(0, 0.2)]}, attacks)


def test_page_shows_the_card_and_its_samples(card: Card, samples: CardSamples) -> None:
    page = card_page(card, samples)
    text = read(page).text
    assert to_hex(card.hash()) in text
    assert f"{ENGINE}; bf16" in text
    assert "n = 2, 2 beyond" in text
    assert "published 38" in text
    assert "does not show" in text
    assert page.count('class="strip"') > 20
    assert 'role="img" aria-label="Honest: engine one; fp32: 9 values' in page


def test_page_without_samples_of_this_card_has_no_pictures(card: Card, samples: CardSamples) -> None:
    for other in (None, replace(samples, card="0x" + "00" * 32)):
        page = card_page(card, other)
        read(page)
        assert "do not lie beside this card" in page
        assert 'class="strip"' not in page


HOSTILE = "</style><script>alert(1)</script>\"'&"


@pytest.mark.parametrize(
    "measured",
    [
        {},
        {"checked": 7, "fitted": [1], "attacks": "none", "limits": None, "machine": 3, "versions": [], "command": 1.5},
        {"checked": {"levels": "abc", "kinds": {"a": 1}, "rejected": "x"}, "attacks": {"a": None}, "limits": {"b": 2}},
        {
            "attacks": {
                HOSTILE: {"n": 3, "detected": 9, "power": {"32": [1], "x": [1, 1], "9" * 5000: [2, 1], "64": "ab"}}
            }
        },
        {"attacks": {"a": {"n": 4, "detected": -1, "power": {"32": [4, 2]}, "by_published_limits": True}}},
        {
            "fitted": {"kinds": {HOSTILE: {"largest_score": HOSTILE}}},
            "command": HOSTILE,
            "versions": {HOSTILE: HOSTILE},
        },
        {"limits": {HOSTILE: {"seen": 1e300, "samples": 10**30, "estimate": -1.0, "upper": 1e-300}}},
    ],
)
def test_page_stands_whatever_the_card_says_of_itself(card: Card, measured: dict[str, Any]) -> None:
    odd = replace(card, measured=measured)
    page = card_page(
        odd, CardSamples(to_hex(odd.hash()), {HOSTILE: [record(0, None)]}, {}, {HOSTILE: [record(0, 2.0)]})
    )
    read(page)
    assert "<script" not in page


def test_power_has_its_interval(card: Card) -> None:
    attacks = {"one": {"n": 48, "detected": 47, "by_published_limits": 3, "power": {"64": [10, 3]}}}
    text = read(card_page(replace(card, measured={"attacks": attacks}))).text
    assert "47 of 48" in text
    assert "3 of 10" in text
    assert "0.07 – 0.65" in text  # Clopper and Pearson's own example
    assert "3 of 48" in text


def test_area_below_a_curve() -> None:
    assert curve("", [0.1, 0.2], [0.3, 0.4]).area == 1.0
    assert curve("", [0.3, 0.4], [0.1, 0.2]).area == 0.0
    assert curve("", [0.1, 0.2], [0.1, 0.2]).area == pytest.approx(0.5)
    # Of six pairs four are told, one is a tie.
    found = curve("", [0.1, 0.2, 0.5], [0.2, 0.9])
    assert found.area == pytest.approx(5.5 / 6 - 1 / 6)
    assert found.points[0] == (0.0, 0.0)
    assert found.points[-1] == (1.0, 1.0)
    with pytest.raises(ValueError, match="both"):
        curve("", [], [0.1])


def test_interval_of_an_area() -> None:
    low, high = area_interval(0.9, 50, 50)
    assert low < 0.9 < high < 1
    wide = area_interval(0.9, 10, 10)
    assert wide[0] < low
    assert wide[1] > high
    assert area_interval(1.0, 48, 500) == (pytest.approx(0.05 ** (1 / 48)), 1.0)
    assert area_interval(0.0, 48, 500) == (0.0, pytest.approx(1 - 0.05 ** (1 / 48)))


def test_interval_of_an_area_covers_the_true_one() -> None:
    """Two normal distributions a deviate apart: the area is Φ(1/√2) = 0.7602."""
    covered = 0
    for seed in range(200):
        generator = np.random.default_rng(seed)
        found = curve("", generator.standard_normal(60).tolist(), (generator.standard_normal(40) + 1).tolist())
        covered += found.low <= 0.7602 <= found.high
    assert covered >= 0.92 * 200


def test_submission_is_decided_by_the_milder_compute() -> None:
    records = {
        "a; fp32": [record(0, 3.0), record(1, 0.2), record(2, None)],
        "a; bf16": [record(0, 0.4), record(1, 0.9)],
        "b; fp32": [record(0, 5.0)],
    }
    assert sorted(decided(records)) == [0.2, 0.4, 5.0]


def measured(drift: float) -> Measured:
    tokens = 64
    replay = Replay(
        gap=np.where(np.arange(tokens) == 3, 0.02, 0.0),
        margin=np.ones(tokens),
        choice=np.zeros(tokens, dtype=np.int64),
        logprob=np.zeros(tokens),
        top_probability=np.full(tokens, 0.5),
    )
    chunks = (ChunkMeasure(0, 0, 32, ChunkDrift(4, drift, 0.0)), ChunkMeasure(0, 1, 32, ChunkDrift(1, 0.25, 0.0)))
    return Measured("fp32", chunks, (64,), replay, (Pairing("before", 0.5, 1.25, 8, 0.01),))


def test_samples_are_what_was_measured(card: Card, tmp_path: Path) -> None:
    fitted = [Sample("a; fp32", measured(0.75)), Sample("a; bf16", measured(0.5)), Sample("a; fp32", measured(0.25))]
    attacks = {"one": [[measured(0.5), measured(float("inf"))]]}
    made = CardSamples.of(to_hex(card.hash()), card.thresholds, fitted, fitted[:1], attacks)
    assert [own.submission for own in made.fitted["a; fp32"]] == [0, 1]
    first, lost = made.fitted["a; fp32"][0], made.attacks["one"][1]
    assert (first.mean_mantissa, first.largest_mantissa, first.mean_mismatches, first.largest_mismatches) == (
        0.5,
        0.75,
        2.5,
        4,
    )
    assert (first.not_chosen_rate, first.largest_gap, first.informative, first.chunks) == (1 / 64, 0.02, 64, 2)
    floor = card.thresholds.pairing.floor
    assert first.mean_gap == 0.0003125
    assert first.pairing == pytest.approx(0.5 / np.hypot(1.25, floor / 0.01), rel=1e-3)
    assert (lost.largest_mantissa, lost.submission, lost.is_fine) == (SCORE_MOST, 0, False)
    assert len(made.honest()["a; fp32"]) == 3
    assert set(made.scores()) == {"a; fp32", "a; bf16"}
    made.write(tmp_path / "samples.json")
    assert CardSamples.read(tmp_path / "samples.json") == made


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"format":"x","columns":[]}', b"\xff"])
def test_file_that_holds_no_samples_is_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "samples.json").write_bytes(data)
    with pytest.raises(Malformed):
        CardSamples.read(tmp_path / "samples.json")
    with pytest.raises(Malformed):
        CardSamples.read(tmp_path / "absent.json")
