"""A development chain as tests want it: accounts with money on demand, time and blocks by hand, a pool in a line."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_utils.crypto import keccak

from stannary.chain import Chain, PoolTerms, Sender
from stannary.chain import devnet as local
from stannary.structs import NodeConsent
from stannary.types import Address, Hash, PoolId, Role, parse_address

ETHER = 10**18
TOKENS = 10**18


@dataclass(slots=True)
class Devnet:
    """A chain of one test."""

    chain: Chain
    lock_folder: Path
    accounts: dict[str, LocalAccount] = field(default_factory=dict)

    def account(self, name: str, *, ether: float = 10, tokens: float = 10_000) -> LocalAccount:
        """Return the account of a name, with money since it was first asked for."""
        if name not in self.accounts:
            account: LocalAccount = Account.from_key(keccak(text=f"stannary test account {name}"))
            self.chain.rpc("anvil_setBalance", account.address, hex(int(ether * ETHER)))
            if tokens:
                local.fund(self.chain, self.address(account), 0, int(tokens * TOKENS))
            self.accounts[name] = account
        return self.accounts[name]

    def sender(self, name: str, *, lock_folder: Path | None = None, **money: float) -> Sender:
        """Return the sender of a name."""
        return Sender(self.chain, self.account(name, **money), lock_folder=lock_folder or self.lock_folder)

    @staticmethod
    def parse(text: str) -> Address:
        """Return an address as ours."""
        return parse_address(text.lower())

    @staticmethod
    def address(account: LocalAccount) -> Address:
        """Return an account's address as ours."""
        return parse_address(account.address)

    def mine(self, blocks: int = 1) -> None:
        """Mine blocks."""
        local.mine(self.chain, blocks)

    def advance(self, seconds: int) -> None:
        """Move chain time forward."""
        local.advance(self.chain, seconds)

    @contextmanager
    def mining_paused(self) -> Iterator[None]:
        """Mine only by hand inside the block, and what is left over at its end."""
        self.chain.rpc("evm_setAutomine", False)
        try:
            yield
        finally:
            self.chain.rpc("evm_setAutomine", True)
            self.mine()

    def wait_for_pending(self, address: Address, count: int) -> None:
        """Wait until the account has sent `count` transactions in all, mined or not."""
        deadline = time.monotonic() + 20
        while self.chain.transaction_count(address, is_pending=True) < count:
            assert time.monotonic() < deadline, f"{address} sent fewer than {count} transactions"
            time.sleep(0.01)

    def terms(self, **changes: object) -> PoolTerms:
        """Return terms of a small pool, with the coordinator and trainer of those names."""
        deployed = self.chain.deployment
        terms = small_terms(deployed.token, self.sender("coordinator").address, self.sender("trainer").address)
        return replace(terms, **changes)  # type: ignore[arg-type]

    def pool(self, *, funds: float = 5_000, **changes: object) -> PoolId:
        """Create and fund a pool owned by the account `owner`."""
        owner = self.sender("owner")
        pool = self.chain.pool_registry.create_pool(owner, self.terms(**changes))
        if funds:
            amount = int(funds * TOKENS)
            self.chain.token.require_allowance(owner, self.chain.deployment.payout_vault, amount)
            self.chain.payout_vault.fund(owner, pool, amount)
        return pool

    def stake(self, name: str, pool: int, role: Role, tokens: float = 1_000) -> Sender:
        """Deposit and allocate stake of the account of a name."""
        sender, amount = self.sender(name), int(tokens * TOKENS)
        self.chain.token.require_allowance(sender, self.chain.deployment.stake_manager, amount)
        self.chain.stake_manager.deposit(sender, amount)
        terms_hash = self.chain.pool_registry.terms_hash_of(pool)
        self.chain.stake_manager.allocate(sender, pool, role, amount, terms_hash)
        return sender

    def add_node(self, provider: str, node: str) -> LocalAccount:
        """Let the account `node` act for the account `provider`, with its consent."""
        sender, account = self.sender(provider), self.account(node, tokens=0)
        deadline = self.chain.frozen().timestamp + 3600
        consent = NodeConsent(self.address(account), sender.address, deadline)
        signature = consent.sign(account, self.chain.stake_domain)
        self.chain.stake_manager.add_node(sender, self.address(account), deadline, signature)
        return account


def small_terms(token: Address, coordinator: Address, trainer: Address) -> PoolTerms:
    """Return the terms of a small pool."""
    return PoolTerms(
        payout_token=token,
        coordinator=coordinator,
        trainer=trainer,
        price_per_group=2 * TOKENS,
        price_per_token=TOKENS // 100,
        panel_fee=TOKENS,
        min_worker_stake=100 * TOKENS,
        min_validator_stake=100 * TOKENS,
        group_size=4,
        max_completion_tokens=32,
        max_slots=64,
        max_lag=1,
        panel_size=3,
        quorum=2,
        beacon_delay_blocks=1,
        lease_seconds=60,
        collect_seconds=120,
        vote_seconds=60,
        challenge_seconds=30,
        unbonding_seconds=600,
        fault_slash_bps=1000,
        temperature_milli=1000,
        protocol_version=1,
        card_hash=Hash(keccak(text="card")),
        environment_hash=Hash(keccak(text="environment")),
    )
