"""Calibration cards: how far honest numerics drift, and the limits that follow.

A card is one canonical document, named by its hash, and part of a pool's rules, so all validators of a pool judge by
the same numbers. This module owns the form; measuring belongs to the validator. It must not know of models, files or
the chain.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from stannary.documents import canonical, document_hash, parse_document
from stannary.errors import Malformed
from stannary.sampling import TEMPERATURE_MAX, TEMPERATURE_MIN
from stannary.toploc.proof import CHUNK_TOKENS
from stannary.types import Hash

CARD_FORMAT = "stannary.card.v1"
_TEMPERATURES_MILLI = round(1000 * TEMPERATURE_MIN), round(1000 * TEMPERATURE_MAX)


@dataclass(frozen=True, slots=True)
class DriftLimits:
    """Most that one chunk of at least `min_tokens` tokens may differ from the validator's own states.

    Short chunks have their own limits: fewer values to choose from means smaller magnitudes among the 128, and those
    differ more.
    """

    min_tokens: int
    exponent_mismatches: int
    mantissa_mean: float
    mantissa_median: float


@dataclass(frozen=True, slots=True)
class Allowance:
    """What so many tokens or chunks of a submission may add up to: a base for rare events, and a share for each."""

    base: float
    each: float

    def of(self, count: int) -> float:
        """Return the limit of a submission of `count` tokens or chunks."""
        return self.base + self.each * count


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Every limit of the statistical checks. Gaps are in units of perturbed logits (natural log)."""

    drift: tuple[DriftLimits, ...]
    """By rising `min_tokens`, the first for 1."""
    mantissa_sum: Allowance
    """What the mantissa means of a submission's chunks may add up to: small drift everywhere is no single outlier."""
    gap_bound: float
    """A claimed token that lies further than this below the best was not chosen by the policy: a fault."""
    gap_margin: float
    """Tokens further than this below the best are counted."""
    beyond_margin: Allowance
    """How many such tokens a submission may hold."""
    gap_cap: float
    """Each gap counts at most this much in the sum."""
    capped_sum: Allowance
    """How large the sum of capped gaps of a submission may be."""

    def drift_limits(self, tokens: int) -> DriftLimits:
        """Return the limits of a chunk of `tokens` tokens."""
        return next(limits for limits in reversed(self.drift) if limits.min_tokens <= tokens)


@dataclass(frozen=True, slots=True)
class Card:
    """A card: what it holds for, its limits, and the measurements behind them."""

    temperature_milli: int
    hidden_size: int
    vocabulary: int
    """Two sizes of the policy, so that a card of another policy is refused."""
    thresholds: Thresholds
    evidence: Mapping[str, object]
    """Measured maxima, sample sizes, detection, versions and command: for people, decides nothing."""

    def document(self) -> dict[str, object]:
        """Return the document whose hash names the card."""
        limits = self.thresholds
        return {
            "format": CARD_FORMAT,
            "temperature_milli": self.temperature_milli,
            "hidden_size": self.hidden_size,
            "vocabulary": self.vocabulary,
            "thresholds": {
                "drift": [
                    {
                        "min_tokens": band.min_tokens,
                        "exponent_mismatches": band.exponent_mismatches,
                        "mantissa_mean": band.mantissa_mean,
                        "mantissa_median": band.mantissa_median,
                    }
                    for band in limits.drift
                ],
                "mantissa_sum": {"base": limits.mantissa_sum.base, "each": limits.mantissa_sum.each},
                "gap_bound": limits.gap_bound,
                "gap_margin": limits.gap_margin,
                "beyond_margin": {"base": limits.beyond_margin.base, "each": limits.beyond_margin.each},
                "gap_cap": limits.gap_cap,
                "capped_sum": {"base": limits.capped_sum.base, "each": limits.capped_sum.each},
            },
            "evidence": dict(self.evidence),
        }

    def to_bytes(self) -> bytes:
        """Return the canonical JSON."""
        return canonical(self.document())

    def hash(self) -> Hash:
        """Return the card's name on chain."""
        return document_hash(self.document())

    @classmethod
    def from_document(cls, document: Mapping[str, object]) -> Self:
        """Read a card. Raises: Malformed for a missing, unknown or senseless field."""
        _only(document, "card", "format temperature_milli hidden_size vocabulary thresholds evidence")
        if document["format"] != CARD_FORMAT:
            raise Malformed("card.format", expected=CARD_FORMAT, got=document["format"])
        card = cls(
            temperature_milli=_temperature(document),
            hidden_size=_count(document, "hidden_size", least=1),
            vocabulary=_count(document, "vocabulary", least=2),
            thresholds=_thresholds(_mapping(document["thresholds"], "thresholds")),
            evidence=_mapping(document["evidence"], "evidence"),
        )
        if card.document() != document:
            raise Malformed("card", expected="numbers in their own type", got="a document that reads differently")
        return card

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read a card's canonical JSON. Raises: Malformed."""
        return cls.from_document(parse_document(data, "card"))


def _thresholds(found: Mapping[str, object]) -> Thresholds:
    _only(found, "thresholds", "drift mantissa_sum gap_bound gap_margin beyond_margin gap_cap capped_sum")
    bands = found["drift"]
    if not isinstance(bands, Sequence) or isinstance(bands, str) or not 1 <= len(bands) <= CHUNK_TOKENS:
        raise Malformed("thresholds.drift", expected="a list of bands", got=bands)
    drift = tuple(_drift(_mapping(band, "drift")) for band in bands)
    starts = [band.min_tokens for band in drift]
    if starts[0] != 1 or starts != sorted(set(starts)) or starts[-1] > CHUNK_TOKENS:
        raise Malformed("thresholds.drift", expected=f"rising from 1 to at most {CHUNK_TOKENS}", got=starts)
    return Thresholds(
        drift=drift,
        mantissa_sum=_allowance(_mapping(found["mantissa_sum"], "mantissa_sum")),
        gap_bound=_amount(found, "gap_bound"),
        gap_margin=_amount(found, "gap_margin"),
        beyond_margin=_allowance(_mapping(found["beyond_margin"], "beyond_margin")),
        gap_cap=_amount(found, "gap_cap"),
        capped_sum=_allowance(_mapping(found["capped_sum"], "capped_sum")),
    )


def _drift(found: Mapping[str, object]) -> DriftLimits:
    _only(found, "drift", "min_tokens exponent_mismatches mantissa_mean mantissa_median")
    return DriftLimits(
        _count(found, "min_tokens", least=1),
        _count(found, "exponent_mismatches", least=0),
        _amount(found, "mantissa_mean"),
        _amount(found, "mantissa_median"),
    )


def _allowance(found: Mapping[str, object]) -> Allowance:
    _only(found, "allowance", "base each")
    return Allowance(_amount(found, "base"), _amount(found, "each"))


def _only(found: Mapping[str, object], field: str, names: str) -> None:
    if set(found) != set(names.split()):
        raise Malformed(field, expected=names, got=sorted(found))


def _mapping(found: object, field: str) -> Mapping[str, object]:
    if not isinstance(found, Mapping):
        raise Malformed(field, expected="an object", got=found)
    return found


def _count(found: Mapping[str, object], field: str, *, least: int) -> int:
    value = found[field]
    if type(value) is not int or value < least:
        raise Malformed(field, expected=f"a whole number, at least {least}", got=value)
    return value


def _temperature(found: Mapping[str, object]) -> int:
    least, most = _TEMPERATURES_MILLI
    value = found["temperature_milli"]
    if type(value) is not int or not least <= value <= most:
        raise Malformed("temperature_milli", expected=f"a whole number, {least} … {most}", got=value)
    return value


def _amount(found: Mapping[str, object], field: str) -> float:
    value = found[field]
    if type(value) is not float or not (math.isfinite(value) and value >= 0):
        raise Malformed(field, expected="a number with a decimal point, not negative", got=value)
    return value
