"""What a check found: an outcome, a reason, and the numbers behind it. It must not know what any check looks at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stannary.evidence import Measure
from stannary.types import Outcome, Reason


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found: accept if nothing is wrong, abstain if it cannot be decided."""

    outcome: Outcome = Outcome.ACCEPT
    reason: Reason = Reason.NONE
    explanation: str = ""
    measures: Mapping[str, Measure] = field(default_factory=dict)

    @property
    def is_fine(self) -> bool:
        """Whether the check has nothing against the leaf."""
        return self.outcome is Outcome.ACCEPT


FINE = Finding()


def reject(reason: Reason, explanation: str, measures: Mapping[str, Measure] | None = None) -> Finding:
    """Return the finding of a leaf that is not paid."""
    return Finding(Outcome.REJECT, reason, explanation, measures or {})


def fault(reason: Reason, explanation: str, measures: Mapping[str, Measure] | None = None) -> Finding:
    """Return the finding of a leaf that is not paid and slashed."""
    return Finding(Outcome.FAULT, reason, explanation, measures or {})


def unavailable(explanation: str) -> Finding:
    """Return the finding of a leaf that this validator cannot decide."""
    return Finding(Outcome.ABSTAIN, Reason.UNAVAILABLE, explanation)


def worse(*findings: Finding) -> Finding:
    """Return the finding that decides: the gravest one, the first of equals; measures of all are kept."""
    chosen = max(findings, key=lambda finding: finding.outcome)
    measures = {name: measure for finding in findings for name, measure in finding.measures.items()}
    return Finding(chosen.outcome, chosen.reason, chosen.explanation, measures)
