"""A24: honest workers are rejected because their machine rounds otherwise than the one that limits were tuned on.

Every engine and way of using a machine generates here, in its own process by the worker's own command, and is held
against the committed card by each compute of a validator. By the same limits the next checkpoint has to be found.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from stannary.cards import Card
from stannary.corpus import Corpus
from tests.validator.conftest import card, neighbour, toy
from validator import statistics
from validator.calibrate import DTYPES, Bench
from validator.judgement import decide
from validator.recordings import MACHINES, Machine, Task, record

__all__ = ["card", "neighbour", "toy"]

TASK = Task("sieve", "{}", group_size=4, max_tokens=48)
GROUPS = 50
"""Two hundred completions by each machine."""
SEED = 24_000_000
"""None of a card's."""


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench()


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_honest_work_of_every_machine_is_accepted(
    machine: Machine, card: Card, bench: Bench, toy: Path, neighbour: Path, tmp_path: Path
) -> None:
    """By either compute alone, which is stricter than both together, as a first step and as a later one."""
    number = MACHINES.index(machine)
    for policy, before in ((toy, None), (neighbour, toy)):
        corpus = Corpus.read(
            record(tmp_path / policy.name, policy, TASK, machine, groups=GROUPS // 2, seed=SEED + number)
        )
        for found in bench.measure(corpus, policy, before):
            assert len(found) == len(DTYPES)
            for measured in found:
                finding = statistics.judge(measured, card.thresholds)
                assert finding.is_fine, f"{corpus.engine} by {measured.compute}: {finding.explanation}"


def test_the_checkpoint_before_is_found_by_the_same_limits(
    card: Card, bench: Bench, toy: Path, neighbour: Path, tmp_path: Path
) -> None:
    machine = next(machine for machine in MACHINES if machine.name == "sdpa")
    corpus = Corpus.read(record(tmp_path / "stale", toy, TASK, machine, groups=GROUPS, seed=SEED))
    decided = [decide(found, card.thresholds) for found in bench.measure(corpus, neighbour, toy)]
    assert sum(not finding.is_fine for finding in decided) >= 0.99 * GROUPS
