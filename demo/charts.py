"""Pictures as inline SVG, by small functions: the reward curve, the lanes of who did what when, the blocks, the bars.

They know of numbers and labels, not of steps or chains. Colours and fonts are the page's, by class.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 960
"""Units of every picture's own scale; the page stretches them."""
_LEFT = 150
_RIGHT = 16
_BLOCK = 13
_CUT = 4


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a curve."""

    x: float
    y: float
    title: str


@dataclass(frozen=True, slots=True)
class Span:
    """Something that lasted, or, with both ends equal, happened. Units: seconds."""

    begin_s: float
    end_s: float
    kind: str
    title: str


@dataclass(frozen=True, slots=True)
class Lane:
    """One actor's row."""

    label: str
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """One submission as a block with a corner cut off."""

    kind: str
    title: str


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a stacked bar."""

    value: float
    kind: str
    title: str


def curve(points: Sequence[Point], *, before: float, after: float, x_label: str, y_label: str) -> str:
    """Draw a mean over steps, with the held-out mean before and after as dotted levels at the sides."""
    height, top, bottom, left, right = 300, 22, 44, 56, 86
    highest = _ceiling(max([before, after, *(point.y for point in points)], default=1.0))
    last = max((point.x for point in points), default=0.0)

    def at_x(value: float) -> float:
        return left + (WIDTH - left - right) * (value + 0.5) / (last + 1)

    def at_y(value: float) -> float:
        return top + (height - top - bottom) * (1 - value / highest)

    parts = []
    for step in range(5):
        value = highest * step / 4
        parts.append(
            f'<line class="grid" x1="{left}" x2="{WIDTH - right}" y1="{at_y(value):.1f}" y2="{at_y(value):.1f}"/>'
        )
        parts.append(_text(left - 8, at_y(value) + 4, f"{value:.2f}", "tick end"))
    for value in range(int(last) + 1):
        if last < 30 or value % 5 == 0:
            parts.append(_text(at_x(value), height - bottom + 18, str(value), "tick middle"))
    parts.append(_text((left + WIDTH - right) / 2, height - 6, x_label, "label middle"))
    parts.append(_text(left, top - 6, y_label, "label"))
    for level, name in ((before, "before"), (after, "after")):
        parts.append(
            f'<line class="level" x1="{left}" x2="{WIDTH - right}" y1="{at_y(level):.1f}" y2="{at_y(level):.1f}">'
            f"<title>held-out {name}: {level:.3f}</title></line>"
        )
        parts.append(_text(WIDTH - right + 6, at_y(level) + 4, f"{name} {level:.2f}", "tick held"))
    line = " ".join(f"{at_x(point.x):.1f},{at_y(point.y):.1f}" for point in points)
    if points:
        base = f"{at_x(points[-1].x):.1f},{at_y(0):.1f} {at_x(points[0].x):.1f},{at_y(0):.1f}"
        parts.append(f'<polygon class="area" points="{line} {base}"/>')
    parts.append(f'<polyline class="curve" points="{line}"/>')
    for point in points:
        parts.append(
            f'<circle class="dot" cx="{at_x(point.x):.1f}" cy="{at_y(point.y):.1f}" r="4">'
            f"<title>{escape(point.title)}</title></circle>"
        )
    return _svg(height, parts, f"{y_label} over {x_label}")


def lanes(rows: Sequence[Lane], *, end_s: float, label: str) -> str:
    """Draw rows of spans over one clock that starts at 0."""
    row_height, top = 26, 8
    height = top + row_height * len(rows) + 34
    end_s = max(end_s, 1.0)

    def at(seconds: float) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * min(max(seconds, 0.0), end_s) / end_s

    parts = []
    tick_s = _round_interval(end_s / 8)
    for number in range(int(end_s // tick_s) + 1):
        x = at(number * tick_s)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{height - 30}"/>')
        parts.append(_text(x, height - 14, _clock(number * tick_s), "tick middle"))
    for number, row in enumerate(rows):
        y = top + row_height * number
        parts.append(_text(_LEFT - 10, y + 17, row.label, "label end"))
        for span in row.spans:
            parts.append(_span(at(span.begin_s), at(span.end_s), y + 4, row_height - 8, span))
    return _svg(height, parts, label)


def blocks(rows: Sequence[tuple[str, Sequence[Sequence[Block]]]], *, label: str) -> str:
    """Draw a table of blocks: rows with a label, columns numbered from 0, cells of blocks that wrap."""
    columns = max((len(cells) for _, cells in rows), default=0)
    width = (WIDTH - _LEFT - _RIGHT) / max(columns, 1)
    across = max(1, int((width - 6) // (_BLOCK + 2)))
    heights = [
        max(1, *(math.ceil(len(cell) / across) for cell in cells)) * (_BLOCK + 2) + 12 if cells else 27
        for _, cells in rows
    ]
    height = sum(heights) + 30
    parts = []
    y = 4.0
    for (name, cells), row_height in zip(rows, heights, strict=True):
        parts.append(_text(_LEFT - 10, y + 17, name, "label end"))
        parts.append(f'<line class="grid" x1="0" x2="{WIDTH}" y1="{y + row_height:.1f}" y2="{y + row_height:.1f}"/>')
        for column, cell in enumerate(cells):
            for place, block in enumerate(cell):
                down, over = divmod(place, across)
                x = _LEFT + column * width + 3 + over * (_BLOCK + 2)
                parts.append(_block(x, y + 6 + down * (_BLOCK + 2), block))
        y += row_height
    for column in range(columns):
        parts.append(_text(_LEFT + (column + 0.5) * width, y + 18, str(column), "tick middle"))
    return _svg(height, parts, label)


def block_sample(kind: str) -> str:
    """Draw one block alone, for a legend."""
    size = _BLOCK + 2
    return (
        f'<svg class="sample" viewBox="0 0 {size} {size}" width="{size}" height="{size}" aria-hidden="true">'
        f"{_block(1, 1, Block(kind, ''))}</svg>"
    )


def bars(rows: Sequence[tuple[str, Sequence[Part], str]], *, label: str) -> str:
    """Draw stacked bars on one scale: label, parts, and a text behind."""
    row_height, right = 30, 210
    highest = max((sum(part.value for part in parts) for _, parts, _ in rows), default=0.0) or 1.0
    parts_out = []
    for number, (name, parts, text) in enumerate(rows):
        y = 4 + row_height * number
        parts_out.append(_text(_LEFT - 10, y + 18, name, "label end"))
        x = float(_LEFT)
        for part in parts:
            width = (WIDTH - _LEFT - right) * part.value / highest
            if width > 0:
                title = f"<title>{escape(part.title)}</title>"
                place = f'x="{x:.1f}" y="{y + 4}" width="{max(width, 1):.1f}" height="18"'
                parts_out.append(f'<rect class="{escape(part.kind)}" {place}>{title}</rect>')
            x += width
        parts_out.append(_text(x + 8, y + 18, text, "tick"))
    return _svg(row_height * len(rows) + 8, parts_out, label)


def _span(x0: float, x1: float, y: float, height: float, span: Span) -> str:
    title = f"<title>{escape(span.title)}</title>"
    if span.begin_s == span.end_s:
        middle, half = y + height / 2, 6
        path = f"M{x0:.1f} {middle - half:.1f}l{half} {half}l{-half} {half}l{-half} {-half}z"
        return f'<path class="mark {escape(span.kind)}" d="{path}">{title}</path>'
    return (
        f'<rect class="span {escape(span.kind)}" x="{x0:.1f}" y="{y:.1f}" width="{max(x1 - x0, 1.5):.1f}" '
        f'height="{height:.1f}" rx="2">{title}</rect>'
    )


def _block(x: float, y: float, block: Block) -> str:
    size = _BLOCK
    outline = f"M{x:.1f} {y:.1f}h{size - _CUT}l{_CUT} {_CUT}v{size - _CUT}h{-size}z"
    cross = ""
    if block.kind in ("reject", "fault"):
        cross = f'<path class="cross" d="M{x + 3.5:.1f} {y + 4.5:.1f}l6 6m0 -6l-6 6"/>'
    return f'<g class="block {escape(block.kind)}"><title>{escape(block.title)}</title><path d="{outline}"/>{cross}</g>'


def _svg(height: float, parts: Iterable[str], label: str) -> str:
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(label)}">'
        f"{''.join(parts)}</svg>"
    )


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _ceiling(value: float) -> float:
    for candidate in (0.2, 0.4, 0.6, 0.8):
        if value <= candidate * 0.96:
            return candidate
    return 1.0


def _round_interval(seconds: float) -> float:
    return next((step for step in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800) if step >= seconds), 3600.0)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
