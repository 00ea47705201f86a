"""demo.record and the part of demo.report that needs no chain."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from demo.record import Account
from demo.report import summary, write_report
from stannary.types import Outcome
from tests.demo.sample_record import ROLES, TOKEN, sample_record

KEYS = {
    "policy",
    "steps",
    "reward_by_step",
    "heldout_before",
    "heldout_after",
    "engines",
    "accepted",
    "rejected",
    "rejected_by_role",
    "slashed_wei",
    "payout_claimed_wei",
    "stake_wei",
    "conserved",
    "lag_max",
    "wall_s",
    "peak_rss_mb",
}


def test_summary_has_every_promised_key_and_all_roles() -> None:
    report = summary(sample_record())
    assert set(report) >= KEYS
    for name in ("slashed_wei", "payout_claimed_wei", "stake_wei", "rejected_by_role"):
        assert tuple(report[name]) == ROLES
    assert report["engines"] == ["transformers", "vllm"]


def test_summary_counts_agree_with_the_leaves() -> None:
    record = sample_record()
    report = summary(record)
    bad = [leaf for leaf in record.leaves if leaf.outcome in (Outcome.REJECT, Outcome.FAULT)]
    assert sum(report["rejected"].values()) == sum(report["rejected_by_role"].values()) == len(bad)
    assert report["accepted"] + len(bad) + report["undecided"] == len(record.leaves)
    assert report["lag_max"] == 1


def test_step_reward_is_the_mean_over_accepted_groups_only() -> None:
    step = sample_record().steps[0]
    accepted = [leaf for leaf in step.leaves if leaf.outcome == Outcome.ACCEPT]
    better = replace(step, leaves=(*accepted, replace(step.leaves[0], outcome=Outcome.FAULT, reward=1.0)))
    assert better.reward == pytest.approx(accepted[0].reward)
    assert replace(step, leaves=()).reward is None


def test_account_one_wei_off_anywhere_is_not_conserved() -> None:
    good = Account("c", TOKEN, TOKEN, {"in": 3 * TOKEN}, {"out": 2 * TOKEN})
    assert good.is_conserved
    assert not replace(good, balance_wei=TOKEN + 1).is_conserved
    assert not replace(good, owed_wei=TOKEN - 1).is_conserved
    assert not replace(good, outflows={"out": 2 * TOKEN + 1}).is_conserved


def test_write_report_leaves_three_files_that_agree(tmp_path: Path) -> None:
    report = write_report(sample_record(), tmp_path)
    assert json.loads((tmp_path / "report.json").read_text()) == report
    assert len(json.loads((tmp_path / "record.json").read_text())["steps"]) == report["steps"]
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
