"""The records that must survive: salts, votes and rulings on disk."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from stannary.errors import OperatorError
from stannary.types import Hash, Outcome, Ruling
from stannary.verdict import unpack_outcomes
from tests.validator.conftest import FACTS, RULES, STRANGER, Bench, leaf_of
from tests.validator.scripted import seal
from validator.inspection import abstention
from validator.records import Records
from validator.votes import JurorVote, RulingStore, Vote, VoteStore

ROOT, OTHER_ROOT = Hash(b"\x11" * 32), Hash(b"\x22" * 32)
STEP = FACTS.step


def store(folder: Path) -> VoteStore:
    return VoteStore(Records(folder), seal)


@pytest.fixture
def vote(bench: Bench) -> Vote:
    judgements = {slot: abstention(leaf_of(bench.rollouts, slot).leaf, "no reason") for slot in (1, 3)}
    return Vote.of(
        judgements,
        positions=8,
        submission_root=ROOT,
        pool=RULES.pool,
        step=STEP,
        policy_step=1,
        card_hash=RULES.card_hash,
        compute="test",
        account=STRANGER,
        domain=RULES.domain,
    )


def test_vote_has_a_place_for_every_slot_and_verdicts_for_leaves_alone(vote: Vote) -> None:
    assert unpack_outcomes(vote.outcomes, 8) == [Outcome.ABSTAIN] * 8
    assert len(vote.verdicts) == 2
    assert vote.evidence is not None
    assert len(vote.evidence.leaves) == 2
    assert Vote.parse(vote.to_bytes()) == vote


def test_salt_is_another_for_each_vote() -> None:
    votes = [Vote.blank(8, ROOT) for _ in range(3)]
    assert len({vote.salt for vote in votes}) == len({seal(STEP, vote) for vote in votes}) == 3


def test_vote_is_found_by_its_commitment_after_a_restart(tmp_path: Path, vote: Vote) -> None:
    store(tmp_path).put(STEP, vote)
    again = store(tmp_path)
    assert again.find(STEP, seal(STEP, vote)) == vote
    assert again.find(STEP, ROOT) is None
    assert again.find(STEP + 1, seal(STEP, vote)) is None
    assert again.unpublished() == [STEP]


def test_vote_on_other_leaves_is_kept_beside_the_first(tmp_path: Path, vote: Vote) -> None:
    """The first may have been sent: without its salt it could never be revealed."""
    votes, other = store(tmp_path), Vote.blank(8, OTHER_ROOT)
    votes.put(STEP, vote)
    assert votes.prepared(STEP, OTHER_ROOT) is None
    votes.put(STEP, other)
    assert votes.prepared(STEP, OTHER_ROOT) == other
    assert votes.prepared(STEP, ROOT) == vote
    assert [votes.find(STEP, seal(STEP, each)) for each in (vote, other)] == [vote, other]


def test_closed_step_is_no_longer_to_be_published_and_still_to_be_revealed(tmp_path: Path, vote: Vote) -> None:
    votes = store(tmp_path)
    votes.put(STEP, vote)
    votes.close(STEP)
    assert votes.unpublished() == []
    assert votes.find(STEP, seal(STEP, vote)) == vote
    votes.put(STEP, vote)
    assert votes.unpublished() == []


def test_records_are_for_this_account_alone(tmp_path: Path, vote: Vote) -> None:
    store(tmp_path / "votes").put(STEP, vote)
    RulingStore(Records(tmp_path / "votes")).put(7, 0, ROOT, JurorVote(Ruling.ACCEPT, ROOT))
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "votes").iterdir()} == {0o600}


def test_draft_of_a_crash_is_no_vote_and_in_nobodys_way(tmp_path: Path, vote: Vote) -> None:
    votes = store(tmp_path)
    votes.put(STEP, vote)
    (path,) = tmp_path.glob("*.vote")
    path.rename(path.with_name(path.name + ".draft"))
    again = store(tmp_path)
    assert again.unpublished() == []
    again.put(STEP, vote)
    assert again.find(STEP, seal(STEP, vote)) == vote


@pytest.mark.parametrize("damage", [b"", b"{}", b"not JSON"])
def test_damaged_vote_is_none_and_said(
    tmp_path: Path, vote: Vote, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    store(tmp_path).put(STEP, vote)
    (path,) = tmp_path.glob("*.vote")
    path.write_bytes(damage)
    assert store(tmp_path).find(STEP, seal(STEP, vote)) is None
    assert "cannot be used" in caplog.text


def test_disk_that_refuses_is_the_operators(tmp_path: Path, vote: Vote) -> None:
    (tmp_path / "votes").write_text("a file in the way")
    with pytest.raises(OperatorError, match="cannot write"):
        store(tmp_path / "votes").put(STEP, vote)


def test_ruling_is_kept_by_case_round_and_leaf(tmp_path: Path) -> None:
    rulings, vote = RulingStore(Records(tmp_path)), JurorVote(Ruling.GREY, ROOT)
    rulings.put(7, 1, ROOT, vote)
    assert RulingStore(Records(tmp_path)).find(7, 1, ROOT) == vote
    assert rulings.find(7, 0, ROOT) is None
    assert rulings.find(8, 1, ROOT) is None
    assert rulings.find(7, 1, OTHER_ROOT) is None
    (path,) = tmp_path.glob("*.ruling")
    path.write_bytes(b"{}")
    assert rulings.find(7, 1, ROOT) is None
