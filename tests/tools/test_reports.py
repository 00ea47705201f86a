"""What measurements write: figures with targets, coverage records, and answers to what slither finds."""

from __future__ import annotations

import json

import pytest

from benchmarks.cover_contracts import read
from benchmarks.figures import figure, missed, node_version
from tools.analyse_contracts import ANSWERS, place_of

RECORD = """TN:
SF:contracts/Box.sol
DA:5,3
DA:6,0
BRDA:5,0,0,2
BRDA:5,0,1,-
BRDA:6,1,0,0
end_of_record
TN:
SF:node_modules/other/Other.sol
DA:1,0
end_of_record
"""


@pytest.mark.parametrize(
    ("value", "target", "is_met"),
    [(10, "<= 10", True), (11, "<= 10", False), (0.9, ">= 0.9", True), (0.8, ">= 0.9", False)],
)
def test_target_is_met_or_shown_as_missed(value: float, target: str, is_met: bool) -> None:
    figures = {"figure": figure(value, "gas", target, samples=[value]), "other": figure(value, "gas")}
    assert figures["figure"] == {"value": value, "unit": "gas", "target": target, "met": is_met, "samples": [value]}
    assert missed(figures) == ([] if is_met else ["figure"])


def test_coverage_counts_lines_and_branches_of_the_contracts() -> None:
    files = read(RECORD.splitlines())
    assert list(files) == ["contracts/Box.sol"]
    assert files["contracts/Box.sol"].summary == {
        "lines": [1, 2],
        "branches": [1, 3],
        "lines_missing": [6],
        "branches_missing": [5, 6],
    }


def test_finding_is_placed_by_the_names_around_it() -> None:
    contract = {"type": "contract", "name": "Vault"}
    function = {"type": "function", "name": "_pull", "type_specific_fields": {"parent": contract}}
    node = {"type": "node", "name": "amount = 1", "type_specific_fields": {"parent": function}}
    variable = {"type": "variable", "name": "counts", "type_specific_fields": {"parent": function}}
    assert place_of({"check": "timestamp", "elements": [node]}) == ("timestamp", "Vault._pull")
    assert place_of({"check": "uninitialized-local", "elements": [variable]})[1] == "Vault._pull.counts"


def test_every_answer_says_why_and_where() -> None:
    for answer in json.loads(ANSWERS.read_text()):
        assert set(answer) == {"check", "where", "reason"}
        assert answer["reason"].endswith(".")
        assert all(count > 0 for count in answer["where"].values())


def test_versions_are_those_of_the_lock_file() -> None:
    assert node_version("solc") == "0.8.37"
