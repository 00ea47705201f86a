"""`stannary validator`: starts a validator, says whether one could start, or measures a calibration card."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
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
from stannary.errors import SettingsError
from stannary.logs import start_logging
from stannary.waiting import StopRequested
from validator.economics_cli import economics
from validator.explain_cli import explain
from validator.settings import Settings, WatchSettings

if TYPE_CHECKING:
    from validator.calibrate import Attack

app = typer.Typer(
    help="Re-check submissions, vote, be paid for it.", no_args_is_help=True, pretty_exceptions_enable=False
)

watch_app = typer.Typer(
    help="Judge a sample of a pool's leaves again, and dispute what is wrong.", pretty_exceptions_enable=False
)

Device = Annotated[str | None, typer.Option(help="Device of the prefill.")]
Threads = Annotated[int | None, typer.Option(help="CPU threads of the prefill.")]


@app.command()
def start(
    run_dir: RunDir = None,
    rpc_url: RpcUrl = None,
    deployment: DeploymentFile = None,
    pool: PoolNumber = None,
    coordinator_url: CoordinatorUrl = None,
    relay_urls: RelayUrls = None,
    keystore: KeystoreFile = None,
    password_file: PasswordFile = None,
    device: Device = None,
    threads: Threads = None,
) -> None:
    """Validate in a pool until stopped; options may also be given as variables, STANNARY_VALIDATOR_<OPTION>."""
    start_logging()
    settings = Settings.load(
        run_dir=run_dir,
        rpc_url=rpc_url,
        deployment=deployment,
        pool=pool,
        coordinator_url=coordinator_url,
        relay_urls=tuple(relay_urls) if relay_urls else None,
        keystore=keystore,
        password_file=password_file,
        device=device,
        threads=threads,
    )
    account = wallet.load(settings.keystore, wallet.read_password(settings.password_file, str(settings.keystore)))
    if settings.threads is not None:
        # Read when torch is loaded, which is later than here.
        os.environ["OMP_NUM_THREADS"] = str(settings.threads)
    from validator.assembly import assemble
    from validator.loop import Validator

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        Validator(assemble(settings, account, stop), settings.poll_s, stop).run()
    except StopRequested:
        logging.getLogger(__name__).info("stopped while starting")


@watch_app.callback(invoke_without_command=True)
def watch(
    run_dir: RunDir = None,
    rpc_url: RpcUrl = None,
    deployment: DeploymentFile = None,
    pool: PoolNumber = None,
    coordinator_url: CoordinatorUrl = None,
    relay_urls: RelayUrls = None,
    keystore: KeystoreFile = None,
    password_file: PasswordFile = None,
    share: Annotated[float | None, typer.Option(help="Share of the leaves that are judged again.")] = None,
    max_bonds: Annotated[
        float | None, typer.Option(help="The most that is out in bonds, or lost, in whole payout tokens; 0 only tells.")
    ] = None,
    location: Annotated[str | None, typer.Option(help="Where disputed bytes are served; the coordinator.")] = None,
    accusations_url: Annotated[
        str | None,
        typer.Option(help="Where RUN_DIR/accusations is served; without it no run of leaves is accused, only told."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of the sample; chance unless given.")] = None,
    device: Device = None,
    threads: Threads = None,
) -> None:
    """Watch a pool until stopped: challenge what was wrongly accepted, appeal what was wrongly refused, and accuse
    providers whose leaves together are beyond honest work.
    """
    start_logging()
    settings = WatchSettings.load(
        run_dir=run_dir,
        rpc_url=rpc_url,
        deployment=deployment,
        pool=pool,
        coordinator_url=coordinator_url,
        relay_urls=tuple(relay_urls) if relay_urls else None,
        keystore=keystore,
        password_file=password_file,
        share=share,
        max_bonds=max_bonds,
        location=location,
        accusations_url=accusations_url,
        seed=seed,
        device=device,
        threads=threads,
    )
    account = wallet.load(settings.keystore, wallet.read_password(settings.password_file, str(settings.keystore)))
    if settings.threads is not None:
        os.environ["OMP_NUM_THREADS"] = str(settings.threads)
    from validator.assembly import assemble_watch

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        assemble_watch(settings, account, stop).run()
    except StopRequested:
        logging.getLogger(__name__).info("stopped while starting")


@app.command()
def check(
    run_dir: RunDir = None,
    rpc_url: RpcUrl = None,
    deployment: DeploymentFile = None,
    pool: PoolNumber = None,
    coordinator_url: CoordinatorUrl = None,
    keystore: KeystoreFile = None,
    password_file: PasswordFile = None,
) -> None:
    """Say, line by line, whether a validator with these settings could start: wallet, chain, pool, stake, documents."""
    from validator.readiness import checks

    settings = Settings.load(
        run_dir=run_dir,
        rpc_url=rpc_url,
        deployment=deployment,
        pool=pool,
        coordinator_url=coordinator_url,
        keystore=keystore,
        password_file=password_file,
    )
    report_readiness(checks(settings))


app.command("economics")(economics)
app.command("explain")(explain)


@app.command()
def calibrate(
    policy: Annotated[list[Path], typer.Option(help="Folders of consecutive policy steps, the first one first.")],
    out: Annotated[Path, typer.Option(help="Where to write the card; a page of the same name lies beside it.")],
    environment: Annotated[
        str | None, typer.Option(help="Record every policy by every machine on this environment's prompts.")
    ] = None,
    params: Annotated[str, typer.Option(help="JSON of the environment's parameters.")] = "{}",
    groups: Annotated[int, typer.Option(help="Groups to record of each policy and machine, for each half.")] = 20,
    group_size: Annotated[int, typer.Option(help="Rollouts of a recorded group.")] = 4,
    max_tokens: Annotated[int, typer.Option(help="Cap of a recorded completion.")] = 128,
    temperature_milli: Annotated[int, typer.Option(help="Temperature in thousandths.")] = 1000,
    work: Annotated[Path, typer.Option(help="Where recordings lie; those that are there are kept.")] = Path(
        "runs/cards"
    ),
    corpus: Annotated[list[Path] | None, typer.Option(help="More recordings that set the limits; repeatable.")] = None,
    check: Annotated[list[Path] | None, typer.Option(help="More recordings to hold against them; repeatable.")] = None,
    machine: Annotated[
        list[str] | None,
        typer.Option(help="Machine to record by: a name, or NAME=OPTIONS of `worker record`; repeatable. [all named]"),
    ] = None,
    attack: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=CORPUS@FOLDER[@BEFORE]: a recording that pretends to be of the policy in FOLDER, with that of "
            "the policy step before; repeatable."
        ),
    ] = None,
    audit_bps: Annotated[int, typer.Option(help="How many of 10,000 leaves get the dear checks.")] = 10_000,
    rate: Annotated[float, typer.Option(help="Honest submissions that are rejected at most.")] = 1e-4,
    device: Device = None,
) -> None:
    """Measure honest drift and write a calibration card; attacks are counted under its limits, they do not set them."""
    from validator.calibrate import calibrate as measure
    from validator.card_page import card_page
    from validator.machine import describe as describe_machine
    from validator.recordings import MACHINES, Machine, Task, record_all
    from validator.samples import CardSamples

    kept: list[CardSamples] = []
    fitted, checked = list(corpus or []), list(check or [])
    if environment is not None:
        task = Task(environment, params, group_size, max_tokens)
        for number, part in enumerate((fitted, checked)):
            part += record_all(
                work,
                policy,
                task,
                groups=groups,
                seed=number,
                temperature_milli=temperature_milli,
                machines=[Machine.named(text) for text in machine] if machine else MACHINES,
                report=typer.echo,
            )
    card = measure(
        policy,
        fitted,
        checked,
        [_attack(text) for text in attack or []],
        {"command": "stannary " + " ".join(_shown(word) for word in sys.argv[1:]), **describe_machine()},
        audit_bps=audit_bps,
        false_reject_rate=rate,
        device=device or "cpu",
        report=typer.echo,
        keep=kept.append,
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(card.to_bytes())
    kept[0].write(out.with_suffix(".samples.json"))
    page = out.with_suffix(".html")
    page.write_text(card_page(card, kept[0]), encoding="utf-8")
    typer.echo(f"card 0x{card.hash().hex()} written to {out}, its page to {page}")


def _attack(text: str) -> Attack:
    name, _, rest = text.partition("=")
    parts = rest.split("@")
    if not (name and all(parts) and len(parts) in (2, 3)):
        raise SettingsError(f"--attack {text}: expected NAME=CORPUS@FOLDER or NAME=CORPUS@FOLDER@BEFORE")
    from validator.calibrate import Attack

    return Attack(name, *map(Path, parts))


def _shown(word: str) -> str:
    return f"'{word}'" if " " in word else word
