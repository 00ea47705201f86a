"""`stannary worker`: starts a worker, or says whether one could start."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from stannary import wallet
from stannary.commands.options import (
    CoordinatorUrl,
    DeploymentFile,
    KeystoreFile,
    PasswordFile,
    PoolNumber,
    RelayUrls,
    RpcUrl,
    RunDir,
)
from stannary.commands.readiness import report_readiness
from stannary.logs import start_logging
from worker.settings import Settings

if TYPE_CHECKING:
    from worker.loop import Parts

app = typer.Typer(help="Generate rollouts, prove them, be paid.", no_args_is_help=True, pretty_exceptions_enable=False)

EngineName = Annotated[str | None, typer.Option("--engine", help="vllm or transformers.")]
Device = Annotated[str | None, typer.Option(help="Device of the transformers engine.")]
MaxLeases = Annotated[int | None, typer.Option(help="Slots held at once.")]
MaxSequences = Annotated[int | None, typer.Option(help="Rollouts decoded at once.")]
RunnerName = Annotated[str | None, typer.Option("--runner", help="vLLM's model runner, v1 or v2.")]
TensorParallel = Annotated[int | None, typer.Option(help="Devices over which vLLM spreads the policy.")]
Threads = Annotated[int | None, typer.Option(help="CPU threads of the engine.")]


def start_command(alter: Callable[[Parts], Parts] = lambda parts: parts) -> Callable[..., None]:
    """Return the command that works in a pool; `alter` may exchange parts of the worker before it starts."""

    def start(
        run_dir: RunDir = None,
        rpc_url: RpcUrl = None,
        deployment: DeploymentFile = None,
        pool: PoolNumber = None,
        coordinator_url: CoordinatorUrl = None,
        relay_urls: RelayUrls = None,
        keystore: KeystoreFile = None,
        password_file: PasswordFile = None,
        engine: EngineName = None,
        device: Device = None,
        max_leases: MaxLeases = None,
        max_sequences: MaxSequences = None,
        runner: RunnerName = None,
        tensor_parallel: TensorParallel = None,
        threads: Threads = None,
    ) -> None:
        """Work in a pool until stopped; options may also be given as variables, STANNARY_WORKER_<OPTION>."""
        run(
            Settings.load(
                run_dir=run_dir,
                rpc_url=rpc_url,
                deployment=deployment,
                pool=pool,
                coordinator_url=coordinator_url,
                relay_urls=tuple(relay_urls) if relay_urls else None,
                keystore=keystore,
                password_file=password_file,
                engine=engine,
                device=device,
                max_leases=max_leases,
                max_sequences=max_sequences,
                runner=runner,
                tensor_parallel=tensor_parallel,
                threads=threads,
            ),
            alter,
        )

    return start


app.command("start")(start_command())


@app.command()
def check(
    run_dir: RunDir = None,
    rpc_url: RpcUrl = None,
    deployment: DeploymentFile = None,
    pool: PoolNumber = None,
    coordinator_url: CoordinatorUrl = None,
    keystore: KeystoreFile = None,
    password_file: PasswordFile = None,
    engine: EngineName = None,
    device: Device = None,
    runner: RunnerName = None,
    tensor_parallel: TensorParallel = None,
) -> None:
    """Say, line by line, whether a worker with these settings could start: wallet, chain, pool, stake, documents."""
    from worker.readiness import checks

    settings = Settings.load(
        run_dir=run_dir,
        rpc_url=rpc_url,
        deployment=deployment,
        pool=pool,
        coordinator_url=coordinator_url,
        keystore=keystore,
        password_file=password_file,
        engine=engine,
        device=device,
        runner=runner,
        tensor_parallel=tensor_parallel,
    )
    report_readiness(checks(settings))


def run(settings: Settings, alter: Callable[[Parts], Parts]) -> None:
    """Run a worker in this process until a signal stops it."""
    start_logging()
    account = wallet.load(settings.keystore, wallet.read_password(settings.password_file, str(settings.keystore)))
    if settings.threads is not None:
        # Read when torch is loaded, which is later than here.
        os.environ["OMP_NUM_THREADS"] = str(settings.threads)
    from worker.assembly import assemble
    from worker.loop import Interruption, Pace, Stopped, Worker

    interruption = Interruption()
    interruption.install()
    try:
        parts = alter(assemble(settings, account, interruption))
        try:
            Worker(parts, Pace(settings.max_leases, settings.poll_s, settings.heartbeat_s), interruption).run()
        finally:
            parts.engine.close()
    except Stopped as stopped:
        logging.getLogger(__name__).info("stopped %s", stopped)
