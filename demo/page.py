"""The page of a run: `runs/demo/report.html`, self-contained, made from nothing but a `Record`.

It must not read chain or files: what is not in the record is not on the page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from string import Template

from demo import charts
from demo.record import AccusationRecord, Example, LeafRecord, Measurement, Record, ValidatorRecord
from stannary.types import Outcome, Ruling

TITLES = {
    "honest_vllm": "honest · vLLM",
    "honest_transformers": "honest · transformers",
    "cheat": "cheat",
    "liar": "liar",
}
KINDS = {Outcome.ACCEPT: "accept", Outcome.REJECT: "reject", Outcome.FAULT: "fault", Outcome.ABSTAIN: "idle"}
WORDS = {
    Outcome.ACCEPT: "accepted",
    Outcome.REJECT: "rejected",
    Outcome.FAULT: "rejected and slashed",
    Outcome.ABSTAIN: "undecided",
}
TOKEN_WEI = 10**18


def render(record: Record) -> str:
    """Return the page."""
    template = Template(resources.files("demo").joinpath("page.html").read_text(encoding="utf-8"))
    return template.substitute(
        title=f"Stannary: {len(record.steps)} steps of {escape(record.policy)}",
        summary=_summary(record),
        tiles=_tiles(record),
        **_reward(record),
        **_blocks(record),
        **_lanes(record),
        **_verdicts(record),
        **_examples(record),
        **_accusations(record),
        **_money(record),
        **_books(record),
        **_transactions(record),
        footer=_footer(record),
    )


def tokens(wei: int) -> str:
    """Return an amount in tokens, as short as it is exact to four digits."""
    text = f"{wei / TOKEN_WEI:,.4f}".rstrip("0").rstrip(".")
    return text or "0"


def _summary(record: Record) -> str:
    providers, validators = len(record.providers), len(record.validators)
    engines = " and ".join(sorted({provider.engine for provider in record.providers}))
    sins = {"cheat": "the cheat served another policy than it was leased", "liar": "the liar edited tokens"}
    dishonest = [sins[provider.role] for provider in record.providers if provider.role in sins]
    aside = f" Not all were honest: {' and '.join(dishonest)}." if dishonest else ""
    return escape(
        f"{providers} providers on {engines} generated and proved {len(record.leaves)} groups of rollouts, "
        f"panels drawn from {validators} validators re-checked and judged them, the trainer learnt from the accepted "
        f"ones alone, and the chain paid and slashed.{aside}"
    )


def _tiles(record: Record) -> str:
    counts = Counter(leaf.outcome for leaf in record.leaves)
    rejected = counts[Outcome.REJECT] + counts[Outcome.FAULT]
    gain = record.heldout_after - record.heldout_before
    entries = [
        (f"{record.heldout_before:.2f} → {record.heldout_after:.2f}", f"held-out reward, {gain:+.2f}"),
        (f"{counts[Outcome.ACCEPT]} / {rejected}", "groups accepted / rejected"),
        (tokens(sum(provider.slashed_wei for provider in record.providers)), "tokens slashed"),
        (tokens(sum(provider.payout_wei for provider in record.providers)), "tokens paid out"),
        ("yes" if record.is_conserved else "NO", "money conserved, to the wei"),
        (_duration(record.wall_s), f"wall time, {record.peak_rss_mb / 1024:.1f} GB at most"),
    ]
    return "".join(
        f'<div class="tile"><b>{escape(big)}</b><span>{escape(small)}</span></div>' for big, small in entries
    )


def _reward(record: Record) -> dict[str, str]:
    points = []
    for step in record.steps:
        if step.reward is not None:
            accepted = sum(leaf.outcome == Outcome.ACCEPT for leaf in step.leaves)
            title = f"step {step.step}, policy {step.policy_step}: {step.reward:.3f} over {accepted} accepted groups"
            points.append(charts.Point(step.step, step.reward, title))
    return {
        "reward_note": "Mean reward of the accepted rollouts of each step, recomputed from the submission files. "
        "Dotted: unseen prompts before and after training.",
        "reward_chart": charts.curve(
            points, before=record.heldout_before, after=record.heldout_after, x_label="step", y_label="mean reward"
        ),
    }


def _blocks(record: Record) -> dict[str, str]:
    rows = []
    for provider in record.providers:
        cells = []
        for step in record.steps:
            own = [leaf for leaf in step.leaves if leaf.provider == provider.provider]
            cells.append([charts.Block(KINDS[leaf.outcome], _leaf_title(leaf)) for leaf in own])
        rows.append((_title(provider.role), cells))
    legend = [f"<li>{charts.block_sample(KINDS[outcome])}{word}</li>" for outcome, word in WORDS.items()]
    return {
        "blocks_note": "One block is one group of rollouts, columns are steps. Hover for its reason and money.",
        "blocks_chart": charts.blocks(rows, label="submissions by provider and step, with verdicts"),
        "blocks_legend": "".join(reversed(legend)),
    }


def _lanes(record: Record) -> dict[str, str]:
    origin = record.began_at
    rows = [charts.Lane("trainer", tuple(_trainer_spans(record, origin)))]
    for provider in record.providers:
        spans = []
        for step in record.steps:
            own = [leaf for leaf in step.leaves if leaf.provider == provider.provider]
            if own and step.committed_at is not None:
                begin = min(leaf.leased_at for leaf in own)
                title = f"step {step.step}: {len(own)} groups from the first lease to the root on chain"
                spans.append(charts.Span(begin - origin, step.committed_at - origin, _worst(own), title))
        rows.append(charts.Lane(_title(provider.role), tuple(spans)))
    for validator in record.validators:
        spans = [
            charts.Span(
                step.audited_at - origin,
                vote.revealed_at - origin,
                "validator",
                f"step {step.step}: drawn, committed after {vote.committed_at - step.audited_at} s, "
                f"revealed after {vote.revealed_at - step.audited_at} s",
            )
            for step in record.steps
            for vote in step.votes
            if vote.validator == validator.name and step.audited_at is not None
        ]
        rows.append(charts.Lane(validator.name, tuple(spans)))
    finals = [
        charts.Span(step.finalized_at - origin, step.finalized_at - origin, "chain", f"step {step.step} finalized")
        for step in record.steps
        if step.finalized_at is not None
    ]
    rows.append(charts.Lane("chain", tuple(finals)))
    legend = [
        ("policy", "policy published"),
        ("trainer", "from the votes on a step to the next policy"),
        ("accept", "worker: all accepted"),
        ("fault", "worker: something slashed"),
        ("validator", "panel drawn to vote revealed"),
        ("chain", "step finalized"),
    ]
    return {
        "lanes_note": "Chain time from the opening of the pool, in minutes and seconds. Workers generate a step while "
        "the trainer learns from the one before.",
        "lanes_chart": charts.lanes(rows, end_s=record.ended_at - origin, label="who did what when"),
        "lanes_legend": "".join(_swatch(f"var(--{kind})", word) for kind, word in legend),
    }


def _trainer_spans(record: Record, origin: int) -> Iterable[charts.Span]:
    published = {policy.policy_step: policy.published_at for policy in record.policies}
    for step in record.steps:
        begin = max((vote.revealed_at for vote in step.votes), default=None)
        end = published.get(step.step + 1)
        if begin is not None and end is not None and end > begin:
            title = f"step {step.step} → policy {step.step + 1}"
            yield charts.Span(begin - origin, end - origin, "trainer", title)
    for number, at in published.items():
        yield charts.Span(at - origin, at - origin, "policy", f"policy {number} published")


def _verdicts(record: Record) -> dict[str, str]:
    roles = [provider.role for provider in record.providers]
    table = Counter((_why(leaf), leaf.role) for leaf in record.leaves)
    accepted = WORDS[Outcome.ACCEPT]
    reasons = sorted({why for why, _ in table}, key=lambda why: (why != accepted, why))
    rows = [[why, *(str(table[why, role] or "·") for role in roles)] for why in reasons]
    rows.append(["all", *(str(sum(leaf.role == role for leaf in record.leaves)) for role in roles)])
    return {
        "verdicts_note": "Why the panel decided as it did: the check that fired, by provider.",
        "verdicts_table": _table(["check", *map(_title, roles)], rows),
    }


def _examples(record: Record) -> dict[str, str]:
    found = [example for example in (record.accepted_example, record.rejected_example) if example is not None]
    return {
        "examples_note": "What one validator measured, beside the bound of the pool's calibration card.",
        "examples": "".join(map(_example, found)) or "<p>None: no submission was accepted or rejected.</p>",
    }


def _example(example: Example) -> str:
    leaf = example.leaf
    rows = "".join(_measurement(item) for item in example.measurements)
    return (
        f"<div><h3>{charts.block_sample(KINDS[leaf.outcome])}{escape(_title(leaf.role))}, step {leaf.step}, "
        f"slot {leaf.slot}: {escape(WORDS[leaf.outcome])}</h3>"
        f'<div class="wide"><table><thead><tr><th>check</th><th>figure</th><th class="n">measured</th>'
        f'<th class="n">bound</th><th></th></tr></thead><tbody>{rows}</tbody></table></div></div>'
    )


def _measurement(item: Measurement) -> str:
    mark = "" if not item.bound else "✓" if item.is_passed else "✗"
    cells = f'<td class="n">{escape(item.value)}</td><td class="n">{escape(item.bound)}</td>'
    judged = f'<td class="{"good" if item.is_passed else "bad"}">{mark}</td>'
    return f"<tr><td>{escape(item.check)}</td><td>{escape(item.name)}</td>{cells}{judged}</tr>"


def _accusations(record: Record) -> dict[str, str]:
    note = (
        "Anyone may dispute what a panel decided, for a bond. A jury of validators that did not sit on the panel "
        "judges the leaf again. Here an accuser without stake said that an honest worker's accepted group was bad."
    )
    tables = "".join(map(_accusation, record.accusations)) or "<p>None: nobody disputed anything.</p>"
    return {"accusations_note": note, "accusations": tables}


def _accusation(case: AccusationRecord) -> str:
    word = "overturned" if case.is_overturned else "NOT OVERTURNED"
    rows = [
        ["accused", f"{_title(case.role)}, step {case.step}, slot {case.slot}"],
        ["the jury ruled", _ruling(case.ruling)],
        ["bond lost by the accuser", f"{tokens(case.bond_lost_wei)} of {tokens(case.bond_wei)}"],
        ["paid to the worker for the group", tokens(case.paid_wei)],
        ["paid to the worker out of the bond", tokens(case.compensation_wei)],
        ["slashed from the worker", tokens(case.slashed_wei)],
    ]
    jurors = [[juror.validator, _ruling(juror.ruling), tokens(juror.paid_wei)] for juror in case.jurors]
    return (
        f"<div><h3>case {case.case_id}: {word}</h3>"
        f'<div class="wide">{_table(["", ""], rows, text_columns=(0, 1))}</div>'
        f'<div class="wide">{_table(["juror", "ruled", "paid"], jurors, text_columns=(0, 1))}</div></div>'
    )


def _ruling(ruling: Ruling | None) -> str:
    return "nothing" if ruling is None else ruling.name.lower()


def _money(record: Record) -> dict[str, str]:
    bars = []
    for provider in record.providers:
        parts = [
            charts.Part(provider.stake_wei / TOKEN_WEI, "tin", f"stake left: {tokens(provider.stake_wei)}"),
            charts.Part(provider.slashed_wei / TOKEN_WEI, "fault", f"slashed: {tokens(provider.slashed_wei)}"),
            charts.Part(provider.payout_wei / TOKEN_WEI, "accept", f"paid: {tokens(provider.payout_wei)}"),
        ]
        text = f"{tokens(provider.stake_wei)} left, {tokens(provider.payout_wei)} paid"
        bars.append((_title(provider.role), parts, text))
    rows = []
    for provider in record.providers:
        own = [leaf for leaf in record.leaves if leaf.provider == provider.provider]
        paid_badly = sum(leaf.paid_wei for leaf in own if leaf.outcome != Outcome.ACCEPT)
        rows.append(
            [
                _title(provider.role),
                str(sum(leaf.outcome == Outcome.ACCEPT for leaf in own)),
                str(sum(leaf.outcome in (Outcome.REJECT, Outcome.FAULT) for leaf in own)),
                tokens(provider.allocated_wei),
                tokens(provider.slashed_wei),
                tokens(provider.stake_wei),
                tokens(provider.payout_wei),
                tokens(paid_badly),
            ]
        )
    for validator in record.validators:
        stakes = [tokens(wei) for wei in (validator.allocated_wei, validator.slashed_wei, validator.stake_wei)]
        rows.append([validator.name, _seats(validator), "", *stakes, tokens(validator.fees_wei), ""])
    head = ["", "accepted", "rejected", "staked", "slashed", "stake left", "paid", "paid for rejected"]
    return {
        "money_note": "In tokens of the pool. Each fault costs a share of the stake; a provider below the minimum "
        "gets no more leases.",
        "stakes_chart": charts.bars(bars, label="stake left, slashed and paid, by provider"),
        "stakes_legend": _swatch("var(--tin)", "stake left")
        + _swatch("var(--fault)", "slashed")
        + _swatch("var(--accept)", "paid"),
        "money_table": _table(head, rows),
    }


def _books(record: Record) -> dict[str, str]:
    rows = []
    for account in record.accounts:
        flows = [f"+{tokens(amount)} {name}" for name, amount in account.inflows.items() if amount]
        flows += [f"−{tokens(amount)} {name}" for name, amount in account.outflows.items() if amount]
        rows.append(
            [
                account.contract,
                ", ".join(flows),
                tokens(account.flow_wei),
                tokens(account.owed_wei),
                tokens(account.balance_wei),
                "equal" if account.is_conserved else "NOT EQUAL",
            ]
        )
    head = ["contract", "events of the whole run", "sum", "owes", "holds", ""]
    return {
        "books_note": "What each contract holds, what it says it owes, and what its events add up to; compared in wei.",
        "books_table": _table(head, rows, text_columns=(0, 1)),
    }


def _transactions(record: Record) -> dict[str, str]:
    total = sum(record.transactions.values())
    rows = [[name, str(count)] for name, count in sorted(record.transactions.items(), key=lambda item: -item[1])]
    submissions = max(len(record.leaves), 1)
    return {
        "transactions_note": f"{total} transactions, {record.gas_used:,} gas in all (deployment included), "
        f"{record.gas_used // submissions:,} a submission.",
        "transactions_table": _table(["call", "transactions"], rows),
    }


def _footer(record: Record) -> str:
    rate = "the policy's own" if record.lr is None else f"{record.lr:g}"
    return (
        f"Policy {escape(record.policy)}, learning rate {rate}, chain {record.chain_id}, largest lag {record.lag_max}. "
        "The same figures, for machines: report.json and record.json beside this page; each process's log: logs/."
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], text_columns: Sequence[int] = (0,)) -> str:
    def cell(tag: str, place: int, text: str) -> str:
        kind = "" if place in text_columns else ' class="n"'
        return f"<{tag}{kind}>{escape(text)}</{tag}>"

    def row(tag: str, cells: Sequence[str]) -> str:
        return f"<tr>{''.join(cell(tag, place, text) for place, text in enumerate(cells))}</tr>"

    return (
        f"<table><thead>{row('th', head)}</thead><tbody>{''.join(row('td', cells) for cells in rows)}</tbody></table>"
    )


def _swatch(colour: str, word: str) -> str:
    return f'<li><span class="swatch" style="background:{colour}"></span>{escape(word)}</li>'


def _leaf_title(leaf: LeafRecord) -> str:
    why = "" if leaf.reason == "none" else f" ({leaf.reason})"
    money = f"paid {tokens(leaf.paid_wei)}" if leaf.paid_wei else "unpaid"
    slash = f", slashed {tokens(leaf.slashed_wei)}" if leaf.slashed_wei else ""
    return (
        f"step {leaf.step}, slot {leaf.slot}: {WORDS[leaf.outcome]}{why}; "
        f"reward {leaf.reward:.2f}, {leaf.units} tokens, {money}{slash}"
    )


def _why(leaf: LeafRecord) -> str:
    """Return the check that decided, or what the votes came to where no validator has published a reason."""
    return WORDS[leaf.outcome] if leaf.outcome == Outcome.ACCEPT or leaf.reason == "none" else leaf.reason


def _worst(leaves: Sequence[LeafRecord]) -> str:
    outcomes = {leaf.outcome for leaf in leaves}
    ranked = (Outcome.FAULT, Outcome.REJECT, Outcome.ABSTAIN)
    return KINDS[next((outcome for outcome in ranked if outcome in outcomes), Outcome.ACCEPT)]


def _seats(validator: ValidatorRecord) -> str:
    rulings = f", {validator.rulings} rulings" if validator.rulings else ""
    return f"{validator.votes} votes{rulings}"


def _title(role: str) -> str:
    return TITLES.get(role, role)


def _duration(seconds: float) -> str:
    return f"{int(seconds) // 60} min {int(seconds) % 60} s" if seconds >= 60 else f"{seconds:.0f} s"
