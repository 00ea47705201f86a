"""What a panel voted and published: a file under its root alone, an entry only as it was voted, each member once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stannary.chain import StepHistory
from stannary.chain.events import StepFinalized, VoteRevealed
from stannary.errors import Malformed, Unavailable, Unreachable
from stannary.evidence import EvidenceFile
from stannary.published import by_leaf, committed_leaves, evidence_file, judges_of, panel_of, said_of
from stannary.types import ZERO_HASH, Outcome
from stannary.verdict import pack_outcomes
from tests.published import BEYOND, CARD, PANEL, SLOTS, World, entry, leaf_at
from tests.worker.scripted import RULES

LEAF = leaf_at(0, 1)


def history_of(world: World) -> StepHistory:
    return StepHistory.of(world.found, RULES.pool, 0)


def test_first_entry_on_a_leaf_counts() -> None:
    entries = (entry(LEAF, 0.3), entry(LEAF, BEYOND), entry(leaf_at(0, 2), 0.1))
    file = EvidenceFile(RULES.pool, 0, 0, RULES.node, CARD.hash(), "loud", entries)
    assert by_leaf(file) == {LEAF.struct_hash(): entries[0], leaf_at(0, 2).struct_hash(): entries[2]}


def test_entry_stands_beside_the_vote_and_counts_if_they_agree() -> None:
    world = World()
    world.add(0, {1: [0.1, BEYOND, 0.2], 2: [0.1, 0.1, 0.1]})
    accepted = pack_outcomes([Outcome.ABSTAIN, Outcome.ACCEPT, Outcome.ACCEPT, Outcome.ABSTAIN])
    world.found = [
        replace(event, outcomes=accepted) if isinstance(event, VoteRevealed) else event for event in world.found
    ]
    history = history_of(world)
    panel = panel_of(history, lambda vote: evidence_file(world.evidence, history, vote))
    assert [seat.entry(LEAF) for seat in panel] == [
        (entry(LEAF, 0.1), True),
        (entry(LEAF, BEYOND), False),
        (entry(LEAF, 0.2), True),
    ]
    assert panel[0].entry(leaf_at(0, 3)) is None
    assert said_of(panel, LEAF) == [entry(LEAF, 0.1), entry(LEAF, 0.2)]
    assert [judges_of(panel, slot) for slot in range(SLOTS)] == [0, 3, 3, 0]


def test_seat_without_a_file_says_why() -> None:
    world = World()
    world.add(0, {1: [0.1, 0.2]})
    for place, event in enumerate(world.found):
        if isinstance(event, VoteRevealed) and event.provider == PANEL[0]:
            world.found[place] = replace(event, outcomes=b"\x00", evidence_root=ZERO_HASH)
        elif isinstance(event, VoteRevealed):
            world.away.add(event.evidence_root)
    history = history_of(world)
    panel = panel_of(history, lambda vote: evidence_file(world.evidence, history, vote))
    assert [(seat.missing, seat.is_lost) for seat in panel] == [
        ("its vote names none: it abstained on the whole step", False),
        ("no evidence here", True),
        ("it has revealed no vote", False),
    ]
    assert judges_of(panel, 1) == 2, "one vote may still come"
    world.found.append(StepFinalized(world.place(), RULES.pool, 0, b"\x00", 0, 0, 0, 0))
    assert judges_of(panel_of(history_of(world), lambda _: None), 1) == 1


def test_vote_that_decides_and_names_no_file_judges_all_the_same() -> None:
    world = World()
    world.add(0, {1: [0.1] * 3})
    world.found = [
        replace(event, evidence_root=ZERO_HASH) if isinstance(event, VoteRevealed) else event for event in world.found
    ]
    panel = panel_of(history_of(world), lambda _: None)
    assert judges_of(panel, 1) == 3
    assert {seat.missing for seat in panel} == {"its vote names none"}


def test_reader_chooses_what_is_noted_at_a_seat_and_what_ends_the_reading() -> None:
    world = World()
    world.add(0, {1: [0.1] * 3})

    def away(_: VoteRevealed) -> EvidenceFile:
        raise Unreachable("no answer")

    with pytest.raises(Unreachable):
        panel_of(history_of(world), away)
    assert {seat.missing for seat in panel_of(history_of(world), away, absent=(Unreachable,))} == {"no answer"}


def test_leaves_are_those_under_the_root() -> None:
    world = World()
    world.add(0, {1: [0.1] * 3}, foreign=[2])
    assert committed_leaves(history_of(world), world.leaves) == world.served[0]
    with pytest.raises(Malformed, match="the root 0x"):
        committed_leaves(history_of(world), lambda step: world.served[step][1:])
    open_only = StepHistory.of(world.found[:1], RULES.pool, 0)

    def unasked(_: int) -> list[object]:
        raise Unavailable("it is not asked for")

    assert committed_leaves(open_only, unasked) == []  # type: ignore[arg-type]
