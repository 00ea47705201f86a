"""The whole loop, small: a real chain, coordinator, worker, six validators and trainer, each a process of its own."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from demo.plan import (
    JUROR_FEE_WEI,
    JURY_SIZE,
    PANEL_SIZE,
    PRICE_PER_GROUP_WEI,
    PRICE_PER_TOKEN_WEI,
    STAKE_WEI,
    plan_of,
)
from demo.run import run_demo
from stannary.types import Ruling

STEPS, SLOTS, GROUP_SIZE = 2, 4, 4
WORKER = "honest_transformers"


@pytest.mark.timeout(240)
def test_pool_with_an_honest_worker_accepts_pays_overturns_an_accusation_and_conserves(tmp_path: Path) -> None:
    plan = replace(
        plan_of("toy", STEPS), workers=(WORKER,), slots=SLOTS, group_size=GROUP_SIZE, heldout=8, leases_at_once=SLOTS
    )
    with open(os.devnull, "w") as nowhere:
        record = run_demo(plan, tmp_path / "run", Console(file=nowhere)).record

    assert [step.policy_step for step in record.steps] == [0, 0]
    assert [policy.policy_step for policy in record.policies] == [0, 1, 2]
    assert len(record.leaves) == STEPS * SLOTS
    assert {leaf.outcome.name for leaf in record.leaves} == {"ACCEPT"}
    for leaf in record.leaves:
        assert leaf.paid_wei == PRICE_PER_GROUP_WEI + leaf.units * PRICE_PER_TOKEN_WEI
        assert 0 <= leaf.reward <= 1
    (provider,) = record.providers
    assert provider.engine == "transformers"
    assert provider.payout_wei == sum(leaf.paid_wei for leaf in record.leaves) + provider.compensation_wei
    assert provider.stake_wei == STAKE_WEI
    assert all(validator.stake_wei == STAKE_WEI for validator in record.validators)
    assert sum(validator.votes for validator in record.validators) == STEPS * PANEL_SIZE
    assert [len(step.votes) for step in record.steps] == [PANEL_SIZE] * STEPS

    (case,) = record.accusations
    assert (case.role, case.ruling) == (WORKER, Ruling.ACCEPT)
    assert [juror.ruling for juror in case.jurors] == [Ruling.ACCEPT] * JURY_SIZE
    panel = {vote.validator for vote in record.steps[case.step].votes}
    assert panel.isdisjoint(juror.validator for juror in case.jurors)
    assert case.bond_lost_wei == case.bond_wei
    assert case.paid_wei == next(leaf.paid_wei for leaf in record.steps[case.step].leaves if leaf.slot == case.slot)
    assert case.compensation_wei == case.bond_wei - JURY_SIZE * JUROR_FEE_WEI
    assert case.is_overturned
    assert record.failures == ()
