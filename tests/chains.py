"""A development chain as tests want it: accounts with money on demand, time and blocks by hand, a pool in a line."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_utils.crypto import keccak

from stannary.chain import Chain, PoolTerms, Sender, StepHistory
from stannary.chain import devnet as local
from stannary.commitments import vote_commitment
from stannary.slots import PayTable, submission_root
from stannary.structs import NodeConsent, Submission
from stannary.types import Address, Hash, Outcome, PoolId, Role, parse_address
from stannary.verdict import pack_outcomes

ETHER = 10**18
TOKENS = 10**18
NOBODY = Address("0x" + "0" * 40)
ROOT = Hash(b"\x11" * 32)
"""Stands for any root that nothing checks."""


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
                faucet = Sender(self.chain, local.faucet_account(), lock_folder=self.lock_folder)
                self.chain.token.mint(faucet, self.address(account), int(tokens * TOKENS))
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

    def name_of(self, address: Address) -> str:
        """Return the name of an account that was asked for."""
        return next(name for name, account in self.accounts.items() if self.address(account) == address)

    def judges(self, pool: int, count: int = 4) -> list[Sender]:
        """Stake validators `judge-0` …: enough for a panel and a jury of `small_terms`."""
        return [self.stake(f"judge-{number}", pool, Role.VALIDATOR) for number in range(count)]

    def open_step(self, pool: int, step: int = 0, *, slots: int = 4, policy_step: int = 0) -> None:
        """Publish a policy unless it is there, open a step and seal its seed beacon."""
        ledger, trainer = self.chain.submission_ledger, self.sender("trainer")
        while ledger.policy_count_of(pool) <= policy_step:
            ledger.publish_policy(trainer, pool, ledger.policy_count_of(pool), ROOT, ROOT)
        ledger.open_step(trainer, pool, step, policy_step, slots)
        self.mine(2)
        ledger.seal_seed_beacon(trainer, pool, step)

    def commit(self, pool: int, leaves: Sequence[Submission], step: int = 0) -> None:
        """Commit leaves as the root of a step, and its pay table."""
        ledger = self.chain.submission_ledger
        slots = ledger.step_of(pool, step).slots
        max_units = self.chain.pool_registry.terms_of(pool).max_units
        root, table = submission_root(leaves, slots), PayTable.of(leaves, slots, max_units)
        ledger.commit_root(self.sender("coordinator"), pool, step, root, ROOT, table)

    def draw(self, pool: int, step: int = 0) -> list[str]:
        """Seal the audit beacon and return the names of the panel, seat by seat."""
        panel = self.chain.voting_panel
        while not panel.panel_of(pool, step):  # where slots can be taken, the first call draws the block
            self.mine(2)
            panel.seal_audit_beacon(self.sender("trainer"), pool, step)
        return [self.name_of(member) for member in panel.panel_of(pool, step)]

    def vote(self, pool: int, votes: Mapping[str, Sequence[Outcome]], step: int = 0, *, salt: Hash = ROOT) -> None:
        """Commit and reveal votes of panel members by name; waits for the reveals if not all members vote."""
        panel, packed = self.chain.voting_panel, {name: pack_outcomes(vote) for name, vote in votes.items()}
        for name, outcomes in packed.items():
            member = self.sender(name)
            ballot = (pool, step, member.address, outcomes, ROOT, ROOT, salt)
            panel.commit_vote(member, pool, step, vote_commitment(self.chain.panel_domain, *ballot))
        self.wait_until(pool, panel.panel_times_of(pool, step).reveal_from)
        for name, outcomes in packed.items():
            member = self.sender(name)
            panel.reveal_vote(self.sender("trainer"), pool, step, member.address, outcomes, ROOT, ROOT, salt)

    def finalize(self, pool: int, step: int = 0) -> StepHistory:
        """Let the challenge time pass, finalize a step and return its history."""
        panel = self.chain.voting_panel
        challenge_seconds = self.chain.pool_registry.terms_of(pool).challenge_seconds
        self.wait_until(pool, panel.panel_times_of(pool, step).reveal_until + challenge_seconds)
        history = self.chain.step_history(pool, step)
        panel.finalize(self.sender("trainer"), pool, step, history.votes_by_seat(), history.pay_table)
        return self.chain.step_history(pool, step)

    def wait_until(self, pool: int, pool_time: int) -> None:
        """Let the pool's clock reach a time."""
        missing = pool_time - self.chain.pool_registry.clock_of(pool, self.chain.frozen())
        if missing > 0:
            self.advance(missing)

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
        pauser=NOBODY,
        unpauser=NOBODY,
        coordinator=coordinator,
        trainer=trainer,
        price_per_group=2 * TOKENS,
        price_per_token=TOKENS // 100,
        card_hash=Hash(keccak(text="card")),
        panel_fee=TOKENS,
        juror_fee=TOKENS // 2,
        seal_fee=TOKENS // 10,
        lease_bond=TOKENS,
        min_worker_stake=100 * TOKENS,
        pay_cap_bps=10_000,
        max_open_steps=4,
        group_size=4,
        max_completion_tokens=32,
        max_slots=64,
        reserved_slots=0,
        max_lag=1,
        temperature_milli=1000,
        protocol_version=1,
        min_validator_stake=100 * TOKENS,
        panel_size=3,
        quorum=2,
        jury_size=1,
        max_absences=3,
        beacon_delay_blocks=1,
        lease_seconds=60,
        collect_seconds=120,
        take_seconds=0,
        vote_seconds=60,
        reveal_seconds=30,
        challenge_seconds=30,
        unbonding_seconds=600,
        notice_seconds=60,
        fault_slash_bps=1000,
        statistics_slash_bps=2000,
        silence_slash_bps=100,
        wrong_vote_slash_bps=300,
        plant_slash_bps=500,
        max_slash_bps=5000,
        slash_window_seconds=600,
        reward_bps=2000,
        environment_hash=Hash(keccak(text="environment")),
    )
