"""stannary provider: stake, nodes, pay and the way out; for whoever holds the cold wallet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stannary.commands.options import (
    Amount,
    CoordinatorUrl,
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
from stannary.merkle import merkle_proof, merkle_root
from stannary.settings import RoleSettings
from stannary.structs import NodeConsent
from stannary.types import Address, Outcome, Phase, Role, parse_address, to_hex

if TYPE_CHECKING:
    from stannary.chain import Chain, LeafOpening, Sender

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
    missing = max(0, amount - chain.stake_manager.idle_of(sender.address))
    if missing:
        chain.token.require_funds(sender.address, missing)
        chain.token.require_allowance(sender, chain.deployment.stake_manager, missing)
        chain.stake_manager.deposit(sender, missing)
    chain.stake_manager.allocate(sender, number, role, amount, terms_hash)
    typer.echo(f"{sender.address} has staked {show_amount(amount)} in pool {number} under terms {to_hex(terms_hash)}")


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
    position = chain.stake_manager.position_of(number, role, sender.address)
    free = position.shares - position.exiting_shares
    # Rounded up: a share is worth less than a wei more than before a slash, and who asks for 10 wants no less.
    shares = free if wanted is None else -(-wanted * position.shares // max(1, position.tokens))
    if not 0 < shares <= free:
        active = chain.stake_manager.active_stake_of(number, role, sender.address)
        raise SettingsError(f"{sender.address} has {show_amount(active)} to take out of pool {number}")
    exit_id = chain.stake_manager.start_exit(sender, number, role, shares)
    leaving = chain.stake_manager.exit_of(exit_id)
    when = f" after {leaving.release_at} (unix time of the chain)" if leaving else ""
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
    idle = chain.stake_manager.idle_of(sender.address)
    taken = idle if amount is None else amount
    if not 0 < taken <= idle:
        raise SettingsError(f"{sender.address} has {show_amount(idle)} idle stake to withdraw")
    chain.stake_manager.withdraw(sender, taken)
    typer.echo(f"{show_amount(taken)} went to {sender.address}")


@app.command()
def claim(
    steps: Annotated[
        list[int] | None, typer.Option("--step", min=0, help="These steps; all settled ones unless given.")
    ] = None,
    pool: PoolNumber = None,
    coordinator_url: CoordinatorUrl = None,
    keystore: KeystoreFile = None,
    password_file: PasswordFile = None,
    rpc_url: RpcUrl = None,
    deployment: DeploymentFile = None,
) -> None:
    """Take what accepted groups and votes have earned."""
    settings = RoleSettings.load(
        rpc_url=rpc_url,
        deployment=deployment,
        keystore=keystore,
        password_file=password_file,
        pool=pool,
        coordinator_url=coordinator_url,
    )
    number = require_pool(settings)
    chain = open_chain(settings)
    sender = open_sender(settings, chain)
    before = chain.token.balance_of(sender.address)
    for step in steps or range(chain.submission_ledger.settled_count_of(number)):
        if chain.submission_ledger.step_of(number, step).phase == Phase.FINALIZED:
            _claim_step(settings, chain, sender, number, step)
    typer.echo(f"{show_amount(chain.token.balance_of(sender.address) - before)} went to {sender.address}")


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
        signed = _consent(chain, sender.address, node_keystore, node_password_file)
    else:
        signed = _read_consent(consent_file)
    node = parse_address(signed["node"], "node")
    signature = _signature(signed["signature"])
    chain.stake_manager.add_node(sender, node, _deadline(signed["deadline"]), signature)
    typer.echo(f"{node} acts for {sender.address}")


@app.command()
def status(
    address: Annotated[str | None, typer.Argument(metavar="ADDRESS", help="Of the provider or a node.")] = None,
    keystore: KeystoreFile = None,
    rpc_url: RpcUrl = None,
    deployment: DeploymentFile = None,
) -> None:
    """Show an account's money and stake as JSON; needs no password."""
    settings = RoleSettings.load(rpc_url=rpc_url, deployment=deployment, keystore=keystore)
    account = parse_account(address) if address is not None else _address_of(settings.keystore)
    chain = open_chain(settings)
    at = chain.frozen()
    stakes = chain.stake_manager
    served = stakes.provider_of(account, at)
    provider = served if int(served, 16) else account
    positions = []
    for pool in range(1, chain.pool_registry.pool_count(at) + 1):
        for role in Role:
            held = stakes.position_of(pool, role, provider, at)
            if held.shares:
                active = stakes.active_stake_of(pool, role, provider, at)
                positions.append(
                    {
                        "pool": pool,
                        "role": role.name.lower(),
                        "tokens": show_amount(held.tokens),
                        "active": show_amount(active),
                    }
                )
    document = {
        "account": account,
        "actsFor": provider,
        "block": at.number,
        "ether": show_amount(chain.balance_of(account, at)),
        "tokens": show_amount(chain.token.balance_of(provider, at)),
        "idleStake": show_amount(stakes.idle_of(provider, at)),
        "positions": positions,
    }
    typer.echo(json.dumps(document, indent=2))


def _claim_step(settings: RoleSettings, chain: Chain, sender: Sender, pool: int, step: int) -> None:
    ledger, vault = chain.submission_ledger, chain.payout_vault
    me = sender.address
    if ledger.has_voted(pool, step, me) and not vault.is_fee_paid(pool, step, me):
        vault.claim_fee(sender, pool, step, me)
    if not chain.stake_manager.position_of(pool, Role.WORKER, me).shares and settings.coordinator_url is None:
        return  # a validator has no leaves and needs no coordinator
    openings = _openings(settings, chain, me, pool, step)
    due = [
        opening
        for opening in openings
        if ledger.outcome_of(pool, step, opening.index) == Outcome.ACCEPT
        and not vault.is_slot_paid(pool, step, opening.leaf.slot)
    ]
    if due:
        vault.claim(sender, pool, step, due)


def _openings(settings: RoleSettings, chain: Chain, me: Address, pool: int, step: int) -> list[LeafOpening]:
    """Fetch a step's leaves and open those of this provider, checked against the root on chain."""
    from stannary.chain import LeafOpening
    from stannary.client import CoordinatorClient

    if settings.coordinator_url is None:
        raise SettingsError("where are the leaves? give --coordinator-url or set STANNARY_COORDINATOR_URL")
    terms = chain.pool_registry.terms_of(pool)
    with CoordinatorClient(settings.coordinator_url, chain.ledger_domain, terms.coordinator) as client:
        leaves = [leaf.submission.submission() for leaf in client.leaves(step).leaves]
    hashes = [leaf.struct_hash() for leaf in leaves]
    root = chain.submission_ledger.step_of(pool, step).submission_root
    if not hashes or merkle_root(hashes) != root:
        raise Malformed(f"leaves of step {step}", expected=f"those under {to_hex(root)}", got=f"{len(hashes)} others")
    return [
        LeafOpening(leaf, index, tuple(merkle_proof(hashes, index)))
        for index, leaf in enumerate(leaves)
        if leaf.provider == me
    ]


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
        found = json.loads(file.read_text(encoding="utf-8"))
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
