"""stannary dispute: take a leaf or a provider's whole run before a jury, appeal, and see how a case stands."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
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
from stannary.errors import Malformed, SettingsError, Unavailable, Unreachable
from stannary.settings import RoleSettings
from stannary.types import Address, CaseKind, Hash, to_hex

if TYPE_CHECKING:
    from stannary.accusation import Accusation
    from stannary.chain import Block, Chain, StepHistory
    from stannary.chain.dispute_court import Case
    from stannary.client import CoordinatorClient
    from stannary.e_process import EvidenceRules
    from stannary.evidence import EvidenceFile
    from stannary.standing import ScoredLeaf
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
    found = _read_run(chain, settings, number, accused, first, last)
    accusation = _tell_run(found, number, accused)
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


@dataclass(frozen=True, slots=True)
class _Run:
    """What the chain and the panels say of a provider's leaves up to a step."""

    counted_from: int
    """The first step of which every leaf counts."""
    first: int
    last: int
    card_hash: Hash
    rules: EvidenceRules
    total: int
    """Leaves of the provider since `counted_from`."""
    leaves: tuple[ScoredLeaf, ...]
    """Those from `first` on for which their panel published scores; plants are left out."""

    def as_juror(self, accusation: Accusation) -> float:
        """Return the evidence of a juror that measures the named leaves as the panels did, as a power of ten."""
        from stannary.accusation import evidence_log10

        return evidence_log10(self.rules, self.total, [leaf.scores for leaf in accusation.leaves])


def _read_run(
    chain: Chain, settings: RoleSettings, pool: int, provider: Address, first: int | None, last: int | None
) -> _Run:
    from stannary.accusation import slots_of
    from stannary.cards import Card
    from stannary.client import CoordinatorClient

    if settings.coordinator_url is None:
        raise SettingsError("where are leaves and evidence? give --coordinator-url or set STANNARY_COORDINATOR_URL")
    at = chain.frozen()
    settled = chain.submission_ledger.settled_count_of(pool, at)
    judged = chain.dispute_court.judged_up_to(pool, provider, at)
    first, last = judged if first is None else first, settled - 1 if last is None else last
    if not judged <= first <= last < settled:
        raise SettingsError(f"steps {first} … {last}: expected a run within {judged} … {settled - 1}")
    terms = chain.terms_at(pool, last, at)
    total, scored = 0, []
    with CoordinatorClient(settings.coordinator_url, chain.ledger_domain, terms.coordinator) as client:
        rules = Card.from_document(client.document(terms.card_hash)).evidence
        for step in range(judged, last + 1):
            history = chain.step_history(pool, step, at)
            slots = slots_of(history, provider)
            total += len(slots)
            if step >= first and slots and chain.terms_at(pool, step, at).card_hash == terms.card_hash:
                leaves = _scored(client, history, provider)
                scored += [leaf for leaf in leaves if not chain.planted_faults.is_plant(leaf.leaf_hash, at)]
    return _Run(judged, first, last, terms.card_hash, rules, total, tuple(scored))


def _scored(client: CoordinatorClient, history: StepHistory, provider: Address) -> list[ScoredLeaf]:
    """Return the provider's leaves of a step for which its panel published scores."""
    from stannary.slots import submission_root
    from stannary.standing import scored_leaves

    tree: list[Submission] = []
    if history.opened is not None and history.committed is not None:
        tree = [leaf.submission.submission() for leaf in client.leaves(history.step).leaves]
        root, committed = submission_root(tree, history.opened.slots), history.committed.submission_root
        if root != committed:
            raise Malformed(f"leaves of step {history.step}", expected=to_hex(committed), got=to_hex(root))
    leaves = [*tree, *(delivered.leaf for delivered in history.delivered.values())]
    return scored_leaves(_published(client, history), [leaf for leaf in leaves if leaf.provider == provider])


def _published(client: CoordinatorClient, history: StepHistory) -> list[EvidenceFile]:
    """Return the evidence files of the members that revealed, as far as the coordinator has them."""
    from stannary.evidence import EvidenceFile

    found = []
    for vote in history.votes.values():
        try:
            file = EvidenceFile.parse(client.evidence(vote.evidence_root))
        except Unavailable:
            continue
        if file.root() != vote.evidence_root:
            raise Malformed("evidence", expected=to_hex(vote.evidence_root), got=to_hex(file.root()))
        found.append(file)
    return found


def _tell_run(found: _Run, pool: int, provider: Address) -> Accusation | None:
    """Print what there is, and return the accusation that names all that speaks against the provider, if anything."""
    from stannary.accusation import Accusation
    from stannary.e_process import PARTS
    from stannary.standing import Standing

    rules, standing = found.rules, Standing.of(found.rules, found.leaves)
    since = "" if found.first == found.counted_from else f", all since step {found.counted_from} counted"
    typer.echo(
        f"{provider} in pool {pool}, steps {found.first} … {found.last}{since}; "
        f"leaves: {found.total}, with scores from their panel: {len(found.leaves)}"
    )
    levels = [0.0, *(level.score for level in rules.levels)]
    for part, own in zip(PARTS, standing.counts, strict=True):
        counts = [f"{count} from {level:g}" for level, count in zip(levels, own, strict=True)]
        typer.echo(f"scores of the {part}: {', '.join(counts)}")
    typer.echo(
        f"evidence: 10^{standing.log10:.2f}; workers stop at 10^{rules.stop_log10:g}, "
        f"10^{rules.slash_log10:g} may be slashed"
    )
    if not any(rules.reached(leaf.scores) for leaf in found.leaves):
        typer.echo("no leaf reaches a level: there is nothing to accuse of")
        return None
    accusation = Accusation.of(pool, provider, found.first, found.last, found.card_hash, rules, found.leaves)
    typer.echo(f"a juror that measures the same finds: 10^{found.as_juror(accusation):.2f}")
    return accusation


def _send_accusation(
    chain: Chain,
    settings: RoleSettings,
    found: _Run,
    accusation: Accusation | None,
    out: Path,
    location: str | None,
) -> None:
    if accusation is None or found.as_juror(accusation) < found.rules.slash_log10:
        raise SettingsError(f"this would not convict, and cost the bond: 10^{found.rules.slash_log10:g} is needed")
    if location is None:
        raise SettingsError(f"where will jurors find {out}? give --location")
    _require_served(location, accusation.to_bytes(), out)
    sender = open_sender(settings, chain)
    bond = 2 * chain.dispute_court.bond_of(accusation.pool)
    if bond:
        chain.token.require_funds(sender.address, bond)
        chain.token.require_allowance(sender, chain.deployment.payout_vault, bond)
    case = chain.dispute_court.accuse(
        sender,
        accusation.pool,
        accusation.provider,
        accusation.first_step,
        accusation.last_step,
        accusation.list_hash(),
        accusation.evidence_hash(),
        location,
    )
    typer.echo(f"case {case}: bond {show_amount(bond)}; keep serving {location}; see `dispute status {case}`")


def _require_served(location: str, data: bytes, out: Path) -> None:
    """Raises: SettingsError, Unreachable unless the accusation is to be had there now."""
    import httpx

    try:
        answer = httpx.get(location, timeout=10.0, headers={"accept-encoding": "identity"})
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Unreachable(f"{location}: {type(error).__name__}: {error}") from error
    if answer.status_code != 200 or answer.content != data:
        raise SettingsError(f"{location} does not serve {out}: put it there, then send")


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
