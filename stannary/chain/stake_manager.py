"""StakeManager: who has staked what, where, through which nodes, and what is leaving."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stannary.chain.connection import Block, Mined
from stannary.chain.contract import Contract
from stannary.chain.names import STAKE_MANAGER
from stannary.chain.sender import Sender
from stannary.types import Address, Hash, PoolId, Role, Wei


@dataclass(frozen=True, slots=True)
class Position:
    """A provider's stake in one pool and role."""

    tokens: Wei
    shares: int
    exiting_shares: int


@dataclass(frozen=True, slots=True)
class Exit:
    """Shares on their way out; slashable until finished."""

    provider: Address
    pool: PoolId
    role: Role
    release_at: int
    """On the pool's clock, fixed when the exit started."""
    epoch: int
    """Of the position; one that is slashed to nothing starts a new epoch."""
    barrier: int
    """Steps of the pool that were open then: all must settle first."""
    shares: int
    start_block: int
    """A step that was opened in it had this stake at work."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How a position stands."""

    suspended_until: int
    """On the pool's clock; 0 if it is not suspended."""
    slashed_bps: int
    """Of it, in the current window."""
    absences: int
    """Seats in a row without a revealed vote."""
    holds: int
    """Open disputes about it; no exit finishes meanwhile."""


class StakeManager(Contract):
    """The stake contract."""

    NAME = STAKE_MANAGER

    def idle_of(self, provider: Address, at: Block | None = None) -> Wei:
        """Return stake that is in no pool."""
        return Wei(self.read("idleOf", provider, at=at))

    def position_of(self, pool: int, role: Role, provider: Address, at: Block | None = None) -> Position:
        """Return a position, what is exiting included."""
        tokens, shares, exiting = self.read("positionOf", pool, int(role), provider, at=at)
        return Position(Wei(tokens), shares, exiting)

    def active_stake_of(self, pool: int, role: Role, provider: Address, at: Block | None = None) -> Wei:
        """Return the tokens that count: not leaving; 0 for a suspended position or one below the pool's minimum."""
        return Wei(self.read("activeStakeOf", pool, int(role), provider, at=at))

    def active_stake_at(
        self, pool: int, role: Role, provider: Address, block_number: int, at: Block | None = None
    ) -> Wei:
        """Return the active stake as it was at the end of a past block."""
        return Wei(self.read("activeStakeAt", pool, int(role), provider, block_number, at=at))

    def active_stakes_at(
        self, pool: int, role: Role, providers: Sequence[Address], block_number: int, at: Block | None = None
    ) -> list[Wei]:
        """Return the active stakes of several providers at the end of a past block, in their order."""
        found = self.read("activeStakesAt", pool, int(role), list(providers), block_number, at=at)
        return [Wei(stake) for stake in found]

    def standing_of(self, pool: int, role: Role, provider: Address, at: Block | None = None) -> Standing:
        """Return how a position stands."""
        return Standing(*self.read("standingOf", pool, int(role), provider, at=at))

    def eligible_validators_of(self, pool: int, at: Block | None = None) -> int:
        """Return how many validators of a pool have stake that counts: a panel and a jury must be drawn from them."""
        return int(self.read("eligibleValidatorsOf", pool, at=at))

    def validators_of(self, pool: int, at: Block | None = None) -> list[Address]:
        """Return a pool's validators in the order of their first allocation: the order of the panel draw."""
        return [Address(found) for found in self.read("validatorsOf", pool, at=at)]

    def provider_of(self, account: Address, at: Block | None = None) -> Address:
        """Return whom an account acts for: a node's or a controller's provider, itself with stake, else zero."""
        return Address(self.read("providerOf", account, at=at))

    def controller_of(self, provider: Address, at: Block | None = None) -> Address:
        """Return the key that controls a provider: its own until control was handed on."""
        return Address(self.read("controllerOf", provider, at=at))

    def payee_of(self, pool: int, provider: Address, at: Block | None = None) -> Address:
        """Return where payouts of a provider in a pool go: to itself until it named another."""
        return Address(self.read("payeeOf", pool, provider, at=at))

    def is_slashed(self, offence: Hash, at: Block | None = None) -> bool:
        """Say whether an offence was punished."""
        return bool(self.read("isSlashed", offence, at=at))

    def consent_digest(self, node: Address, provider: Address, deadline: int, at: Block | None = None) -> Hash:
        """Return the contract's own digest of a node's consent."""
        return Hash(bytes(self.read("consentDigest", node, provider, deadline, at=at)))

    def burnable(self, at: Block | None = None) -> Wei:
        """Return slashed stake that waits to be burned."""
        return Wei(self.read("burnable", at=at))

    def exit_of(self, exit_id: int, at: Block | None = None) -> Exit | None:
        """Return a pending exit, None if there is none of that number or it is finished."""
        provider, pool, role, *rest = self.read("exitOf", exit_id, at=at)
        found = Exit(Address(provider), PoolId(pool), Role(role), *rest)
        return found if found.shares else None

    def exit_count(self, at: Block | None = None) -> int:
        """Return how many exits were started; they are numbered from 1."""
        return int(self.read("exitCount", at=at))

    def validator_stakes_at(self, pool: int, block_number: int, at: Block | None = None) -> list[tuple[Address, Wei]]:
        """Return a pool's validators, in the order of the panel draw, with their active stake at a past block."""
        addresses, stakes = self.read("validatorStakesAt", pool, block_number, at=at)
        return [(Address(address), Wei(stake)) for address, stake in zip(addresses, stakes, strict=True)]

    def barred_of(
        self,
        pool: int,
        block_number: int,
        lists: Sequence[Sequence[Address]],
        parties: Sequence[Address],
        at: Block | None = None,
    ) -> int:
        """Return who of the validators of a past block, a bit a place, is barred.

        Those are who is in a list, a party, paid to the purse of one, or without stake by now.
        """
        groups = [list(group) for group in lists]
        return int(self.read("barredOf", pool, block_number, groups, list(parties), at=at))

    def draw_validators(
        self, pool: int, block_number: int, beacon: Hash, size: int, barred: int = 0, at: Block | None = None
    ) -> list[Address]:
        """Return the validators that a beacon draws by stake, none of those barred."""
        found = self.read("drawValidators", pool, block_number, beacon, size, barred, at=at)
        return [Address(address) for address in found]

    def stake_token(self, at: Block | None = None) -> Address:
        """Return the token of all stakes."""
        return Address(self.read("stakeToken", at=at))

    def total_held(self, at: Block | None = None) -> Wei:
        """Return what the contract holds: all idle stake, all positions, and slashed stake that is not burned yet."""
        return Wei(self.read("totalHeld", at=at))

    def deposit(self, sender: Sender, amount: int) -> Mined:
        """Stake tokens that were approved."""
        return sender.send(self.encode("deposit", amount))

    def withdraw(self, sender: Sender, amount: int) -> Mined:
        """Take idle stake home."""
        return sender.send(self.encode("withdraw", amount))

    def allocate(self, sender: Sender, pool: int, role: Role, amount: int, terms_hash: Hash) -> Mined:
        """Put idle stake into a pool under exactly these terms."""
        return sender.send(self.encode("allocate", pool, int(role), amount, terms_hash))

    def start_exit(self, sender: Sender, pool: int, role: Role, shares: int) -> int:
        """Begin to take shares out of a pool and return the exit's id."""
        mined = sender.send(self.encode("startExit", pool, int(role), shares))
        return int(self.emitted(mined, "ExitStarted", "exitId"))

    def finish_exit(self, sender: Sender, exit_id: int) -> Mined:
        """Turn an exit whose time has come into idle stake."""
        return sender.send(self.encode("finishExit", exit_id))

    def add_node(self, sender: Sender, node: Address, deadline: int, signature: bytes) -> Mined:
        """Let a node that has signed its consent act for the sender."""
        return sender.send(self.encode("addNode", node, deadline, signature))

    def remove_node(self, sender: Sender, node: Address) -> Mined:
        """End a node's right to act for the sender."""
        return sender.send(self.encode("removeNode", node))

    def offer_controller(self, sender: Sender, to: Address) -> Mined:
        """Offer control of the sender's provider to another key; the zero address takes the offer back."""
        return sender.send(self.encode("offerController", to))

    def accept_controller(self, sender: Sender, provider: Address) -> Mined:
        """Take control of a provider that was offered to the sender."""
        return sender.send(self.encode("acceptController", provider))

    def set_payee(self, sender: Sender, pool: int, payee: Address) -> Mined:
        """Name the account that payouts of the sender's provider in a pool go to."""
        return sender.send(self.encode("setPayee", pool, payee))

    def reinstate(self, sender: Sender, pool: int, role: Role, provider: Address) -> Mined:
        """End a suspension whose time is over; anyone may."""
        return sender.send(self.encode("reinstate", pool, int(role), provider))

    def burn_slashed(self, sender: Sender) -> Mined:
        """Send slashed stake that was not rewarded to the sink; anyone may."""
        return sender.send(self.encode("burnSlashed"))
