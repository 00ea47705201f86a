"""stannary dispute: take a leaf before a jury, appeal, and see how a case stands."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from stannary.commands.options import (
    CoordinatorUrl,
    DeploymentFile,
    KeystoreFile,
    PasswordFile,
    PoolNumber,
    RpcUrl,
    open_chain,
    open_sender,
    require_pool,
    show_amount,
)
from stannary.errors import Malformed, SettingsError
from stannary.settings import RoleSettings
from stannary.types import CaseKind, to_hex

if TYPE_CHECKING:
    from stannary.chain import Block, Chain
    from stannary.chain.dispute_court import Case
    from stannary.structs import Submission

app = typer.Typer(help="Disputes: a jury judges a leaf again, the loser pays.", no_args_is_help=True)

Step = Annotated[int, typer.Argument(metavar="STEP", min=0)]
Slot = Annotated[int, typer.Argument(metavar="SLOT", min=0)]
Location = Annotated[
    str | None,
    typer.Option(help="Where the leaf's bytes are served until the case is resolved; the coordinator unless given."),
]


@app.command("open")
def open_(
    step: Step,
    slot: Slot,
    location: Location = None,
    pool: PoolNumber = None,
    coordinator_url: CoordinatorUrl = None,
    keystore: KeystoreFile = None,
    password_file: PasswordFile = None,
    rpc_url: RpcUrl = None,
    deployment: DeploymentFile = None,
) -> None:
    """Say that an accepted leaf is bad. The bond comes back, with a reward, if the jury agrees."""
    settings = RoleSettings.load(
        pool=pool,
        coordinator_url=coordinator_url,
        keystore=keystore,
        password_file=password_file,
        rpc_url=rpc_url,
        deployment=deployment,
    )
    _dispute(settings, step, slot, CaseKind.CHALLENGE, location)


@app.command()
def appeal(
    step: Annotated[int | None, typer.Argument(metavar="STEP", min=0)] = None,
    slot: Annotated[int | None, typer.Argument(metavar="SLOT", min=0)] = None,
    case: Annotated[int | None, typer.Option(min=1, help="Appeal the ruling of this case about a run instead.")] = None,
    location: Location = None,
    pool: PoolNumber = None,
    coordinator_url: CoordinatorUrl = None,
    keystore: KeystoreFile = None,
    password_file: PasswordFile = None,
    rpc_url: RpcUrl = None,
    deployment: DeploymentFile = None,
) -> None:
    """Say that a leaf that was not accepted is good. The bond comes back, and the leaf is paid, if the jury agrees."""
    settings = RoleSettings.load(
        pool=pool,
        coordinator_url=coordinator_url,
        keystore=keystore,
        password_file=password_file,
        rpc_url=rpc_url,
        deployment=deployment,
    )
    if case is not None:
        _appeal_ruling(settings, case)
    elif step is None or slot is None:
        raise SettingsError("what is appealed? give a step and a slot, or --case")
    else:
        _dispute(settings, step, slot, CaseKind.APPEAL, location)


@app.command()
def status(
    case: Annotated[int | None, typer.Argument(metavar="CASE", min=1, help="One case; all of a pool without.")] = None,
    pool: PoolNumber = None,
    rpc_url: RpcUrl = None,
    deployment: DeploymentFile = None,
) -> None:
    """Show a case, or all cases of a pool, as JSON: who disputes what, the jury, its votes, deadlines, the ruling."""
    settings = RoleSettings.load(pool=pool, rpc_url=rpc_url, deployment=deployment)
    chain = open_chain(settings)
    at = chain.frozen()
    if case is not None:
        found = chain.dispute_court.case_of(case, at)
        if found is None:
            raise Malformed("case", expected=f"1 … {chain.dispute_court.case_count(at)}", got=case)
        typer.echo(json.dumps(_document(chain, case, found, at), indent=2))
        return
    number = require_pool(settings)
    cases = {
        identifier: found
        for identifier in range(1, chain.dispute_court.case_count(at) + 1)
        if (found := chain.dispute_court.case_of(identifier, at)) is not None and found.pool == number
    }
    typer.echo(json.dumps([_document(chain, identifier, found, at) for identifier, found in cases.items()], indent=2))


def _dispute(settings: RoleSettings, step: int, slot: int, kind: CaseKind, location: str | None) -> None:
    from stannary.disputes import open_dispute

    number = require_pool(settings)
    chain = open_chain(settings)
    sender = open_sender(settings, chain)
    leaves = _leaves(chain, settings, number, step)
    if location is None:
        location = settings.coordinator_url or ""
    case = open_dispute(chain, sender, number, step, slot, leaves, kind=kind, location=location)
    bond = show_amount(chain.dispute_court.bond_of(number))
    typer.echo(
        f"case {case}: {kind.name.lower()} of step {step}, slot {slot}; bond {bond}; see `dispute status {case}`"
    )


def _appeal_ruling(settings: RoleSettings, case: int) -> None:
    chain = open_chain(settings)
    sender = open_sender(settings, chain)
    found = chain.dispute_court.case_of(case)
    if found is None:
        raise Malformed("case", expected=f"1 … {chain.dispute_court.case_count()}", got=case)
    bond = chain.dispute_court.bond_of(found.pool)
    if bond:
        chain.token.require_funds(sender.address, bond)
        chain.token.require_allowance(sender, chain.deployment.payout_vault, bond)
    chain.dispute_court.appeal_ruling(sender, case)
    typer.echo(f"case {case} goes to a second jury; bond {show_amount(bond)}")


def _leaves(chain: Chain, settings: RoleSettings, pool: int, step: int) -> list[Submission]:
    from stannary.client import CoordinatorClient

    if settings.coordinator_url is None:
        raise SettingsError("where are the leaves? give --coordinator-url or set STANNARY_COORDINATOR_URL")
    terms = chain.terms_at(pool, step)
    with CoordinatorClient(settings.coordinator_url, chain.ledger_domain, terms.coordinator) as client:
        return [leaf.submission.submission() for leaf in client.leaves(step).leaves]


def _document(chain: Chain, identifier: int, case: Case, at: Block) -> dict[str, object]:
    court = chain.dispute_court
    jury = court.jury_of(identifier, at)
    votes = {juror: court.ruling_of(identifier, juror, at) for juror in jury}
    return {
        "case": identifier,
        "kind": case.kind.name.lower(),
        "phase": case.phase.name.lower(),
        "pool": case.pool,
        "step": case.step,
        "slot": case.slot,
        "firstStep": case.first_step,
        "provider": case.provider,
        "disputant": case.disputant,
        "panelSaid" if case.phase.name != "RESOLVED" else "outcome": case.outcome.name.lower(),
        "ruling": case.ruling.name.lower(),
        "leafHash": to_hex(case.leaf_hash),
        "bond": show_amount(case.bond),
        "round": case.round,
        "juryBlock": case.jury_block,
        "jury": {
            juror: vote.ruling.name.lower() if vote.is_revealed else "committed" if vote.is_committed else "waiting"
            for juror, vote in votes.items()
        },
        "times": asdict(court.jury_times_of(identifier, at)),
        "clock": chain.pool_registry.clock_of(case.pool, at),
        "appealUntil": case.appeal_until or None,
    }
