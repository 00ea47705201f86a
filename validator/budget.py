"""What a watcher may put down as bonds at a time; a bond that came back may be put down again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from stannary.chain import Case
from stannary.types import CaseKind, CasePhase, Ruling


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
