"""`stannary worker check`: each thing a worker needs, in the order in which `start` needs it. Changes nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from stannary import wallet
from stannary.admission import require_coordinator
from stannary.chain import Chain
from stannary.client import CoordinatorClient
from stannary.errors import StannaryError
from stannary.types import parse_address, to_hex
from worker.admission import admit
from worker.engines import open_engine
from worker.settings import Settings


def checks(settings: Settings) -> Iterator[tuple[str, str | StannaryError]]:
    """Yield (what, finding); the first error ends the list, because what follows rests on it."""
    what = "wallet"
    try:
        account = wallet.load(settings.keystore, wallet.read_password(settings.password_file, str(settings.keystore)))
        node = parse_address(str(account.address))
        yield what, node
        what = "chain"
        chain = Chain.open(settings.rpc_url, settings.deployment)
        yield what, f"id {chain.chain_id}, the contracts of {settings.deployment} are there"
        what = f"pool {settings.pool}"
        admission = admit(chain, settings.pool, node)
        rules = admission.rules
        yield (
            what,
            (
                f"node of {rules.provider}, {admission.stake_wei / 1e18:.6f} stake tokens allocated, "
                f"{admission.fees_wei / 1e18:.6f} ether for fees"
            ),
        )
        what = "coordinator"
        coordinator = admission.terms.coordinator
        with CoordinatorClient(settings.coordinator_url, chain.ledger_domain, coordinator, account) as client:
            health = client.health()
            require_coordinator(health, chain, rules.pool, admission.terms)
            yield what, f"{settings.coordinator_url} is {health.status}, at block {health.block}"
            for what, expected in (("card", admission.terms.card_hash), ("environment", rules.environment_hash)):
                client.document(expected)
                yield what, to_hex(expected)
        what = "engine"
        from worker import tripwire  # loads torch, which is long: whatever else is wrong is said before

        engine = open_engine(settings.engine_choice, keeps_states=True)
        with tempfile.TemporaryDirectory() as workspace:
            tripwire.check(engine, Path(workspace), settings.tensor_parallel)
        yield what, f"{settings.engine} samples and hands out states as the protocol says"
    except StannaryError as error:
        yield what, error
