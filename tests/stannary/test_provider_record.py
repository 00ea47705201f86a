"""The record of a provider: what panels published, believed only under its root."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from stannary import provider_record
from stannary.accusation import slots_of
from stannary.audit_choice import audited_slots
from stannary.chain import Block, StepHistory, events
from stannary.errors import Unreachable
from stannary.evidence import EvidenceFile, Measure
from stannary.provider_record import TRIES, PublicSources, Steps
from stannary.standing import ScoredLeaf, Standing
from stannary.structs import Submission
from stannary.types import ZERO_HASH, Address, Hash, Outcome, Reason, Role
from stannary.verdict import pack_outcomes
from tests.chains import Devnet
from tests.published import BEACON, BEYOND, CARD, LEVELS, OTHER_CARD, PANEL, SLOTS, World, entry, leaf_at, places
from tests.worker.scripted import RULES


def test_pool_without_steps_has_no_record() -> None:
    assert World().reader().read() is None


def test_leaf_is_told_as_its_panel_judged_it_and_counts_by_the_median() -> None:
    world = World()
    world.add(0, {1: [0.2, BEYOND, 0.6], 2: [BEYOND, 0.1, 1.2]}, foreign=[0, 3])
    record = world.record()
    assert places(record) == [(0, 1), (0, 2)]
    first, second = record.leaves
    assert (first.outcome, first.reason, first.score) == (Outcome.ACCEPT, Reason.NONE, 0.6)
    assert first.worst == ("mantissa_mean", Measure(4.0 * 0.6, 4.0))
    assert (second.outcome, second.reason, second.score) == (Outcome.REJECT, Reason.ACTIVATIONS, 1.2)
    assert second.measures["mantissa_mean"].value == 4.0 * 1.2
    assert record.standing == Standing.of(
        LEVELS,
        [
            ScoredLeaf(0, slot, leaf_at(0, slot).struct_hash(), (score, 0.0, 0.0))
            for slot, score in ((1, 0.6), (2, 1.2))
        ],
    )
    assert record.standing.counts[0] == (0, 0, 1, 1)


def test_leaf_that_was_not_audited_is_told_and_is_no_evidence() -> None:
    world = World()
    world.add(0, {1: [None, None, None], 2: [0.1, 0.1, 0.1]})
    record = world.record()
    assert [(leaf.outcome, leaf.score) for leaf in record.leaves] == [(Outcome.ACCEPT, None), (Outcome.ACCEPT, 0.1)]
    assert record.standing.counts == ((1, 0, 0, 0),) * 3


def test_steps_under_another_card_or_ruled_on_before_add_nothing() -> None:
    world = World()
    for step, offer in enumerate((0, 1, 0, 0)):
        world.add(step, {1: [BEYOND] * 3}, offer=offer)
    assert places(world.record()) == [(0, 1), (2, 1), (3, 1)]
    world.judged = 3
    assert places(world.record()) == [(3, 1)]
    world.add(4, {1: [0.1] * 3}, offer=1)
    record = world.record()
    assert (record.card_hash, places(record)) == (OTHER_CARD.hash(), [(4, 1)])


def test_every_audited_leaf_under_the_card_counts_whatever_is_known_of_it() -> None:
    world = World()
    world.add(0, {1: [0.1] * 3}, offer=1)
    world.add(1, {1: [None] * 3, 2: [0.1] * 3}, foreign=[3])
    world.add(2, {1: [BEYOND] * 3})
    record = world.record()
    assert (record.first, record.last, record.total, len(record.standing.leaves)) == (0, 2, 3, 2)
    earlier = world.reader().read(1)
    assert earlier is not None
    assert (earlier.last, earlier.total, places(earlier)) == (1, 2, [(1, 1), (1, 2)])
    world.judged = 2
    assert world.record().total == 1


def test_leaf_that_was_not_chosen_counts_for_nothing_whatever_a_panel_says_of_it() -> None:
    world = World(cards={0: replace(CARD, audit_bps=5000)})
    world.add(0, {slot: [BEYOND] * 3 for slot in range(SLOTS)})
    chosen = audited_slots(BEACON, range(SLOTS), 5000)
    assert 0 < len(chosen) < SLOTS
    record = world.record()
    assert record.total == len(chosen)
    assert {leaf.slot for leaf in record.standing.leaves} == chosen
    assert len(record.leaves) == SLOTS


def test_accusation_names_what_reaches_a_level_and_counts_all_the_rest_as_a_juror_does() -> None:
    world = World()
    world.add(0, {0: [0.1] * 3, 1: [BEYOND] * 3})
    world.add(1, {slot: [BEYOND] * 3 for slot in range(3)})
    record = world.record()
    accusation = record.accusation(RULES.pool)
    assert accusation is not None
    assert [(leaf.step, leaf.slot) for leaf in accusation.leaves] == [(0, 1), (1, 0), (1, 1), (1, 2)]
    assert record.as_juror(accusation) == pytest.approx(record.standing.log10)
    later = record.accusation(RULES.pool, first=1)
    assert later is not None
    assert (later.first_step, len(later.leaves)) == (1, 3)
    assert record.as_juror(later) < record.as_juror(accusation)
    assert record.accusation(RULES.pool, first=2) is None


def test_leaf_that_was_a_planted_fault_is_told_and_is_no_evidence() -> None:
    world = World()
    world.add(0, {1: [BEYOND] * 3, 2: [BEYOND] * 3})
    plant = leaf_at(0, 1).struct_hash()
    world.found.append(events.PlantRevealed(world.place(), ZERO_HASH, RULES.pool, 0, 1, plant))
    record = world.record()
    assert places(record) == [(0, 1), (0, 2)]
    assert [leaf.slot for leaf in record.standing.leaves] == [2]


def test_what_a_member_publishes_against_its_own_vote_is_not_believed() -> None:
    """It votes for a leaf, so that nobody can appeal, and publishes numbers that would stop its worker.

    Where such members are most of the judges, nothing is known of the leaf.
    """
    world = World()
    world.add(0, {1: [BEYOND, 0.2, 0.2], 2: [BEYOND, BEYOND, 0.1]})
    accepted = pack_outcomes([Outcome.ABSTAIN, Outcome.ACCEPT, Outcome.ACCEPT, Outcome.ABSTAIN])
    world.found = [
        replace(event, outcomes=accepted) if isinstance(event, events.VoteRevealed) else event for event in world.found
    ]
    record = world.record()
    assert [(leaf.slot, leaf.scores[0]) for leaf in record.standing.leaves] == [(1, 0.2)]
    assert [leaf.outcome for leaf in record.leaves] == [Outcome.ACCEPT] * 2


def test_votes_that_are_still_to_come_leave_a_leaf_undecided() -> None:
    world = World()
    world.add(0, {1: [0.1]})
    record = world.record()
    assert record.leaves[0].outcome is None
    assert record.standing.leaves == ()


def test_first_member_to_publish_moves_nothing_alone() -> None:
    """It would be the median until the others publish, or for good where the coordinator withholds their files."""
    world = World()
    world.add(0, {1: [BEYOND, 0.2, 0.2]})
    roots = [event.evidence_root for event in world.found if isinstance(event, events.VoteRevealed)]
    world.away |= set(roots) - {roots[0]}
    record = world.record()
    assert record.standing.leaves == ()
    assert record.missing


@pytest.mark.parametrize("is_final", [False, True])
def test_liar_whose_evidence_is_there_before_that_of_others_moves_nothing(is_final: bool) -> None:
    """Be it that the others are late, or that the coordinator withholds theirs for good."""
    world = World()
    for step in range(3):
        world.add(step, {1: [0.1, 0.2, 0.15]}, is_final=is_final)
    for place, event in enumerate(world.found):
        if isinstance(event, events.VoteRevealed) and event.provider == PANEL[0]:
            honest = EvidenceFile.parse(world.files[event.evidence_root])
            lie = replace(honest.leaves[0], measures=entry(leaf_at(event.step, 1), 1e9).measures)
            file = replace(honest, leaves=(lie,))
            world.files[file.root()] = file.to_bytes()
            world.found[place] = replace(event, evidence_root=file.root())
        elif isinstance(event, events.VoteRevealed):
            world.away.add(event.evidence_root)
    reader = world.reader()
    for _ in range(TRIES + 2):
        record = reader.read()
        assert record is not None
        assert (record.standing.leaves, record.standing.log10) == ((), 0.0)
        assert [leaf.score for leaf in record.leaves] == [None] * 3
    missing = world.record().missing
    assert len(missing) == 6
    assert f"the evidence of {PANEL[1]} on step 0: no evidence here" in missing
    world.away.clear()
    assert [leaf.scores[0] for leaf in world.record().standing.leaves] == [0.2] * 3


def test_evidence_under_another_root_is_not_believed() -> None:
    world = World()
    world.add(0, {1: [0.1, 0.1, 0.1]})
    roots = [event.evidence_root for event in world.found if isinstance(event, events.VoteRevealed)]
    other = EvidenceFile(RULES.pool, 0, 0, RULES.node, CARD.hash(), "a liar", (entry(leaf_at(0, 1), BEYOND),))
    world.files[roots[0]] = other.to_bytes()
    record = world.record()
    assert len(record.missing) == len(roots)
    assert "0x" + roots[0].hex() in record.missing[0]
    assert record.standing.counts == ((0, 0, 0, 0),) * 3


@pytest.mark.parametrize("other", [{"step": 1}, {"pool": RULES.pool + 1}])
def test_header_of_another_step_or_pool_hides_no_evidence(other: dict[str, int]) -> None:
    """The root covers the leaves alone: a member of another panel may have them served under a header of its own."""
    world = World()
    world.add(0, {1: [0.1, 0.1, 0.1]})
    for root, data in world.files.items():
        world.files[root] = replace(EvidenceFile.parse(data), **other).to_bytes()  # type: ignore[arg-type]
    record = world.record()
    assert [leaf.slot for leaf in record.standing.leaves] == [1]
    assert record.missing == ()


def test_evidence_of_more_leaves_than_the_step_has_slots_is_not_believed() -> None:
    world = World()
    world.add(0, {1: [0.1, 0.1, 0.1]})
    for place, event in enumerate(world.found):
        if isinstance(event, events.VoteRevealed):
            file = EvidenceFile.parse(world.files[event.evidence_root])
            file = replace(file, leaves=file.leaves * (SLOTS + 1))
            world.files[file.root()] = file.to_bytes()
            world.found[place] = replace(event, evidence_root=file.root())
    record = world.record()
    assert record.standing.leaves == ()
    assert f"leaves: expected at most {SLOTS}" in record.missing[0]


def test_leaves_that_are_not_under_the_root_are_not_believed() -> None:
    world = World()
    world.add(0, {1: [BEYOND] * 3, 2: [0.1] * 3})
    del world.served[0][0]
    record = world.record()
    assert record.leaves == ()
    assert record.missing[0].startswith("the leaves of step 0: leaves: expected the root 0x")


def test_what_is_final_is_read_once_and_what_is_missing_is_asked_for_again() -> None:
    world = World()
    world.add(0, {1: [0.1, 0.2, 0.3]}, is_final=True)
    world.add(1, {1: [0.1, 0.2, 0.3]}, is_final=True)
    late = [event.evidence_root for event in world.found if isinstance(event, events.VoteRevealed)][3]
    world.away.add(late)
    reader = world.reader()
    found = reader.read()
    assert found is not None
    assert len(found.missing) == 1
    world.asked.clear()
    reader.read()
    assert world.asked == [late]
    world.away.clear()
    reader.read()
    world.asked.clear()
    found = reader.read()
    assert found is not None
    assert (world.asked, found.missing) == ([], ())


def test_file_of_a_final_step_that_never_comes_is_left_alone_in_the_end() -> None:
    world = World()
    world.add(0, {1: [0.1, 0.2, 0.3]}, is_final=True)
    world.away |= set(world.files)
    reader = world.reader()
    for _ in range(TRIES + 2):
        reader.read()
    assert sum(asked in world.away for asked in world.asked) == TRIES * len(PANEL)


def test_coordinator_that_is_away_is_said_at_once() -> None:
    world = World()
    world.add(0, {1: [0.1] * 3})
    calls: list[Hash] = []

    def away(root: Hash) -> bytes:
        calls.append(root)
        raise Unreachable("coordinator: no answer")

    world.evidence = away  # type: ignore[method-assign]
    with pytest.raises(Unreachable):
        world.reader().read()
    assert len(calls) == 1, "each question would wait for its time-out"


def test_histories_and_own_slots_are_made_again_only_for_steps_to_which_something_happened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    for step in range(6):
        world.add(step, {1: [0.1] * 3}, foreign=[2], is_final=True)
    steps = Steps(world.found)
    world.events = lambda: steps  # type: ignore[method-assign]
    made: list[int] = []

    def slots(history: StepHistory, provider: Address) -> frozenset[int]:
        made.append(history.step)
        return slots_of(history, provider)

    monkeypatch.setattr(provider_record, "slots_of", slots)
    reader = world.reader()
    first = reader.read()
    assert made == list(range(6))
    made.clear()
    assert reader.read() == first
    assert made == []
    last = world.found[-1]
    steps.replace_from(last.place.block_number, [last])
    assert reader.read() == first
    assert made == [5], "it is read again, as it may have been replaced"
    world.asked.clear()
    plant = events.PlantRevealed(world.place(), ZERO_HASH, RULES.pool, 2, 1, leaf_at(2, 1).struct_hash())
    steps.replace_from(plant.place.block_number, [plant])
    changed = reader.read()
    assert changed is not None
    assert made == [5, 2]
    assert [leaf.step for leaf in changed.standing.leaves] == [0, 1, 3, 4, 5]
    assert world.asked == [], "its files are known"
    steps.replace_from(plant.place.block_number, [])
    assert reader.read() == first
    assert list(steps) == world.found


class Blocks:
    """A chain of which each block holds one event, and which stops answering after some calls."""

    deployment = SimpleNamespace(deployed_block=0)

    def __init__(self, found: list[events.Event]) -> None:
        self.found = found
        self.answers = 10**9
        self.asked: list[tuple[int, int]] = []

    def frozen(self) -> Block:
        return Block(len(self.found) - 1, ZERO_HASH, 0)

    def read(
        self, _chain: object, _deployment: object, start: int, end: int, *, only: list[str], topics: object
    ) -> list[events.Event]:
        if self.answers == 0:
            raise Unreachable("too many requests")
        self.answers -= 1
        self.asked.append((start, end))
        return [event for event in self.found[start : end + 1] if event.CONTRACT in only]


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> Blocks:
    world = World()
    for step in range(20):
        world.add(step, {1: [0.1] * 3}, is_final=True)
        plant = leaf_at(step, 1).struct_hash()
        world.found.append(events.PlantRevealed(world.place(), ZERO_HASH, RULES.pool, step, 1, plant))
    made = Blocks(world.found)
    monkeypatch.setattr(provider_record, "read_events", made.read)
    monkeypatch.setattr(events, "BLOCKS_A_READ", 10)
    return made


def test_what_was_read_before_the_chain_stopped_answering_is_kept(blocks: Blocks) -> None:
    sources = PublicSources(blocks, None, RULES.pool)  # type: ignore[arg-type]
    for look in range(1, 4):
        blocks.answers = 4
        with pytest.raises(Unreachable):
            sources.events()
        assert blocks.asked[-1] == (20 * look - 10, 20 * look - 1)
    blocks.answers = 10**9
    assert list(sources.events()) == blocks.found
    assert len(blocks.asked) == len(set(blocks.asked)) * 2, "once for either kind of contract"


def test_newest_blocks_are_read_again_and_what_a_chain_replaced_is_forgotten(blocks: Blocks) -> None:
    sources = PublicSources(blocks, None, RULES.pool)  # type: ignore[arg-type]
    assert list(sources.events()) == blocks.found
    blocks.asked.clear()
    del blocks.found[-30:]
    blocks.found += [
        replace(event, step=77, place=replace(event.place, block_number=len(blocks.found) + number))  # type: ignore[call-arg]
        for number, event in enumerate(blocks.found[:12])
    ]
    assert list(sources.events()) == blocks.found
    known = Steps.of(sources.events())
    assert known.plants == {event.leaf_hash for event in blocks.found if isinstance(event, events.PlantRevealed)}
    assert [history.step for history in known.opened()] == [*range(len(blocks.found[:-12]) // 8 + 1), 77]
    assert min(start for start, _ in blocks.asked) >= len(blocks.found) - 30 - events.REREAD_BLOCKS


def test_public_sources_tell_what_the_chain_holds_and_read_on(devnet: Devnet) -> None:
    pool = devnet.pool()
    devnet.judges(pool)
    miner = devnet.stake("miner", pool, Role.WORKER).address
    devnet.open_step(pool, slots=SLOTS)
    sources = PublicSources(devnet.chain, None, pool)  # type: ignore[arg-type]
    assert [type(event) for event in sources.events()][-1] is events.SeedBeaconSealed
    leaves = [Submission(pool, 0, slot, miner, miner, 1, ZERO_HASH, ZERO_HASH) for slot in (1, 2)]
    devnet.commit(pool, leaves)
    panel = devnet.draw(pool)
    ballot = (Outcome.ABSTAIN, Outcome.ACCEPT, Outcome.ACCEPT, Outcome.ABSTAIN)
    devnet.vote(pool, dict.fromkeys(panel, ballot))
    found = list(sources.events())
    assert sum(isinstance(event, events.VoteRevealed) for event in found) == len(panel)
    assert found == list(PublicSources(devnet.chain, None, pool).events())  # type: ignore[arg-type]
    assert sources.card_hash(0) == devnet.terms().card_hash
    assert sources.judged_up_to(miner) == 0
