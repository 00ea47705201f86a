"""`stannary coordinator`: runs a pool's coordinator, or says whether one could run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coordinator.settings import Settings
from stannary.commands.options import DeploymentFile, KeystoreFile, PasswordFile, PoolNumber, RpcUrl, RunDir
from stannary.commands.readiness import report_readiness
from stannary.logs import start_logging

app = typer.Typer(help="Match work to workers, keep the files, post what the chain waits for.", no_args_is_help=True)

Documents = Annotated[
    list[Path] | None, typer.Option("--document", help="The pool's card or environment (JSON); repeatable.")
]
Host = Annotated[str | None, typer.Option(help="Address to listen on.")]
Port = Annotated[int | None, typer.Option(help="Port to listen on; 0 takes a free one.")]
DatabaseUrl = Annotated[str | None, typer.Option(help="SQLAlchemy URL; a SQLite file in the run directory unless set.")]


@app.command()
def start(
    pool: PoolNumber = None,
    run_dir: RunDir = None,
    rpc_url: RpcUrl = None,
    deployment: DeploymentFile = None,
    keystore: KeystoreFile = None,
    password_file: PasswordFile = None,
    document: Documents = None,
    host: Host = None,
    port: Port = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Serve a pool until stopped. Options not given are read from STANNARY_COORDINATOR_<NAME> or STANNARY_<NAME>."""
    settings = Settings.load(
        pool=pool,
        run_dir=run_dir,
        rpc_url=rpc_url,
        deployment=deployment,
        keystore=keystore,
        password_file=password_file,
        documents=tuple(document) if document else None,
        host=host,
        port=port,
        database_url=database_url,
    )
    start_logging()
    from coordinator.server import serve  # web3 and FastAPI take seconds to import: only who serves pays

    serve(settings)


@app.command()
def check(
    pool: PoolNumber = None,
    run_dir: RunDir = None,
    rpc_url: RpcUrl = None,
    deployment: DeploymentFile = None,
    keystore: KeystoreFile = None,
    password_file: PasswordFile = None,
    document: Documents = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Say, line by line, whether a coordinator with these settings can start: wallet, chain, pool, fees, documents."""
    settings = Settings.load(
        pool=pool,
        run_dir=run_dir,
        rpc_url=rpc_url,
        deployment=deployment,
        keystore=keystore,
        password_file=password_file,
        documents=tuple(document) if document else None,
        database_url=database_url,
    )
    from coordinator.server import checks

    report_readiness(checks(settings))
