"""PayoutVault: the pools' money, what is reserved of it, and what providers have earned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stannary.chain.connection import Block, Mined
from stannary.chain.contract import Contract
from stannary.chain.names import PAYOUT_VAULT
from stannary.chain.sender import Sender
from stannary.types import Address, Wei


@dataclass(frozen=True, slots=True)
class Escrow:
    """A pool's money. Units: wei of the payout token."""

    free: Wei
    reserved: Wei
    locked: Wei
    """Of slots that ended unpaid: pays later accepted work only."""


@dataclass(frozen=True, slots=True)
class Owed:
    """Money of a pool that is no longer its owner's. Units: wei of the payout token."""

    bonded: Wei
    unclaimed: Wei


@dataclass(frozen=True, slots=True)
class Earnings:
    """What a provider has earned in a pool. Units: wei of the payout token."""

    earned: Wei
    claimed: Wei

    @property
    def unclaimed(self) -> Wei:
        """What the next claim pays."""
        return Wei(self.earned - self.claimed)


class PayoutVault(Contract):
    """The vault of all pools' money."""

    NAME = PAYOUT_VAULT

    def escrow_of(self, pool: int, at: Block | None = None) -> Escrow:
        """Return a pool's money."""
        free, reserved, locked = self.read("escrowOf", pool, at=at)
        return Escrow(Wei(free), Wei(reserved), Wei(locked))

    def owed_of(self, pool: int, at: Block | None = None) -> Owed:
        """Return bonds, and what providers may claim."""
        bonded, unclaimed = self.read("owedOf", pool, at=at)
        return Owed(Wei(bonded), Wei(unclaimed))

    def earnings_of(self, pool: int, provider: Address, at: Block | None = None) -> Earnings:
        """Return what a provider has earned in a pool, as worker, validator, juror or sealer."""
        earned, claimed = self.read("earningsOf", pool, provider, at=at)
        return Earnings(Wei(earned), Wei(claimed))

    def reservation_of(self, pool: int, step: int, at: Block | None = None) -> Wei:
        """Return what is left of a step's reservation."""
        return Wei(self.read("reservationOf", pool, step, at=at))

    def token_liability_of(self, token: Address, at: Block | None = None) -> Wei:
        """Return what all pools together hold of a token."""
        return Wei(self.read("tokenLiabilityOf", token, at=at))

    def fund(self, sender: Sender, pool: int, amount: int) -> Mined:
        """Put approved tokens into a pool; anyone may."""
        return sender.send(self.encode("fund", pool, amount))

    def drain(self, sender: Sender, pool: int, amount: int, to: Address) -> Mined:
        """Take free money out of a pool; only its owner. Burns what is locked in a closed one."""
        return sender.send(self.encode("drain", pool, amount, to))

    def claim(self, sender: Sender, pool: int, provider: Address) -> Mined:
        """Pay a provider's payee all that it has earned in a pool and not claimed; anyone may send it."""
        return sender.send(self.encode("claim", pool, provider))

    def claim_many(self, sender: Sender, pool: int, providers: Sequence[Address]) -> Mined:
        """Pay several providers' payees at once; who has nothing to claim is passed over; anyone may send it."""
        return sender.send(self.encode("claimMany", pool, list(providers)))
