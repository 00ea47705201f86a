"""stannary provider: stake, nodes, pay and the way out; for whoever holds the cold wallet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic_core import from_json

from stannary.commands.options import (
    Amount,
    DeploymentFile,
    KeystoreFile,
    PasswordFile,
    PoolNumber,
    RpcUrl,
    StakeRole,
    open_chain,
    open_sender,
    parse_account,
    parse_amount,
    require_pool,
    show_amount,
)
from stannary.errors import Malformed, SettingsError, WalletError
from stannary.settings import RoleSettings
from stannary.structs import NodeConsent
from stannary.types import Address, Role, parse_address, to_hex

if TYPE_CHECKING:
    from stannary.chain import Block, Chain

app = typer.Typer(help="Providers: stake, nodes and pay.", no_args_is_help=True)

CONSENT_S = 24 * 3600
"""How long a node's consent is good for."""


@app.command()
def stake(
    amount: Amount,
    role: StakeRole = Role.WORKER,
    pool: PoolNumber = None,
    keystore: KeystoreFile = None,
    password_file: PasswordFile = None,
    rpc_url: RpcUrl = None,
    deployment: DeploymentFile = None,
) -> None:
    """Stake in a pool under its present terms; idle stake is used first, the rest is deposited."""
    settings = RoleSettings.load(
        rpc_url=rpc_url, deployment=deployment, keystore=keystore, password_file=password_file, pool=pool
    )
    number = require_pool(settings)
    chain = open_chain(settings)
    sender = open_sender(settings, chain)
    terms_hash = chain.pool_registry.terms_hash_of(number)
    provider = _provider_of(chain, sender.address)
    missing = max(0, amount - chain.stake_manager.idle_of(provider))
    if missing:
        chain.token.require_funds(sender.address, missing)
        chain.token.require_allowance(sender, chain.deployment.stake_manager, missing)
        chain.stake_manager.deposit(sender, missing)
    chain.stake_manager.allocate(sender, number, role, amount, terms_hash)
    typer.echo(f"{provider} has staked {show_amount(amount)} in pool {number} under terms {to_hex(terms_hash)}")


@app.command()
def unstake(
    amount: Annotated[str, typer.Argument(metavar="AMOUNT|all", help="In whole tokens, or all.")],
    role: StakeRole = Role.WORKER,
    pool: PoolNumber = None,
    keystore: KeystoreFile = None,
    password_file: PasswordFile = None,
    rpc_url: RpcUrl = None,
    deployment: DeploymentFile = None,
) -> None:
    """Begin to take stake out of a pool; it stays slashable until it is out."""
    wanted = None if amount == "all" else parse_amount(amount)
    settings = RoleSettings.load(
        rpc_url=rpc_url, deployment=deployment, keystore=keystore, password_file=password_file, pool=pool
    )
    number = require_pool(settings)
    chain = open_chain(settings)
    sender = open_sender(settings, chain)
    provider = _provider_of(chain, sender.address)
    position = chain.stake_manager.position_of(number, role, provider)
    free = position.shares - position.exiting_shares
    # Rounded up: a share is worth less than a wei more than before a slash, and who asks for 10 wants no less.
    shares = free if wanted is None else -(-wanted * position.shares // max(1, position.tokens))
    if not 0 < shares <= free:
        left = position.tokens * free // max(1, position.shares)
        raise SettingsError(f"{provider} has {show_amount(left)} to take out of pool {number}")
    exit_id = chain.stake_manager.start_exit(sender, number, role, shares)
    leaving = chain.stake_manager.exit_of(exit_id)
    when = f" after {leaving.release_at} of the pool's clock" if leaving else ""
    typer.echo(f"exit {exit_id} began: `stannary provider withdraw --exit {exit_id}`{when}")


@app.command()
def withdraw(
    exit_id: Annotated[int | None, typer.Option("--exit", min=1, help="Finish this exit first.")] = None,
    amount: Annotated[
        int | None, typer.Option(parser=parse_amount, metavar="AMOUNT", help="All idle stake unless given.")
    ] = None,
    keystore: KeystoreFile = None,
    password_file: PasswordFile = None,
    rpc_url: RpcUrl = None,
    deployment: DeploymentFile = None,
) -> None:
    """Take idle stake home."""
    settings = RoleSettings.load(rpc_url=rpc_url, deployment=deployment, keystore=keystore, password_file=password_file)
    chain = open_chain(settings)
    sender = open_sender(settings, chain)
    if exit_id is not None:
        chain.stake_manager.finish_exit(sender, exit_id)
    provider = _provider_of(chain, sender.address)
    idle = chain.stake_manager.idle_of(provider)
    taken = idle if amount is None else amount
    if not 0 < taken <= idle:
        raise SettingsError(f"{provider} has {show_amount(idle)} idle stake to withdraw")
    chain.stake_manager.withdraw(sender, taken)
    typer.echo(f"{show_amount(taken)} went to {sender.address}")


@app.command()
def claim(
    provider: Annotated[
        str | None,
        typer.Option("--provider", metavar="ADDRESS", help="For whom; the keystore's provider unless given."),
    ] = None,
    pool: PoolNumber = None,
    keystore: KeystoreFile = None,
    password_file: PasswordFile = None,
    rpc_url: RpcUrl = None,
    deployment: DeploymentFile = None,
) -> None:
    """Take all that a provider has earned in a pool, for all its steps at once; it goes to the provider's payee."""
    settings = RoleSettings.load(
        rpc_url=rpc_url, deployment=deployment, keystore=keystore, password_file=password_file, pool=pool
    )
    number = require_pool(settings)
    named = None if provider is None else parse_account(provider)
    chain = open_chain(settings)
    sender = open_sender(settings, chain)
    earner = named or _provider_of(chain, sender.address)
    due = chain.payout_vault.earnings_of(number, earner).unclaimed
    if due:
        chain.payout_vault.claim(sender, number, earner)
    typer.echo(f"{show_amount(due)} went to {chain.stake_manager.payee_of(number, earner)}")


@app.command()
def payee(
    account: Annotated[str, typer.Argument(metavar="ADDRESS", help="Where payouts go from now on.")],
    pool: PoolNumber = None,
    keystore: KeystoreFile = None,
    password_file: PasswordFile = None,
    rpc_url: RpcUrl = None,
    deployment: DeploymentFile = None,
) -> None:
    """Name the account that a pool's payouts go to."""
    settings = RoleSettings.load(
        rpc_url=rpc_url, deployment=deployment, keystore=keystore, password_file=password_file, pool=pool
    )
    number, address = require_pool(settings), parse_account(account)
    chain = open_chain(settings)
    sender = open_sender(settings, chain)
    chain.stake_manager.set_payee(sender, number, address)
    typer.echo(f"payouts of {_provider_of(chain, sender.address)} in pool {number} go to {address}")


@app.command()
def reinstate(
    role: StakeRole = Role.WORKER,
    pool: PoolNumber = None,
    keystore: KeystoreFile = None,
    password_file: PasswordFile = None,
    rpc_url: RpcUrl = None,
    deployment: DeploymentFile = None,
) -> None:
    """End a suspension whose time is over."""
    settings = RoleSettings.load(
        rpc_url=rpc_url, deployment=deployment, keystore=keystore, password_file=password_file, pool=pool
    )
    number = require_pool(settings)
    chain = open_chain(settings)
    sender = open_sender(settings, chain)
    provider = _provider_of(chain, sender.address)
    chain.stake_manager.reinstate(sender, number, role, provider)
    typer.echo(f"{provider} takes part in pool {number} again")


@app.command("hand-over")
def hand_over(
    account: Annotated[str, typer.Argument(metavar="ADDRESS", help="The new key; it must `take-over`.")],
    keystore: KeystoreFile = None,
    password_file: PasswordFile = None,
    rpc_url: RpcUrl = None,
    deployment: DeploymentFile = None,
) -> None:
    """Offer control of this provider to another key; stake, nodes and pay stay where they are."""
    settings = RoleSettings.load(rpc_url=rpc_url, deployment=deployment, keystore=keystore, password_file=password_file)
    address = parse_account(account)
    chain = open_chain(settings)
    sender = open_sender(settings, chain)
    chain.stake_manager.offer_controller(sender, address)
    provider = _provider_of(chain, sender.address)
    typer.echo(f"{address} may take {provider} over: `stannary provider take-over {provider}`")


@app.command("take-over")
def take_over(
    provider: Annotated[str, typer.Argument(metavar="PROVIDER", help="Whom this key was offered control of.")],
    keystore: KeystoreFile = None,
    password_file: PasswordFile = None,
    rpc_url: RpcUrl = None,
    deployment: DeploymentFile = None,
) -> None:
    """Take control of a provider that was offered to this key; the old key then has none."""
    settings = RoleSettings.load(rpc_url=rpc_url, deployment=deployment, keystore=keystore, password_file=password_file)
    address = parse_account(provider)
    chain = open_chain(settings)
    sender = open_sender(settings, chain)
    chain.stake_manager.accept_controller(sender, address)
    typer.echo(f"{sender.address} controls {address}")


@app.command("consent")
def consent(
    provider: Annotated[str, typer.Argument(metavar="PROVIDER", help="Whom the node will act for.")],
    keystore: KeystoreFile = None,
    password_file: PasswordFile = None,
    rpc_url: RpcUrl = None,
    deployment: DeploymentFile = None,
) -> None:
    """On the node: print its signed consent, for `add-node --consent`."""
    settings = RoleSettings.load(rpc_url=rpc_url, deployment=deployment, keystore=keystore, password_file=password_file)
    address = parse_account(provider)
    chain = open_chain(settings)
    typer.echo(json.dumps(_consent(chain, address, settings.keystore, settings.password_file)))


@app.command("add-node")
def add_node(
    consent_file: Annotated[Path | None, typer.Option("--consent", help="What `consent` printed on the node.")] = None,
    node_keystore: Annotated[Path | None, typer.Option(help="The node's keystore, if it is at hand.")] = None,
    node_password_file: Annotated[Path | None, typer.Option(help="Holds its password.")] = None,
    keystore: KeystoreFile = None,
    password_file: PasswordFile = None,
    rpc_url: RpcUrl = None,
    deployment: DeploymentFile = None,
) -> None:
    """Let a node act for this provider."""
    settings = RoleSettings.load(rpc_url=rpc_url, deployment=deployment, keystore=keystore, password_file=password_file)
    chain = open_chain(settings)
    sender = open_sender(settings, chain)
    if consent_file is None:
        signed = _consent(chain, _provider_of(chain, sender.address), node_keystore, node_password_file)
    else:
        signed = _read_consent(consent_file)
    node = parse_address(signed["node"], "node")
    signature = _signature(signed["signature"])
    chain.stake_manager.add_node(sender, node, _deadline(signed["deadline"]), signature)
    typer.echo(f"{node} acts for {_provider_of(chain, sender.address)}")


@app.command()
def status(
    address: Annotated[str | None, typer.Argument(metavar="ADDRESS", help="Of the provider or a node.")] = None,
    keystore: KeystoreFile = None,
    rpc_url: RpcUrl = None,
    deployment: DeploymentFile = None,
) -> None:
    """Show an account's money, stake and earnings as JSON; needs no password."""
    settings = RoleSettings.load(rpc_url=rpc_url, deployment=deployment, keystore=keystore)
    account = parse_account(address) if address is not None else _address_of(settings.keystore)
    chain = open_chain(settings)
    at = chain.frozen()
    stakes = chain.stake_manager
    provider = _provider_of(chain, account, at)
    document = {
        "account": account,
        "actsFor": provider,
        "controller": stakes.controller_of(provider, at),
        "block": at.number,
        "ether": show_amount(chain.balance_of(account, at)),
        "tokens": show_amount(chain.token.balance_of(provider, at)),
        "idleStake": show_amount(stakes.idle_of(provider, at)),
        "positions": _positions(chain, provider, at),
        "earnings": _earnings(chain, provider, at),
    }
    typer.echo(json.dumps(document, indent=2))


def _positions(chain: Chain, provider: Address, at: Block) -> list[dict[str, object]]:
    stakes, found = chain.stake_manager, []
    for pool in range(1, chain.pool_registry.pool_count(at) + 1):
        for role in Role:
            held = stakes.position_of(pool, role, provider, at)
            if held.shares:
                standing = stakes.standing_of(pool, role, provider, at)
                found.append(
                    {
                        "pool": pool,
                        "role": role.name.lower(),
                        "tokens": show_amount(held.tokens),
                        "active": show_amount(stakes.active_stake_of(pool, role, provider, at)),
                        "suspendedUntil": standing.suspended_until or None,
                        "slashedBps": standing.slashed_bps,
                        "absences": standing.absences,
                        "openDisputes": standing.holds,
                    }
                )
    return found


def _earnings(chain: Chain, provider: Address, at: Block) -> list[dict[str, object]]:
    found = []
    for pool in range(1, chain.pool_registry.pool_count(at) + 1):
        earnings = chain.payout_vault.earnings_of(pool, provider, at)
        if earnings.earned:
            found.append(
                {
                    "pool": pool,
                    "earned": show_amount(earnings.earned),
                    "unclaimed": show_amount(earnings.unclaimed),
                    "payee": chain.stake_manager.payee_of(pool, provider, at),
                }
            )
    return found


def _provider_of(chain: Chain, account: Address, at: Block | None = None) -> Address:
    """Return whom an account acts for, itself before it has stake."""
    served = chain.stake_manager.provider_of(account, at)
    return served if int(served, 16) else account


def _consent(chain: Chain, provider: Address, keystore: Path | None, password_file: Path | None) -> dict[str, object]:
    from stannary import wallet

    if keystore is None:
        raise SettingsError("which node? give its keystore, or the consent that it printed with --consent")
    node = wallet.load(keystore, wallet.read_password(password_file, str(keystore)))
    deadline = chain.frozen().timestamp + CONSENT_S
    signature = NodeConsent(parse_address(node.address), provider, deadline).sign(node, chain.stake_domain)
    return {"node": node.address, "provider": provider, "deadline": deadline, "signature": to_hex(signature)}


def _read_consent(file: Path) -> dict[str, object]:
    try:
        found = from_json(file.read_bytes(), allow_inf_nan=False)  # bounds the nesting, as json does not
    except OSError as error:
        raise SettingsError(f"consent {file}: {error.strerror}") from None
    except ValueError:
        raise SettingsError(f"consent {file}: not JSON") from None
    if not isinstance(found, dict) or set(found) != {"node", "provider", "deadline", "signature"}:
        raise SettingsError(f"consent {file}: expected node, provider, deadline and signature")
    return found


def _deadline(value: object) -> int:
    if type(value) is not int or value < 0:
        raise Malformed("deadline", expected="unix seconds", got=value)
    return value


def _signature(value: object) -> bytes:
    try:
        return bytes.fromhex(str(value).removeprefix("0x"))
    except ValueError:
        raise Malformed("signature", expected="hexadecimal", got=value) from None


def _address_of(keystore: Path | None) -> Address:
    from stannary import wallet

    if keystore is None:
        raise WalletError("whose status? give an address or --keystore")
    return wallet.address_of(keystore)
