"""demo.record and the part of demo.report that needs no chain."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from demo.record import Account
from demo.report import summary, write_report
from stannary.types import Outcome, Ruling
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
    "accusations",
    "compensation_wei",
    "conserved",
    "failures",
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


def test_summary_tells_the_accusation() -> None:
    (case,) = summary(sample_record())["accusations"]
    assert case["jurors"] == ["validator-3", "validator-4", "validator-5"]
    assert set(case["votes"].values()) == {"accept"}
    assert (case["bond_lost_wei"], case["paid_to_worker_wei"]) == (4 * TOKEN, 3 * TOKEN)
    assert case["overturned"]


@pytest.mark.parametrize(
    "changes",
    [
        {"ruling": Ruling.REJECT},
        {"ruling": None},
        {"bond_lost_wei": 0},
        {"bond_lost_wei": TOKEN},
        {"paid_wei": 0},
        {"slashed_wei": 1},
    ],
)
def test_accusation_that_cost_the_worker_anything_is_a_failure(changes: dict[str, object]) -> None:
    record = sample_record()
    assert record.failures == ()
    case = replace(record.accusations[0], **changes)  # type: ignore[arg-type]
    assert replace(record, accusations=(case,)).failures == ("case 1 was not overturned",)


def test_run_without_an_accusation_or_with_wrong_books_is_a_failure() -> None:
    record = sample_record()
    assert replace(record, accusations=()).failures == ("no accusation was made",)
    short = replace(record.accounts[0], balance_wei=1)
    assert replace(record, accounts=(short, record.accounts[1])).failures == ("StakeManager does not conserve",)
    unearned = replace(record, unearned=("cheat earned 1 wei for leaves of 2 wei",))
    assert unearned.failures == unearned.unearned
    assert not unearned.is_conserved


def test_write_report_leaves_three_files_that_agree(tmp_path: Path) -> None:
    report = write_report(sample_record(), tmp_path)
    assert json.loads((tmp_path / "report.json").read_text()) == report
    assert len(json.loads((tmp_path / "record.json").read_text())["steps"]) == report["steps"]
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
