"""`stannary validator check`: each thing a validator needs, in the order in which `start` needs it. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

from stannary import wallet
from stannary.admission import admit, require_coordinator
from stannary.cards import Card
from stannary.chain import Chain, Sender
from stannary.client import CoordinatorClient
from stannary.errors import StannaryError
from stannary.types import Role, parse_address, to_hex
from validator.assembly import VOTE_GAS
from validator.settings import Settings


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
        admission = admit(chain, settings.pool, node, Role.VALIDATOR, chain.frozen())
        yield what, f"node of {admission.provider}, {admission.stake_wei / 1e18:.6f} stake tokens allocated"
        what = "fees"
        Sender(chain, account, fee_rules=settings.fee_rules).require_fees(VOTE_GAS)
        yield what, "enough ether for a vote"
        what = "coordinator"
        terms = admission.terms
        coordinator = parse_address(terms.coordinator)
        with CoordinatorClient(settings.coordinator_url, chain.ledger_domain, coordinator, account) as client:
            health = client.health()
            require_coordinator(health, chain, settings.pool, terms)
            yield what, f"{settings.coordinator_url} is {health.status}, at block {health.block}"
            what = "card"
            card = Card.from_document(client.document(terms.card_hash))
            yield what, f"{to_hex(terms.card_hash)}, a token further than {card.thresholds.gap_bound:g} off is a fault"
            what = "environment"
            client.document(terms.environment_hash)
            yield what, to_hex(terms.environment_hash)
    except StannaryError as error:
        yield what, error
