"""PayoutVault: the pools' money, what is reserved of it, and what providers have earned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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

    def bonded_of(self, pool: int, at: Block | None = None) -> Wei:
        """Return the bonds in a pool, of open disputes, taken slots and plants."""
        return Wei(self.read("bondedOf", pool, at=at))

    def received_of(self, pool: int, at: Block | None = None) -> Wei:
        """Return all that ever came into a pool and was not drained or burned."""
        return Wei(self.read("receivedOf", pool, at=at))

    def earnings_of(self, pool: int, provider: Address, at: Block | None = None) -> Earnings:
        """Return what a provider has earned in a pool, as worker, validator, juror or sealer."""
        earned, claimed = self.read("earningsOf", pool, provider, at=at)
        return Earnings(Wei(earned), Wei(claimed))

    def reservation_of(self, pool: int, step: int, at: Block | None = None) -> Wei:
        """Return what is left of a step's reservation."""
        return Wei(self.read("reservationOf", pool, step, at=at))

    def money_of(self, pool: int, accounts: Iterable[Address], at: Block | None = None) -> Wei:
        """Return all that is kept in a pool, if no other accounts than these have something to claim there."""
        escrow = self.escrow_of(pool, at)
        unclaimed = sum(self.earnings_of(pool, account, at).unclaimed for account in set(accounts))
        return Wei(escrow.free + escrow.reserved + escrow.locked + self.bonded_of(pool, at) + unclaimed)

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
