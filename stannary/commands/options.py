"""Options that several commands share, and what they open: the chain, a keystore, an account that sends."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stannary.errors import Malformed, SettingsError
from stannary.settings import RoleSettings
from stannary.types import Address, Role, parse_address

if TYPE_CHECKING:
    from stannary.chain import Chain, Sender

DECIMALS = 18
"""Of the coins for fees and of the tokens; amounts are given and shown in whole units."""


def parse_amount(text: str | int) -> int:
    """Return wei of an amount such as `1.5`; a default is in wei already. Raises: typer.BadParameter."""
    if isinstance(text, int):
        return text
    try:
        wei = Decimal(text) * 10**DECIMALS
    except InvalidOperation:
        raise typer.BadParameter(f"{text!r} is no amount: write it like 100 or 0.5") from None
    if not wei.is_finite() or wei <= 0 or wei != int(wei) or wei >= 1 << 128:
        raise typer.BadParameter(f"{text!r}: expected more than 0, at most {DECIMALS} decimals, less than 2^128 wei")
    return int(wei)


def show_amount(wei: int) -> str:
    """Return an amount in whole units, without needless zeros."""
    text = f"{Decimal(wei) / 10**DECIMALS:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def parse_account(text: str) -> Address:
    """Return an address in checksum form. Raises: typer.BadParameter."""
    try:
        return parse_address(text.strip())
    except Malformed as error:
        raise typer.BadParameter(str(error)) from None


def parse_role(text: str | Role) -> Role:
    """Return the role of a stake; a default is one already. Raises: typer.BadParameter."""
    if isinstance(text, Role):
        return text
    try:
        return Role[text.upper()]
    except KeyError:
        raise typer.BadParameter(f"{text!r}: expected worker or validator") from None


RpcUrl = Annotated[str | None, typer.Option("--rpc-url", help="The chain's JSON-RPC address. [STANNARY_RPC_URL]")]
DeploymentFile = Annotated[
    Path | None, typer.Option("--deployment", help="File with the contracts' addresses. [STANNARY_DEPLOYMENT]")
]
KeystoreFile = Annotated[Path | None, typer.Option("--keystore", help="The account to act with. [STANNARY_KEYSTORE]")]
PasswordFile = Annotated[
    Path | None, typer.Option("--password-file", help="Holds its password. [STANNARY_PASSWORD_FILE]")
]
PoolNumber = Annotated[int | None, typer.Option("--pool", help="The pool's number. [STANNARY_POOL]")]
Amount = Annotated[int, typer.Argument(parser=parse_amount, metavar="AMOUNT", help="In whole tokens, such as 12.5.")]
StakeRole = Annotated[Role, typer.Option("--role", parser=parse_role, metavar="worker|validator")]
CoordinatorUrl = Annotated[
    str | None, typer.Option("--coordinator-url", help="Where the pool's coordinator is. [STANNARY_COORDINATOR_URL]")
]
RunDir = Annotated[Path | None, typer.Option("--run-dir", help="Where the role keeps its files. [STANNARY_RUN_DIR]")]
RelayUrls = Annotated[list[str] | None, typer.Option("--relay-url", help="Further source of weights; repeatable.")]


def open_chain(settings: RoleSettings) -> Chain:
    """Connect and check the deployment. Raises: SettingsError, Unreachable."""
    from stannary.chain import Chain  # web3 takes a second to import: only commands that need it pay

    return Chain.open(settings.rpc_url, settings.deployment)


def open_sender(settings: RoleSettings, chain: Chain) -> Sender:
    """Open the keystore and return its account as a sender. Raises: SettingsError, WalletError."""
    from stannary import wallet
    from stannary.chain import Sender

    if settings.keystore is None:
        raise SettingsError("which account acts? give --keystore or set STANNARY_KEYSTORE")
    password = wallet.read_password(settings.password_file, str(settings.keystore))
    return Sender(chain, wallet.load(settings.keystore, password), fee_rules=settings.fee_rules)


def require_pool(settings: RoleSettings) -> int:
    """Return the pool that was named. Raises: SettingsError."""
    if settings.pool is None:
        raise SettingsError("which pool? give --pool or set STANNARY_POOL")
    return settings.pool
