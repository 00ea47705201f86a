"""Mutants change one thing, everywhere it can be changed, and are drawn alike for the same seed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from benchmarks.mutants import Mutant, draw, mutants_of, syntax_trees

SOURCE = """// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

// Größe: a comment + with != operators is left alone.
contract Box {
    error Full(uint256 size);

    uint256 public constant MOST = 10_000;
    uint256 public size;
    bool public isOpen = true;
    address private owner;

    modifier onlyOwner() {
        require(msg.sender == owner);
        _;
    }

    function put(uint256 more) external onlyOwner {
        if (size + more > MOST || !isOpen) revert Full(size);
        if (more == 0) {
            return;
        }
        size += more;
        emit Put(msg.sender, more);
    }

    event Put(address who, uint256 more);
}
"""


@pytest.fixture
def found(tmp_path: Path) -> list[Mutant]:
    (tmp_path / "Box.sol").write_text(SOURCE)
    return mutants_of(tmp_path, ["Box.sol"])["Box.sol"]


def shown(found: list[Mutant]) -> set[tuple[str, str]]:
    return {(mutant.kind, mutant.shown(SOURCE.encode())[1]) for mutant in found}


def test_every_kind_of_change_is_found(found: list[Mutant]) -> None:
    expected = {
        ("flip", "if (size + more <= MOST || !isOpen) revert Full(size);"),
        ("boundary", "if (size + more >= MOST || !isOpen) revert Full(size);"),
        ("arithmetic", "if (size - more > MOST || !isOpen) revert Full(size);"),
        ("logic", "if (size + more > MOST && !isOpen) revert Full(size);"),
        ("logic", "if (size + more > MOST || isOpen) revert Full(size);"),
        ("revert", "if (size + more > MOST || !isOpen) {}"),
        ("revert", "{}"),
        ("statement", "{"),
        ("arithmetic", "size -= more;"),
        ("arguments", "emit Put(more, msg.sender);"),
        ("modifier", "function put(uint256 more) external {"),
        ("constant", "uint256 public constant MOST = 10001;"),
        ("constant", "uint256 public constant MOST = 9999;"),
        ("constant", "if (more == 1) {"),
        ("boolean", "bool public isOpen = false;"),
    }
    assert expected <= shown(found)


def test_each_mutant_is_one_other_source_that_parses(found: list[Mutant]) -> None:
    sources = {str(index): mutant.apply(SOURCE.encode()) for index, mutant in enumerate(found)}
    assert len(set(sources.values())) == len(found)
    assert SOURCE.encode() not in sources.values()
    assert all(b"a comment + with != operators is left alone" in source for source in sources.values())
    syntax_trees(sources)


def test_lines_are_those_of_the_change(found: list[Mutant]) -> None:
    lines = SOURCE.splitlines()
    for mutant in found:
        before, _ = mutant.shown(SOURCE.encode())
        assert before.startswith(lines[mutant.line(SOURCE.encode()) - 1].strip())


def test_draw_is_the_same_for_the_same_seed_and_keeps_all(found: list[Mutant]) -> None:
    drawn = draw(found, "seed")
    assert drawn == draw(found, "seed")
    assert drawn != draw(found, "another seed")
    assert Counter(drawn) == Counter(found)


def test_source_that_does_not_parse_is_refused() -> None:
    with pytest.raises(RuntimeError, match="ParserError"):
        syntax_trees({"Box.sol": b"contract {"})
