"""Accusing by watching: whom panels publish against is measured, and accused once, within a budget, if a jury would."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from stannary.accusation import Accusation
from stannary.cards import Card
from stannary.chain import Block, Case, Event, events
from stannary.chain.connection import NodeRefused
from stannary.errors import (
    FeeAboveCap,
    Malformed,
    Reverted,
    SettingsError,
    StannaryError,
    Unavailable,
    Unmined,
    Unreachable,
)
from stannary.evidence import EvidenceFile, LeafEvidence, Measure
from stannary.slots import PayTable, submission_root
from stannary.standing import SCORES
from stannary.structs import Submission
from stannary.types import ZERO_HASH, Address, CaseKind, CasePhase, Hash, Ruling
from stannary.verdict import outcomes_by_slot, pack_outcomes
from tests.published import entry
from tests.validator.conftest import (
    CARD_HASH,
    FACTS,
    PROVIDER,
    RULES,
    Bench,
    Made,
    bench,
    bf16,
    card,
    environment,
    fp32,
    judge,
    toy,
)
from tests.validator.scripted import CASE, OTHERS, PLACE, VALIDATOR_PROVIDER
from tests.validator.test_jury import EVIDENCE, Run, run_of
from tests.validator.test_loop import EDITED_SLOT, PROMPT_SLOT, SLOT, made
from validator.accuser import AGAIN_S, TRIES, Accuser
from validator.budget import RETRY_S, Budget
from validator.inspection import Inspector

__all__ = ["bench", "bf16", "card", "environment", "fp32", "judge", "made", "toy"]

BOND = 2
CHALLENGE_SECONDS = 40
PANEL = (VALIDATOR_PROVIDER, *OTHERS[:2])
BAD = {PROMPT_SLOT: 9.0, EDITED_SLOT: 9.0}
"""Scores that the panel published of two leaves that are bad indeed."""
ACCUSED = replace(CASE, kind=CaseKind.STATISTICS, provider=PROVIDER)
"""An accusation of the provider, before its jury."""


def published(leaf: Submission, score: float) -> LeafEvidence:
    """What a member says of a leaf that has one score in all parts of the checks."""
    found = entry(leaf, score)
    return replace(found, measures={**found.measures, **dict.fromkeys(SCORES, Measure.of(score, 1.0))})


@dataclass
class Court:
    """Cases, and what was convicted."""

    cases: list[Case] = field(default_factory=list)
    judged: int = 0
    plants: set[Hash] = field(default_factory=set)
    looked: list[int] = field(default_factory=list)
    """The cases that were asked for."""

    def case(self, case_id: int, at: Block) -> Case:
        self.looked.append(case_id)
        return self.cases[case_id - 1]

    def opened(self, provider: Address, at: Block) -> list[events.CaseOpened]:
        """The cases about a provider, as the chain's events tell them."""
        found = enumerate(self.cases, start=1)
        return [
            events.CaseOpened(PLACE, number, case.pool, case.provider, case, "")
            for number, case in found
            if case.provider == provider
        ]

    def judged_up_to(self, provider: Address, at: Block) -> int:
        return self.judged

    def is_plant(self, leaf_hash: Hash, at: Block) -> bool:
        return leaf_hash in self.plants


@dataclass
class Published:
    """What panels published of the leaves of a run: these scores by slot, and low ones of all others."""

    run: Run
    court: Court
    card_: Card
    scores: Mapping[int, float]
    away: set[Hash] = field(default_factory=set)
    fails: Exception | None = None
    no_leaves: bool = False
    files: dict[Hash, bytes] = field(default_factory=dict)

    def events(self) -> Sequence[Event]:
        if self.fails is not None:
            raise self.fails
        found: list[Event] = []
        for step in range(FACTS.step + 1):
            found += self._step(step)
        for leaf_hash in self.court.plants:
            found.append(events.PlantRevealed(PLACE, ZERO_HASH, RULES.pool, FACTS.step, 0, leaf_hash))
        return found

    def _step(self, step: int) -> list[Event]:
        leaves, pool = self.run.ledger.leaves(step), RULES.pool
        table = PayTable.of(leaves, FACTS.slots, RULES.max_units)
        said = [published(leaf, self.scores.get(leaf.slot, 0.1)) for leaf in leaves]
        by_slot = {leaf.slot: own.outcome for leaf, own in zip(leaves, said, strict=True)}
        outcomes = pack_outcomes(outcomes_by_slot(by_slot, FACTS.slots))
        votes = []
        for seat, member in enumerate(PANEL if leaves else ()):
            file = EvidenceFile(pool, step, step, member, CARD_HASH, f"compute {seat}", tuple(said))
            self.files[file.root()] = file.to_bytes()
            votes.append(events.VoteRevealed(PLACE, pool, step, member, outcomes, ZERO_HASH, file.root()))
        return [
            events.StepOpened(PLACE, pool, step, FACTS.policy_step, FACTS.slots, step, 7),
            events.RootCommitted(PLACE, pool, step, submission_root(leaves, FACTS.slots), ZERO_HASH, table, 9),
            events.AuditBeaconSealed(PLACE, pool, step, FACTS.audit_beacon, PANEL, VALIDATOR_PROVIDER),
            *votes,
            events.StepFinalized(PLACE, pool, step, outcomes, 0, 0, 0, 0),
        ]

    def judged_up_to(self, provider: Address) -> int:
        return self.court.judged

    def card_hash(self, offer: int) -> Hash:
        return CARD_HASH

    def card(self, card_hash: Hash) -> Card:
        return self.card_

    def leaves(self, step: int) -> Sequence[Submission]:
        if self.no_leaves:
            raise Unavailable(f"step {step} is not kept any more")
        return self.run.ledger.leaves(step)

    def evidence(self, evidence_root: Hash) -> bytes:
        if evidence_root in self.away:
            raise Unavailable("no evidence here")
        return self.files[evidence_root]


@dataclass
class Scene:
    """A run of leaves of which those in slots 1 and 4 are bad, and who watches it."""

    run: Run
    bench: Bench
    scores: Mapping[int, float] = field(default_factory=lambda: BAD)
    court: Court = field(default_factory=Court)
    budget: Budget = field(default_factory=lambda: Budget(10 * BOND))
    accused: list[Accusation] = field(default_factory=list)
    refusal: Exception | None = None
    is_sent: bool = False
    """Whether what is refused gets through all the same."""
    tries: int = 0
    forgotten: list[Accusation] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.run.world.restart(court=self.court)
        self.published = Published(self.run, self.court, replace(self.bench.judge.card, evidence=EVIDENCE), self.scores)
        self.begin()

    def begin(self) -> None:
        parts, clock = self.run.world.parts, self.run.world.clock
        self.accuser = Accuser(
            parts,
            Inspector(parts, clock, threading.Event()),
            self.published,
            self.open,
            self.budget,
            cases=self.court.opened,
            quorum=2,
            bond_wei=BOND,
            challenge_seconds=CHALLENGE_SECONDS,
            clock=clock,
            forget=self.forgotten.append,
        )

    def open(self, accusation: Accusation) -> int:
        self.tries += 1
        if self.is_sent:
            own = replace(ACCUSED, disputant=VALIDATOR_PROVIDER, evidence_hash=accusation.evidence_hash())
            self.court.cases.append(own)
        if self.refusal is not None:
            raise self.refusal
        self.accused.append(accusation)
        self.court.cases.append(ACCUSED)
        return len(self.court.cases)

    def ticks(self, count: int = 8, seconds: float = 1.0) -> None:
        for _ in range(count):
            self.accuser.tick(self.run.ledger.frozen())
            self.run.world.clock.now += seconds

    @property
    def measured(self) -> int:
        """How often a policy was loaded to measure leaves."""
        return self.run.world.weights.loads

    @property
    def named(self) -> list[list[int]]:
        return [[leaf.slot for leaf in accusation.leaves] for accusation in self.accused]


@pytest.fixture
def run(made: list[Made], bench: Bench, tmp_path: Path) -> Run:
    return run_of(made, bench, tmp_path)


@pytest.fixture
def scene(run: Run, bench: Bench) -> Scene:
    return Scene(run, bench)


def test_provider_whose_leaves_fail_here_too_is_accused_once(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.ticks()
    assert scene.named == [sorted(BAD)]
    accusation = scene.accused[0]
    assert (accusation.provider, accusation.first_step, accusation.last_step) == (PROVIDER, 0, FACTS.step)
    assert "2 of 3 leaves measured: evidence 10^3.5, 10^3.3 convicts; case 1 opened" in caplog.text
    assert scene.budget.spent == BOND
    scene.begin()
    scene.ticks()
    assert len(scene.accused) == 1, "a restart accuses nobody twice"


def test_numbers_that_a_panel_made_up_make_nobody_accuse(
    run: Run, bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    scene = Scene(run, bench, scores={SLOT: 9.0, EDITED_SLOT: 9.0})
    scene.ticks()
    assert scene.measured > 0
    assert (scene.accused, scene.budget.spent) == ([], 0)
    assert "evidence 10^1" in caplog.text
    assert "not accused" in caplog.text
    before = scene.measured
    scene.ticks()
    assert scene.measured == before, "what was measured once is not measured again"


def test_honest_provider_and_one_whose_leaves_are_few_are_left_alone(run: Run, bench: Bench) -> None:
    for scores in ({}, {EDITED_SLOT: 9.0}):
        scene = Scene(run, bench, scores=scores)
        scene.ticks()
        assert (scene.measured, scene.accused) == (0, [])


def test_leaves_that_speak_for_the_provider_count(scene: Scene) -> None:
    scene.run.ledger.more = {0: 8, 1: 8}
    scene.ticks()
    assert (scene.budget.spent, scene.accused) == (0, [])


def test_what_a_conviction_covered_is_evidence_no_more(scene: Scene) -> None:
    scene.court.judged = FACTS.step + 1
    scene.ticks()
    assert (scene.measured, scene.accused) == (0, [])


@pytest.mark.parametrize("phase", [CasePhase.OPENED, CasePhase.VOTING, CasePhase.RULED])
def test_provider_that_somebody_else_accused_is_not_accused_beside(scene: Scene, phase: CasePhase) -> None:
    scene.court.cases = [replace(ACCUSED, phase=phase)]
    scene.ticks()
    assert (scene.measured, scene.accused) == (0, [])


def test_cases_of_others_and_about_single_leaves_are_no_accusation(scene: Scene) -> None:
    scene.court.cases = [replace(ACCUSED, kind=CaseKind.CHALLENGE), replace(ACCUSED, provider=OTHERS[0])]
    scene.ticks()
    assert scene.named == [sorted(BAD)]


@pytest.mark.parametrize("last", [0, FACTS.step])
def test_after_an_own_failure_it_takes_leaves_that_suffice_by_themselves(scene: Scene, last: int) -> None:
    own = replace(ACCUSED, step=last, phase=CasePhase.RESOLVED, ruling=Ruling.ACCEPT, disputant=VALIDATOR_PROVIDER)
    scene.court.cases = [own]
    scene.ticks()
    assert len(scene.accused) == (last < FACTS.step)


@pytest.mark.parametrize("ruling", [Ruling.ACCEPT, Ruling.UNAVAILABLE, Ruling.NONE])
def test_accusation_that_an_accomplice_brought_to_fail_shields_nobody(scene: Scene, ruling: Ruling) -> None:
    scene.court.cases = [replace(ACCUSED, phase=CasePhase.RESOLVED, ruling=ruling)]
    scene.ticks()
    assert scene.named == [sorted(BAD)]


def test_nobody_is_measured_without_a_bond_to_put_down(
    run: Run, bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    scene = Scene(run, bench, budget=Budget(BOND - 1))
    scene.ticks()
    assert (scene.measured, scene.accused) == (0, [])
    assert "the cap on bonds is reached" in caplog.text


def test_bond_comes_back_where_the_chain_refuses(scene: Scene) -> None:
    scene.refusal = Reverted("accuse", "DeadlinePassed")
    scene.ticks()
    assert (scene.accused, scene.budget.spent) == ([], 0)


def test_machine_that_cannot_measure_accuses_nobody(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.run.world.weights.fails = Unavailable("policy step 1 is not there")
    scene.ticks(CHALLENGE_SECONDS + 2)
    assert (scene.accused, scene.budget.spent) == ([], 0)
    assert "not accused" in caplog.text
    assert "policy step 1 is not there" in caplog.text


def test_evidence_that_is_away_is_asked_for_again(scene: Scene) -> None:
    scene.published.events()
    roots = list(scene.published.files)
    last = [root for root in roots if EvidenceFile.parse(scene.published.files[root]).step == FACTS.step]
    for away in (last, last[1:]):
        scene.court.cases.clear()
        scene.accused.clear()
        scene.published.away = set(away)
        scene.begin()
        scene.ticks(4)
        scene.published.away = set()
        scene.ticks(seconds=AGAIN_S)
        assert scene.named == [sorted(BAD)]


def test_leaves_that_nobody_serves_are_said_and_a_network_that_is_down_is_waited_for(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.published.fails = Unreachable("no answer")
    with pytest.raises(Unreachable):
        scene.ticks()
    scene.published.fails, scene.published.no_leaves = None, True
    scene.ticks(3 * TRIES, seconds=AGAIN_S)
    assert scene.accused == []
    assert f"step {FACTS.step}: what its panel published cannot be read" in caplog.text


def test_planted_faults_speak_against_nobody(scene: Scene) -> None:
    scene.court.plants = {leaf.struct_hash() for leaf in scene.run.ledger.leaves(FACTS.step)}
    scene.ticks()
    assert (scene.measured, scene.accused) == (0, [])


def test_it_says_how_a_suspect_stands(run: Run, bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    Scene(run, bench, scores={EDITED_SLOT: 9.0}).ticks()
    assert f"what panels published of {PROVIDER} up to step {FACTS.step} is evidence of 10^" in caplog.text


@pytest.mark.parametrize(
    "error", [FeeAboveCap("accuse", asked_wei=2, cap_wei=1), SettingsError("it is not served"), Unavailable("not here")]
)
def test_accusation_that_was_not_sent_is_tried_again_and_holds_no_bond(scene: Scene, error: StannaryError) -> None:
    scene.refusal = error
    scene.ticks(4)
    assert (scene.tries > 0, scene.budget.spent, scene.accused) == (True, 0, [])
    scene.refusal = None
    scene.ticks(2, seconds=RETRY_S)
    assert scene.named == [sorted(BAD)]
    assert (scene.budget.spent, scene.budget.held) == (BOND, {1: BOND})
    assert scene.forgotten == scene.accused


UNSURE = [
    Unmined("accuse", "0x01", waited_s=60.0),
    Unreachable("no answer from the chain"),
    NodeRefused("eth_getTransactionReceipt: too many requests"),
]


@pytest.mark.parametrize("error", UNSURE)
def test_accusation_that_may_have_been_sent_is_found_on_chain(scene: Scene, error: StannaryError) -> None:
    scene.refusal, scene.is_sent = error, True
    scene.ticks(12, seconds=RETRY_S)
    assert (scene.tries, scene.budget.spent, scene.budget.held) == (1, BOND, {1: BOND})


def test_accusation_that_is_not_on_chain_is_sent_again_for_one_bond_while_there_is_time(scene: Scene) -> None:
    scene.refusal = UNSURE[0]
    scene.ticks(6)
    assert (scene.tries, scene.budget.spent) == (1, BOND)
    scene.ticks(5, seconds=CHALLENGE_SECONDS / 4)
    assert scene.tries > 1
    assert (scene.accused, scene.budget.spent) == ([], 0), "its time is over"


def test_suspect_that_could_not_be_measured_is_measured_at_the_next_settled_step(scene: Scene) -> None:
    scene.run.world.weights.fails = Unavailable("policy step 1 is not there")
    scene.ticks(CHALLENGE_SECONDS + 2)
    assert PROVIDER in scene.accuser._suspects
    scene.run.world.weights.fails = None
    scene.accuser._looked[PROVIDER] -= 1  # as if one more had settled
    scene.ticks()
    assert scene.named == [sorted(BAD)]


@pytest.mark.parametrize("error", [Unreachable("no answer"), Malformed("card", expected="a card", got=None)])
def test_record_that_could_not_be_read_is_read_again(scene: Scene, error: StannaryError) -> None:
    scene.ticks(0)
    real, fails = scene.published.judged_up_to, [error]

    def judged_up_to(provider: Address) -> int:
        if fails:
            raise fails.pop()
        return real(provider)

    scene.published.judged_up_to = judged_up_to  # type: ignore[method-assign]
    for _ in range(FACTS.step + 3):
        try:
            scene.ticks(1)
        except Unreachable:
            scene.run.world.clock.now += 1
    assert scene.accused == []
    scene.ticks(seconds=AGAIN_S)
    assert scene.named == [sorted(BAD)]


def test_own_lost_case_is_not_hidden_by_a_later_one_of_an_accomplice(scene: Scene) -> None:
    lost = replace(ACCUSED, phase=CasePhase.RESOLVED, ruling=Ruling.ACCEPT)
    scene.court.cases = [replace(lost, disputant=VALIDATOR_PROVIDER), lost]
    scene.ticks()
    assert (scene.measured, scene.accused) == (0, [])


def test_cases_about_others_are_not_looked_at_and_resolved_ones_once(scene: Scene) -> None:
    strange = replace(ACCUSED, provider=OTHERS[0])
    done = replace(ACCUSED, phase=CasePhase.RESOLVED, ruling=Ruling.ACCEPT)
    scene.court.cases = [strange, done, strange, replace(ACCUSED, kind=CaseKind.CHALLENGE)]
    scene.ticks()
    assert scene.court.looked == [2]


def test_second_case_of_an_accomplice_in_a_row_is_not_waited_for(scene: Scene) -> None:
    scene.court.cases = [ACCUSED]
    scene.ticks(2, seconds=AGAIN_S)
    assert (scene.measured, scene.accused) == (0, [])
    scene.court.cases = [replace(ACCUSED, phase=CasePhase.RESOLVED, ruling=Ruling.NONE), ACCUSED]
    scene.ticks(seconds=AGAIN_S / 8)
    scene.ticks()
    assert scene.named == [sorted(BAD)]


def test_second_case_that_convicted_already_is_waited_for(scene: Scene) -> None:
    scene.court.cases = [ACCUSED]
    scene.ticks(2, seconds=AGAIN_S)
    done = replace(ACCUSED, phase=CasePhase.RESOLVED, ruling=Ruling.NONE)
    scene.court.cases = [done, replace(ACCUSED, phase=CasePhase.RULED, ruling=Ruling.FAULT)]
    scene.ticks(4, seconds=AGAIN_S)
    assert (scene.measured, scene.accused) == (0, [])
