"""demo.page and demo.charts on an invented record."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from demo import charts
from demo.page import render, tokens
from stannary.types import Outcome, Ruling
from tests.demo.sample_record import TOKEN, sample_record

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Nesting(HTMLParser):
    """Fails on tags that do not close in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, tag
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass


def test_page_is_self_contained_and_well_nested() -> None:
    page = render(sample_record())
    nesting = Nesting()
    nesting.feed(page)
    nesting.close()
    assert nesting.open == []
    assert not re.search(r"(?:src|href|url\()\s*=?[\"'(]?\s*(?:https?:)?//", page)
    assert "<script" not in page
    assert "$" not in page


def test_page_shows_both_outcomes_the_money_and_whether_it_is_conserved() -> None:
    record = sample_record()
    page = render(record)
    assert "sampling_bound" in page
    assert "0.15 → 0.63" in page
    assert 'class="block fault"' in page
    assert 'class="block accept"' in page
    assert "NOT EQUAL" not in page
    short = replace(record.accounts[1], balance_wei=record.accounts[1].balance_wei - 1)
    assert "NOT EQUAL" in render(replace(record, accounts=(record.accounts[0], short)))


def test_leaf_without_a_published_reason_is_not_shown_as_accepted() -> None:
    record = sample_record(steps=1)
    leaf = replace(record.leaves[0], outcome=Outcome.REJECT, reason="none")
    page = render(replace(record, steps=(replace(record.steps[0], leaves=(leaf,)),)))
    assert "<td>rejected</td>" in page
    assert "<td>accepted</td>" not in page


def test_page_shows_what_a_validator_lost() -> None:
    record = sample_record()
    loser = replace(record.validators[0], slashed_wei=7 * TOKEN // 3)
    assert "2.3333" in render(replace(record, validators=(loser, *record.validators[1:])))


def test_page_tells_the_accusation() -> None:
    record = sample_record()
    page = render(record)
    assert "case 1: overturned" in page
    assert "<td>bond lost by the accuser</td><td>4 of 4</td>" in page
    lost = replace(record.accusations[0], ruling=Ruling.FAULT)
    assert "NOT OVERTURNED" in render(replace(record, accusations=(lost,)))
    assert "nobody disputed anything" in render(replace(record, accusations=()))


def test_page_of_a_run_without_submissions_still_renders() -> None:
    record = replace(sample_record(), steps=(), accepted_example=None, rejected_example=None)
    assert "None: no submission" in render(record)


def test_page_escapes_what_strangers_named() -> None:
    record = sample_record()
    hostile = replace(record.providers[0], role="<script>alert(1)</script>")
    assert "<script>" not in render(replace(record, providers=(hostile, *record.providers[1:])))


@pytest.mark.parametrize(
    ("wei", "text"),
    [(0, "0"), (TOKEN, "1"), (TOKEN // 2, "0.5"), (1234 * TOKEN + TOKEN // 4, "1,234.25"), (1, "0")],
)
def test_tokens_are_short_and_right(wei: int, text: str) -> None:
    assert tokens(wei) == text


def test_curve_places_higher_means_higher() -> None:
    picture = charts.curve(
        [charts.Point(0, 0.1, "a"), charts.Point(1, 0.5, "b")], before=0.1, after=0.6, x_label="x", y_label="y"
    )
    first, second = (float(found) for found in re.findall(r'class="dot" cx="[\d.]+" cy="([\d.]+)"', picture))
    assert second < first


def test_bars_are_proportional() -> None:
    rows = [("a", [charts.Part(1, "tin", "")], ""), ("b", [charts.Part(2, "tin", "")], "")]
    one, two = (float(found) for found in re.findall(r'width="([\d.]+)" height="18"', charts.bars(rows, label="")))
    assert two == pytest.approx(2 * one, abs=0.2)


def test_lanes_clip_spans_to_the_clock() -> None:
    picture = charts.lanes([charts.Lane("a", (charts.Span(-5, 99, "tin", ""),))], end_s=10, label="")
    x, width = (
        float(found) for found in re.findall(r'class="span tin" x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', picture)[0]
    )
    assert x == 150
    assert x + width <= charts.WIDTH
