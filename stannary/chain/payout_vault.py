"""PayoutVault: the pools' money, what is reserved of it, and who takes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stannary.chain.connection import Block, Mined
from stannary.chain.contract import Contract
from stannary.chain.names import PAYOUT_VAULT
from stannary.chain.sender import Sender
from stannary.chain.submission_ledger import LeafOpening
from stannary.types import Address, Wei


@dataclass(frozen=True, slots=True)
class Escrow:
    """A pool's money. Units: wei of the payout token."""

    free: Wei
    reserved: Wei
    locked: Wei
    """Of slots that ended rejected or undecided: pays later accepted work only."""


class PayoutVault(Contract):
    """The vault of all pools' money."""

    NAME = PAYOUT_VAULT

    def escrow_of(self, pool: int, at: Block | None = None) -> Escrow:
        """Return a pool's money."""
        free, reserved, locked = self.read("escrowOf", pool, at=at)
        return Escrow(Wei(free), Wei(reserved), Wei(locked))

    def token_liability_of(self, token: Address, at: Block | None = None) -> Wei:
        """Return what all pools together hold of a token."""
        return Wei(self.read("tokenLiabilityOf", token, at=at))

    def is_slot_paid(self, pool: int, step: int, slot: int, at: Block | None = None) -> bool:
        """Say whether a slot was paid."""
        return bool(self.read("isSlotPaid", pool, step, slot, at=at))

    def is_fee_paid(self, pool: int, step: int, provider: Address, at: Block | None = None) -> bool:
        """Say whether a panel member was paid for a step."""
        return bool(self.read("isFeePaid", pool, step, provider, at=at))

    def reservation_of(self, pool: int, step: int, at: Block | None = None) -> Wei:
        """Return what is left of a step's reservation."""
        return Wei(self.read("reservationOf", pool, step, at=at))

    def fund(self, sender: Sender, pool: int, amount: int) -> Mined:
        """Put approved tokens into a pool; anyone may."""
        return sender.send(self.encode("fund", pool, amount))

    def drain(self, sender: Sender, pool: int, amount: int, to: Address) -> Mined:
        """Take free money out of a pool; only its owner."""
        return sender.send(self.encode("drain", pool, amount, to))

    def claim(self, sender: Sender, pool: int, step: int, openings: Sequence[LeafOpening]) -> Mined:
        """Pay the providers of accepted leaves; anyone may send it."""
        return sender.send(self.encode("claim", pool, step, [opening.as_struct() for opening in openings]))

    def claim_fee(self, sender: Sender, pool: int, step: int, provider: Address) -> Mined:
        """Pay a panel member that voted."""
        return sender.send(self.encode("claimFee", pool, step, provider))

    def forfeit(self, sender: Sender, pool: int, step: int, opening: LeafOpening) -> Mined:
        """Lock the money of an accepted leaf that can never be paid."""
        return sender.send(self.encode("forfeit", pool, step, opening.as_struct()))
