"""`stannary worker`: starts a worker, or says whether one could start."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
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
from worker.status_cli import status

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
app.command("status")(status)


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


@app.command()
def record(
    policy: Annotated[Path, typer.Option(help="Folder of the policy.")],
    environment: Annotated[str, typer.Option(help="Whose prompts are taken.")],
    out: Annotated[Path, typer.Option(help="Where to write the corpus.")],
    params: Annotated[str, typer.Option(help="JSON of the environment's parameters.")] = "{}",
    engine: Annotated[str, typer.Option(help="vllm or transformers.")] = "vllm",
    dtype: Annotated[str, typer.Option(help="Compute of the transformers engine: bf16 or fp32.")] = "bf16",
    attention: Annotated[str, typer.Option(help="Attention of the transformers engine: sdpa or eager.")] = "sdpa",
    runner: Annotated[str, typer.Option(help="vLLM's model runner, v1 or v2.")] = "v1",
    tensor_parallel: Annotated[int, typer.Option(help="Devices over which vLLM spreads the policy.")] = 1,
    device: Annotated[str, typer.Option(help="Device of the transformers engine.")] = "cpu",
    threads: Annotated[int, typer.Option(help="CPU threads.")] = 1,
    batch: Annotated[int, typer.Option(help="Groups generated together.")] = 16,
    groups: Annotated[int, typer.Option(help="Groups in all.")] = 64,
    group_size: Annotated[int, typer.Option(help="Rollouts of a group.")] = 4,
    max_tokens: Annotated[int, typer.Option(help="Cap of a completion.")] = 128,
    temperature_milli: Annotated[int, typer.Option(help="Temperature in thousandths.")] = 1000,
    seed: Annotated[int, typer.Option(help="Other numbers give other prompts and noise.")] = 0,
) -> None:
    """Record rollouts of a policy for `stannary validator calibrate` to measure."""
    os.environ["OMP_NUM_THREADS"] = str(threads)  # read when torch is loaded
    from stannary.environments import describe_environment, load_environment
    from worker.engines import EngineChoice, open_engine
    from worker.recording import Plan, describe
    from worker.recording import record as record_corpus

    document = describe_environment(environment, json.loads(params), policy)
    choice = EngineChoice(
        engine=engine,
        device=device,
        max_sequences=max(64, batch * group_size),
        runner=runner,
        tensor_parallel=tensor_parallel,
        dtype=dtype,
        attention=attention,
    )
    opened = open_engine(choice, keeps_states=True)
    plan = Plan(groups, group_size, max_tokens, temperature_milli, seed, batch)
    try:
        corpus = record_corpus(
            opened,
            describe(choice, threads, batch),
            policy,
            load_environment(document, policy),
            plan,
            lambda done: typer.echo(f"{done} of {groups} groups"),
        )
    finally:
        opened.close()
    corpus.write(out)


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
            pace = Pace(
                max_leases=settings.max_leases,
                poll_s=settings.poll_s,
                heartbeat_s=settings.heartbeat_s,
                standing_s=settings.standing_s,
                stop_log10=settings.stop_log10,
            )
            Worker(parts, pace, interruption).run()
        finally:
            parts.engine.close()
    except Stopped as stopped:
        logging.getLogger(__name__).info("stopped %s", stopped)
