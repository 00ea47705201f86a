"""What a watcher may put down as bonds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Budget:
    """What may be put down as bonds, and what was. Units: wei of the payout token."""

    cap: int
    spent: int = 0

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
