"""stannary devnet: a chain of one's own for trying things out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stannary.commands.options import DeploymentFile, RpcUrl, open_chain, parse_account, parse_amount
from stannary.settings import RoleSettings

app = typer.Typer(help="A local chain for development, with the contracts on it.", no_args_is_help=True)

Folder = Annotated[Path, typer.Option("--folder", help="Where its state and the addresses are kept.")]


@app.command()
def up(
    folder: Folder = Path("runs/devnet"),
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8545,
    block_time: Annotated[int, typer.Option(min=0, help="Seconds a block; 0 for one with each transaction.")] = 1,
    hardhat: Annotated[bool, typer.Option("--hardhat", help="Hardhat's node, which forgets when it ends.")] = False,
) -> None:
    """Start it unless it runs, and deploy unless that was done."""
    from stannary.chain import devnet

    chain = devnet.up(folder, port, block_time, is_hardhat=hardhat)
    typer.echo(f"chain {chain.chain_id} at {chain.rpc_url}, contracts in {folder / devnet.DEPLOYMENT_FILE}")


@app.command()
def down(folder: Folder = Path("runs/devnet")) -> None:
    """End it; its state stays for the next start."""
    from stannary.chain import devnet

    typer.echo("ended" if devnet.down(folder) else f"no chain runs for {folder}")


@app.command()
def fund(
    account: Annotated[str, typer.Argument(metavar="ADDRESS", help="Who gets it.")],
    ether: Annotated[int, typer.Option(parser=parse_amount, metavar="AMOUNT", help="Coins for fees.")] = 10**18,
    tokens: Annotated[int, typer.Option(parser=parse_amount, metavar="AMOUNT", help="Test tokens.")] = 10**22,
    rpc_url: RpcUrl = None,
    deployment: DeploymentFile = None,
) -> None:
    """Give an account coins and test tokens."""
    from stannary.chain import devnet

    address = parse_account(account)
    devnet.fund(open_chain(RoleSettings.load(rpc_url=rpc_url, deployment=deployment)), address, ether, tokens)
    typer.echo(f"{address} has them")
