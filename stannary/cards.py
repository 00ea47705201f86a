"""Calibration cards: how far honest numerics drift, and the limits that follow.

A card is one canonical document, named by its hash, and part of a pool's rules, so all validators of a pool judge by
the same numbers. This module owns the form; measuring belongs to the validator. It must not know of models, files or
the chain.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Self

from stannary.documents import canonical, document_hash, parse_document
from stannary.e_process import PARTS, EvidenceRules, Level
from stannary.errors import Malformed
from stannary.sampling import TEMPERATURE_MAX, TEMPERATURE_MIN
from stannary.toploc.proof import CHUNK_TOKENS
from stannary.types import Hash

CARD_FORMAT = "stannary.card.v2"
AUDIT_BPS_MAX = 10_000
MAX_BANDS = 32
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
class MeanDriftLimits:
    """Most that the chunks of a submission may differ on average, where it has at least `min_chunks` of them.

    Small drift everywhere shows in no single chunk. A mean over few chunks varies more, so it has more room.
    """

    min_chunks: int
    exponent_mismatches: float
    mantissa_mean: float


@dataclass(frozen=True, slots=True)
class SamplingLimits:
    """Most that a submission of at least `min_informative` informative tokens may stray from what its noise picks."""

    min_informative: int
    not_chosen_rate: float
    """Share of the informative tokens that are not the ones which the noise picks."""
    mean_gap: float
    """Capped gaps of all tokens, divided by the number of informative ones. Units: natural log."""


@dataclass(frozen=True, slots=True)
class PairingLimits:
    """How far the proved states may lie in the direction of another policy."""

    floor: float
    """What engines lie there by themselves. Units: relative difference of states, root of the mean square."""
    deviation: float
    """Most standard errors, the floor being part of the error."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Every limit of the statistical checks. Gaps are in units of perturbed logits (natural log)."""

    drift: tuple[DriftLimits, ...]
    """By rising `min_tokens`, the first for 1."""
    mean_drift: tuple[MeanDriftLimits, ...]
    """By rising `min_chunks`, the first for 1."""
    gap_bound: float
    """A claimed token that lies further than this below the best was not chosen by the policy: a fault."""
    gap_margin: float
    """A gap that an honest submission shows at few of its tokens."""
    beyond_margin: Allowance
    """How many tokens of a submission may lie beyond the margin."""
    gap_cap: float
    """What one gap counts at most in the mean."""
    sampling: tuple[SamplingLimits, ...]
    """By rising `min_informative`. A submission with fewer informative tokens than the first is too short to tell from:
    it passes what follows from means, and is no evidence."""
    pairing: PairingLimits
    ladder: tuple[Thresholds, ...] = ()
    """Tighter limits, the tightest first: honest submissions go beyond them more often. How far up a submission gets is
    its score; the card's evidence rules say how often an honest one does."""

    def drift_limits(self, tokens: int) -> DriftLimits:
        """Return the limits of a chunk of `tokens` tokens."""
        return next(limits for limits in reversed(self.drift) if limits.min_tokens <= tokens)

    def mean_drift_limits(self, chunks: int) -> MeanDriftLimits:
        """Return the limits of the means over `chunks` chunks."""
        return next(limits for limits in reversed(self.mean_drift) if limits.min_chunks <= chunks)

    def sampling_limits(self, informative: int) -> SamplingLimits | None:
        """Return the limits of a submission with so many informative tokens, None if they are too few to tell from."""
        return next((limits for limits in reversed(self.sampling) if limits.min_informative <= informative), None)


@dataclass(frozen=True, slots=True)
class Card:
    """A card: what it holds for, its limits, and the measurements behind them."""

    temperature_milli: int
    hidden_size: int
    vocabulary: int
    """Two sizes of the policy, so that a card of another policy is refused."""
    audit_bps: int
    """How many of 10,000 leaves get the checks that need a forward pass."""
    thresholds: Thresholds
    evidence: EvidenceRules
    """How the scores of a provider's submissions add up."""
    measured: Mapping[str, object]
    """Honest rates, detection, samples, versions and command: for people, decides nothing."""

    def document(self) -> dict[str, object]:
        """Return the document whose hash names the card."""
        rules = self.evidence
        return {
            "format": CARD_FORMAT,
            "temperature_milli": self.temperature_milli,
            "hidden_size": self.hidden_size,
            "vocabulary": self.vocabulary,
            "audit_bps": self.audit_bps,
            "thresholds": _written(self.thresholds),
            "evidence": {
                "levels": [
                    {"honest_at_most": level.honest_at_most, "limits": _written(limits)}
                    for level, limits in zip(rules.levels, self.thresholds.ladder, strict=True)
                ],
                "stop_log10": rules.stop_log10,
                "slash_log10": rules.slash_log10,
            },
            "measured": dict(self.measured),
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
        names = "format temperature_milli hidden_size vocabulary audit_bps thresholds evidence measured"
        _only(document, "card", names)
        if document["format"] != CARD_FORMAT:
            raise Malformed("card.format", expected=CARD_FORMAT, got=document["format"])
        least, most = _TEMPERATURES_MILLI
        rules, ladder = _evidence(_mapping(document["evidence"], "evidence"))
        card = cls(
            temperature_milli=_count(document, "temperature_milli", least=least, most=most),
            hidden_size=_count(document, "hidden_size", least=1),
            vocabulary=_count(document, "vocabulary", least=2),
            audit_bps=_count(document, "audit_bps", least=1, most=AUDIT_BPS_MAX),
            thresholds=replace(_thresholds(_mapping(document["thresholds"], "thresholds")), ladder=ladder),
            evidence=rules,
            measured=_mapping(document["measured"], "measured"),
        )
        _sane(card)
        if card.document() != document:
            raise Malformed("card", expected="numbers in their own type", got="a document that reads differently")
        return card

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read a card's canonical JSON. Raises: Malformed."""
        return cls.from_document(parse_document(data, "card"))


def _sane(card: Card) -> None:
    """Refuse what no measurement gives and what would slash for one submission. Raises: Malformed."""
    limits, rules = card.thresholds, card.evidence
    if not limits.gap_margin < limits.gap_bound:
        raise Malformed("gap_bound", expected=f"above the margin, {limits.gap_margin:g}", got=limits.gap_bound)
    alone = float(rules.log10(rules.count([(math.inf,) * len(PARTS)])))
    if not alone < rules.slash_log10:
        raise Malformed("slash_log10", expected=f"more than one submission reaches, {alone:.3g}", got=rules.slash_log10)
    for step, (tight, wide) in enumerate(pairwise(map(_numbers, [*limits.ladder, limits]))):
        if tight.keys() != wide.keys():
            raise Malformed(f"levels[{step}].limits", expected=f"bands {sorted(wide)}", got=sorted(tight))
        for name, low in tight.items():
            if low > wide[name]:
                raise Malformed(f"levels[{step}].limits.{name}", expected=f"at most {wide[name]:g}", got=low)


def _numbers(limits: Thresholds) -> dict[str, float]:
    """Return the limits that a ladder tightens, by name; bands by where they begin."""
    found = {"pairing.deviation": limits.pairing.deviation}
    for name, bands in (("drift", limits.drift), ("mean_drift", limits.mean_drift), ("sampling", limits.sampling)):
        for band in bands:
            (_, least), *numbers = asdict(band).items()
            found |= {f"{name} from {least}, {field}": value for field, value in numbers}
    return found


def _thresholds(found: Mapping[str, object]) -> Thresholds:
    _only(found, "thresholds", "drift mean_drift gap_bound gap_margin beyond_margin gap_cap sampling pairing")
    bands = _bands(found, "drift", CHUNK_TOKENS)
    drift = tuple(
        DriftLimits(
            _count(band, "min_tokens", least=1, most=CHUNK_TOKENS),
            _count(band, "exponent_mismatches", least=0),
            _amount(band, "mantissa_mean"),
            _amount(band, "mantissa_median"),
        )
        for band in bands
    )
    means = tuple(
        MeanDriftLimits(
            _count(band, "min_chunks", least=1), _amount(band, "exponent_mismatches"), _amount(band, "mantissa_mean")
        )
        for band in _bands(found, "mean_drift", MAX_BANDS)
    )
    sampling = tuple(
        SamplingLimits(
            _count(band, "min_informative", least=1), _amount(band, "not_chosen_rate"), _amount(band, "mean_gap")
        )
        for band in _bands(found, "sampling", MAX_BANDS)
    )
    _rising("drift", [band.min_tokens for band in drift], first=1)
    _rising("mean_drift", [band.min_chunks for band in means], first=1)
    _rising("sampling", [band.min_informative for band in sampling], first=None)
    return Thresholds(
        drift=drift,
        mean_drift=means,
        gap_bound=_amount(found, "gap_bound"),
        gap_margin=_amount(found, "gap_margin"),
        beyond_margin=_allowance(_mapping(found["beyond_margin"], "beyond_margin")),
        gap_cap=_amount(found, "gap_cap"),
        sampling=sampling,
        pairing=_pairing(_mapping(found["pairing"], "pairing")),
    )


def _written(limits: Thresholds) -> dict[str, object]:
    written = asdict(limits)
    del written["ladder"]
    return {
        name: [dict(band) for band in value] if isinstance(value, tuple) else value for name, value in written.items()
    }


def evidence_rules(honest_at_most: Sequence[float], stop_log10: float, slash_log10: float) -> EvidenceRules:
    """Return the rules of a ladder: its steps divide the scores below a rejection evenly. Raises: Malformed."""
    steps = len(honest_at_most) + 1
    levels = tuple(Level((step + 1) / steps, share) for step, share in enumerate(honest_at_most))
    return EvidenceRules(levels, stop_log10, slash_log10)


def _evidence(found: Mapping[str, object]) -> tuple[EvidenceRules, tuple[Thresholds, ...]]:
    _only(found, "evidence", "levels stop_log10 slash_log10")
    levels = _bands(found, "levels", MAX_BANDS)
    shares = [_amount(level, "honest_at_most") for level in levels]
    rules = evidence_rules(shares, _amount(found, "stop_log10"), _amount(found, "slash_log10"))
    return rules, tuple(_thresholds(_mapping(level["limits"], "limits")) for level in levels)


_FIELDS = {
    "drift": "min_tokens exponent_mismatches mantissa_mean mantissa_median",
    "mean_drift": "min_chunks exponent_mismatches mantissa_mean",
    "sampling": "min_informative not_chosen_rate mean_gap",
    "levels": "honest_at_most limits",
}


def _bands(found: Mapping[str, object], field: str, most: int) -> list[Mapping[str, object]]:
    bands = found[field]
    if not isinstance(bands, Sequence) or isinstance(bands, str) or not 1 <= len(bands) <= most:
        raise Malformed(field, expected=f"a list of 1 … {most}", got=bands)
    read = [_mapping(band, field) for band in bands]
    for band in read:
        _only(band, field, _FIELDS[field])
    return read


def _rising(field: str, starts: Sequence[int], first: int | None) -> None:
    if list(starts) != sorted(set(starts)) or (first is not None and starts[0] != first):
        raise Malformed(field, expected="rising" if first is None else f"rising from {first}", got=list(starts))


def _allowance(found: Mapping[str, object]) -> Allowance:
    _only(found, "allowance", "base each")
    return Allowance(_amount(found, "base"), _amount(found, "each"))


def _pairing(found: Mapping[str, object]) -> PairingLimits:
    _only(found, "pairing", "floor deviation")
    return PairingLimits(_amount(found, "floor"), _amount(found, "deviation"))


def _only(found: Mapping[str, object], field: str, names: str) -> None:
    if set(found) != set(names.split()):
        raise Malformed(field, expected=names, got=sorted(found))


def _mapping(found: object, field: str) -> Mapping[str, object]:
    if not isinstance(found, Mapping):
        raise Malformed(field, expected="an object", got=found)
    return found


def _count(found: Mapping[str, object], field: str, *, least: int, most: int = 1 << 32) -> int:
    value = found[field]
    if type(value) is not int or not least <= value <= most:
        raise Malformed(field, expected=f"a whole number, {least} … {most}", got=value)
    return value


def _amount(found: Mapping[str, object], field: str) -> float:
    value = found[field]
    if type(value) is not float or not (math.isfinite(value) and value >= 0):
        raise Malformed(field, expected="a number with a decimal point, not negative", got=value)
    return value
