"""Cards: one spelling, one hash, and no senseless limit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from eth_utils.crypto import keccak

from stannary.cards import Allowance, Card
from stannary.documents import canonical
from stannary.errors import Malformed

CARDS = sorted((Path(__file__).parents[2] / "validator" / "cards").glob("*.json"))


@pytest.mark.parametrize("path", CARDS, ids=lambda path: path.stem)
def test_committed_card_reads_and_writes_itself(path: Path) -> None:
    data = path.read_bytes()
    card = Card.parse(data)
    assert card.to_bytes() == data
    assert card.hash() == keccak(data)
    limits = card.thresholds
    assert limits.gap_margin < limits.gap_bound
    for half, least in (("fitted", 40), ("checked", 15)):
        honest: Any = card.measured[half]
        assert honest["rejected"] == 0
        assert honest["submissions"] >= least


@pytest.mark.parametrize("path", CARDS, ids=lambda path: path.stem)
def test_drift_limits_are_those_of_the_band(path: Path) -> None:
    limits = Card.parse(path.read_bytes()).thresholds
    assert limits.drift_limits(1) == limits.drift[0]
    assert limits.drift_limits(32) == limits.drift[-1]
    assert all(limits.drift_limits(band.min_tokens) == band for band in limits.drift)


@pytest.mark.parametrize("path", CARDS, ids=lambda path: path.stem)
def test_means_over_more_have_less_room_and_few_tokens_tell_nothing(path: Path) -> None:
    limits = Card.parse(path.read_bytes()).thresholds
    assert limits.mean_drift_limits(1) == limits.mean_drift[0]
    assert limits.mean_drift_limits(10_000) == limits.mean_drift[-1]
    assert limits.mean_drift[-1].mantissa_mean < limits.mean_drift[0].mantissa_mean
    assert limits.sampling_limits(limits.sampling[0].min_informative - 1) is None
    assert limits.sampling_limits(10_000) == limits.sampling[-1]
    assert limits.sampling[-1].mean_gap < limits.sampling[0].mean_gap


def test_allowance_is_a_base_and_a_share() -> None:
    assert Allowance(2.0, 0.5).of(10) == 7.0


def _drop(document: dict[str, Any]) -> None:
    del document["thresholds"]["gap_cap"]


def _add(document: dict[str, Any]) -> None:
    document["thresholds"]["gap_capp"] = 1.0


def _negative(document: dict[str, Any]) -> None:
    document["thresholds"]["gap_bound"] = -1.0


def _whole(document: dict[str, Any]) -> None:
    document["thresholds"]["gap_bound"] = 1


def _text(document: dict[str, Any]) -> None:
    document["thresholds"]["beyond_margin"] = "much"


def _no_band(document: dict[str, Any]) -> None:
    document["thresholds"]["drift"] = []


def _band_not_from_one(document: dict[str, Any]) -> None:
    document["thresholds"]["drift"][0]["min_tokens"] = 2


def _sampling_that_falls(document: dict[str, Any]) -> None:
    document["thresholds"]["sampling"].reverse()


def _too_many_bands(document: dict[str, Any]) -> None:
    document["thresholds"]["mean_drift"] *= 40


def _levels_that_fall(document: dict[str, Any]) -> None:
    document["evidence"]["levels"].reverse()


def _stop_after_the_slash(document: dict[str, Any]) -> None:
    document["evidence"]["stop_log10"] = document["evidence"]["slash_log10"] + 1.0


def _audit_of_nothing(document: dict[str, Any]) -> None:
    document["audit_bps"] = 0


def _audit_of_more_than_all(document: dict[str, Any]) -> None:
    document["audit_bps"] = 10_001


def _other_format(document: dict[str, Any]) -> None:
    document["format"] = "stannary.card.v1"


def _true(document: dict[str, Any]) -> None:
    document["hidden_size"] = True


def _temperature_of_one(document: dict[str, Any]) -> None:
    document["temperature_milli"] = True


@pytest.mark.parametrize(
    "spoil",
    [
        _drop,
        _add,
        _negative,
        _whole,
        _text,
        _no_band,
        _band_not_from_one,
        _sampling_that_falls,
        _too_many_bands,
        _levels_that_fall,
        _stop_after_the_slash,
        _audit_of_nothing,
        _audit_of_more_than_all,
        _other_format,
        _true,
        _temperature_of_one,
    ],
)
def test_card_with_a_senseless_field_is_refused(spoil: Callable[[dict[str, Any]], None]) -> None:
    document = json.loads(CARDS[0].read_bytes())
    spoil(document)
    with pytest.raises(Malformed):
        Card.parse(canonical(document))


@pytest.mark.parametrize("temperature_milli", [-1, 0, 1, 299, 1501, 1 << 70])
def test_temperature_outside_what_the_protocol_samples_at_is_refused(temperature_milli: int) -> None:
    document = json.loads(CARDS[0].read_bytes()) | {"temperature_milli": temperature_milli}
    with pytest.raises(Malformed, match="temperature_milli: expected a whole number, 300 … 1500"):
        Card.parse(canonical(document))


@pytest.mark.parametrize("temperature_milli", [300, 1000, 1500])
def test_temperature_at_the_ends_of_the_range_is_taken(temperature_milli: int) -> None:
    document = json.loads(CARDS[0].read_bytes()) | {"temperature_milli": temperature_milli}
    assert Card.parse(canonical(document)).temperature_milli == temperature_milli


def _bound_below_the_margin(document: dict[str, Any]) -> None:
    document["thresholds"]["gap_bound"] = document["thresholds"]["gap_margin"]


def _slash_for_one(document: dict[str, Any]) -> None:
    document["evidence"] |= {"stop_log10": 0.05, "slash_log10": 0.1}


def _ladder_upside_down(document: dict[str, Any]) -> None:
    levels = document["evidence"]["levels"]
    levels[0]["limits"], levels[-1]["limits"] = levels[-1]["limits"], levels[0]["limits"]


def _ladder_of_other_bands(document: dict[str, Any]) -> None:
    del document["evidence"]["levels"][0]["limits"]["sampling"][-1]


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_bound_below_the_margin, "gap_bound: expected above the margin"),
        (_slash_for_one, "slash_log10: expected more than one submission reaches"),
        (_ladder_upside_down, "limits.*: expected at most"),
        (_ladder_of_other_bands, "levels.0..limits: expected bands"),
    ],
)
def test_card_that_slashes_for_next_to_nothing_is_refused(spoil: Callable[[dict[str, Any]], None], why: str) -> None:
    """A pool's owner writes its card, and whoever stakes under it takes it as it is."""
    document = json.loads(CARDS[0].read_bytes())
    spoil(document)
    with pytest.raises(Malformed, match=why):
        Card.parse(canonical(document))
