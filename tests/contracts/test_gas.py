"""What a step costs on a real chain stays below a ceiling; `make gas` measures all of it."""

from __future__ import annotations

from benchmarks.bench_gas import TRANSACTION_GAS, not_measured, run_steps, stage_on_anvil, total, tour

SLOTS = 64
STEADY_GAS = 3_050_000
"""Of all transactions of a later step, the claims of its 19 earners included."""
TOGETHER_GAS = 2_230_000
"""The same with all claims in one transaction."""
FOR_EACH_OTHER = {"PayoutVault", "StakeManager", "SubmissionLedger", "VotingPanel", "PoolRegistry"}
"""Contracts that have functions which only other contracts, or lazily anyone, call."""


def test_a_step_of_64_submissions_stays_below_its_ceiling() -> None:
    with stage_on_anvil() as stage:
        runs = run_steps(stage, SLOTS)
    assert total(runs["steady"]) <= STEADY_GAS
    assert total(runs["steady, claimed together"]) <= TOGETHER_GAS
    assert len(runs["steady"]["PayoutVault.claim"]) == 19


def test_every_call_fits_into_a_transaction() -> None:
    with stage_on_anvil() as stage:
        calls = tour(stage)
        left_out = not_measured(stage, calls)
    assert stage.meter.largest[1] <= TRANSACTION_GAS
    assert {name.split(".")[0] for name in left_out} <= FOR_EACH_OTHER
    assert not [name for name in left_out if name.startswith(("DisputeCourt", "PlantedFaults"))]
