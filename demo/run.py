"""The demo from beginning to end: found a pool, start every role, watch, settle, read back, report.

base policy ─ chain ─ pool and stakes ─ coordinator ─ trainer, workers, validators ─ accusation ─ … ─ claims ─ report
"""

from __future__ import annotations

import fcntl
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from rich.console import Console

from demo import plan as numbers
from demo.accusation import Accuser
from demo.founding import Founded, found
from demo.memory import MemoryPeak
from demo.plan import Plan
from demo.processes import Processes, stop_on_signals
from demo.progress import Progress, awaited, closing_lines
from demo.record import Record
from demo.report import History, Measured, Party, Sources, read_record, read_step, write_report
from demo.roles import STANNARY, Commands
from demo.settlement import claim_all
from demo.wallets import Wallets, make_wallets
from stannary.chain import Connection, Sender, devnet, events
from stannary.client import CoordinatorClient
from stannary.documents import parse_document
from stannary.environments import describe_environment, load_environment
from stannary.errors import NetworkError, OperatorError, SettingsError, Unavailable

POLL_S = 0.4
START_TIMEOUT_S = 60.0
BASE_TIMEOUT_S = 300.0
STAGGER_S = 1.0
"""Between the starts of two processes, so that the first to be needed is the first to be ready."""
SLASH_TIMEOUT_S = 120.0
_MARK = ".stannary-demo"


class Hung(OperatorError):
    """Nothing has moved for too long."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished demo."""

    record: Record
    report: dict[str, Any]


def run_demo(plan: Plan, run_dir: Path, console: Console) -> Outcome:
    """Run the demo in a folder of its own. Every process that it starts has ended when it returns or raises.

    Raises: SettingsError for a folder that is not its own; ProcessEnded, Hung and what chain and coordinator raise.
    """
    began = time.monotonic()
    progress = Progress(console)
    with ExitStack() as stack:
        stack.enter_context(stop_on_signals())
        stack.enter_context(run_folder(run_dir))
        processes = stack.enter_context(Processes(run_dir / "logs"))
        memory = stack.enter_context(MemoryPeak(lambda: processes.sessions))
        base = _make_base(plan, processes, progress)
        founded, wallets, commands = _found(plan, run_dir, base, processes, progress)
        client = stack.enter_context(_client(founded, wallets, commands))
        sources = _sources(plan, founded, wallets, client, base)
        _start(commands, client, processes, progress)
        _watch(plan, sources, _accuser(plan, sources, wallets), processes, progress)
        _settle(plan, sources, wallets, processes, progress)
        heldout_before, heldout_after = read_heldout(run_dir / "trainer" / "metrics.jsonl", plan.steps)
        measured = Measured(
            policy=plan.policy,
            lr=plan.learning_rate,
            heldout_before=heldout_before,
            heldout_after=heldout_after,
            wall_s=time.monotonic() - began,
            peak_rss_mb=memory.peak_mb,
        )
        record = read_record(sources, measured)
    report = write_report(record, run_dir)
    for line in closing_lines(record):
        console.print(line, highlight=False, markup=False)
    return Outcome(record, report)


def read_heldout(metrics: Path, steps: int) -> tuple[float, float]:
    """Return the held-out rewards of the first and the last policy step from the trainer's metrics.

    Raises: Unavailable if the trainer has not written them.
    """
    entries = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    found = {entry["policy_step"]: float(entry["reward"]) for entry in entries if entry["kind"] == "heldout"}
    if not {0, steps} <= set(found):
        raise Unavailable(f"{metrics} holds no held-out reward of policy steps 0 and {steps}, only of {sorted(found)}")
    return found[0], found[steps]


@contextmanager
def run_folder(run_dir: Path) -> Iterator[None]:
    """Take the folder for this run and clear what an earlier run left in it."""
    run_dir.mkdir(parents=True, exist_ok=True)
    mark = run_dir / _MARK
    if not mark.exists() and any(run_dir.iterdir()):
        raise SettingsError(f"{run_dir} holds files that are not the demo's: name an empty folder with --run-dir")
    with mark.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SettingsError(f"another demo runs in {run_dir}: name another folder with --run-dir") from None
        for entry in run_dir.iterdir():
            if entry.name == _MARK:
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        yield


def _make_base(plan: Plan, processes: Processes, progress: Progress) -> Path:
    """Make the base policy in a process of its own, which keeps torch out of this one; an existing one is kept."""
    folder = Path("policies") / plan.policy
    progress.say(f"base policy {plan.policy} in {folder}")
    command = [*STANNARY, "trainer", "base", plan.policy, str(folder)]
    processes.finish(processes.start("base", command, may_finish=True), timeout_s=BASE_TIMEOUT_S)
    return folder


def _found(
    plan: Plan, run_dir: Path, base: Path, processes: Processes, progress: Progress
) -> tuple[Founded, Wallets, Commands]:
    parties = (*numbers.VALIDATORS, *plan.workers)
    wallets = make_wallets(run_dir / "wallets", numbers.SINGLE_WALLETS, parties)
    port = devnet.free_port()
    (run_dir / "chain").mkdir()
    processes.start("chain", devnet.anvil_command(run_dir / "chain", port, 0))
    connection = Connection(f"http://127.0.0.1:{port}")
    _wait_for(connection.frozen, "the chain", processes, progress)
    card = parse_document(resources.files("validator").joinpath(f"cards/{plan.policy}.json").read_bytes().strip())
    environment = describe_environment(plan.environment, plan.parameters, base)
    founded = found(connection.rpc_url, run_dir, plan, wallets, card, environment)
    # Blocks came with each transaction so far; from here on they come by the clock, as elsewhere.
    connection.rpc("evm_setAutomine", False)
    connection.rpc("evm_setIntervalMining", numbers.BLOCK_TIME_S)
    progress.say(
        f"pool {founded.pool} on chain {founded.chain.deployment.chain_id}: {len(parties)} parties have staked"
    )
    return founded, wallets, Commands(plan, founded, wallets, run_dir, base, devnet.free_port())


def _client(founded: Founded, wallets: Wallets, commands: Commands) -> CoordinatorClient:
    return CoordinatorClient(
        commands.coordinator_url, founded.chain.ledger_domain, wallets["coordinator"].address, timeout_s=60.0
    )


def _sources(plan: Plan, founded: Founded, wallets: Wallets, client: CoordinatorClient, base: Path) -> Sources:
    def party(name: str) -> Party:
        return Party(name, wallets.cold(name).address, wallets.hot(name).address)

    environment = load_environment(parse_document(founded.documents[1].read_bytes()), base)
    return Sources(
        chain=founded.chain,
        pool=founded.pool,
        coordinator=client,
        environment=environment,
        providers=tuple(map(party, plan.workers)),
        validators=tuple(map(party, numbers.VALIDATORS)),
    )


def _accuser(plan: Plan, sources: Sources, wallets: Wallets) -> Accuser:
    return Accuser(
        chain=sources.chain,
        pool=sources.pool,
        coordinator=sources.coordinator,
        sender=Sender(sources.chain, wallets[numbers.ACCUSER].account),
        accused=frozenset(party.provider for party in sources.providers if party.name in numbers.HONEST),
        quorum=numbers.QUORUM,
        first_step=plan.accused_step,
    )


def _start(commands: Commands, client: CoordinatorClient, processes: Processes, progress: Progress) -> None:
    first = commands.coordinator()
    processes.start(first.name, first.command)
    _wait_for(client.health, "the coordinator", processes, progress)
    for role in (commands.trainer(), *commands.workers(), *commands.validators()):
        processes.start(role.name, role.command, may_finish=role.may_finish)
        time.sleep(STAGGER_S)
        processes.check()
    progress.say(f"all processes started; their logs are in {processes.logs}")


def _wait_for(answer: Callable[[], object], what: str, processes: Processes, progress: Progress) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            answer()
        except NetworkError as error:
            processes.check()
            if time.monotonic() > deadline:
                raise Hung(f"{what} did not answer within {START_TIMEOUT_S:.0f} s: {error}") from error
            progress.waiting(what)
            time.sleep(0.1)
        else:
            return


def _watch(plan: Plan, sources: Sources, accuser: Accuser, processes: Processes, progress: Progress) -> None:
    """Print each step as it ends, until the last policy is published, every fault slashed and every case resolved."""
    history = History.read(sources.chain)
    pool = sources.pool
    shown = 0
    moved = time.monotonic()
    seen = len(history.events)
    while True:
        processes.check()
        history.advance()
        if len(history.events) > seen:
            seen, moved = len(history.events), time.monotonic()
        if said := accuser.act(history):
            progress.say(said)
        finals = history.of(events.StepFinalized, pool=pool)
        for event in finals[shown:]:
            progress.step(read_step(sources, history, event.step))
        shown = len(finals)
        settled = shown + len(history.of(events.StepCancelled, pool=pool))
        has_learnt = len(history.of(events.PolicyPublished, pool=pool)) > plan.steps
        faults = sum(event.faulted for event in finals)
        slashed = len(history.of(events.LeafSlashed, pool=pool))
        cases = len(history.of(events.CaseOpened, pool=pool)) - len(history.of(events.CaseResolved))
        if settled >= plan.steps and has_learnt and slashed >= faults and not cases:
            return
        what = awaited(history, pool, plan.steps)
        progress.waiting(what)
        if time.monotonic() - moved > plan.step_timeout_s:
            raise Hung(f"nothing happened on chain for {plan.step_timeout_s:.0f} s while waiting for {what}")
        time.sleep(POLL_S)


def _settle(plan: Plan, sources: Sources, wallets: Wallets, processes: Processes, progress: Progress) -> None:
    trainer = processes.named("trainer")
    processes.finish(trainer, timeout_s=START_TIMEOUT_S)
    for name in (*plan.workers, *numbers.VALIDATORS):
        processes.end(processes.named(name))
    progress.say("all steps are final; everybody claims, and what was slashed is burned")
    chain = sources.chain
    names = [f"{party}.provider" for party in (*plan.workers, *numbers.VALIDATORS)]
    # The coordinator is paid for the beacons that it sealed.
    accounts = [wallets[name].account for name in (*names, "coordinator", numbers.ACCUSER)]
    claim_all(chain, sources.pool, [Sender(chain, account) for account in accounts])
    if chain.stake_manager.burnable():
        chain.stake_manager.burn_slashed(Sender(chain, wallets["owner"].account))
