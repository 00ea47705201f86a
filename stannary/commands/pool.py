"""stannary pool: open a training run on chain, give it money, make new offers, stop and start its clock."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stannary.commands.options import (
    Amount,
    CoordinatorUrl,
    DeploymentFile,
    KeystoreFile,
    PasswordFile,
    RpcUrl,
    open_chain,
    open_sender,
    show_amount,
)
from stannary.errors import Malformed, Refused, SettingsError, Unavailable
from stannary.settings import RoleSettings
from stannary.types import parse_address, parse_hash, to_hex

if TYPE_CHECKING:
    from stannary.audit import Difference
    from stannary.chain import Block, Chain, Offer, PoolTerms, Sender

app = typer.Typer(help="Pools: one training run each, its rules frozen on chain.", no_args_is_help=True)

Pool = Annotated[int, typer.Argument(metavar="POOL", min=1)]

NOBODY = "0x" + "0" * 40
HOUR_S, DAY_S = 3600, 24 * 3600
TERM_DEFAULTS: Mapping[str, object] = {
    "pauser": NOBODY,  # together with no unpauser: the clock never stands
    "unpauser": NOBODY,
    "seal_fee": 0,
    "lease_bond": 0,
    "pay_cap_bps": 10_000,
    "max_open_steps": 4,
    "reserved_slots": 0,
    "jury_size": 3,
    "max_absences": 3,
    "take_seconds": 0,
    "notice_seconds": DAY_S,
    "statistics_slash_bps": 2_000,
    "silence_slash_bps": 100,
    "wrong_vote_slash_bps": 500,
    "plant_slash_bps": 500,
    "max_slash_bps": 5_000,
    "slash_window_seconds": 7 * DAY_S,
    "reward_bps": 2_000,
}
"""Rules that a file of terms may leave out."""
TERMS_AS_OTHERS: Mapping[str, str] = {"juror_fee": "panel_fee", "reveal_seconds": "vote_seconds"}
"""Rules that, left out, are as another."""


@app.command()
def create(
    terms_file: Annotated[Path, typer.Argument(metavar="TERMS", help="JSON with the rules, as `pool show` prints.")],
    keystore: KeystoreFile = None,
    password_file: PasswordFile = None,
    rpc_url: RpcUrl = None,
    deployment: DeploymentFile = None,
) -> None:
    """Open a pool; its rules never change, but for what an offer may change with notice."""
    settings = RoleSettings.load(rpc_url=rpc_url, deployment=deployment, keystore=keystore, password_file=password_file)
    terms = read_terms(terms_file)
    chain = open_chain(settings)
    pool = chain.pool_registry.create_pool(open_sender(settings, chain), terms)
    typer.echo(f"pool {pool}, terms {to_hex(chain.pool_registry.terms_hash_of(pool))}")


@app.command()
def announce(
    pool: Pool,
    offer_file: Annotated[
        Path, typer.Argument(metavar="OFFER", help="JSON with what changes: coordinator, trainer, prices, card_hash.")
    ],
    keystore: KeystoreFile = None,
    password_file: PasswordFile = None,
    rpc_url: RpcUrl = None,
    deployment: DeploymentFile = None,
) -> None:
    """Announce the offer for steps opened after the pool's notice; what is left out stays as it is."""
    chain, sender = _acting(keystore, password_file, rpc_url, deployment)
    offer = read_offer(offer_file, chain.terms_in_force(pool).offer)
    number = chain.pool_registry.announce_offer(sender, pool, offer)
    pending = chain.pool_registry.pending_offer_of(pool)
    when = f" from {pending.effective_at} of the pool's clock" if pending is not None else ""
    typer.echo(f"offer {number} of pool {pool}{when}")


@app.command("withdraw-offer")
def withdraw_offer(
    pool: Pool,
    keystore: KeystoreFile = None,
    password_file: PasswordFile = None,
    rpc_url: RpcUrl = None,
    deployment: DeploymentFile = None,
) -> None:
    """Take back an offer that is not in force."""
    chain, sender = _acting(keystore, password_file, rpc_url, deployment)
    chain.pool_registry.withdraw_offer(sender, pool)
    typer.echo(f"pool {pool} has no offer waiting")


@app.command()
def pause(
    pool: Pool,
    keystore: KeystoreFile = None,
    password_file: PasswordFile = None,
    rpc_url: RpcUrl = None,
    deployment: DeploymentFile = None,
) -> None:
    """Stop a pool's clock: no new step, no new lease; every deadline waits. Its pauser only."""
    chain, sender = _acting(keystore, password_file, rpc_url, deployment)
    chain.pool_registry.pause(sender, pool)
    typer.echo(f"the clock of pool {pool} stands at {chain.pool_registry.clock_of(pool)}")


@app.command()
def unpause(
    pool: Pool,
    keystore: KeystoreFile = None,
    password_file: PasswordFile = None,
    rpc_url: RpcUrl = None,
    deployment: DeploymentFile = None,
) -> None:
    """Let a pool's clock run again. Its unpauser only."""
    chain, sender = _acting(keystore, password_file, rpc_url, deployment)
    chain.pool_registry.unpause(sender, pool)
    typer.echo(f"the clock of pool {pool} runs")


@app.command()
def fund(
    pool: Pool,
    amount: Amount,
    keystore: KeystoreFile = None,
    password_file: PasswordFile = None,
    rpc_url: RpcUrl = None,
    deployment: DeploymentFile = None,
) -> None:
    """Put money of yours into a pool."""
    settings = RoleSettings.load(rpc_url=rpc_url, deployment=deployment, keystore=keystore, password_file=password_file)
    chain = open_chain(settings)
    _require_payout_token(chain.pool_registry.terms_of(pool), chain.deployment.token)
    sender = open_sender(settings, chain)
    chain.token.require_funds(sender.address, amount)
    chain.token.require_allowance(sender, chain.deployment.payout_vault, amount)
    chain.payout_vault.fund(sender, pool, amount)
    typer.echo(f"pool {pool} has {show_amount(chain.payout_vault.escrow_of(pool).free)} free")


@app.command()
def show(pool: Pool, rpc_url: RpcUrl = None, deployment: DeploymentFile = None) -> None:
    """Show a pool's rules, offers, clock, money and steps as JSON."""
    chain = open_chain(RoleSettings.load(rpc_url=rpc_url, deployment=deployment))
    at = chain.frozen()
    registry = chain.pool_registry
    vault = chain.payout_vault
    money = asdict(vault.escrow_of(pool, at)) | {
        "bonded": vault.bonded_of(pool, at),
        "received": vault.received_of(pool, at),
    }
    number, pending = registry.offer_number_of(pool, at), registry.pending_offer_of(pool, at)
    document = {
        "pool": pool,
        "block": at.number,
        "owner": registry.owner_of(pool, at),
        "isOpen": registry.is_open(pool, at),
        "isPaused": registry.is_paused(pool, at),
        "clock": registry.clock_of(pool, at),
        "termsHash": to_hex(registry.terms_hash_of(pool, at)),
        "offer": {"number": number, **_document(registry.offer_of(pool, number, at))},
        "pendingOffer": pending
        and {
            "effectiveAt": pending.effective_at,
            "isAttested": pending.is_attested,
            **_document(pending.offer),
        },
        "money": {name: show_amount(amount) for name, amount in money.items()},
        "policies": chain.submission_ledger.policy_count_of(pool, at),
        "steps": chain.submission_ledger.step_count_of(pool, at),
        "settledSteps": chain.submission_ledger.settled_count_of(pool, at),
        "validators": chain.stake_manager.validators_of(pool, at),
        "terms": terms_document(registry.terms_of(pool, at)),
    }
    typer.echo(json.dumps(document, indent=2))


@app.command()
def audit(
    pool: Pool,
    coordinator_url: CoordinatorUrl = None,
    from_block: Annotated[int, typer.Option(min=0, help="Where the deployment's events begin.")] = 0,
    rpc_url: RpcUrl = None,
    deployment: DeploymentFile = None,
) -> None:
    """Compute every payout and slash of a pool anew from the chain's events, and its roots from the files.

    Prints what was covered as JSON, and each difference; the exit code is 1 if there is one.
    """
    from stannary.audit import audit_pool

    settings = RoleSettings.load(rpc_url=rpc_url, deployment=deployment, coordinator_url=coordinator_url)
    chain = open_chain(settings)
    at = chain.frozen()
    found = audit_pool(pool, chain.read_events(from_block, at.number))
    files = _audit_files(chain, settings.coordinator_url, pool, at) if settings.coordinator_url is not None else None
    differences = [*found.differences, *(files[1] if files else ())]
    document = {
        "pool": pool,
        "block": at.number,
        "steps": found.steps,
        "settledSteps": found.settled_steps,
        "cases": found.cases,
        "stepsCheckedWithFiles": files[0] if files else 0,
        "earned": {provider: show_amount(amount) for provider, amount in sorted(found.earned.items())},
        "claimed": {provider: show_amount(amount) for provider, amount in sorted(found.claimed.items())},
        "slashed": {provider: show_amount(amount) for provider, amount in sorted(found.slashed.items())},
        "differences": [str(difference) for difference in differences],
    }
    typer.echo(json.dumps(document, indent=2))
    if differences:
        raise typer.Exit(1)


def _audit_files(chain: Chain, coordinator_url: str, pool: int, at: Block) -> tuple[int, list[Difference]]:
    """Return how many steps were compared with the leaves and files that the coordinator serves, and what differs."""
    from stannary.audit import Difference, check_leaves
    from stannary.client import CoordinatorClient
    from stannary.types import Phase

    checked, differences = 0, []
    for step in range(chain.submission_ledger.step_count_of(pool, at)):
        if chain.submission_ledger.step_of(pool, step, at).phase not in (Phase.AUDITED, Phase.FINALIZED):
            continue
        terms = chain.terms_at(pool, step, at)
        with CoordinatorClient(coordinator_url, chain.ledger_domain, terms.coordinator) as client:
            leaves = [leaf.submission.submission() for leaf in client.leaves(step).leaves]
            differences += check_leaves(chain.step_history(pool, step, at), leaves, terms.max_units)
            for leaf in leaves:
                try:
                    client.submission_file(leaf.content_hash)
                except (Malformed, Unavailable, Refused) as error:
                    subject = f"step {step}, slot {leaf.slot}, file"
                    differences.append(Difference(subject, to_hex(leaf.content_hash), str(error)))
        checked += 1
    return checked, differences


def read_terms(file: Path) -> PoolTerms:
    """Read terms from JSON: the members of the contract's struct in snake_case, money in wei, hashes in hexadecimal.

    Some may be left out: see `TERM_DEFAULTS` and `TERMS_AS_OTHERS`. Raises: SettingsError.
    """
    from stannary.chain import PoolTerms

    found = _read_object(file, "terms")
    for name, other in TERMS_AS_OTHERS.items():
        if name not in found and other in found:
            found[name] = found[other]
    values = _parse_members(file, "terms", PoolTerms, dict(TERM_DEFAULTS) | found)
    return PoolTerms(**values)


def read_offer(file: Path, base: Offer) -> Offer:
    """Read an offer from JSON; what is left out is as in `base`. Raises: SettingsError."""
    from stannary.chain import Offer

    return Offer(**_parse_members(file, "offer", Offer, _document(base) | _read_object(file, "offer")))


def terms_document(terms: PoolTerms) -> dict[str, object]:
    """Return terms as `read_terms` reads them."""
    return _document(terms)


def _read_object(file: Path, what: str) -> dict[str, object]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{what} {file}: {error.strerror}") from None
    except ValueError:
        raise SettingsError(f"{what} {file}: not JSON") from None
    if not isinstance(found, dict):
        raise SettingsError(f"{what} {file}: expected a JSON object")
    return found


def _parse_members(
    file: Path, what: str, kind: type[PoolTerms] | type[Offer], found: Mapping[str, object]
) -> dict[str, Any]:
    wanted = {spec.name: str(spec.type) for spec in fields(kind)}
    for name in [*wanted, *found]:
        if (name in wanted) != (name in found):
            raise SettingsError(f"{what} {file}: {name} is {'missing' if name in wanted else 'no rule of a pool'}")
    try:
        return {name: _parse_member(name, member, found[name]) for name, member in wanted.items()}
    except Malformed as error:
        raise SettingsError(f"{what} {file}: {error}") from None


def _document(found: PoolTerms | Offer) -> dict[str, object]:
    values = {spec.name: getattr(found, spec.name) for spec in fields(found)}
    return {name: to_hex(value) if isinstance(value, bytes) else value for name, value in values.items()}


def _parse_member(name: str, kind: str, value: object) -> object:
    if kind == "Address":
        return parse_address(value, name)
    if kind == "Hash":
        return parse_hash(value, name)
    if type(value) is not int or value < 0:
        raise Malformed(name, expected="a whole number that is not negative", got=value)
    return value


def _acting(
    keystore: Path | None, password_file: Path | None, rpc_url: str | None, deployment: Path | None
) -> tuple[Chain, Sender]:
    settings = RoleSettings.load(rpc_url=rpc_url, deployment=deployment, keystore=keystore, password_file=password_file)
    chain = open_chain(settings)
    return chain, open_sender(settings, chain)


def _require_payout_token(terms: PoolTerms, token: str) -> None:
    if terms.payout_token != token:
        raise SettingsError(f"the pool pays in {terms.payout_token}; this command funds in {token} only")
