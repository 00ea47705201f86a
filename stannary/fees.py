"""What a sender may pay for a transaction, and when it offers more. Pure."""

from __future__ import annotations

from dataclasses import dataclass

GWEI = 10**9
LEAST_BUMP_PERMILLE = 125
"""Nodes refuse to replace a waiting transaction for less."""


@dataclass(frozen=True, slots=True)
class Price:
    """What one unit of gas may cost. Units: wei."""

    fee: int
    """Base fee and tip together, at most."""
    tip: int


@dataclass(frozen=True, slots=True)
class FeeRules:
    """How a transaction that stays out of blocks is sent again for more."""

    bump_after_s: float = 30.0
    bump_permille: int = LEAST_BUMP_PERMILLE
    max_bumps: int = 8
    max_fee_wei: int = 500 * GWEI
    """For one unit of gas, at most, whatever the chain asks for."""

    def first(self, asked: Price) -> Price | None:
        """Return what to offer at first, None if the cap does not pay for the next block.

        `asked.fee` is twice the base fee and the tip, so that the base fee may rise meanwhile.
        """
        if _base(asked) >= self.max_fee_wei:
            return None
        return Price(min(asked.fee, self.max_fee_wei), min(asked.tip, self.max_fee_wei - _base(asked)))

    def bumped(self, offered: Price, asked: Price) -> Price | None:
        """Return what to offer next: enough more for a node to replace, or what is asked now; None at the cap."""
        least = Price(self._raised(offered.fee), self._raised(offered.tip))
        if least.fee > self.max_fee_wei or _base(asked) >= self.max_fee_wei:
            return None
        fee = min(max(asked.fee, least.fee), self.max_fee_wei)
        return Price(fee, min(max(asked.tip, least.tip), fee))

    def _raised(self, wei: int) -> int:
        return -(-wei * (1000 + max(self.bump_permille, LEAST_BUMP_PERMILLE)) // 1000) + (wei == 0)


def _base(asked: Price) -> int:
    return (asked.fee - asked.tip) // 2
