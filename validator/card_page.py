"""A card as a page for people, self-contained, made from nothing but the card and the samples beside it.

What a card says of its measurements decides nothing and may be anything: whatever is missing or odd is left out. It
must not read files.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from stannary.cards import Card, Thresholds
from stannary.e_process import PARTS, STAKES
from stannary.types import to_hex
from validator.samples import CardSamples, Record
from validator.tails import lower_rate, upper_rate

PUBLISHED = {"largest_mismatches": 38.0, "largest_mantissa": 10.0}
"""Limits of a chunk in the published library (arXiv 2501.16007)."""
CARD_NOTE = (
    "A pool names its card by hash in its terms, so all its validators judge by the same numbers and none can be "
    "changed later. It fits policies of this shape at this temperature, and says nothing of others."
)
BINS = 80
ROOM = 1.12
"""How far a scale goes beyond the outermost limit."""
SIDE, EDGE = 340, 52
"""Of the square that curves are drawn in, and its margin at the left and below."""
DASHES = ("", "7 4", "2 4", "10 3 2 3", "1 3", "12 5", "4 2 1 2")


@dataclass(frozen=True, slots=True)
class Number:
    """One number of a submission, and where its limits lie."""

    name: str
    title: str
    about: str
    value: Callable[[Record], float | None]
    limits: Callable[[Thresholds, int, int], Sequence[tuple[float, str]]]
    """Of a submission with so many chunks and informative tokens: limits and their names, first what rejects."""


NUMBERS = (
    Number(
        "score", "Score",
        "How far up a submission gets: a step for each set of limits it goes beyond, and a part for the next. Beyond 1 "
        "it is rejected. Only this number adds to the evidence against a provider.",
        lambda record: record.score,
        lambda limits, _, __: [
            (1.0, "rejected"),
            *(((step + 1) / (len(limits.ladder) + 1), "level of evidence") for step in range(len(limits.ladder))),
        ],
    ),
    Number(
        "mean_mantissa", "Mean difference of mantissas",
        "Over all chunks, where the exponents agree. Units of the last place of bf16.",
        lambda record: record.mean_mantissa,
        lambda limits, chunks, _: [(limits.mean_drift_limits(chunks).mantissa_mean, "our limit")],
    ),
    Number(
        "mean_mismatches", "Mean number of exponents that differ",
        "Over all chunks, of the 128 values that each is proved by.",
        lambda record: record.mean_mismatches,
        lambda limits, chunks, _: [(limits.mean_drift_limits(chunks).exponent_mismatches, "our limit")],
    ),
    Number(
        "largest_mantissa", "Worst chunk: mean difference of mantissas",
        "The chunk of a submission that differs most. Limits are those of a full chunk.",
        lambda record: record.largest_mantissa,
        lambda limits, _, __: [(limits.drift[-1].mantissa_mean, "our limit")],
    ),
    Number(
        "largest_mismatches", "Worst chunk: exponents that differ",
        "The chunk of a submission that differs most. Limits are those of a full chunk.",
        lambda record: float(record.largest_mismatches),
        lambda limits, _, __: [(float(limits.drift[-1].exponent_mismatches), "our limit")],
    ),
    Number(
        "not_chosen_rate", "Tokens that the noise does not pick",
        "Share of the informative tokens, those whose likeliest token has at most 90 %.",
        lambda record: record.not_chosen_rate,
        lambda limits, _, informative: [
            (band.not_chosen_rate, "our limit") for band in [limits.sampling_limits(informative)] if band
        ],
    ),
    Number(
        "mean_gap", "Mean gap",
        "How far the tokens lie below those that the noise picks, over the informative ones. Natural log.",
        lambda record: record.mean_gap,
        lambda limits, _, informative: [
            (band.mean_gap, "our limit") for band in [limits.sampling_limits(informative)] if band
        ],
    ),
    Number(
        "largest_gap", "Largest gap",
        "Of one token. A few may lie beyond the margin; one beyond the bound is a fault, and slashed.",
        lambda record: record.largest_gap,
        lambda limits, _, __: [(limits.gap_bound, "bound"), (limits.gap_margin, "margin")],
    ),
    Number(
        "pairing", "Towards the policy step before",
        "Standard errors by which the proved states lie on the way to that policy step. Less than 0 is drawn as 0.",
        lambda record: record.pairing,
        lambda limits, _, __: [(limits.pairing.deviation, "our limit")],
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Strip:
    """One row of a picture."""

    label: str
    kind: str
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Curve:
    """How well the score tells an attack from honest submissions."""

    name: str
    points: Sequence[tuple[float, float]]
    """Honest and attacking submissions beyond each score, as shares, from none to all."""
    area: float
    low: float
    high: float
    attacks: int
    honest: int


def card_page(card: Card, samples: CardSamples | None = None) -> str:
    """Return the page. Without samples of this very card there are no pictures."""
    if samples is not None and samples.card != to_hex(card.hash()):
        samples = None
    title = f"Calibration card {to_hex(card.hash())[:14]}…"
    sections = [
        _section("What this card is", CARD_NOTE, _card_table(card)),
        _section("How far honest work drifts", *_numbers(card, samples)),
        _section("How well the score tells cheats", *_curves(samples)),
        _section("What is found of an attack, by how much there is to tell from", *_power(card)),
        _section("How honest work fares", *_honest(card)),
        _section("Evidence", *_evidence(card)),
        _section("Where the limits come from", *_tails(card)),
        _section("What this card does not show", "", _list(_unshown(card))),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{escape(title)}</title><style>{STYLE}</style></head>'
        f"<body><main><header><h1>{MARK}{escape(title)}</h1><p>{escape(_summary(card))}</p></header>"
        f'<div class="tiles">{_tiles(card)}</div>{"".join(sections)}<footer>{_footer(card)}</footer>'
        "</main></body></html>\n"
    )


def curve(name: str, honest: Sequence[float], attack: Sequence[float]) -> Curve:
    """Return the curve of a score that tells an attack from honest submissions, the area below it and its interval.

    Raises: ValueError without submissions of both.
    """
    if not honest or not attack:
        raise ValueError("curve: expected submissions of both")
    cuts = sorted({*honest, *attack}, reverse=True)
    points = [(0.0, 0.0)]
    points += [
        (sum(score >= cut for score in honest) / len(honest), sum(score >= cut for score in attack) / len(attack))
        for cut in cuts
    ]
    area = sum((x1 - x0) * (y0 + y1) / 2 for (x0, y0), (x1, y1) in pairwise(points))
    low, high = area_interval(area, len(attack), len(honest))
    return Curve(name, points, area, low, high, len(attack), len(honest))


def area_interval(area: float, attacks: int, honest: int) -> tuple[float, float]:
    """Return the 95 % interval of an area under a curve (Hanley and McNeil 1982, on the scale of log odds).

    Where nothing overlaps, its one open end is that of a share of the smaller number.
    """
    fewer = min(attacks, honest)
    if area >= 1:
        return lower_rate(fewer, fewer), 1.0
    if area <= 0:
        return 0.0, upper_rate(0, fewer)
    one, other = area / (2 - area), 2 * area**2 / (1 + area)
    variance = area * (1 - area) + (attacks - 1) * (one - area**2) + (honest - 1) * (other - area**2)
    deviation = math.sqrt(max(variance, 0.0) / (attacks * honest)) / (area * (1 - area))
    middle = math.log(area / (1 - area))
    low, high = (1 / (1 + math.exp(-(middle + sign * 1.96 * deviation))) for sign in (-1, 1))
    return low, high


def decided(records: Mapping[str, Sequence[Record]]) -> list[float]:
    """Return the score of each honest submission: the lowest that any compute gives it, as a validator decides."""
    lowest: dict[tuple[str, int], float] = {}
    for kind, own in records.items():
        engine = kind.rpartition("; ")[0]
        for record in own:
            if record.score is not None:
                place = (engine, record.submission)
                lowest[place] = min(record.score, lowest.get(place, math.inf))
    return list(lowest.values())


def _summary(card: Card) -> str:
    share = card.audit_bps / 100
    return (
        "Validators of a pool compute again what workers say they computed. No two machines agree to the last bit, so "
        "a card says how far honest ones differ, and beyond what a submission is rejected. This page shows what it was "
        f"measured on, what it finds, and what it does not. {share:g} % of the submissions get these checks."
    )


def _tiles(card: Card) -> str:
    rules = card.evidence
    checked = _mapping(card.measured.get("checked")) or _mapping(card.measured.get("fitted"))
    attacks = _mapping(card.measured.get("attacks"))
    found = sum(_whole(_mapping(entry).get("detected")) for entry in attacks.values())
    tried = sum(_whole(_mapping(entry).get("n")) for entry in attacks.values())
    entries = [
        (f"{_whole(checked.get('rejected'))} of {_whole(checked.get('submissions')):,}", "honest submissions rejected"),
        (f"{found} of {tried}", f"attacking ones found, of {len(attacks)} attacks"),
        (f"{card.temperature_milli / 1000:g}", "temperature T"),
        (f"{card.audit_bps / 100:g} %", "of the leaves get the dear checks"),
        (f"10{_raised(rules.stop_log10)}", "evidence at which a worker stops"),
        (f"10{_raised(rules.slash_log10)}", "evidence at which it is slashed"),
    ]
    return "".join(
        f'<div class="tile"><b>{escape(big)}</b><span>{escape(small)}</span></div>' for big, small in entries
    )


def _card_table(card: Card) -> str:
    limits = card.thresholds
    rows = [
        ["hash", to_hex(card.hash())],
        ["policy", f"hidden size {card.hidden_size:,}, {card.vocabulary:,} token ids"],
        ["temperature", f"{card.temperature_milli / 1000:g}"],
        ["audited", f"{card.audit_bps / 100:g} % of the leaves, drawn by the audit beacon"],
        ["promised", f"at most {_rate(card.measured.get('false_reject_rate'))} of honest submissions rejected"],
        ["a fault", f"one token more than {limits.gap_bound:g} below the one that the noise picks"],
        ["an honest token lies further", _beyond(card.measured.get("beyond_bound"))],
        ["too short to tell from", f"fewer than {_least_informative(limits)} informative tokens: no evidence"],
    ]
    return _table(["", ""], rows, text_columns=(0, 1))


def _beyond(found: object) -> str:
    if not isinstance(found, Mapping):
        return "how often is not known: no tail could be fitted that explains the largest gap that was seen"
    return (
        f"at most {_rate(found.get('upper'))} of the time, by the fitted tail (estimate {_rate(found.get('estimate'))})"
    )


def _numbers(card: Card, samples: CardSamples | None) -> tuple[str, str]:
    if samples is None:
        return "The samples that pictures are made from do not lie beside this card.", ""
    honest, records = samples.honest(), [record for own in samples.honest().values() for record in own]
    if not records:
        return "There are no honest samples.", ""
    chunks = _median([record.chunks for record in records])
    informative = _median([record.informative for record in records])
    note = (
        "Each row is one way of using a machine, held against one compute of the validator; bars count submissions. "
        f"Limits depend on size: the lines are those of a submission with {chunks} chunks and {informative} "
        "informative tokens, the median. An attacking submission counts once for each compute. Scales are square "
        "roots; how many values lie beyond one stands beside the name."
    )
    return note, "".join(_number(number, card, honest, samples.attacks, chunks, informative) for number in NUMBERS)


def _number(
    number: Number,
    card: Card,
    honest: Mapping[str, Sequence[Record]],
    attacks: Mapping[str, Sequence[Record]],
    chunks: int,
    informative: int,
) -> str:
    rows = [
        Strip(label, kind, values)
        for kind, found in (("honest", honest), ("attack", attacks))
        for label, own in found.items()
        if (values := [value for record in own if (value := number.value(record)) is not None])
    ]
    lines = [(value, name, "ours" if place == 0 else "step") for place, (value, name) in enumerate(
        number.limits(card.thresholds, chunks, informative)
    )]  # fmt: skip
    if number.name in PUBLISHED:
        lines.append((PUBLISHED[number.name], "published", "published"))
    if not rows:
        return ""
    top = _top([value for row in rows if row.kind == "honest" for value in row.values], [line[0] for line in lines])
    strips = "".join(_strip(row, lines, top) for row in rows)
    return (
        f'<div class="number"><h3>{escape(number.title)}</h3><p>{escape(number.about)}</p>'
        f"{strips}{_axis(lines, top)}</div>"
    )


def _strip(row: Strip, lines: Sequence[tuple[float, str, str]], top: float) -> str:
    bars, beyond = [0] * BINS, 0
    for value in row.values:
        place = _at(value, top)
        if place > 1:
            beyond += 1
        else:
            bars[min(BINS - 1, int(place * BINS))] += 1
    highest, width = max([*bars, 1]), 100 / BINS
    parts = [
        f'<line class="{kind}" x1="{100 * _at(value, top):.2f}%" x2="{100 * _at(value, top):.2f}%" y1="0" y2="100%"/>'
        for value, _, kind in lines
        if _at(value, top) <= 1
    ]
    for place, count in enumerate(bars):
        if count:
            height = max(2.0, 22 * math.sqrt(count / highest))
            low, high = (top * ((place + end) / BINS) ** 2 for end in (0, 1))
            parts.append(
                f'<rect class="{row.kind}" x="{place * width:.2f}%" y="{25 - height:.1f}" width="{0.88 * width:.2f}%" '
                f'height="{height:.1f}"><title>{count} from {low:.3g} to {high:.3g}</title></rect>'
            )
    parts.append('<line class="base" x1="0" x2="100%" y1="25.5" y2="25.5"/>')
    text = f"n = {len(row.values)}" + (f", {beyond} beyond ▸" if beyond else "")
    sides = {"honest": "Honest", "attack": "Attack"}
    label = f"{sides[row.kind]}: {row.label}"
    described = f"{label}: {len(row.values)} values, largest {max(row.values):.3g}, {beyond} beyond the scale"
    return (
        f'<div class="row"><div class="name"><span class="dot {row.kind}"></span>{escape(row.label)}'
        f'<b>{escape(text)}</b></div><svg class="strip" role="img" aria-label="{escape(described)}">'
        f"{''.join(parts)}</svg></div>"
    )


def _axis(lines: Sequence[tuple[float, str, str]], top: float) -> str:
    """Draw ticks, and name the lines below them."""
    ticks = [0.0, *(top * share for share in (0.0625, 0.25, 0.5625))]
    parts = [
        f'<text x="{100 * _at(value, top):.2f}%" y="11" class="{"" if value == 0 else "middle"}">{_shown(value)}</text>'
        for value in (_round(tick) for tick in ticks)
    ]
    parts.append(f'<text x="100%" y="11" class="end">{_shown(top)}</text>')
    named = [line for line in lines if line[1]]
    keys = "".join(
        f'<span class="key {kind}">{escape(name)} {_shown(value)}</span>' for value, name, kind in sorted(named)
    )
    return f'<svg class="axis" aria-hidden="true">{"".join(parts)}</svg><div class="keys">{keys}</div>'


def _curves(samples: CardSamples | None) -> tuple[str, str]:
    if samples is None or not samples.attacks:
        return "There are no samples of attacks beside this card.", ""
    honest = decided(samples.fitted) + decided(samples.checked)
    found = []
    for name, records in samples.attacks.items():
        scores = decided({f"{name}; ": records})
        if honest and scores:
            found.append(curve(name, honest, scores))
    if not found:
        return "No submission is long enough to have a score.", ""
    found.sort(key=lambda each: -each.area)
    note = (
        f"For every score: the share of {len(honest)} honest submissions beyond it, and of each attack's. The area is "
        "the chance that an attacking submission has the higher score of the two; 0.5 is a guess. Both are judged as "
        "a validator judges: by the milder of its computes. The interval is that of Hanley and McNeil, 95 %."
    )
    rows = [[each.name, f"{each.area:.3f}", f"{each.low:.3f} – {each.high:.3f}", str(each.attacks)] for each in found]
    keys = [_dash_sample(number) for number in range(len(rows))]
    table = _table(["attack", "area", "95 %", "submissions"], rows, marks=keys)
    return note, f'<div class="pair">{_square(found)}<div class="wide">{table}</div></div>'


def _square(found: Sequence[Curve]) -> str:
    inner = SIDE - EDGE - 10

    def at(x: float, y: float) -> str:
        return f"{EDGE + inner * x:.1f},{10 + inner * (1 - y):.1f}"

    parts = []
    for step in range(5):
        share = step / 4
        x, y = at(share, share).split(",")
        parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="10" y2="{SIDE - EDGE}"/>')
        parts.append(f'<line class="grid" x1="{EDGE}" x2="{SIDE - 10}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text class="middle" x="{x}" y="{SIDE - EDGE + 15}">{share:g}</text>')
        parts.append(f'<text class="end" x="{EDGE - 6}" y="{float(y) + 4:.1f}">{share:g}</text>')
    parts.append(f'<polyline class="guess" points="{at(0, 0)} {at(1, 1)}"/>')
    for number, each in enumerate(found):
        title = f"<title>{escape(each.name)}: area {each.area:.3f}, 95 % {each.low:.3f} – {each.high:.3f}</title>"
        points = " ".join(at(x, y) for x, y in each.points)
        parts.append(f'<polyline class="curve c{number % len(DASHES)}" points="{points}">{title}</polyline>')
    parts.append(f'<text class="middle" x="{EDGE + inner / 2:.0f}" y="{SIDE - 6}">honest beyond the score</text>')
    turned = f'transform="translate(12 {10 + inner / 2:.0f}) rotate(-90)"'
    parts.append(f'<text class="middle" {turned}>attacks beyond the score</text>')
    label = "; ".join(f"{each.name}: area {each.area:.3f}" for each in found)
    place = f'class="square" viewBox="0 0 {SIDE} {SIDE}"'
    return f'<svg {place} role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'


def _dash_sample(number: int) -> str:
    kind = f"curve c{number % len(DASHES)}"
    return f'<svg class="dash" aria-hidden="true"><line class="{kind}" x1="0" x2="26" y1="6" y2="6"/></svg>'


def _power(card: Card) -> tuple[str, str]:
    attacks = {name: _mapping(entry) for name, entry in _mapping(card.measured.get("attacks")).items()}
    powers = {name: _mapping(entry.get("power")) for name, entry in attacks.items()}
    named = {str(size) for power in powers.values() for size in power}
    sizes = sorted(int(size) for size in named if size.isascii() and size.isdecimal() and len(size) < 10)
    if not attacks:
        return "No attack was measured.", ""
    note = (
        "Found by a single submission, as a share with its 95 % interval (Clopper and Pearson), for beginnings of the "
        "submissions that hold so many informative tokens. What is not found by one can still add to the evidence."
    )
    rows = []
    for name, entry in attacks.items():
        cells = [_found(_whole(entry.get("detected")), _whole(entry.get("n")))]
        for size in sizes:
            pair = powers[name].get(str(size))
            is_pair = isinstance(pair, Sequence) and len(pair) == 2
            cells.append(_found(_whole(pair[1]), _whole(pair[0])) if is_pair else "")  # type: ignore[index]
        published = _whole(entry.get("by_published_limits"))
        rows.append([name, *cells, f"{published} of {_whole(entry.get('n'))}"])
    head = ["attack", "whole", *(f"{size:,} tokens" for size in sizes), "by published limits"]
    return note, f'<div class="wide">{_table(head, rows, raw=True)}</div>'


def _found(events: int, trials: int) -> str:
    if trials <= 0 or not 0 <= events <= trials:
        return ""
    low, high = lower_rate(events, trials, 0.975), upper_rate(events, trials, 0.975)
    bar = (
        f'<svg class="bar" role="img" aria-label="{low:.0%} to {high:.0%}">'
        '<rect class="track" width="100%" height="6"/>'
        f'<rect class="interval" x="{100 * low:.1f}%" width="{max(100 * (high - low), 1):.1f}%" height="6"/>'
        f'<circle class="share" cx="{100 * events / trials:.1f}%" cy="3" r="3"/></svg>'
    )
    return f"{events} of {trials}{bar}<small>{low:.2f} – {high:.2f}</small>"


def _honest(card: Card) -> tuple[str, str]:
    rows = []
    for part, title in (("fitted", "set the limits"), ("checked", "only held against them")):
        entry = _mapping(card.measured.get(part))
        if entry:
            submissions, rejected = _whole(entry.get("submissions")), _whole(entry.get("rejected"))
            rows.append([title, f"{submissions:,}", str(rejected), f"{_rate(entry.get('rate_upper_95'))}"])
    kinds = _mapping(_mapping(card.measured.get("checked") or card.measured.get("fitted")).get("kinds"))
    by_kind = [
        [
            kind,
            f"{_whole(entry.get('submissions')):,}",
            f"{_whole(entry.get('tokens')):,}",
            str(_whole(entry.get("rejected"))),
            str(_whole(entry.get("rejected_by_published_limits"))),
            _text(entry.get("largest_score")),
        ]
        for kind, entry in ((str(kind), _mapping(entry)) for kind, entry in kinds.items())
    ]
    note = (
        "Recorded by real engines, every compute alone: stricter than a validator, which holds nothing against a "
        "submission that one of its two computes passes. The last column is the upper end of the 95 % interval."
    )
    head = [
        "way of using a machine; compute",
        "submissions",
        "tokens",
        "rejected",
        "by published limits",
        "largest score",
    ]
    return note, (
        f'<div class="wide">{_table(["half that", "submissions", "rejected", "at most"], rows)}</div>'
        f'<div class="wide">{_table(head, by_kind)}</div>'
    )


def _evidence(card: Card) -> tuple[str, str]:
    rules = card.evidence
    reached = _mapping(card.measured.get("checked")).get("levels")
    entries = [_mapping(entry) for entry in reached] if isinstance(reached, Sequence) else []
    rows = []
    for place, level in enumerate(rules.levels):
        entry = entries[place] if place < len(entries) else {}
        rows.append(
            [
                f"beyond {level.score:g}",
                _rate(level.honest_at_most),
                f"{_whole(entry.get('reached'))} of {_whole(entry.get('of')):,}" if entry else "",
                _rate(entry.get("rate_upper_95")) if entry else "",
                *(f"× {1 + STAKES[0] * (float(payoffs[place + 1]) - 1):.4g}" for payoffs in rules.payoffs),
            ]
        )
    note = (
        "Each submission multiplies the evidence against its provider by a factor. For a provider that goes beyond "
        "each level no more often than promised, the factors' mean is at most 1, so that its evidence ever reaches "
        f"10{_raised(rules.slash_log10)} with a probability of at most 10{_raised(-rules.slash_log10)}. A worker reads "
        f"its own and stops at 10{_raised(rules.stop_log10)}. The evidence is a mean over the parts of the checks and "
        f"over {len(STAKES)} stakes; the last columns are the factors of the boldest."
    )
    factors = [f"factor by {part}" for part in PARTS]
    head = ["score", "promised at most", "reached in the check", "95 % upper end", *factors]
    return note, f'<div class="wide">{_table(head, rows)}</div>'


def _tails(card: Card) -> tuple[str, str]:
    limits = _mapping(card.measured.get("limits"))
    rows = [
        [
            name,
            f"{_whole(entry.get('samples')):,}",
            _text(entry.get("seen")),
            _text(entry.get("estimate")),
            _text(entry.get("upper")),
        ]
        for name, entry in ((str(name), _mapping(entry)) for name, entry in limits.items())
    ]
    note = (
        "What one honest submission in ten thousand reaches was never seen: it is extrapolated, by a generalised "
        "Pareto tail fitted to the largest tenth of the samples. The limit is the upper end of the estimate's 95 % "
        "interval, or the largest sample where that is larger."
    )
    head = ["number", "samples", "largest seen", "estimate", "95 % upper end"]
    return note, f'<details><summary>{len(rows)} fits</summary><div class="wide">{_table(head, rows)}</div></details>'


def _unshown(card: Card) -> list[str]:
    checked = _mapping(card.measured.get("checked"))
    promised = _rate(card.measured.get("false_reject_rate"))
    kinds = _mapping(_mapping(card.measured.get("checked") or card.measured.get("fitted")).get("kinds"))
    computes = sorted({str(kind).rpartition("; ")[2] for kind in kinds})
    engines = {str(kind).rpartition("; ")[0] for kind in kinds}
    found = []
    if checked:
        found.append(
            f"That only {promised} of honest submissions are rejected. {_whole(checked.get('submissions')):,} were "
            f"checked, which excludes rates above {_rate(checked.get('rate_upper_95'))}; the rest is extrapolated."
        )
    else:
        found.append("How honest submissions fare that did not set the limits: none were kept apart.")
    found += [
        f"Hardware that was not recorded. {len(engines)} ways of using a machine were, held against "
        f"{' and '.join(computes) or 'no compute'}. What another one differs by may be more.",
        "That the probabilities of the levels hold in every hour. They are counted over all submissions; a machine "
        "that is broken or overclocked for an hour is not honest hardware in the sense of this card, and its worker "
        "has to stop by itself.",
        "Attacks that are not listed, and what happens between them: nobody looked for the cheapest edit that passes.",
        "Cheats whose scores stay below the first level. They add no evidence, however often they repeat it.",
        "Other temperatures, other policies of the same shape that drift more, and completions much longer or shorter "
        "than those recorded.",
    ]
    return found


def _footer(card: Card) -> str:
    machine, versions = _mapping(card.measured.get("machine")), _mapping(card.measured.get("versions"))
    parts = [f"{name} {value}" for name, value in versions.items()] + [str(value) for value in machine.values()]
    command = card.measured.get("command")
    shown = f"<code>{escape(str(command))}</code><br>" if command else ""
    return f"{shown}{escape(', '.join(parts))}"


def _section(title: str, note: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{f'<p>{escape(note)}</p>' if note else ''}{body}</section>"


def _list(entries: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(entry)}</li>' for entry in entries)}</ul>"


def _table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    text_columns: Sequence[int] = (0,),
    marks: Sequence[str] = (),
    raw: bool = False,
) -> str:
    """Return a table; with `raw`, all cells but the first of a row are markup already. `marks` stand before rows."""

    def cell(tag: str, place: int, text: str, mark: str = "") -> str:
        kind = "" if place in text_columns else ' class="n"'
        is_markup = raw and tag == "td" and place > 0
        return f"<{tag}{kind}>{mark}{text if is_markup else escape(text)}</{tag}>"

    body = []
    for number, row in enumerate(rows):
        mark = marks[number] if number < len(marks) else ""
        body.append("".join(cell("td", place, text, mark if place == 0 else "") for place, text in enumerate(row)))
    header = f"<thead><tr>{''.join(cell('th', *each) for each in enumerate(head))}</tr></thead>" if any(head) else ""
    return f"<table>{header}<tbody>{''.join(f'<tr>{cells}</tr>' for cells in body)}</tbody></table>"


def _top(honest: Sequence[float], limits: Sequence[float]) -> float:
    """Return where a scale ends: beyond all limits and honest values."""
    return max([ROOM * limit for limit in limits if math.isfinite(limit)] + [ROOM * max(honest, default=0.0), 1e-9])


def _at(value: float, top: float) -> float:
    return math.sqrt(max(0.0, value) / top)


def _round(value: float) -> float:
    """Round to a number that reads well: one or two digits."""
    return float(f"{value:.1g}")


def _shown(value: float) -> str:
    """Write a number to three digits, without a power of ten where that reads well."""
    if value == 0 or not 1e-6 < abs(value) < 1e7:
        return f"{value:.3g}"
    text = f"{value:,.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _median(values: Sequence[int]) -> int:
    return sorted(values)[len(values) // 2]


def _least_informative(limits: Thresholds) -> int:
    return limits.sampling[0].min_informative if limits.sampling else 0


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _whole(value: object) -> int:
    return value if type(value) is int else 0


def _text(value: object) -> str:
    return _shown(float(value)) if type(value) in (int, float) and math.isfinite(value) else ""  # type: ignore[arg-type]


def _rate(value: object) -> str:
    """Say a share in percent."""
    return f"{100 * float(value):.3g} %" if type(value) in (int, float) else "an unknown share"  # type: ignore[arg-type]


def _raised(power: float) -> str:
    """Write a power of ten as it is written."""
    return f"{power:g}".translate(str.maketrans("-0123456789.", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹·"))


MARK = '<svg viewBox="0 0 28 28" aria-hidden="true"><path d="M2 2h16l8 8v16h-24z"/></svg>'
STYLE = """
:root {
  --paper: #f6f5f1; --card: #fffefb; --ink: #22262a; --soft: #646b72; --line: #dedbd2; --tin: #8d99a3;
  --honest: #1f7a63; --attack: #b3322c; --ours: #22262a; --published: #4a5fa5; --step: #c07a12;
  --c0: #b3322c; --c1: #4a5fa5; --c2: #c07a12; --c3: #8a6aa3; --c4: #1f7a63; --c5: #54606b; --c6: #2b3d7d;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #15181b; --card: #1c2024; --ink: #e6e4de; --soft: #989fa6; --line: #30363c; --tin: #7b8791;
    --honest: #4bb797; --attack: #ea6a60; --ours: #e6e4de; --published: #8396dc; --step: #dfa244;
    --c0: #ea6a60; --c1: #8396dc; --c2: #dfa244; --c3: #b493cf; --c4: #4bb797; --c5: #9aa6b1; --c6: #aebcf2;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", "Noto Sans", "Liberation Sans", sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 40px 20px 72px; }
header p { max-width: 46em; color: var(--soft); margin: 6px 0 0; }
h1 { font-size: 30px; line-height: 1.2; margin: 0; letter-spacing: -.01em; display: flex; gap: 12px;
  align-items: center; overflow-wrap: anywhere; }
h1 svg { width: 28px; height: 28px; flex: none; fill: var(--tin); }
h2 { font-size: 18px; margin: 0 0 2px; }
h3 { font-size: 15px; margin: 0; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 20px 22px;
  margin-top: 18px; }
section > p { margin: 0 0 12px; color: var(--soft); font-size: 14.5px; max-width: 60em; }
section > .wide + .wide { margin-top: 22px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(158px, 1fr)); gap: 12px; margin-top: 22px; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 12px 14px; }
.tile b { display: block; font-size: 21px; line-height: 1.25; font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); font-size: 13.5px; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 340px), 1fr)); gap: 22px;
  align-items: start; }
.wide { overflow-x: auto; }
.number { border-top: 1px solid var(--line); padding: 16px 0 6px; }
.number > p { margin: 0 0 8px; color: var(--soft); font-size: 14px; max-width: 60em; }
.row { display: grid; grid-template-columns: minmax(0, 300px) minmax(0, 1fr); gap: 2px 14px; align-items: center; }
.name { font-size: 12.5px; line-height: 1.3; color: var(--soft); padding: 3px 0; overflow-wrap: anywhere; }
.name b { font-weight: 600; margin-left: 6px; white-space: nowrap; font-variant-numeric: tabular-nums; }
.dot { display: inline-block; width: 8px; height: 8px; margin-right: 6px; border-radius: 50%;
  background: var(--honest); }
.dot.attack { background: var(--attack); border-radius: 1px; }
svg.strip { display: block; width: 100%; height: 26px; overflow: visible; }
svg.axis { display: block; width: calc(100% - 314px); margin-left: 314px; height: 16px; overflow: visible; }
.keys { margin: 2px 0 8px 314px; display: flex; flex-wrap: wrap; gap: 2px 16px; }
.key { font-size: 12.5px; color: var(--soft); border-left: 2px solid var(--ours); padding-left: 6px; }
.key.published { border-left-color: var(--published); border-left-style: dashed; }
.key.step { border-left-color: var(--step); border-left-style: dotted; }
@media (max-width: 720px) {
  main { padding: 24px 12px 48px; } section { padding: 16px 14px; } h1 { font-size: 23px; }
  .row { grid-template-columns: minmax(0, 1fr); } svg.axis { width: 100%; margin-left: 0; } .keys { margin-left: 0; }
}
rect.honest { fill: var(--honest); } rect.attack { fill: var(--attack); }
line.base, line.grid { stroke: var(--line); } line.ours { stroke: var(--ours); stroke-width: 1.5; }
line.published { stroke: var(--published); stroke-width: 1.5; stroke-dasharray: 4 3; }
line.step { stroke: var(--step); stroke-width: 1.5; stroke-dasharray: 2 3; }
svg text { font: 12px system-ui, -apple-system, "Segoe UI", "Noto Sans", "Liberation Sans", sans-serif;
  fill: var(--soft); font-variant-numeric: tabular-nums; }
svg text.middle { text-anchor: middle; } svg text.end { text-anchor: end; }
svg.square { display: block; width: 100%; max-width: 460px; height: auto; }
.guess { fill: none; stroke: var(--soft); stroke-dasharray: 2 5; }
.curve { fill: none; stroke-width: 2; stroke-linejoin: round; }
svg.dash { width: 28px; height: 12px; margin-right: 8px; }
svg.bar { display: block; width: 100%; min-width: 74px; height: 6px; margin: 3px 0 1px; overflow: visible; }
rect.track { fill: var(--line); } rect.interval { fill: var(--tin); } circle.share { fill: var(--ink); }
table { border-collapse: collapse; width: 100%; font-size: 14.5px; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; color: var(--soft); font-size: 13px; vertical-align: bottom; }
th, td { padding: 6px 14px 6px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th:last-child, td:last-child { padding-right: 0; }
tr:last-child td { border-bottom: 0; }
td.n, th.n { text-align: right; } td.n { white-space: nowrap; }
td { overflow-wrap: anywhere; } td:first-child { min-width: 7em; }
.wide td:first-child { min-width: 11em; }
small { color: var(--soft); font-size: 12.5px; }
ul { margin: 8px 0 0; padding-left: 1.2em; } li { margin: 4px 0; max-width: 60em; }
details summary { cursor: pointer; color: var(--soft); font-size: 14.5px; margin-bottom: 8px; }
code { font: 13px ui-monospace, "SF Mono", Menlo, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
footer { color: var(--soft); font-size: 13.5px; margin-top: 18px; }
""" + "".join(
    f".c{n} {{ stroke: var(--c{n}); stroke-dasharray: {dash or 'none'}; }}\n" for n, dash in enumerate(DASHES)
)
