"""Watching: a sample is judged again, and what the panel decided otherwise is disputed within the budget."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from stannary.chain import Block, StepHistory, events
from stannary.errors import Reverted
from stannary.types import ZERO_HASH, CaseKind, Hash, Outcome, Phase
from stannary.verdict import pack_outcomes
from tests.validator.conftest import FACTS, RULES, Bench, Made, bench, bf16, card, environment, fp32, judge, toy
from tests.validator.scripted import OTHERS, PLACE, VALIDATOR_PROVIDER, ScriptedLedger
from tests.validator.test_loop import EDITED_SLOT, PROMPT_SLOT, SLOT, World, made, make_world, taken
from validator.budget import Budget
from validator.inspection import Inspector
from validator.prefill import Prefill
from validator.watch import Stakes, Watcher, sample

__all__ = ["bench", "bf16", "card", "environment", "fp32", "judge", "made", "toy"]

PANEL = (VALIDATOR_PROVIDER, *OTHERS[:2])
CHALLENGE_SECONDS = 40


@dataclass(slots=True)
class VotedLedger(ScriptedLedger):
    """A ledger whose panel has revealed these outcomes, all alike."""

    outcomes: Sequence[Outcome] = ()

    def history(self, step: int, at: Block) -> StepHistory:
        packed = pack_outcomes(self.outcomes)
        return replace(
            ScriptedLedger.history(self, step, at),
            opened=events.StepOpened(PLACE, RULES.pool, step, FACTS.policy_step, FACTS.slots, 0, 7),
            drawn=events.AuditBeaconSealed(PLACE, RULES.pool, step, FACTS.audit_beacon, PANEL, VALIDATOR_PROVIDER),
            votes={
                member: events.VoteRevealed(PLACE, RULES.pool, step, member, packed, ZERO_HASH, ZERO_HASH)
                for member in PANEL
            },
        )


def watcher(
    world: World, outcomes: dict[int, Outcome], *, cap: int = 10, bond: int = 1
) -> tuple[Watcher, list[object]]:
    """A watcher of all leaves of a step whose panel accepted all but what is named, and the cases that it opens."""
    taken_slots = world.ledger.delivered
    by_slot = [outcomes.get(slot, Outcome.ACCEPT) for slot in range(FACTS.slots + len(taken_slots))]
    now = world.ledger.box.times.reveal_until + 1
    ledger = VotedLedger(world.ledger.made, now=now, outcomes=by_slot, delivered=taken_slots)
    world.parts = replace(world.parts, ledger=ledger)
    opened: list[object] = []

    def open_case(step: int, slot: int, kind: CaseKind) -> int:
        opened.append((step, slot, kind))
        return len(opened)

    stakes = Stakes(quorum=2, challenge_seconds=CHALLENGE_SECONDS, bond_wei=bond, budget=Budget(cap))
    stop = threading.Event()
    inspector = Inspector(world.parts, world.clock, stop)
    found = Watcher(world.parts, inspector, open_case, stakes, share=1.0, poll_s=0.1, stop=stop, clock=world.clock)
    return found, opened


@pytest.fixture
def world(made: list[Made], bench: Bench, tmp_path: Path) -> World:
    return make_world(made, bench, tmp_path)


def finish(watcher: Watcher) -> None:
    for _ in range(20):
        if not watcher.tick():
            return
    raise AssertionError("it never came to an end")


def test_leaves_that_were_wrongly_accepted_are_challenged_once_each(world: World) -> None:
    watching, opened = watcher(world, {})
    finish(watching)
    finish(watching)
    assert opened == [(FACTS.step, slot, CaseKind.CHALLENGE) for slot in sorted((PROMPT_SLOT, EDITED_SLOT))]
    assert watching._stakes.budget.spent == 2


def test_leaf_that_was_wrongly_refused_is_appealed(world: World) -> None:
    refused = {SLOT: Outcome.FAULT, PROMPT_SLOT: Outcome.FAULT, EDITED_SLOT: Outcome.REJECT}
    watching, opened = watcher(world, refused)
    finish(watching)
    assert opened == [(FACTS.step, SLOT, CaseKind.APPEAL)]


def test_slot_taken_on_chain_is_watched_as_well(world: World, bench: Bench, bf16: Prefill) -> None:
    slot, beacon, where = FACTS.slots, Hash(b"\x0c" * 32), "http://worker.example/file"
    own = taken(bench, bf16, slot, beacon)
    world.ledger.delivered = {slot: (own, beacon, where)}
    world.elsewhere[where] = own.data
    world.coordinator.away.add(own.leaf.submission.content_hash)
    watching, opened = watcher(world, {PROMPT_SLOT: Outcome.FAULT, EDITED_SLOT: Outcome.FAULT, slot: Outcome.FAULT})
    finish(watching)
    assert opened == [(FACTS.step, slot, CaseKind.APPEAL)]


def test_nothing_is_disputed_beyond_the_cap(world: World, caplog: pytest.LogCaptureFixture) -> None:
    watching, opened = watcher(world, {}, cap=10, bond=8)
    with caplog.at_level(logging.ERROR):
        finish(watching)
    assert len(opened) == 1
    assert "the cap on bonds is reached" in caplog.text


def test_dispute_that_is_refused_costs_no_budget(world: World) -> None:
    watching, _ = watcher(world, {})

    def refuse(step: int, slot: int, kind: CaseKind) -> int:
        raise Reverted("challenge", "SlotIsHeld")

    watching._open_case = refuse
    finish(watching)
    assert watching._stakes.budget.spent == 0


def test_step_outside_its_challenge_window_is_left_alone(world: World) -> None:
    watching, opened = watcher(world, {})
    ledger = world.parts.ledger
    assert isinstance(ledger, VotedLedger)
    start = ledger.box.times.reveal_until
    for now in (start - 1, start + CHALLENGE_SECONDS):
        ledger.now = now
        assert not watching.tick()
    ledger.now, ledger.phase = start, Phase.COMMITTED
    assert not watching.tick()
    assert opened == []


def test_sample_has_its_share_and_never_nothing() -> None:
    draw = random.Random(7)
    sizes = [len(sample(range(100), 0.2, draw)) for _ in range(200)]
    assert 18 < sum(sizes) / len(sizes) < 22
    assert all(len(sample([5, 9], 1e-9, draw)) == 1 for _ in range(20))
    assert sample([], 0.5, draw) == []
