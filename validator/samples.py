"""What a calibration measured, one record a submission and compute: for a card's page, and for simulations.

One JSON file beside a card. It decides nothing. It must not know how anything was measured.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Self

from stannary.cards import Thresholds
from stannary.e_process import Scores
from stannary.errors import Malformed
from stannary.sampling import summarise
from stannary.standing import scores_of
from validator import statistics
from validator.fit import SCORE_MOST, Sample
from validator.judgement import decide
from validator.statistics import Measured

SAMPLES_FORMAT = "stannary.card-samples.v2"
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Record:
    """The numbers of one submission under one compute."""

    submission: int
    """The same for all computes of one submission, within its class or attack."""
    is_fine: bool
    score: float | None
    """The highest of the three that follow; None for a submission that is too short to tell from."""
    of_activations: float | None
    of_pairing: float | None
    of_sampling: float | None
    """Scores by part of the checks."""
    mean_mantissa: float
    mean_mismatches: float
    largest_mantissa: float
    largest_mismatches: int
    """Of all chunks: means, and those of the worst chunk."""
    not_chosen_rate: float
    mean_gap: float
    largest_gap: float
    informative: int
    chunks: int
    pairing: float | None
    """Standard errors in the direction of the policy step before; None where there is none, or it is not held against
    a limit."""

    @classmethod
    def of(cls, measured: Measured, thresholds: Thresholds, submission: int) -> Self:
        """Return the numbers of what was measured; one that is not finite counts as far beyond every limit."""
        finding = statistics.judge(measured, thresholds)
        sampled = summarise(measured.replay, margin=thresholds.gap_margin, cap=thresholds.gap_cap)
        drifts = [chunk.drift for chunk in measured.chunks]
        means = [drift.mantissa_mean for drift in drifts]
        pairings = measured.pairings if measured.is_exact else ()
        deviations = [pairing.deviation(thresholds.pairing.floor) for pairing in pairings]
        mismatches = [drift.exponent_mismatches for drift in drifts]
        return cls(
            submission=submission,
            is_fine=finding.is_fine,
            score=None,
            of_activations=None,
            of_pairing=None,
            of_sampling=None,
            mean_mantissa=_short(sum(means) / len(means)),
            mean_mismatches=_short(sum(mismatches) / len(mismatches)),
            largest_mantissa=_short(max(means)),
            largest_mismatches=max(mismatches),
            not_chosen_rate=_short(sampled.not_chosen_rate),
            mean_gap=_short(sampled.mean_gap),
            largest_gap=_short(sampled.largest),
            informative=sampled.informative,
            chunks=len(drifts),
            pairing=_short(max(deviations)) if deviations else None,
        ).scored(scores_of(finding.measures))

    def scored(self, scores: Scores | None) -> Self:
        """Return the record with other scores."""
        if scores is None:
            return replace(self, score=None, of_activations=None, of_pairing=None, of_sampling=None)
        activations, pairing, sampling = map(_short, scores)
        return replace(
            self,
            score=max(activations, pairing, sampling),
            of_activations=activations,
            of_pairing=pairing,
            of_sampling=sampling,
        )


@dataclass(frozen=True, slots=True)
class CardSamples:
    """All records of a calibration."""

    card: str
    """Hash of the card that they are held against, in hexadecimal."""
    fitted: Mapping[str, Sequence[Record]]
    checked: Mapping[str, Sequence[Record]]
    """By class: those that set the limits, and those that were only held against them."""
    attacks: Mapping[str, Sequence[Record]]
    """By name."""

    @classmethod
    def of(
        cls,
        card: str,
        thresholds: Thresholds,
        fitted: Iterable[Sample],
        checked: Iterable[Sample],
        attacks: Mapping[str, Sequence[Sequence[Measured]]],
    ) -> Self:
        """Return the records of honest samples, and of attacks: for each submission, what each compute measured.

        The scores of an attack are what all computes decide together.
        """
        return cls(
            card=card,
            fitted=_honest(fitted, thresholds),
            checked=_honest(checked, thresholds),
            attacks={
                name: [
                    Record.of(measured, thresholds, number).scored(scores_of(decide(each, thresholds).measures))
                    for number, each in enumerate(found)
                    for measured in each
                ]
                for name, found in attacks.items()
            },
        )

    def honest(self) -> dict[str, list[Record]]:
        """Return the honest records of both halves by class."""
        return {kind: [*self.fitted.get(kind, ()), *self.checked.get(kind, ())] for kind in self.kinds()}

    def kinds(self) -> list[str]:
        """Return the classes, in the order in which they were measured."""
        return list(dict.fromkeys([*self.fitted, *self.checked]))

    def scores(self) -> dict[str, list[list[float | None]]]:
        """Return the honest scores by class, of each part: what a simulation of evidence draws from."""
        return {
            kind: [
                [record.of_activations, record.of_pairing, record.of_sampling]
                for record in records
                if record.score is not None
            ]
            for kind, records in self.honest().items()
        }

    def write(self, path: Path) -> None:
        """Write the file: for each class, a table of the columns in the order of `columns`."""
        names = [field.name for field in fields(Record)]
        body = {
            "format": SAMPLES_FORMAT,
            "card": self.card,
            "columns": names,
            **{
                part: {
                    kind: [[asdict(record)[name] for name in names] for record in records]
                    for kind, records in found.items()
                }
                for part, found in (("fitted", self.fitted), ("checked", self.checked), ("attacks", self.attacks))
            },
        }
        path.write_text(json.dumps(body, separators=(",", ":")) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the file. Raises: Malformed."""
        names = [field.name for field in fields(Record)]
        try:
            body = json.loads(path.read_text(encoding="utf-8"))
            if (body["format"], body["columns"]) != (SAMPLES_FORMAT, names):
                raise Malformed(str(path), expected=SAMPLES_FORMAT, got=body["format"])
            parts = {
                part: {
                    kind: [Record(**dict(zip(names, row, strict=True))) for row in rows]
                    for kind, rows in body[part].items()
                }
                for part in ("fitted", "checked", "attacks")
            }
            return cls(card=body["card"], **parts)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise Malformed(str(path), expected="samples of a card", got=str(error)) from error


def _honest(samples: Iterable[Sample], thresholds: Thresholds) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for sample in samples:
        own = found.setdefault(sample.kind, [])
        own.append(Record.of(sample.measured, thresholds, len(own)))
    return found


def _short(value: float) -> float:
    """Round to a few digits: the file is for pictures."""
    return float(f"{min(value, SCORE_MOST):.{_DIGITS}g}") if math.isfinite(value) else SCORE_MOST
