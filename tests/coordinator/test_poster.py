"""coordinator.poster: when the coordinator acts on chain. The decision alone; test_server runs it on a real one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordinator.poster import Action, Deed, StepFacts, plan
from stannary.types import Phase
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
    audit_from=1500,
    reveal_until=2000,
    revealed=3,
    was_redrawn=False,
    uploaded=0,
    awaited=0,
    is_ours=True,
    is_first_unsettled=True,
)


def decide(now: int = SEEDED_AT, number: int = 100, **changes: object) -> object:
    decided = plan(replace(FACTS, **changes), number, now, TERMS)  # type: ignore[arg-type]
    assert not (decided.actions and decided.waiting)
    return [action.deed for action in decided.actions] or decided.waiting


@pytest.mark.parametrize(("number", "is_due"), [(49, False), (50, False), (51, True)])
def test_seed_beacon_is_sealed_once_its_block_is_past(number: int, is_due: bool) -> None:
    found = decide(number=number, phase=Phase.OPEN)
    assert found == ([Deed.SEAL_SEED] if is_due else "step 3: block 51 for the seed beacon")


@pytest.mark.parametrize(
    ("now", "number", "audit_block", "expected"),
    [
        (1500, 60, 60, "step 3: block 61 for the audit beacon"),
        (1500, 61, 60, [Deed.SEAL_AUDIT]),
        (1499, 61, 60, "step 3: the slots taken on chain"),
        (1499, 61, 0, "step 3: the slots taken on chain"),
        (1500, 61, 0, [Deed.SEAL_AUDIT]),
    ],
)
def test_audit_beacon_is_sealed_once_its_block_is_past_and_no_slot_can_be_taken(
    now: int, number: int, audit_block: int, expected: object
) -> None:
    assert decide(now, number, phase=Phase.COMMITTED, audit_block=audit_block) == expected


@pytest.mark.parametrize(
    ("now", "uploaded", "awaited", "expected"),
    [
        (SEEDED_AT, 8, 0, [Deed.COMMIT]),
        (SEEDED_AT, 7, 0, "step 3: 1 of 8 groups"),
        (DEADLINE - 1, 7, 0, "step 3: 1 of 8 groups"),
        (DEADLINE, 7, 0, [Deed.COMMIT]),
        (DEADLINE, 7, 1, "step 3: the bytes of 1 receipted groups"),
        (DEADLINE + TERMS.lease_seconds // 2, 7, 1, [Deed.COMMIT]),
        (DEADLINE, 0, 0, "step 3: its deadline, no group has come"),
        (LAST - 1, 1, 0, [Deed.COMMIT]),
        (LAST - 1, 0, 0, "step 3: its deadline, no group has come"),
        (LAST, 0, 0, [Deed.CANCEL]),
        (LAST, 8, 0, [Deed.CANCEL]),
    ],
)
def test_root_is_committed_when_all_is_there_or_time_is_up(
    now: int, uploaded: int, awaited: int, expected: object
) -> None:
    assert decide(now, uploaded=uploaded, awaited=awaited) == expected


def test_root_of_anothers_step_is_left_to_its_coordinator_but_a_lapsed_step_is_cancelled() -> None:
    assert decide(DEADLINE, uploaded=8, is_ours=False) == "step 3: its own coordinator"
    assert decide(LAST, is_ours=False) == [Deed.CANCEL]


def test_lapsed_step_waits_for_earlier_ones_to_settle() -> None:
    assert decide(LAST, is_first_unsettled=False) == "step 3: earlier steps to settle"


@pytest.mark.parametrize(
    ("now", "revealed", "was_redrawn", "expected"),
    [
        (1999, 0, False, "step 3: the panel's votes"),
        (2000, 0, False, [Deed.REDRAW]),
        (2000, TERMS.quorum - 1, False, [Deed.REDRAW]),
        (2000, TERMS.quorum, False, "step 3: the end of its challenge time"),
        (2000, 0, True, "step 3: the end of its challenge time"),
        (2029, 3, False, "step 3: the end of its challenge time"),
        (2030, 3, False, [Deed.FINALIZE]),
        (2030, 0, True, [Deed.FINALIZE]),
    ],
)
def test_panel_is_redrawn_once_and_the_step_finalized_after_votes_and_challenge_time(
    now: int, revealed: int, was_redrawn: bool, expected: object
) -> None:
    assert decide(now, phase=Phase.AUDITED, revealed=revealed, was_redrawn=was_redrawn) == expected


def test_step_is_not_finalized_before_earlier_ones() -> None:
    found = decide(9999, phase=Phase.AUDITED, is_first_unsettled=False)
    assert found == "step 3: earlier steps to settle"


def test_faults_of_a_finalized_step_are_slashed_one_by_one() -> None:
    facts = replace(FACTS, phase=Phase.FINALIZED, unslashed_faults=(1, 4))
    decided = plan(facts, 100, 9999, TERMS)
    assert decided.actions == (Action(Deed.SLASH, 3, 1), Action(Deed.SLASH, 3, 4))
    assert [str(action) for action in decided.actions] == [
        "step 3, slot 1: slash a leaf",
        "step 3, slot 4: slash a leaf",
    ]


@pytest.mark.parametrize("phase", [Phase.FINALIZED, Phase.CANCELLED, Phase.NONE])
def test_settled_step_needs_nothing(phase: Phase) -> None:
    assert decide(9999, phase=phase) is None
