"""The ERC-20 token of stakes and payouts, as `MockToken` has it: anyone may mint on a development chain."""

from __future__ import annotations

from stannary.chain.connection import Block, Mined
from stannary.chain.contract import Contract
from stannary.chain.names import TOKEN
from stannary.chain.sender import Sender
from stannary.errors import FundsError
from stannary.types import Address, Wei


class Token(Contract):
    """An ERC-20 token."""

    NAME = TOKEN

    def balance_of(self, holder: Address, at: Block | None = None) -> Wei:
        """Return a holder's tokens."""
        return Wei(self.read("balanceOf", holder, at=at))

    def allowance(self, holder: Address, spender: Address, at: Block | None = None) -> Wei:
        """Return what a spender may still take from a holder."""
        return Wei(self.read("allowance", holder, spender, at=at))

    def total_supply(self, at: Block | None = None) -> Wei:
        """Return all tokens there are."""
        return Wei(self.read("totalSupply", at=at))

    def approve(self, sender: Sender, spender: Address, amount: int) -> Mined:
        """Let a spender take up to `amount` from the sender."""
        return sender.send(self.encode("approve", spender, amount))

    def transfer(self, sender: Sender, to: Address, amount: int) -> Mined:
        """Send tokens."""
        return sender.send(self.encode("transfer", to, amount))

    def mint(self, sender: Sender, to: Address, amount: int) -> Mined:
        """Make tokens out of nothing; only `MockToken` can."""
        return sender.send(self.encode("mint", to, amount))

    def require_funds(self, holder: Address, amount: int) -> None:
        """Check that a holder has the tokens. Raises: FundsError."""
        present = self.balance_of(holder)
        if present < amount:
            raise FundsError("tokens", holder, needed_wei=amount, present_wei=present)

    def require_allowance(self, sender: Sender, spender: Address, amount: int) -> None:
        """Approve exactly what is missing for a spender to take `amount`."""
        if self.allowance(sender.address, spender) < amount:
            self.approve(sender, spender, amount)
