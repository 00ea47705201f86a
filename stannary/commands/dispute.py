"""stannary dispute: take a leaf or a provider's whole run before a jury, appeal, and see how a case stands."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
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
    parse_account,
    require_pool,
    show_amount,
)
from stannary.errors import Malformed, SettingsError
from stannary.settings import RoleSettings
from stannary.types import Address, CaseKind, to_hex

if TYPE_CHECKING:
    from stannary.accusation import Accusation
    from stannary.chain import Block, Chain
    from stannary.chain.dispute_court import Case
    from stannary.provider_record import Record
    from stannary.structs import Submission

app = typer.Typer(help="Disputes: a jury judges leaves again, the loser pays.", no_args_is_help=True)

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
def accuse(
    provider: Annotated[str, typer.Option(metavar="ADDRESS", help="Whose leaves.")],
    first: Annotated[
        int | None, typer.Option("--from", min=0, help="First step; where the last conviction ended unless given.")
    ] = None,
    last: Annotated[int | None, typer.Option("--to", min=0, help="Last step; the newest settled unless given.")] = None,
    out: Annotated[Path, typer.Option(help="Where the accusation is written.")] = Path("accusation.json"),
    location: Annotated[
        str | None, typer.Option(help="Where that file is served until the case is resolved; needed to send it.")
    ] = None,
    send: Annotated[bool, typer.Option("--send", help="Open the case, for two bonds.")] = False,
    pool: PoolNumber = None,
    coordinator_url: CoordinatorUrl = None,
    keystore: KeystoreFile = None,
    password_file: PasswordFile = None,
    rpc_url: RpcUrl = None,
    deployment: DeploymentFile = None,
) -> None:
    """Add up what the panels measured of a provider's leaves, and accuse it if that is beyond honest work.

    The jury measures the named leaves again. Files of leaves that the coordinator does not serve are looked for beside
    the accusation, by their content hash.
    """
    settings = RoleSettings.load(
        pool=pool,
        coordinator_url=coordinator_url,
        keystore=keystore,
        password_file=password_file,
        rpc_url=rpc_url,
        deployment=deployment,
    )
    number, accused = require_pool(settings), parse_account(provider)
    chain = open_chain(settings)
    found = _read_record(chain, settings, number, accused, first, last)
    accusation = _tell_run(found, number, first)
    if accusation is not None:
        out.write_bytes(accusation.to_bytes())
        typer.echo(
            f"written to {out}: leaves named: {len(accusation.leaves)}, hash {to_hex(accusation.evidence_hash())}"
        )
    if send:
        _send_accusation(chain, settings, found, accusation, out, location)


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
    from stannary.disputes import require_bond

    chain = open_chain(settings)
    sender = open_sender(settings, chain)
    found = chain.dispute_court.case_of(case)
    if found is None:
        raise Malformed("case", expected=f"1 … {chain.dispute_court.case_count()}", got=case)
    bond = chain.dispute_court.bond_of(found.pool)
    require_bond(chain, sender, bond)
    chain.dispute_court.appeal_ruling(sender, case)
    typer.echo(f"case {case} goes to a second jury; bond {show_amount(bond)}")


def _read_record(
    chain: Chain, settings: RoleSettings, pool: int, provider: Address, first: int | None, last: int | None
) -> Record:
    """Return what panels published of a provider up to a settled step. Raises: SettingsError for a run that is none."""
    from stannary.client import CoordinatorClient
    from stannary.provider_record import PublicSources, Reader

    if settings.coordinator_url is None:
        raise SettingsError("where are leaves and evidence? give --coordinator-url or set STANNARY_COORDINATOR_URL")
    at = chain.frozen()
    settled = chain.submission_ledger.settled_count_of(pool, at)
    judged = chain.dispute_court.judged_up_to(pool, provider, at)
    first, last = judged if first is None else first, settled - 1 if last is None else last
    if not judged <= first <= last < settled:
        raise SettingsError(f"steps {first} … {last}: expected a run within {judged} … {settled - 1}")
    terms = chain.terms_at(pool, last, at)
    with CoordinatorClient(settings.coordinator_url, chain.ledger_domain, terms.coordinator) as client:
        found = Reader(PublicSources(chain, client, pool), provider, terms.quorum).read(last)
    if found is None:
        raise SettingsError(f"pool {pool} has opened no step up to {last}")
    return found


def _tell_run(found: Record, pool: int, first: int | None) -> Accusation | None:
    """Print what there is, and return the accusation that names all that speaks against the provider, if anything."""
    from stannary.e_process import PARTS
    from stannary.standing import Standing

    first = found.first if first is None else first
    rules = found.rules
    standing = Standing.of(rules, [leaf for leaf in found.standing.leaves if leaf.step >= first])
    since = "" if first == found.first else f", all since step {found.first} counted"
    typer.echo(
        f"{found.provider} in pool {pool}, steps {first} … {found.last}{since}; "
        f"leaves: {found.total}, with scores from their panel: {len(standing.leaves)}"
    )
    for missing in found.missing:
        typer.echo(f"could not be had: {missing}")
    levels = [0.0, *(level.score for level in rules.levels)]
    for part, own in zip(PARTS, standing.counts, strict=True):
        counts = [f"{count} from {level:g}" for level, count in zip(levels, own, strict=True)]
        typer.echo(f"scores of the {part}: {', '.join(counts)}")
    typer.echo(
        f"evidence: 10^{standing.log10:.2f}; workers stop at 10^{rules.stop_log10:g}, "
        f"10^{rules.slash_log10:g} may be slashed"
    )
    accusation = found.accusation(pool, first)
    if accusation is None:
        typer.echo("no leaf reaches a level: there is nothing to accuse of")
        return None
    typer.echo(f"a juror that measures the same finds: 10^{found.as_juror(accusation):.2f}")
    return accusation


def _send_accusation(
    chain: Chain, settings: RoleSettings, found: Record, accusation: Accusation | None, out: Path, location: str | None
) -> None:
    from stannary.disputes import open_accusation

    if accusation is None or found.as_juror(accusation) < found.rules.slash_log10:
        raise SettingsError(f"this would not convict, and cost the bond: 10^{found.rules.slash_log10:g} is needed")
    if location is None:
        raise SettingsError(f"where will jurors find {out}? give --location")
    case = open_accusation(chain, open_sender(settings, chain), accusation, location)
    bond = show_amount(2 * chain.dispute_court.bond_of(accusation.pool))
    typer.echo(f"case {case}: bond {bond}; keep serving {location}; see `dispute status {case}`")


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
