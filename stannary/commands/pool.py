"""stannary pool: open a training run on chain and give it money."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stannary.commands.options import (
    Amount,
    DeploymentFile,
    KeystoreFile,
    PasswordFile,
    RpcUrl,
    open_chain,
    open_sender,
    show_amount,
)
from stannary.errors import Malformed, SettingsError
from stannary.settings import RoleSettings
from stannary.types import parse_address, parse_hash, to_hex

if TYPE_CHECKING:
    from stannary.chain import PoolTerms

app = typer.Typer(help="Pools: one training run each, its rules frozen on chain.", no_args_is_help=True)

Pool = Annotated[int, typer.Argument(metavar="POOL", min=1)]


@app.command()
def create(
    terms_file: Annotated[Path, typer.Argument(metavar="TERMS", help="JSON with every rule, as `pool show` prints.")],
    keystore: KeystoreFile = None,
    password_file: PasswordFile = None,
    rpc_url: RpcUrl = None,
    deployment: DeploymentFile = None,
) -> None:
    """Open a pool; its rules can never be changed."""
    settings = RoleSettings.load(rpc_url=rpc_url, deployment=deployment, keystore=keystore, password_file=password_file)
    terms = read_terms(terms_file)
    chain = open_chain(settings)
    pool = chain.pool_registry.create_pool(open_sender(settings, chain), terms)
    typer.echo(f"pool {pool}, terms {to_hex(chain.pool_registry.terms_hash_of(pool))}")


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
    """Show a pool's rules, money and steps as JSON."""
    chain = open_chain(RoleSettings.load(rpc_url=rpc_url, deployment=deployment))
    at = chain.frozen()
    escrow = chain.payout_vault.escrow_of(pool, at)
    document = {
        "pool": pool,
        "block": at.number,
        "owner": chain.pool_registry.owner_of(pool, at),
        "isOpen": chain.pool_registry.is_open(pool, at),
        "termsHash": to_hex(chain.pool_registry.terms_hash_of(pool, at)),
        "escrow": {name: show_amount(getattr(escrow, name)) for name in ("free", "reserved", "locked")},
        "policies": chain.submission_ledger.policy_count_of(pool, at),
        "steps": chain.submission_ledger.step_count_of(pool, at),
        "settledSteps": chain.submission_ledger.settled_count_of(pool, at),
        "validators": chain.stake_manager.validators_of(pool, at),
        "terms": terms_document(chain.pool_registry.terms_of(pool, at)),
    }
    typer.echo(json.dumps(document, indent=2))


def read_terms(file: Path) -> PoolTerms:
    """Read terms from JSON: every field of the contract's struct in snake_case, money in wei, hashes in hexadecimal.

    Raises: SettingsError.
    """
    from stannary.chain import PoolTerms

    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"terms {file}: {error.strerror}") from None
    except ValueError:
        raise SettingsError(f"terms {file}: not JSON") from None
    wanted = {spec.name: str(spec.type) for spec in fields(PoolTerms)}
    if not isinstance(found, dict):
        raise SettingsError(f"terms {file}: expected a JSON object")
    for name in [*wanted, *found]:
        if (name in wanted) != (name in found):
            raise SettingsError(f"terms {file}: {name} is {'missing' if name in wanted else 'no rule of a pool'}")
    try:
        return PoolTerms(**{name: _parse_term(name, kind, found[name]) for name, kind in wanted.items()})  # type: ignore[arg-type]
    except Malformed as error:
        raise SettingsError(f"terms {file}: {error}") from None


def terms_document(terms: PoolTerms) -> dict[str, object]:
    """Return terms as `read_terms` reads them."""
    values = {spec.name: getattr(terms, spec.name) for spec in fields(terms)}
    return {name: to_hex(value) if isinstance(value, bytes) else value for name, value in values.items()}


def _parse_term(name: str, kind: str, value: object) -> object:
    if kind == "Address":
        return parse_address(value, name)
    if kind == "Hash":
        return parse_hash(value, name)
    if type(value) is not int or value < 0:
        raise Malformed(name, expected="a whole number that is not negative", got=value)
    return value


def _require_payout_token(terms: PoolTerms, token: str) -> None:
    if terms.payout_token != token:
        raise SettingsError(f"the pool pays in {terms.payout_token}; this command funds in {token} only")
