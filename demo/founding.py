"""Founds the demo's pool: contracts, money, terms, stakes, nodes. After it the roles need nothing from the demo."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from demo import plan as numbers
from demo.plan import Plan
from demo.wallets import Wallet, Wallets
from stannary.chain import Chain, Connection, Sender, deploy
from stannary.documents import canonical, document_hash
from stannary.structs import NodeConsent
from stannary.types import PoolId, Role

CONSENT_S = 24 * 3600
THREADS = 8


@dataclass(frozen=True, slots=True)
class Founded:
    """The pool and the files that roles are told of."""

    chain: Chain
    pool: PoolId
    deployment: Path
    documents: tuple[Path, ...]
    """Card and environment, as canonical JSON."""


def found(
    rpc_url: str,
    folder: Path,
    plan: Plan,
    wallets: Wallets,
    card: Mapping[str, object],
    environment: Mapping[str, object],
) -> Founded:
    """Deploy, create and fund the pool, stake for every party and let its node act.

    The chain must mine a block for each transaction: the accounts act at once, each waiting for its own.
    """
    connection = Connection(rpc_url)
    for wallet in wallets.by_name.values():
        connection.rpc("anvil_setBalance", wallet.address, hex(numbers.FEES_WEI))
    owner = wallets["owner"]
    deployment = deploy(connection, owner.account)
    deployment_file = folder / "deployment.json"
    deployment.write(deployment_file)
    chain = Chain(rpc_url, deployment)

    terms = plan.terms(
        deployment.token,
        wallets["coordinator"].address,
        wallets["trainer"].address,
        document_hash(card),
        document_hash(environment),
    )
    sender = Sender(chain, owner.account)
    pool = chain.pool_registry.create_pool(sender, terms)
    budget = plan.steps * terms.step_price(plan.slots)
    chain.token.mint(sender, sender.address, budget)
    chain.token.require_allowance(sender, deployment.payout_vault, budget)
    chain.payout_vault.fund(sender, pool, budget)
    _endow(chain, pool, wallets[numbers.ACCUSER])

    with ThreadPoolExecutor(THREADS) as threads:
        joins = [
            threads.submit(_join, chain, pool, wallets, party, role)
            for role, parties in ((Role.VALIDATOR, numbers.VALIDATORS), (Role.WORKER, plan.workers))
            for party in parties
        ]
        for join in joins:
            join.result()

    documents = (folder / "card.json", folder / "environment.json")
    for path, document in zip(documents, (card, environment), strict=True):
        path.write_bytes(canonical(document))
    return Founded(chain, pool, deployment_file, documents)


def _endow(chain: Chain, pool: PoolId, accuser: Wallet) -> None:
    """Give the accuser what one dispute costs, and let the vault take it."""
    sender, bond = Sender(chain, accuser.account), chain.dispute_court.bond_of(pool)
    chain.token.mint(sender, sender.address, bond)
    chain.token.require_allowance(sender, chain.deployment.payout_vault, bond)


def _join(chain: Chain, pool: PoolId, wallets: Wallets, party: str, role: Role) -> None:
    provider, node = wallets.cold(party), wallets.hot(party)
    sender = Sender(chain, provider.account)
    amount = numbers.STAKE_WEI
    chain.token.mint(sender, sender.address, amount)
    chain.token.require_allowance(sender, chain.deployment.stake_manager, amount)
    chain.stake_manager.deposit(sender, amount)
    chain.stake_manager.allocate(sender, pool, role, amount, chain.pool_registry.terms_hash_of(pool))
    deadline = chain.frozen().timestamp + CONSENT_S
    consent = NodeConsent(node.address, provider.address, deadline)
    signature = consent.sign(node.account, chain.stake_domain)
    chain.stake_manager.add_node(sender, node.address, deadline, signature)
