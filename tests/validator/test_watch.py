"""Watching: a sample is judged again, and what the panel decided otherwise is disputed within the budget."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from stannary.chain import Block, StepHistory, StepState, events
from stannary.chain.connection import NodeRefused
from stannary.errors import (
    FeeAboveCap,
    FundsError,
    Refused,
    Reverted,
    StannaryError,
    Unavailable,
    Unmined,
    Unreachable,
)
from stannary.types import ZERO_HASH, Address, CaseKind, CasePhase, Hash, Outcome, Phase, Ruling
from stannary.verdict import pack_outcomes
from stannary.wire import LeafOut
from tests.validator.conftest import FACTS, RULES, Bench, Made, bench, bf16, card, environment, fp32, judge, toy
from tests.validator.scripted import CASE, OTHERS, PLACE, VALIDATOR_PROVIDER, ScriptedLedger
from tests.validator.test_loop import EDITED_SLOT, PROMPT_SLOT, SLOT, World, made, make_world, taken
from validator.budget import RETRY_S, SETTLING_S, Budget
from validator.checks import Leaf
from validator.inspection import Inspector, Work
from validator.prefill import Prefill
from validator.watch import Stakes, Watcher, sample

__all__ = ["bench", "bf16", "card", "environment", "fp32", "judge", "made", "toy"]

PANEL = (VALIDATOR_PROVIDER, *OTHERS[:2])
CHALLENGE_SECONDS = 40


@dataclass(slots=True)
class VotedLedger(ScriptedLedger):
    """A ledger whose panel has revealed these outcomes, all alike."""

    outcomes: Sequence[Outcome] = ()
    held: frozenset[int] = frozenset()
    """Slots that a case keeps out of the settlement."""

    def history(self, step: int, at: Block) -> StepHistory:
        packed = pack_outcomes(self.outcomes)
        return replace(
            ScriptedLedger.history(self, step, at),
            held=self.held,
            opened=events.StepOpened(PLACE, RULES.pool, step, FACTS.policy_step, FACTS.slots, 0, 7),
            drawn=events.AuditBeaconSealed(PLACE, RULES.pool, step, FACTS.audit_beacon, PANEL, VALIDATOR_PROVIDER),
            votes={
                member: events.VoteRevealed(PLACE, RULES.pool, step, member, packed, ZERO_HASH, ZERO_HASH)
                for member in PANEL
            },
        )


class Docket:
    """Cases about providers, as they were opened."""

    def __init__(self) -> None:
        self.found: list[events.CaseOpened] = []

    def __call__(self, provider: Address, at: Block) -> list[events.CaseOpened]:
        return [event for event in self.found if event.provider == provider]

    def add(self, leaf: Leaf, disputant: Address) -> int:
        """A dispute about a leaf got through."""
        own = leaf.submission
        case = replace(CASE, step=own.step, slot=own.slot, provider=own.provider, disputant=disputant)
        self.found.append(events.CaseOpened(PLACE, len(self.found) + 1, RULES.pool, own.provider, case, ""))
        return len(self.found)


class Opener:
    """Opens cases; what is in `fails` is raised first."""

    def __init__(self) -> None:
        self.opened: list[object] = []
        self.fails: list[StannaryError] = []
        self.committed: Sequence[Leaf] = ()
        self.tries = 0

    def __call__(self, leaf: Leaf, committed: Sequence[Leaf], kind: CaseKind) -> int:
        self.tries += 1
        self.committed = committed
        if self.fails:
            raise self.fails.pop(0)
        self.opened.append((leaf.submission.step, leaf.submission.slot, kind))
        return 100 + len(self.opened)


def watcher(
    world: World, outcomes: dict[int, Outcome], *, cap: int = 10, bond: int = 1, **more: object
) -> tuple[Watcher, list[object]]:
    """A watcher of all leaves of a step whose panel accepted all but what is named, and the cases that it opens."""
    taken_slots = world.ledger.delivered
    by_slot = [outcomes.get(slot, Outcome.ACCEPT) for slot in range(FACTS.slots + len(taken_slots))]
    now = world.ledger.box.times.reveal_until + 1
    ledger = VotedLedger(world.ledger.made, now=now, outcomes=by_slot, delivered=taken_slots)
    world.parts = replace(world.parts, ledger=ledger)
    opener = Opener()
    stakes = Stakes(quorum=2, challenge_seconds=CHALLENGE_SECONDS, bond_wei=bond, budget=Budget(cap))
    stop = threading.Event()
    inspector = Inspector(world.parts, world.clock, stop)
    found = Watcher(
        world.parts,
        inspector,
        opener,
        stakes,
        cases=Docket(),
        share=1.0,
        poll_s=0.1,
        stop=stop,
        clock=world.clock,
        **more,  # type: ignore[arg-type]
    )
    return found, opener.opened


def failing(world: World, *fails: StannaryError, refused: dict[int, Outcome] | None = None) -> Watching:
    """A watcher of a step in which one leaf is bad that its panel accepted, whose disputes fail like this at first."""
    outcomes = {PROMPT_SLOT: Outcome.FAULT} if refused is None else refused
    watching, _ = watcher(world, outcomes)
    found = Watching(world, watching)
    found.opener.fails = list(fails)
    return found


@dataclass
class Watching:
    """A watcher and what it touches."""

    world: World
    watcher: Watcher

    @property
    def opener(self) -> Opener:
        opener = self.watcher._open_case
        assert isinstance(opener, Opener)
        return opener

    @property
    def docket(self) -> Docket:
        docket = self.watcher._cases
        assert isinstance(docket, Docket)
        return docket

    @property
    def ledger(self) -> VotedLedger:
        ledger = self.world.parts.ledger
        assert isinstance(ledger, VotedLedger)
        return ledger

    @property
    def budget(self) -> Budget:
        return self.watcher._stakes.budget

    @property
    def bad(self) -> Leaf:
        return next(made.leaf for made in self.ledger.made if made.leaf.submission.slot == EDITED_SLOT)

    def ticks(self, count: int = 3, seconds: float = 0.0) -> None:
        for _ in range(count):
            self.watcher.tick()
            self.world.clock.now += seconds


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
    found = failing(world, Reverted("challenge", "SlotIsHeld"))
    found.ticks(4, seconds=RETRY_S)
    assert (found.budget.spent, found.opener.opened, found.opener.tries) == (0, [], 1)


@pytest.mark.parametrize(
    "error",
    [
        FeeAboveCap("challenge", asked_wei=2, cap_wei=1),
        FundsError("payout tokens", VALIDATOR_PROVIDER, needed_wei=2, present_wei=1),
        Unavailable("the leaves are not here"),
        Refused("GET leaves", status=429, reason="later"),
    ],
)
def test_dispute_that_was_not_sent_is_tried_again_and_holds_no_bond(world: World, error: StannaryError) -> None:
    found = failing(world, error)
    found.ticks()
    assert (found.budget.spent, found.opener.tries) == (0, 1), "not again at once"
    found.ticks(2, seconds=RETRY_S)
    assert found.opener.opened == [(FACTS.step, EDITED_SLOT, CaseKind.CHALLENGE)]
    assert (found.budget.spent, found.budget.held) == (1, {101: 1})
    found.ticks(2, seconds=RETRY_S)
    assert found.opener.tries == 2


UNSURE = [
    Unmined("challenge", "0x01", waited_s=60.0),
    Unreachable("no answer from the chain"),
    NodeRefused("eth_getTransactionReceipt: too many requests"),
]


@pytest.mark.parametrize("error", UNSURE)
def test_dispute_that_may_have_been_sent_is_looked_for_before_it_is_sent_again(
    world: World, error: StannaryError
) -> None:
    found = failing(world, error)
    found.ticks()
    assert (found.budget.spent, found.budget.held) == (1, {})
    number = found.docket.add(found.bad, VALIDATOR_PROVIDER)
    found.ticks(4, seconds=SETTLING_S)
    assert (found.budget.spent, found.budget.held, found.opener.tries) == (1, {number: 1}, 1)


def test_dispute_that_is_not_on_chain_is_sent_again_for_one_bond(world: World) -> None:
    found = failing(world, UNSURE[0], UNSURE[1])
    found.ticks(4, seconds=SETTLING_S)
    assert (len(found.opener.opened), found.budget.spent, found.budget.held) == (1, 1, {101: 1})


def test_dispute_that_got_through_while_it_was_sent_again_is_held(world: World) -> None:
    found = failing(world, UNSURE[0], Reverted("challenge", "SlotIsHeld"))
    found.ticks(1)
    real = found.opener

    def late(leaf: Leaf, committed: Sequence[Leaf], kind: CaseKind) -> int:
        found.docket.add(leaf, VALIDATOR_PROVIDER)
        return real(leaf, committed, kind)

    found.watcher._open_case = late
    found.world.clock.now += SETTLING_S
    found.ticks(2, seconds=SETTLING_S)
    assert (found.budget.spent, found.budget.held, real.tries) == (1, {1: 1}, 2)


def test_bond_comes_back_where_somebody_else_was_first_or_the_step_is_settled(world: World) -> None:
    found = failing(world, UNSURE[0])
    found.ticks(1)
    found.docket.add(found.bad, OTHERS[0])
    found.ledger.held = frozenset({EDITED_SLOT})
    found.ticks(1)
    assert (found.budget.spent, found.opener.tries) == (0, 1)
    late = failing(world, UNSURE[0])
    late.ticks(1)
    assert late.budget.spent == 1
    late.ledger.phase = Phase.FINALIZED
    late.ticks(1)
    assert (late.budget.spent, late.watcher._watched) == (0, {})


def test_cap_that_is_free_again_is_used(world: World) -> None:
    found = failing(world)
    assert found.budget.take(found.budget.cap)
    found.budget.hold(7, found.budget.cap)
    found.ticks()
    assert found.opener.tries == 0
    resolved = replace(CASE, phase=CasePhase.RESOLVED, ruling=Ruling.FAULT)
    found.watcher._parts = replace(world.parts, court=Resolved(resolved))
    found.ticks(2, seconds=RETRY_S)
    assert len(found.opener.opened) == 1


@dataclass
class Resolved:
    """A court whose cases are all like this."""

    like: object

    def case(self, case_id: int, at: Block) -> object:
        return self.like


class Turns:
    """Stands for an accuser: counts its turns."""

    def __init__(self, fails: StannaryError | None = None) -> None:
        self.count, self.fails = 0, fails

    def tick(self, at: Block) -> bool:
        self.count += 1
        if self.fails is not None:
            raise self.fails
        return False


@dataclass(slots=True)
class TwoSteps(VotedLedger):
    """A step before, whose history cannot be had."""

    def unsettled(self, at: Block) -> range:
        return range(FACTS.step - 1, FACTS.step + 1)

    def step(self, step: int, at: Block) -> StepState:
        return VotedLedger.step(self, FACTS.step, at)

    def history(self, step: int, at: Block) -> StepHistory:
        if step < FACTS.step:
            raise Unreachable(f"step {step} cannot be had")
        return VotedLedger.history(self, step, at)


def test_accuser_has_its_turn_while_samples_are_measured(world: World) -> None:
    turns = Turns()
    watching, _ = watcher(world, {}, accuser=turns)
    world.coordinator.away |= {made.leaf.submission.content_hash for made in world.ledger.made}
    watching._inspector = Busy(world.parts, world.clock, threading.Event())
    assert watching.tick()
    assert watching.tick()
    assert turns.count == 2


class Busy(Inspector):
    """Never comes to an end."""

    def inspect(self, work: Work, *arguments: object, **more: object) -> None:
        work.is_sliced = True


def test_step_that_fails_stops_neither_the_others_nor_the_accuser(world: World) -> None:
    turns = Turns()
    watching, opened = watcher(world, {PROMPT_SLOT: Outcome.FAULT}, accuser=turns)
    old = world.parts.ledger
    assert isinstance(old, VotedLedger)
    ledger = TwoSteps(old.made, now=old.now, outcomes=old.outcomes)
    watching._parts = replace(world.parts, ledger=ledger)
    with pytest.raises(Unreachable, match="step 1 cannot be had"):
        watching.tick()
    assert opened == [(FACTS.step, EDITED_SLOT, CaseKind.CHALLENGE)]
    assert turns.count == 1


def test_accuser_that_fails_stops_no_sample(world: World) -> None:
    watching, opened = watcher(world, {PROMPT_SLOT: Outcome.FAULT}, accuser=Turns(Unreachable("no evidence")))
    with pytest.raises(Unreachable, match="no evidence"):
        watching.tick()
    assert len(opened) == 1


def bogus(leaves: list[LeafOut]) -> list[LeafOut]:
    """A list with a slot that the step does not have."""
    spoiled = leaves[0].submission.model_copy(update={"slot": 4_000_000})
    return [leaves[0].model_copy(update={"submission": spoiled}), *leaves[1:]]


@pytest.mark.parametrize("served", [bogus, lambda leaves: leaves[:1], lambda leaves: []])
def test_list_that_was_not_committed_is_said_and_asked_for_again(
    world: World, served: Callable[[list[LeafOut]], list[LeafOut]], caplog: pytest.LogCaptureFixture
) -> None:
    found = failing(world)
    world.coordinator.served = served
    found.ticks(2)
    assert found.opener.tries == 0
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "nothing of it can be watched: leaves: " in caplog.text
    world.coordinator.served = lambda leaves: leaves
    world.clock.now += RETRY_S
    found.ticks(1)
    world.coordinator.served = served
    assert found.opener.opened == [(FACTS.step, EDITED_SLOT, CaseKind.CHALLENGE)]
    assert len(found.opener.committed) == len(world.ledger.made)


def test_leaves_that_need_nothing_more_are_forgotten(world: World) -> None:
    gone: list[int] = []
    watching, _ = watcher(world, {}, forget=lambda leaf: gone.append(leaf.submission.slot))
    found = Watching(world, watching)
    found.opener.fails = [FeeAboveCap("challenge", asked_wei=2, cap_wei=1)] * 2
    found.ticks(1)
    assert gone == [SLOT]
    found.ticks(2, seconds=RETRY_S)
    assert sorted(gone) == sorted((PROMPT_SLOT, SLOT, EDITED_SLOT))


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
