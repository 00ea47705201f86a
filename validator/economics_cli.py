"""The command `economics`: at these terms, does any attack pay? Reads options and files, prints tables, writes JSON.

It owns what a person gives and sees; it must not know the arithmetic, which is `validator.economics`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated

import typer

from stannary.commands.pool import TERM_DEFAULTS, read_terms
from stannary.errors import Malformed, SettingsError
from validator.economics import (
    BPS,
    NEAR_NOTHING,
    SHARES,
    Attack,
    HonestLoss,
    Outlook,
    Terms,
    honest_loss,
    parse_attack,
    read_attacks,
    survey,
)

WEI = 10**18
EXIT_PAYS = 1


def economics(
    price: Annotated[float | None, typer.Option(help="Payout of an accepted slot, in tokens.")] = None,
    cost: Annotated[float | None, typer.Option(help="Cost of generating a slot honestly, in tokens.")] = None,
    stake: Annotated[
        float | None, typer.Option(help="A worker's stake, in tokens; the minimum of --terms unless given.")
    ] = None,
    audit_bps: Annotated[
        int | None, typer.Option(help="Leaves that are audited, in hundredths of a percent; audit_bps of the card.")
    ] = None,
    slots_per_step: Annotated[int | None, typer.Option(help="Slots of a step that one worker fills.")] = None,
    step_seconds: Annotated[float | None, typer.Option(help="From one step's opening to the next, in seconds.")] = None,
    terms: Annotated[
        Path | None, typer.Option(help="JSON with a pool's rules, as `pool show` prints; options below win.")
    ] = None,
    fault_slash_bps: Annotated[
        int | None, typer.Option(help="Slash for a leaf at fault, in hundredths of a percent of the stake.")
    ] = None,
    statistics_slash_bps: Annotated[
        int | None, typer.Option(help="Slash on accumulated evidence, in hundredths of a percent.")
    ] = None,
    max_slash_bps: Annotated[
        int | None, typer.Option(help="Most that is slashed in a slash window, in hundredths of a percent.")
    ] = None,
    reward_bps: Annotated[
        int | None, typer.Option(help="Part of such a slash that goes to the accuser, in hundredths of a percent.")
    ] = None,
    pay_cap_bps: Annotated[
        int | None, typer.Option(help="Most that a step pays a worker, in hundredths of a percent of its stake.")
    ] = None,
    max_open_steps: Annotated[int | None, typer.Option(help="Steps that are open and not settled at most.")] = None,
    slash_window_seconds: Annotated[float | None, typer.Option(help="Length of a slash window, in seconds.")] = None,
    unbonding_seconds: Annotated[float | None, typer.Option(help="How long an exit takes, in seconds.")] = None,
    stakes: Annotated[
        int, typer.Option(help="Stakes like this one that a cheat can hold in turn, under new names.")
    ] = 1,
    share: Annotated[
        list[float] | None, typer.Option(help="Submissions that are cheated, in percent; repeatable.")
    ] = None,
    attacks: Annotated[
        Path | None, typer.Option(help="JSON with measured attacks: a card, or what `make attacks` wrote.")
    ] = None,
    attack: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=DETECTION:COST_SHARE[:FAULT_SHARE]",
            help="An attack: how probable an audit finds it at least, its cost as a part of honest cost, and which "
            "part of what is found is a fault (0 unless given). Wins over one of that name in the file; repeatable.",
        ),
    ] = None,
    false_reject: Annotated[
        float | None,
        typer.Option(help="How probable an audit refuses honest work, 0 … 1; the upper end of its interval."),
    ] = None,
    false_fault: Annotated[float, typer.Option(help="How probable an audit calls it a fault, 0 … 1.")] = 0.0,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if an attack pays.")] = False,
    json_path: Annotated[Path | None, typer.Option("--json", metavar="PATH", help="Write the same as JSON.")] = None,
) -> None:
    """Say at which stake and audit rate no attack pays, and what honest workers lose by false verdicts.

    All money is in one token: count a stake in another token at the lowest price that it may fall to.
    """
    given = {
        "price": price,
        "cost": cost,
        "stake": stake,
        "audit_bps": audit_bps,
        "fault_slash_bps": fault_slash_bps,
        "statistics_slash_bps": statistics_slash_bps,
        "max_slash_bps": max_slash_bps,
        "pay_cap_bps": pay_cap_bps,
        "max_open_steps": max_open_steps,
        "slots_per_step": slots_per_step,
        "step_seconds": step_seconds,
        "slash_window_seconds": slash_window_seconds,
        "unbonding_seconds": unbonding_seconds,
        "reward_bps": reward_bps,
        "stakes": stakes,
    }
    try:
        conditions = _conditions(given, terms)
        shares = SHARES if share is None else tuple(percent / 100 for percent in share)
        found = survey(conditions, _attacks(attacks, attack or []), shares)
        loss = None if false_reject is None else honest_loss(conditions, false_reject, false_fault)
    except Malformed as error:
        raise SettingsError(str(error)) from None
    for line in report(conditions, found, loss):
        typer.echo(line)
    if json_path is not None:
        _write(json_path, document(conditions, found, loss))
    if strict and any(one.pays for one in found):
        raise typer.Exit(EXIT_PAYS)


def report(terms: Terms, found: Sequence[Outlook], loss: HonestLoss | None) -> list[str]:
    """Return what a person reads. Units: tokens for a submission, unless a column says otherwise."""
    lines = [
        f"a slot earns {_tokens(terms.price)} and costs {_tokens(terms.cost)}; honest profit "
        f"{_tokens(terms.honest_profit)} tokens a slot",
        f"stake {_tokens(terms.stake)} tokens, {_percent(terms.audit_bps / BPS)} of the leaves audited; a fault takes "
        f"{_percent(terms.fault_slash_bps / BPS)}, evidence {_percent(terms.statistics_slash_bps / BPS)}, a window at "
        f"most {_percent(terms.max_slash_bps / BPS)} of a stake",
        f"a cheat can be paid for {terms.open_slots:.6g} slots before its stake can be taken; an exit misses "
        f"{terms.idle_slots:.6g} slots",
    ]
    if terms.filled_slots < terms.slots_per_step:
        lines.append(
            f"the pay cap leaves this stake {terms.filled_slots:.6g} of {terms.slots_per_step} slots a step: the cost "
            "of leaving is counted with these"
        )
    for attack in dict.fromkeys(one.attack.name for one in found):
        lines += ["", *_table([one for one in found if one.attack.name == attack])]
    return [*lines, "", *_warnings(terms, found), *_residual(terms, found), *_honest(terms, loss)]


def document(terms: Terms, found: Sequence[Outlook], loss: HonestLoss | None) -> dict[str, object]:
    """Return the same for JSON: money in tokens, rates in hundredths of a percent, null for none and for infinite."""
    return {
        "terms": asdict(terms) | {"open_slots": terms.open_slots, "idle_slots": terms.idle_slots},
        "outlooks": [_outlook(one) for one in found],
        "honest_loss": None
        if loss is None
        else {name: _finite(value) for name, value in asdict(loss).items()} | {"loss": loss.loss},
        "safe_stake": _worst([one.safe_stake for one in found]),
        "safe_audit_bps": _worst([one.safe_audit_bps for one in found]),
        "pays": any(one.pays for one in found),
    }


def _conditions(given: Mapping[str, object], terms: Path | None) -> Terms:
    chosen = {name: value for name, value in given.items() if value is not None}
    names = {spec.name for spec in fields(Terms)}
    if terms is None:
        base: dict[str, object] = {name: value for name, value in TERM_DEFAULTS.items() if name in names}
    else:
        rules = read_terms(terms)
        base = {name: getattr(rules, name) for name in names if hasattr(rules, name)}
        base["stake"] = rules.min_worker_stake / WEI
    for spec in fields(Terms):
        if spec.name not in chosen and spec.name not in base:
            option = "--" + spec.name.replace("_", "-")
            raise SettingsError(f"{option} is missing" + ("" if terms else f": give {option}, or --terms if it has it"))
    return Terms(**(base | chosen))  # type: ignore[arg-type]


def _attacks(file: Path | None, given: Sequence[str]) -> list[Attack]:
    found: dict[str, Attack] = {}
    if file is not None:
        try:
            found = {attack.name: attack for attack in read_attacks(file.read_bytes())}
        except OSError as error:
            raise SettingsError(f"attacks {file}: {error.strerror}") from None
        except Malformed as error:
            raise SettingsError(f"attacks {file}: {error}") from None
    found |= {attack.name: attack for attack in map(parse_attack, given)}
    if not found:
        raise SettingsError("which attacks? give --attacks FILE or --attack NAME=DETECTION:COST_SHARE")
    return list(found.values())


_COLUMNS = (
    "cheated",
    "saved",
    "lost pay",
    "faults",
    "evidence",
    "gain",
    "cheat earns",
    "safe stake",
    "safe audit",
    "",
)


def _table(found: Sequence[Outlook]) -> list[str]:
    attack = found[0].attack
    rows = [_COLUMNS, *(_row(one) for one in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    title = (
        f"{attack.name}: an audit finds at least {_percent(attack.detection)}, {_percent(attack.fault_share)} of that "
        f"as a fault; costs {_percent(attack.cost_share)} of honest work"
        + (f", an assumption: {attack.cost_reason}" if attack.cost_reason else "")
    )
    lines = ["  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [title, *("  " + line for line in lines)]


def _row(one: Outlook) -> tuple[str, ...]:
    flows = one.flows
    evidence = f"{_tokens(-flows.idle)} leaves" if flows.idle else _tokens(-flows.statistics_slash)
    verdict = "PAYS" if one.pays else f"pays with {_count(one.stakes_in_turn)} stakes" if one.pays_in_turn else "no"
    return (
        _percent(one.share),
        _tokens(flows.saved),
        _tokens(-flows.lost_pay),
        _tokens(-flows.fault_slash),
        evidence,
        f"{one.gain:+.4g}",
        _tokens(one.cheating_profit),
        _safe_stake(one.safe_stake),
        _safe_rate(one.safe_audit_bps),
        verdict,
    )


def _warnings(terms: Terms, found: Sequence[Outlook]) -> list[str]:
    lines = []
    for one in found:
        who = f"{one.attack.name}, {_percent(one.share)} cheated"
        if one.pays:
            lines.append(
                f"warning: {who} pays {one.gain:.4g} tokens a slot above honest work; "
                + ("no stake" if one.safe_stake is None else f"a stake of {_safe_stake(one.safe_stake)}")
                + " is enough, "
                + ("no audit rate" if one.safe_audit_bps is None else f"auditing {_safe_rate(one.safe_audit_bps)}")
                + " is enough"
            )
        elif one.pays_in_turn:
            lines.append(
                f"warning: {who} pays {one.gain_in_turn:.4g} tokens a slot to who holds "
                f"{_count(one.stakes_in_turn)} stakes of {_tokens(terms.stake)} and changes its name before the "
                "evidence convicts it"
            )
    if not any(one.pays for one in found):
        lines.append("no attack given here pays a cheat with " + _stakes(terms.stakes))
    stake, rate = _worst([one.safe_stake for one in found]), _worst([one.safe_audit_bps for one in found])
    lines.append(
        f"safe against all of them, for a cheat with {_stakes(terms.stakes)}: "
        + ("no stake at this audit rate" if stake is None else f"{_at_least(stake)} at this audit rate")
        + ", "
        + ("no audit rate at this stake" if rate is None else f"auditing {_percent(rate / BPS)} at this stake")
    )
    return lines


def _residual(terms: Terms, found: Sequence[Outlook]) -> list[str]:
    left = {one.attack.name: one.attack for one in found if one.attack.detection < NEAR_NOTHING}
    return [
        f"left by the checks: {attack.name} (found in {_percent(attack.detection)} of audits at least) is worth "
        f"{(1 - attack.cost_share) * terms.cost:.4g} tokens a cheated slot"
        + ("" if attack.cost_share < 1 else ": no money, whatever else it is done for")
        for attack in left.values()
    ]


def _honest(terms: Terms, loss: HonestLoss | None) -> list[str]:
    if loss is None:
        return ["false verdicts on honest work: not counted, give --false-reject"]
    if math.isinf(loss.profit_share):
        part = "and there is no honest profit to bear it"
    else:
        part = f"{loss.profit_share:.3%} of its profit of {_tokens(terms.honest_profit)}"
    return [
        f"false verdicts cost an honest provider at most {loss.loss:.4g} tokens a slot ({loss.lost_pay:.4g} in pay, "
        f"{loss.slashed:.4g} slashed), {part}"
    ]


def _outlook(one: Outlook) -> dict[str, object]:
    attack = one.attack
    return {
        "attack": attack.name,
        "detection": attack.detection,
        "fault_share": attack.fault_share,
        "cost_share": attack.cost_share,
        "cost_reason": attack.cost_reason,
        "share": one.share,
        "audited_to_slash": _finite(attack.audited_to_slash(one.share)),
        "honest_profit": one.honest_profit,
        "cheating_profit": one.cheating_profit,
        "gain": one.gain,
        **asdict(one.flows),
        "safe_stake": one.safe_stake,
        "safe_audit_bps": one.safe_audit_bps,
        "slots_to_cap": _finite(one.slots_to_cap),
        "gain_in_turn": one.gain_in_turn,
        "stakes_in_turn": one.stakes_in_turn,
        "worth_unfound": one.worth_unfound,
        "pays": one.pays,
        "pays_in_turn": one.pays_in_turn,
    }


def _worst(needed: Sequence[float | None] | Sequence[int | None]) -> float | None:
    return None if any(one is None for one in needed) else max(one for one in needed if one is not None)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _tokens(amount: float) -> str:
    return f"{amount + 0.0:.4g}"


def _count(number: float) -> str:
    return f"{math.ceil(number):,}"


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"


def _safe_stake(stake: float | None) -> str:
    return "none" if stake is None else "any" if stake == 0 else _rounded_up(stake)


def _at_least(stake: float) -> str:
    return "any stake" if stake == 0 else f"a stake of {_rounded_up(stake)}"


def _rounded_up(amount: float) -> str:
    """Return four digits that are no less than the amount: what is safe must not be shown as less."""
    unit = 10.0 ** (math.floor(math.log10(amount)) - 3)
    return f"{math.ceil(amount / unit) * unit:.4g}"


def _safe_rate(audit_bps: int | None) -> str:
    return "none" if audit_bps is None else _percent(audit_bps / BPS)


def _stakes(count: int) -> str:
    return "one stake" if count == 1 else f"{count:,} stakes"


def _write(path: Path, found: Mapping[str, object]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"--json {path}: {error.strerror}") from None
