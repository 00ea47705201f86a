"""What a watcher may put down as bonds at a time; a bond that came back may be put down again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from stannary.chain import Case
from stannary.errors import ChainError, FeeAboveCap, NetworkError, Reverted, StannaryError, Unavailable
from stannary.types import CaseKind, CasePhase, Ruling

RETRY_S = 5.0
"""After so long a dispute that could not be sent is tried again."""
SETTLING_S = 60.0
"""So long at most is waited for a dispute that may have been sent, before it is sent again."""


@dataclass(slots=True)
class Budget:
    """What may be put down as bonds, and what was. Units: wei of the payout token."""

    cap: int
    spent: int = 0
    """Bonds of open cases, and what was lost."""
    held: dict[int, int] = field(default_factory=dict)
    """The bond of each open case."""

    @property
    def left(self) -> int:
        """What may still be put down."""
        return self.cap - self.spent

    def take(self, bond: int) -> bool:
        """Say whether one more bond is within the cap, and count it if so."""
        if bond > self.left:
            return False
        self.spent += bond
        return True

    def give_back(self, bond: int) -> None:
        """Count a bond no more, as it was not put down after all."""
        self.spent -= bond

    def hold(self, case_id: int, bond: int) -> None:
        """Note what case a bond that was taken went into."""
        self.held[case_id] = bond

    def settle(self, case_of: Callable[[int], Case | None]) -> None:
        """Give back the bonds that came back with their cases. Raises: what looking at a case does."""
        for case_id in list(self.held):
            case = case_of(case_id)
            if case is not None and case.phase is CasePhase.RESOLVED:
                bond = self.held.pop(case_id)
                if comes_back(case):
                    self.give_back(bond)


def comes_back(case: Case) -> bool:
    """Say whether the bond of who opened a resolved case came back."""
    if case.kind is CaseKind.STATISTICS:
        return case.ruling is Ruling.FAULT
    lost = (Ruling.ACCEPT,) if case.kind is CaseKind.CHALLENGE else (Ruling.REJECT, Ruling.FAULT)
    return case.ruling not in (*lost, Ruling.UNAVAILABLE)


def may_be_sent(error: StannaryError) -> bool:
    """Say whether a dispute that ended so may be on its way into a block all the same: its bond still counts."""
    is_before = isinstance(error, (Reverted, FeeAboveCap, Unavailable))
    return isinstance(error, (NetworkError, ChainError)) and not is_before


def again_s(error: StannaryError, window_s: float) -> float:
    """Return how long to wait before a dispute that failed so is tried again in a window of that length."""
    return min(SETTLING_S if may_be_sent(error) else RETRY_S, window_s / 4)
