"""An explanation as a person reads it and as JSON. It decides nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import IntEnum
from typing import Any

from stannary.e_process import PARTS
from stannary.evidence import Measure
from stannary.types import Outcome, Reason, to_hex
from validator.calibrate import PUBLISHED
from validator.explain import CHUNK_FIELDS, Check, ChunkRow, Explanation, Field, Member, State, TokenRow, View

WHOLE_TABLE = 32
"""Chunks up to which all are shown; of more, the worst half as many."""
FEW = 4
"""Fields of a check that passed up to which all are shown; of more, those that are no plain equality."""
SHOWN_TEXT = 160
"""Characters of a text that are shown."""


def report(found: Explanation | None, missing: Sequence[str]) -> list[str]:
    """Return what a person reads."""
    lines = [] if found is None else list(_told(found))
    if missing:
        lines += ["", "could not be had", *("  " + each for each in missing)]
    return lines[1:] if lines and not lines[0] else lines


def document(found: Explanation | None, missing: Sequence[str]) -> dict[str, object]:
    """Return the same for JSON: null for what is not known, and for a number that is not finite."""
    told: dict[str, object] = {"missing": list(missing)}
    if found is None:
        return told
    submission, own = found.leaf.submission, found.recomputed.judgement
    return told | {
        "leaf": _plain(submission) | {"hash": to_hex(submission.struct_hash())},
        "policy_step": found.policy_step,
        "card_hash": to_hex(found.card_hash),
        "verdict": None if own is None else _plain(own.finding),
        "rewards": None if own is None else list(own.rewards),
        "panel": _plain(found.panel),
        "is_reproduced": found.is_reproduced,
        "is_audited": found.recomputed.is_audited,
        "checks": [_plain(check) for check in found.recomputed.checks],
        "measured": [_view_document(view) for view in found.recomputed.views],
        "members": [_plain(member) for member in found.members],
        "notes": list(found.notes),
    }


def _told(found: Explanation) -> Iterator[str]:
    submission = found.leaf.submission
    yield f"step {submission.step}, slot {submission.slot} of pool {submission.pool}, policy step {found.policy_step}"
    yield f"  leaf {to_hex(submission.struct_hash())}"
    yield f"  provider {submission.provider}, node {submission.node}"
    yield f"  file {to_hex(submission.content_hash)}, {submission.units} units"
    yield f"  card {to_hex(found.card_hash)}"
    yield from (f"  {note}" for note in found.notes)
    yield ""
    yield _verdict(found)
    own = found.recomputed.judgement
    if own is not None and own.rewards:
        yield "  rewards " + ", ".join(f"{reward:.6g}" for reward in own.rewards)
    yield ""
    yield "checks, in their order"
    for check in found.recomputed.checks:
        yield from _check(check)
    for view in found.recomputed.views:
        yield ""
        yield from _view(view)
    yield ""
    yield from _panel(found)


def _verdict(found: Explanation) -> str:
    own = found.recomputed.judgement
    here = "not known" if own is None else _outcome(own.finding.outcome, own.finding.reason)
    panel = "not decided" if found.panel is None else found.panel.name.lower()
    if found.panel is Outcome.ABSTAIN:
        panel = "undecided (no quorum)"
    same = {True: "reproduced", False: "NOT reproduced", None: "nothing to compare"}[found.is_reproduced]
    return f"verdict here: {here}; the panel's: {panel}; {same}"


def _check(check: Check) -> Iterator[str]:
    told = check.explanation
    if not told and check.state is State.PASSED:
        shown = [each for each in check.fields if len(check.fields) <= FEW or each.expected != each.got]
        told = ", ".join(f"{each.name} {_brief(each.got)}{_bound(each)}" for each in shown)
        told += f" and {len(check.fields) - len(shown)} more" if len(shown) < len(check.fields) else ""
    yield f"  {check.state.value:<8} {check.name:<12} {told}".rstrip()
    if check.state is State.FAILED and check.fields:
        rows = [("", "", "expected", "got"), *(_field_row(each) for each in check.fields)]
        yield from (" " * 11 + line for line in _table(rows, left=True))


def _bound(each: Field) -> str:
    return "" if each.expected == each.got else f" ({each.expected})"


def _brief(text: str) -> str:
    """Return a hash or address by its first digits."""
    return text[:10] + "…" if text.startswith("0x") else _short(text)


def _field_row(each: Field) -> tuple[str, ...]:
    return ("" if each.is_right else "*", each.name, _short(each.expected), _short(each.got))


def _view(view: View) -> Iterator[str]:
    scores = "too short to be evidence"
    if view.scores is not None:
        told = (f"{part} {_number(score)}" for part, score in zip(PARTS, view.scores, strict=True))
        scores = f"scores {', '.join(told)}; rejected above 1"
    yield f"measured by {view.compute}: {scores}"
    worst = view.worst
    shown = view.chunks
    if len(shown) > WHOLE_TABLE:
        shown = tuple(sorted(view.chunks, key=lambda row: -row.share)[: WHOLE_TABLE // 2])
    rows: list[tuple[str, ...]] = [
        ("", "rollout", "chunk", "tokens", "exponents", "mantissa mean", "median", "of limit")
    ]
    rows += [_chunk_row(row, "*" if row is worst else "") for row in shown]
    yield from ("  " + line for line in _table(rows))
    if len(shown) < len(view.chunks):
        yield f"  the other {len(view.chunks) - len(shown)} chunks lie further from their limits"
    yield f"  * rollout {worst.rollout}, chunk {worst.chunk}: {_short(worst.text)!r}"
    means = ((name, own) for name, own in view.activations.measures.items() if name.startswith("mean_"))
    yield f"  over {len(view.chunks)} chunks: " + ", ".join(f"{name} {_against(own)}" for name, own in means)
    beyond = view.beyond_published
    exponents, mean, median = PUBLISHED
    said = "reject" if beyond else "not reject"
    yield (
        f"  the published limits, {exponents} / {mean:g} / {median:g} a chunk, would {said} it"
        + (f": {len(beyond)} of {len(view.chunks)} chunks are beyond" if beyond else "")
    )
    for name, own in view.pairing.measures.items():
        yield f"  pairing {name} {_against(own)}"
    yield "  sampling " + ", ".join(f"{name} {_against(own)}" for name, own in view.sampling.measures.items())
    if view.tokens:
        yield "  tokens furthest below what the seed picks"
        head = ("rollout", "token", "claimed", "the seed picks", "gap", "at most", "probability", "context")
        yield from ("  " + line for line in _table([head, *map(_token_row, view.tokens)]))


def _chunk_row(row: ChunkRow, mark: str) -> tuple[str, ...]:
    measures = (_against(row.measures[name], slash=True) for name in CHUNK_FIELDS)
    return (mark, str(row.rollout), str(row.chunk), str(row.tokens), *measures, f"{row.share:.2f}")


def _token_row(row: TokenRow) -> tuple[str, ...]:
    return (
        str(row.rollout),
        str(row.token),
        f"{row.claimed} {row.claimed_text!r}",
        f"{row.picked} {row.picked_text!r}",
        f"{row.gap:.3f}",
        f"{row.limit:g}",
        f"{row.probability:.3g}" + ("" if row.is_informative else " (no choice)"),
        f"{row.before} [{row.claimed_text}] {row.after}",
    )


def _panel(found: Explanation) -> Iterator[str]:
    if found.members:
        yield f"panel of {len(found.members)}"
    for member in found.members:
        vote = "no vote" if member.vote is None else f"voted {member.vote.name.lower()}"
        yield f"  {member.provider} {vote}; {_published(member)}"
        yield from (f"    differs: {each}" for each in member.differences)
        if member.evidence is not None and not member.differences and found.recomputed.judgement is not None:
            yield "    agrees with what is found here"
    yield from _side_by_side(found)


def _published(member: Member) -> str:
    if member.evidence is None:
        return f"no evidence: {member.missing}"
    said = _outcome(member.evidence.outcome, member.evidence.reason)
    why = f": {member.evidence.explanation}" if member.evidence.explanation else ""
    return f"published {said} by {member.compute}{why}"


def _side_by_side(found: Explanation) -> Iterator[str]:
    """Yield every number with those that the members published."""
    own = found.recomputed.judgement
    columns = [("here", own.finding.measures)] if own is not None else []
    columns += [(m.provider[:8], m.evidence.measures) for m in found.members if m.evidence is not None]
    names = list(dict.fromkeys(name for _, measures in columns for name in measures))
    if not names or all(member.evidence is None for member in found.members):
        return
    rows = [("", *(title for title, _ in columns))]
    for name in names:
        rows.append((name, *(_cell(measures, name) for _, measures in columns)))
    yield "numbers of the verdict, each with its limit"
    yield from ("  " + line for line in _table(rows))


def _cell(measures: Mapping[str, Measure], name: str) -> str:
    return _against(measures[name], slash=True) if name in measures else ""


def _against(own: Measure, *, slash: bool = False) -> str:
    if own.limit is None:
        return _number(own.value)
    mark = "!" if own.share > 1 else ""
    return f"{_number(own.value)}{'/' if slash else ' of '}{_number(own.limit)}{mark}"


def _number(value: float | None) -> str:
    return "∞" if value is None else f"{value:.4g}"


def _outcome(outcome: Outcome, reason: Reason) -> str:
    return outcome.name.lower() + ("" if reason is Reason.NONE else f" ({reason.name.lower().replace('_', ' ')})")


def _short(text: str) -> str:
    return text if len(text) <= SHOWN_TEXT else text[: SHOWN_TEXT - 1] + "…"


def _table(rows: Sequence[tuple[str, ...]], *, left: bool = False) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            text.ljust(width) if left else text.rjust(width) for text, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def _view_document(view: View) -> dict[str, Any]:
    worst = view.worst
    return {
        **_plain(view),
        "worst_chunk": {"rollout": worst.rollout, "chunk": worst.chunk, "share": _plain(worst.share)},
        "is_beyond_published": bool(view.beyond_published),
    }


def _plain(value: object) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, IntEnum):
        return value.name.lower()
    if isinstance(value, State):
        return value.name.lower()
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, bytes):
        return to_hex(value)
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
