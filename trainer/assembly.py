"""Builds a trainer from its settings, cheapest checks first: chain, pool, coordinator, documents, then the policy."""

from __future__ import annotations

import logging
import threading

from eth_account.signers.local import LocalAccount

from stannary.admission import require_coordinator
from stannary.chain import Chain, PoolTerms, Sender
from stannary.client import CoordinatorClient
from stannary.environments import load_environment
from stannary.errors import SettingsError
from stannary.types import parse_address
from stannary.waiting import StopRequested, until_answered
from trainer.loop import Run, Trainer
from trainer.metrics import Metrics
from trainer.plan import Goal
from trainer.policy import Policy, Recipe
from trainer.settings import Settings

_log = logging.getLogger(__name__)


def assemble(settings: Settings, account: LocalAccount, stop: threading.Event) -> Trainer | None:
    """Return a trainer that may work in its pool, None if `stop` was set while a peer was away.

    Raises: OperatorError naming what has to be put right; PeerError; ChainError.
    """
    try:
        return until_answered(lambda: _assemble(settings, account), _log, stop)
    except StopRequested:
        return None


def _assemble(settings: Settings, account: LocalAccount) -> Trainer:
    chain = Chain.open(settings.rpc_url, settings.deployment)
    terms = chain.terms_in_force(settings.pool)
    _require_fit(settings, terms, account)
    client = CoordinatorClient(settings.coordinator_url, chain.ledger_domain, terms.coordinator, account)
    require_coordinator(client.health(), chain, settings.pool, terms)
    environment = load_environment(client.document(terms.environment_hash), settings.base)
    temperature = terms.temperature_milli / 1000
    policy = Policy(
        settings.base,
        Recipe(
            learning_rate=settings.learning_rate,
            betas=(settings.beta1, settings.beta2),
            weight_decay=settings.weight_decay,
            max_grad_norm=settings.max_grad_norm,
            temperature=temperature,
            optimizer_steps=settings.optimizer_steps,
            micro_batch_tokens=settings.micro_batch_tokens,
        ),
    )
    Metrics(settings.run_dir / "metrics.jsonl").write(
        "run",
        pool=settings.pool,
        steps=settings.steps,
        slots=settings.slots,
        lag=settings.lag,
        learning_rate=settings.learning_rate,
        optimizer_steps=settings.optimizer_steps,
        group_size=terms.group_size,
        temperature=temperature,
    )
    return Trainer(
        Run(
            pool=settings.pool,
            terms=terms,
            goal=Goal(settings.steps, settings.lag, terms.quorum),
            slots=settings.slots,
            heldout=settings.heldout,
            poll_s=settings.poll_s,
            file_wait_s=settings.file_wait_s,
        ),
        chain,
        Sender(chain, account, fee_rules=settings.fee_rules),
        client,
        environment,
        policy,
        settings.run_dir,
    )


def _require_fit(settings: Settings, terms: PoolTerms, account: LocalAccount) -> None:
    """Refuse settings that the pool's rules do not allow. Raises: SettingsError."""
    if parse_address(str(account.address)) != terms.trainer:
        raise SettingsError(f"pool {settings.pool} is trained by {terms.trainer}, the keystore is of {account.address}")
    if settings.lag > terms.max_lag:
        raise SettingsError(f"setting lag is {settings.lag}, the pool allows at most {terms.max_lag}")
    if settings.slots > terms.max_slots:
        raise SettingsError(f"setting slots is {settings.slots}, the pool allows at most {terms.max_slots}")
