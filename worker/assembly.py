"""Builds a worker's parts from its settings, cheapest checks first: chain, stake and fees, coordinator, documents.

The engine comes last, so that whatever an operator has to put right is said before weights are loaded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from eth_account.signers.local import LocalAccount

from stannary.admission import require_coordinator
from stannary.chain import Chain
from stannary.client import CoordinatorClient
from stannary.environments import Environment, load_environment
from stannary.provider_record import PublicSources, Reader
from stannary.shardcast import PolicyFolders
from stannary.types import parse_address
from stannary.waiting import StopRequested, until_answered
from worker.admission import admit, read_step
from worker.engines import open_engine
from worker.loop import Interruption, Parts, Stopped
from worker.settings import Settings

log = logging.getLogger(__name__)

T = TypeVar("T")


def assemble(settings: Settings, account: LocalAccount, interruption: Interruption) -> Parts:
    """Return the parts of a worker that may work, with an engine that holds nothing yet.

    A chain or coordinator that is away is waited for. Raises: OperatorError, ChainError, PeerError, Stopped.
    """
    node = parse_address(str(account.address))

    def interruptibly(act: Callable[[], T]) -> T:
        with interruption.allowed():
            return act()

    def patiently(act: Callable[[], T]) -> T:
        try:
            return until_answered(lambda: interruptibly(act), log, interruption.requested)
        except StopRequested:
            raise Stopped("while starting") from None

    chain = patiently(lambda: Chain.open(settings.rpc_url, settings.deployment))
    admission = patiently(lambda: admit(chain, settings.pool, node))
    rules = admission.rules
    log.info(
        "%s works for %s in pool %d: %.6f stake tokens allocated, %.6f ether for fees",
        node,
        rules.provider,
        rules.pool,
        admission.stake_wei / 1e18,
        admission.fees_wei / 1e18,
    )
    client = CoordinatorClient(settings.coordinator_url, chain.ledger_domain, admission.terms.coordinator, account)
    require_coordinator(patiently(client.health), chain, rules.pool, admission.terms)
    patiently(lambda: client.document(admission.terms.card_hash))
    environment = patiently(lambda: client.document(rules.environment_hash))

    def open_environment(folder: Path) -> Environment:
        return load_environment(environment, folder)

    return Parts(
        rules=rules,
        domain=chain.ledger_domain,
        account=account,
        coordinator=client,
        read_step=lambda step: read_step(chain, rules, step),
        weights=PolicyFolders(
            settings.run_dir / "policies" / chain.deployment.place_of(settings.pool),
            [*settings.relay_urls, settings.coordinator_url],
        ),
        engine=open_engine(settings.engine_choice),
        open_environment=open_environment,
        standing=Reader(PublicSources(chain, client, rules.pool), rules.provider, admission.terms.quorum).read,
    )
