"""coordinator.poster: when the coordinator acts on chain. The decision alone; test_server runs it on a real one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordinator.poster import Action, Deed, StepFacts, plan
from stannary.chain import Block
from stannary.types import Hash, Phase
from tests.coordinator.office import TERMS

SEEDED_AT = 1000
DEADLINE = SEEDED_AT + TERMS.collect_seconds
LAST = DEADLINE + TERMS.lease_seconds
FACTS = StepFacts(
    step=3,
    phase=Phase.SEEDED,
    slots=8,
    seed_block=50,
    seeded_at=SEEDED_AT,
    audit_block=60,
    audited_at=2000,
    voted_at=0,
    uploaded=0,
    awaited=0,
    is_first_unsettled=True,
)


def decide(timestamp: int = SEEDED_AT, number: int = 100, **changes: object) -> object:
    decided = plan(replace(FACTS, **changes), Block(number, Hash(bytes(32)), timestamp), TERMS)  # type: ignore[arg-type]
    assert not (decided.actions and decided.waiting)
    return [action.deed for action in decided.actions] or decided.waiting


@pytest.mark.parametrize(("number", "is_due"), [(49, False), (50, False), (51, True)])
def test_seed_beacon_is_sealed_once_its_block_is_past(number: int, is_due: bool) -> None:
    found = decide(number=number, phase=Phase.OPEN)
    assert found == ([Deed.SEAL_SEED] if is_due else "step 3: block 51 for the seed beacon")


@pytest.mark.parametrize(("number", "is_due"), [(60, False), (61, True)])
def test_audit_beacon_is_sealed_once_its_block_is_past(number: int, is_due: bool) -> None:
    found = decide(number=number, phase=Phase.COMMITTED)
    assert found == ([Deed.SEAL_AUDIT] if is_due else "step 3: block 61 for the audit beacon")


@pytest.mark.parametrize(
    ("timestamp", "uploaded", "awaited", "expected"),
    [
        (SEEDED_AT, 8, 0, [Deed.COMMIT]),
        (SEEDED_AT, 7, 0, "step 3: 1 of 8 groups"),
        (DEADLINE - 1, 7, 0, "step 3: 1 of 8 groups"),
        (DEADLINE, 7, 0, [Deed.COMMIT]),
        (DEADLINE, 7, 1, "step 3: the bytes of 1 receipted groups"),
        (DEADLINE + TERMS.lease_seconds // 2, 7, 1, [Deed.COMMIT]),
        (DEADLINE, 0, 0, "step 3: its deadline, no group has come"),
        (LAST, 1, 0, [Deed.COMMIT]),
        (LAST, 0, 0, "step 3: its deadline, no group has come"),
        (LAST + 1, 0, 0, [Deed.CANCEL]),
        (LAST + 1, 8, 0, [Deed.CANCEL]),
    ],
)
def test_root_is_committed_when_all_is_there_or_time_is_up(
    timestamp: int, uploaded: int, awaited: int, expected: object
) -> None:
    assert decide(timestamp, uploaded=uploaded, awaited=awaited) == expected


def test_lapsed_step_waits_for_earlier_ones_to_settle() -> None:
    assert decide(LAST + 1, is_first_unsettled=False) == "step 3: earlier steps to settle"


@pytest.mark.parametrize(
    ("timestamp", "voted_at", "expected"),
    [
        (2000, 0, "step 3: the panel's votes"),
        (2059, 0, "step 3: the panel's votes"),
        (2060, 0, "step 3: the end of its challenge time"),
        (2089, 0, "step 3: the end of its challenge time"),
        (2090, 0, [Deed.FINALIZE]),
        (2010, 2010, "step 3: the end of its challenge time"),
        (2039, 2010, "step 3: the end of its challenge time"),
        (2040, 2010, [Deed.FINALIZE]),
    ],
)
def test_step_is_finalized_after_votes_and_challenge_time(timestamp: int, voted_at: int, expected: object) -> None:
    assert decide(timestamp, phase=Phase.AUDITED, voted_at=voted_at) == expected


def test_step_is_not_finalized_before_earlier_ones() -> None:
    found = decide(9999, phase=Phase.AUDITED, is_first_unsettled=False)
    assert found == "step 3: earlier steps to settle"


def test_faults_of_a_finalized_step_are_slashed_one_by_one() -> None:
    facts = replace(FACTS, phase=Phase.FINALIZED, unslashed_faults=(1, 4))
    decided = plan(facts, Block(100, Hash(bytes(32)), 9999), TERMS)
    assert decided.actions == (Action(Deed.SLASH, 3, 1), Action(Deed.SLASH, 3, 4))
    assert [str(action) for action in decided.actions] == [
        "step 3, leaf 1: slash a leaf",
        "step 3, leaf 4: slash a leaf",
    ]


@pytest.mark.parametrize("phase", [Phase.FINALIZED, Phase.CANCELLED, Phase.NONE])
def test_settled_step_needs_nothing(phase: Phase) -> None:
    assert decide(9999, phase=phase) is None
