"""Builds a validator's parts from its settings, cheapest checks first: what an operator must do is said early."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from eth_account.signers.local import LocalAccount

from stannary.admission import admit, require_coordinator
from stannary.cards import Card
from stannary.chain import Block, Chain, Mined, PoolTerms, Sender, StepState, Vote
from stannary.client import CoordinatorClient
from stannary.environments import Environment, load_environment
from stannary.types import Address, Hash, Role, parse_address
from stannary.waiting import until_answered
from validator.checks import Rules
from validator.loop import Parts
from validator.prefill import Prefill
from validator.settings import Settings
from validator.votes import Ballot, BallotBox
from validator.weights import Policies

log = logging.getLogger(__name__)

VOTE_GAS = 400_000
"""Gas that the node's account must be able to pay: a vote with room."""
T = TypeVar("T")


class ChainLedger:
    """The chain as the loop sees it: one pool, one validator."""

    def __init__(self, chain: Chain, pool: int, provider: Address, sender: Sender) -> None:
        self._chain = chain
        self._pool = pool
        self._provider = provider
        self._sender = sender

    def frozen(self) -> Block:
        """Return the newest block."""
        return self._chain.frozen()

    def step_count(self, at: Block) -> int:
        """Return how many steps were opened."""
        return self._chain.submission_ledger.step_count_of(self._pool, at)

    def step(self, step: int, at: Block) -> StepState:
        """Return where a step stands."""
        return self._chain.submission_ledger.step_of(self._pool, step, at)

    def panel(self, step: int, at: Block) -> list[Address]:
        """Return the panel of a step."""
        return self._chain.submission_ledger.panel_of(self._pool, step, at)

    def own_vote(self, step: int, at: Block) -> Vote:
        """Return this validator's vote on a step."""
        return self._chain.submission_ledger.vote_of(self._pool, step, self._provider, at)

    def policy_root(self, policy_step: int, at: Block) -> Hash:
        """Return the root of a policy step."""
        return self._chain.submission_ledger.policy_root_of(self._pool, policy_step, at)

    def provider_of(self, node: Address, at: Block) -> Address:
        """Return whom a node acts for."""
        return self._chain.stake_manager.provider_of(node, at)

    def vote(self, step: int, ballot: Ballot) -> Mined:
        """Vote on chain."""
        return self._chain.submission_ledger.vote(
            self._sender, self._pool, step, ballot.outcomes, ballot.verdict_root, ballot.evidence_root
        )


def rules_of(terms: PoolTerms, chain: Chain, pool: int) -> Rules:
    """Return what the checks need of a pool's terms."""
    return Rules(
        domain=chain.ledger_domain,
        pool=pool,
        coordinator=parse_address(terms.coordinator),
        group_size=terms.group_size,
        max_completion_tokens=terms.max_completion_tokens,
        collect_seconds=terms.collect_seconds,
        temperature_milli=terms.temperature_milli,
        protocol_version=terms.protocol_version,
        card_hash=terms.card_hash,
    )


def assemble(settings: Settings, account: LocalAccount, stop: threading.Event) -> Parts:
    """Return the parts of a validator that may vote.

    A chain or coordinator that is away is waited for. Raises: OperatorError, ChainError, PeerError, StopRequested.
    """
    node = parse_address(str(account.address))

    def patiently(act: Callable[[], T]) -> T:
        return until_answered(act, log, stop)

    chain = patiently(lambda: Chain.open(settings.rpc_url, settings.deployment))
    admission = patiently(lambda: admit(chain, settings.pool, node, Role.VALIDATOR, chain.frozen()))
    terms = admission.terms
    sender = Sender(chain, account)
    patiently(lambda: sender.require_fees(VOTE_GAS))
    log.info(
        "%s validates for %s in pool %d: %.6f stake tokens allocated",
        node,
        admission.provider,
        settings.pool,
        admission.stake_wei / 1e18,
    )
    client = CoordinatorClient(settings.coordinator_url, chain.ledger_domain, parse_address(terms.coordinator), account)
    require_coordinator(patiently(client.health), chain, settings.pool, terms)
    card = Card.from_document(patiently(lambda: client.document(terms.card_hash)))
    environment = patiently(lambda: client.document(terms.environment_hash))

    def open_environment(folder: Path) -> Environment:
        return load_environment(environment, folder)

    def open_policy(folder: Path) -> Prefill:
        return Prefill(folder, settings.dtype, settings.device)

    place = chain.deployment.place_of(settings.pool)
    return Parts(
        rules=rules_of(terms, chain, settings.pool),
        vote_seconds=terms.vote_seconds,
        provider=admission.provider,
        account=account,
        card=card,
        ledger=ChainLedger(chain, settings.pool, admission.provider, sender),
        coordinator=client,
        weights=Policies(
            settings.run_dir / "policies" / place, [*settings.relay_urls, settings.coordinator_url], open_policy
        ),
        open_environment=open_environment,
        compute=f"transformers {settings.dtype} on {settings.device}",
        box=BallotBox(settings.run_dir / "votes" / place),
    )
