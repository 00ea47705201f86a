"""`stannary trainer`: trains a pool's policy, makes base policies, rehearses a recipe."""

from __future__ import annotations

import logging
import signal
import threading
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from stannary import wallet
from stannary.commands.options import (
    CoordinatorUrl,
    DeploymentFile,
    KeystoreFile,
    PasswordFile,
    PoolNumber,
    RpcUrl,
    RunDir,
)
from stannary.logs import start_logging
from trainer.settings import Settings

app = typer.Typer(help="Learn from accepted rollouts, publish policy steps.", no_args_is_help=True)


class Base(StrEnum):
    """A base policy that can be made here."""

    TOY = "toy"
    SMOLLM2 = "smollm2"


@app.command()
def start(
    steps: Annotated[int | None, typer.Option(help="Steps to open and learn from.")] = None,
    slots: Annotated[int | None, typer.Option(help="Groups a step.")] = None,
    base: Annotated[Path | None, typer.Option(help="Policy folder of policy step 0.")] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="AdamW's learning rate; 0 leaves the weights alone.")
    ] = None,
    optimizer_steps: Annotated[int | None, typer.Option(help="Optimizer steps a policy step.")] = None,
    lag: Annotated[int | None, typer.Option(help="Steps that generation runs ahead.")] = None,
    heldout: Annotated[int | None, typer.Option(help="Held-out problems to evaluate.")] = None,
    run_dir: RunDir = None,
    rpc_url: RpcUrl = None,
    deployment: DeploymentFile = None,
    pool: PoolNumber = None,
    coordinator_url: CoordinatorUrl = None,
    keystore: KeystoreFile = None,
    password_file: PasswordFile = None,
) -> None:
    """Train a pool's policy until the last step. Options not given are read from STANNARY_TRAINER_<NAME>."""
    run(
        Settings.load(
            steps=steps,
            slots=slots,
            base=base,
            learning_rate=learning_rate,
            optimizer_steps=optimizer_steps,
            lag=lag,
            heldout=heldout,
            run_dir=run_dir,
            rpc_url=rpc_url,
            deployment=deployment,
            pool=pool,
            coordinator_url=coordinator_url,
            keystore=keystore,
            password_file=password_file,
        )
    )


@app.command("base")
def make_base(
    name: Annotated[Base, typer.Argument(help="Which policy.")],
    folder: Annotated[Path, typer.Argument(help="Where to write it; a complete one is kept.")],
    seed: Annotated[int, typer.Option(help="Seed of the toy's weights.")] = 0,
) -> None:
    """Make the folder of a base policy."""
    from trainer.base import make_smollm2, make_toy

    made = make_toy(folder, seed) if name is Base.TOY else make_smollm2(folder)
    typer.echo(f"{made}")


@app.command()
def rehearse(
    base: Annotated[Path, typer.Argument(help="Policy folder to start from.")],
    learning_rate: Annotated[float, typer.Option(help="AdamW's learning rate.")] = 2e-3,
    policy_steps: Annotated[int, typer.Option(help="Policy steps.")] = 15,
    groups: Annotated[int, typer.Option(help="Groups a step.")] = 16,
    group_size: Annotated[int, typer.Option(help="Rollouts a group.")] = 8,
    max_tokens: Annotated[int, typer.Option(help="Longest completion.")] = 48,
    optimizer_steps: Annotated[int, typer.Option(help="Optimizer steps a policy step.")] = 2,
    accepted_share: Annotated[float, typer.Option(help="Share of groups that are learnt from.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of problems and sampling.")] = 0,
    environment: Annotated[Path | None, typer.Option(help="Identity document; the sieve task unless given.")] = None,
) -> None:
    """Run the learning recipe in this process alone, without chain and peers, and print what it reaches."""
    from stannary.documents import parse_document
    from stannary.environments import describe_environment, load_environment
    from trainer.policy import Recipe, TrainReport
    from trainer.rehearsal import Schedule, rehearse

    document = (
        describe_environment("sieve", {}, base)
        if environment is None
        else parse_document(environment.read_bytes(), "environment")
    )

    def report(step: int, reward: float, train: TrainReport) -> None:
        typer.echo(f"step {step:3d}  reward {reward:.3f}  loss {train.loss:+.4f}  tokens {train.tokens}")

    result = rehearse(
        base,
        load_environment(document, base),
        Recipe(learning_rate=learning_rate, optimizer_steps=optimizer_steps),
        Schedule(
            policy_steps=policy_steps,
            groups=groups,
            group_size=group_size,
            max_tokens=max_tokens,
            accepted_share=accepted_share,
            seed=seed,
        ),
        report,
    )
    typer.echo(f"held-out {result.heldout_before:.3f} -> {result.heldout_after:.3f} in {result.seconds:.1f} s")


def run(settings: Settings) -> None:
    """Train in this process until done or until a signal asks to stop, between two actions."""
    start_logging()
    stop = threading.Event()

    def note(number: int, _frame: FrameType | None) -> None:
        logging.getLogger(__name__).info("%s: stopping after this action", signal.Signals(number).name)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, note)
    account: Any = wallet.load(settings.keystore, wallet.read_password(settings.password_file, str(settings.keystore)))
    from trainer.assembly import assemble

    trainer = assemble(settings, account, stop)
    if trainer is None:
        return
    try:
        trainer.run(stop)
    finally:
        trainer.close()
