"""stannary wallet: make, import and look at keystores."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stannary import wallet
from stannary.commands.options import PasswordFile

app = typer.Typer(help="Keystores: encrypted files that hold an account's key.", no_args_is_help=True)

Keystore = Annotated[Path, typer.Argument(metavar="FILE", help="The keystore.")]


@app.command()
def new(file: Keystore, password_file: PasswordFile = None) -> None:
    """Make a new account in a new file."""
    account = wallet.create(file, wallet.read_password(password_file, str(file), is_new=True))
    typer.echo(f"{account.address} is in {file}; without that file and its password it is lost")


@app.command("import")
def import_(
    file: Keystore,
    password_file: PasswordFile = None,
    key_file: Annotated[Path | None, typer.Option(help="Holds the key; asked for unless given.")] = None,
) -> None:
    """Put a key that you have into a new file."""
    key = wallet.read_key(key_file)
    account = wallet.import_key(file, key, wallet.read_password(password_file, str(file), is_new=True))
    typer.echo(f"{account.address} is in {file}")


@app.command()
def show(
    file: Keystore,
    password_file: PasswordFile = None,
    check: Annotated[bool, typer.Option("--check", help="Also try the password.")] = False,
) -> None:
    """Show the address of a keystore."""
    if check or password_file is not None:
        typer.echo(wallet.load(file, wallet.read_password(password_file, str(file))).address)
    else:
        typer.echo(wallet.address_of(file))
