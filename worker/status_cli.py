"""The command `worker status`: how a provider stands with the panels. It reads public sources and changes nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer
from pydantic import Field

from stannary import wallet
from stannary.commands.options import (
    CoordinatorUrl,
    DeploymentFile,
    KeystoreFile,
    PoolNumber,
    RpcUrl,
    open_chain,
    parse_account,
)
from stannary.e_process import PARTS
from stannary.errors import SettingsError
from stannary.settings import RoleSettings
from stannary.types import Address, Outcome, Reason, parse_address, to_hex
from worker.settings import Settings

if TYPE_CHECKING:
    from stannary.chain import Chain
    from stannary.evidence import Measure
    from stannary.provider_record import Judged, Record
    from worker.status import Distance

NOBODY = "0x" + "0" * 40


class StatusSettings(RoleSettings):
    """Where the standing of a provider is read: a worker's settings, without its password."""

    ROLE: ClassVar[str] = "worker"

    pool: Annotated[int, Field(ge=1, lt=1 << 63)]
    coordinator_url: str

    @classmethod
    def variables(cls) -> set[str]:
        """Return a worker's variables: one that says nothing here is no mistake."""
        return super().variables() | Settings.variables()


def status(
    rpc_url: RpcUrl = None,
    deployment: DeploymentFile = None,
    pool: PoolNumber = None,
    coordinator_url: CoordinatorUrl = None,
    provider: Annotated[
        Address | None,
        typer.Option("--provider", parser=parse_account, metavar="ADDRESS", help="The provider, or a node of it."),
    ] = None,
    keystore: KeystoreFile = None,
    recent: Annotated[int, typer.Option(min=1, help="How many of the newest leaves are shown.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print all of it as JSON.")] = False,
) -> None:
    """Show how a provider stands: its leaves as panels judged them, the distance to every threshold, the evidence.

    It is named by --provider, or by the address of --keystore, whose password is not asked for.
    """
    settings = StatusSettings.load(
        rpc_url=rpc_url, deployment=deployment, pool=pool, coordinator_url=coordinator_url, keystore=keystore
    )
    from stannary.client import CoordinatorClient
    from stannary.provider_record import PublicSources, Reader

    account = _account(provider, settings.keystore)
    chain = open_chain(settings)
    owner = _provider_of(chain, account)
    terms = chain.terms_in_force(settings.pool)
    with CoordinatorClient(settings.coordinator_url, chain.ledger_domain, terms.coordinator) as client:
        record = Reader(PublicSources(chain, client, settings.pool), owner, terms.quorum).read()
    if as_json:
        found = None if record is None else document(record, recent)
        typer.echo(json.dumps(found, indent=2, allow_nan=False, ensure_ascii=False))
        return
    if record is None:
        typer.echo(f"pool {settings.pool} has opened no step yet")
        return
    for line in report(record, recent):
        typer.echo(line)


def report(record: Record, recent: int) -> Iterator[str]:
    """Yield what a person reads."""
    from worker.status import distances, power, rejections_to

    rules, found = record.rules, record.standing
    yield f"provider {record.provider}: {len(record.leaves)} leaves judged, {len(found.leaves)} of them with scores"
    yield f"card {to_hex(record.card_hash)}"
    yield (
        f"evidence {power(found.log10)}; its worker stops by itself at {power(rules.stop_log10)}, "
        f"slashing begins at {power(rules.slash_log10)}"
    )
    for name, log10 in (("stop", rules.stop_log10), ("slash", rules.slash_log10)):
        more = rejections_to(rules, found.counts, log10)
        said = "no number of them" if more is None else "none, it is reached" if more == 0 else str(more)
        yield f"  rejections in a row until the {name} level: {said}"
    total = len(found.leaves)
    for index, level in enumerate(rules.levels, 1):
        count = sum(rules.reached(leaf.scores) >= index for leaf in found.leaves)
        part = f"{100 * count / max(1, total):.3g} %"
        yield (
            f"  {count} of {total} leaves ({part}) reach the score {level.score:g} (above 1 is rejected), "
            f"honest ones at most {100 * level.honest_at_most:.3g} %"
        )
    shown = record.leaves[-recent:]
    if shown:
        yield ""
        yield f"the newest {len(shown)} leaves"
        rows = [("step", "slot", "panel", "score", "nearest to its limit", "value", "limit"), *map(_leaf_row, shown)]
        yield from ("  " + line for line in _table(rows))
        yield from (
            f"  step {leaf.step}, slot {leaf.slot}: {leaf.explanation}"
            for leaf in shown
            if leaf.outcome in (Outcome.REJECT, Outcome.FAULT) and leaf.explanation
        )
    near = distances(shown)
    if near:
        yield ""
        yield f"distance to every threshold over these {len(shown)} leaves"
        head = ("measure", "worst", "limit", "of limit", "margin", "median of limit", "where", "leaves")
        yield from ("  " + line for line in _table([head, *map(_distance_row, near)]))
    if record.missing:
        yield ""
        yield "could not be had"
        yield from ("  " + each for each in record.missing)


def document(record: Record, recent: int) -> dict[str, object]:
    """Return the same for JSON: null for what is not known, and for a number that is not finite."""
    from worker.status import distances, rejections_to

    rules, found = record.rules, record.standing
    return {
        "provider": record.provider,
        "card_hash": to_hex(record.card_hash),
        "leaves": len(record.leaves),
        "scored": len(found.leaves),
        "counts": {part: list(own) for part, own in zip(PARTS, found.counts, strict=True)},
        "levels": [{"score": level.score, "honest_at_most": level.honest_at_most} for level in rules.levels],
        "log10": found.log10,
        "stop_log10": rules.stop_log10,
        "slash_log10": rules.slash_log10,
        "rejections_to_stop": rejections_to(rules, found.counts, rules.stop_log10),
        "rejections_to_slash": rejections_to(rules, found.counts, rules.slash_log10),
        "recent": [_leaf_document(leaf) for leaf in record.leaves[-recent:]],
        "distances": [_distance_document(each) for each in distances(record.leaves[-recent:])],
        "missing": list(record.missing),
    }


def _account(provider: Address | None, keystore: Path | None) -> Address:
    if provider is not None:
        return provider
    if keystore is None:
        raise SettingsError("whose standing? give --provider, or --keystore, or set STANNARY_KEYSTORE")
    return wallet.address_of(keystore)


def _provider_of(chain: Chain, account: Address) -> Address:
    """Return whom an account acts for, itself if for nobody."""
    found = parse_address(chain.stake_manager.provider_of(account))
    return account if found == NOBODY else found


def _leaf_row(leaf: Judged) -> tuple[str, ...]:
    said = "not decided" if leaf.outcome is None else leaf.outcome.name.lower()
    if leaf.outcome is Outcome.ABSTAIN:
        said = "undecided"
    reason = "" if leaf.reason is Reason.NONE else f" ({leaf.reason.name.lower().replace('_', ' ')})"
    score = "none" if leaf.score is None else f"{leaf.score:.3f}"
    name, value, limit = "", "", ""
    if leaf.worst is not None:
        name, own = leaf.worst
        value, limit = _value(own), f"{own.limit:.4g}"
    return (str(leaf.step), str(leaf.slot), said + reason, score, name, value, limit)


def _distance_row(each: Distance) -> tuple[str, ...]:
    return (
        each.name,
        _value(each.worst),
        f"{each.worst.limit:.4g}",
        f"{1 - each.margin:.3f}",
        f"{each.margin:+.3f}",
        f"{each.median_share:.3f}",
        f"{each.step}:{each.slot}",
        str(each.leaves),
    )


def _leaf_document(leaf: Judged) -> dict[str, object]:
    return {
        "step": leaf.step,
        "slot": leaf.slot,
        "outcome": None if leaf.outcome is None else leaf.outcome.name.lower(),
        "reason": leaf.reason.name.lower(),
        "explanation": leaf.explanation,
        "scores": None if leaf.scores is None else dict(zip(PARTS, map(_finite, leaf.scores), strict=True)),
        "measures": {name: {"value": own.value, "limit": own.limit} for name, own in leaf.measures.items()},
    }


def _distance_document(each: Distance) -> dict[str, object]:
    return {
        "name": each.name,
        "value": each.worst.value,
        "limit": each.worst.limit,
        "margin": _finite(each.margin),
        "median_share": _finite(each.median_share),
        "step": each.step,
        "slot": each.slot,
        "leaves": each.leaves,
    }


def _value(measure: Measure) -> str:
    return "∞" if measure.value is None else f"{measure.value:.4g}"


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
