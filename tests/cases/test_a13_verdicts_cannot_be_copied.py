"""A13. Validators can copy each other's hidden verdicts: here a commitment binds its voter, pool and step."""

from __future__ import annotations

import pytest

from stannary.commitments import vote_commitment
from stannary.errors import Reverted
from stannary.structs import Submission
from stannary.types import Hash, Outcome, Role
from stannary.verdict import pack_outcomes
from tests.chains import ROOT, Devnet

VOTE = pack_outcomes([Outcome.ACCEPT, Outcome.ABSTAIN, Outcome.ABSTAIN, Outcome.ABSTAIN])
SALT = Hash(b"\x33" * 32)


@pytest.fixture
def drawn(devnet: Devnet) -> tuple[Devnet, int, list[str]]:
    """A step with one leaf whose panel of three is drawn."""
    pool = devnet.pool()
    devnet.judges(pool)
    worker = devnet.stake("worker", pool, Role.WORKER).address
    devnet.mine()
    devnet.open_step(pool)
    devnet.commit(pool, [Submission(pool, 0, 0, worker, worker, 50, ROOT, ROOT)])
    return devnet, pool, devnet.draw(pool)


def commitment(devnet: Devnet, pool: int, name: str, *, step: int = 0, vote: bytes = VOTE) -> Hash:
    voter = devnet.sender(name).address
    return vote_commitment(devnet.chain.panel_domain, pool, step, voter, vote, ROOT, ROOT, SALT)


def reveal(devnet: Devnet, pool: int, name: str, *, vote: bytes = VOTE) -> None:
    voter = devnet.sender(name)
    devnet.chain.voting_panel.reveal_vote(voter, pool, 0, voter.address, vote, ROOT, ROOT, SALT)


def test_copied_commitment_cannot_be_revealed(drawn: tuple[Devnet, int, list[str]]) -> None:
    devnet, pool, (first, copier, third) = drawn
    panel, copied = devnet.chain.voting_panel, commitment(devnet, pool, first)
    for name in (first, copier, third):
        own = commitment(devnet, pool, name) if name == third else copied
        panel.commit_vote(devnet.sender(name), pool, 0, own)
    reveal(devnet, pool, first)
    with pytest.raises(Reverted, match="CommitmentMismatch"):
        reveal(devnet, pool, copier)
    ballot = panel.ballot_of(pool, 0, devnet.sender(copier).address)
    assert ballot.is_committed
    assert not ballot.is_revealed


def test_commitment_of_another_step_cannot_be_revealed(drawn: tuple[Devnet, int, list[str]]) -> None:
    devnet, pool, names = drawn
    for name in names:
        stale = commitment(devnet, pool, name, step=1)
        devnet.chain.voting_panel.commit_vote(devnet.sender(name), pool, 0, stale)
    with pytest.raises(Reverted, match="CommitmentMismatch"):
        reveal(devnet, pool, names[0])


def test_nothing_is_revealed_while_commitments_are_open_and_none_is_taken_after(
    drawn: tuple[Devnet, int, list[str]],
) -> None:
    devnet, pool, (first, second, third) = drawn
    panel = devnet.chain.voting_panel
    for name in (first, second):
        panel.commit_vote(devnet.sender(name), pool, 0, commitment(devnet, pool, name))
    with pytest.raises(Reverted, match="RevealClosed"):
        reveal(devnet, pool, first)
    devnet.advance(60)
    reveal(devnet, pool, first)
    with pytest.raises(Reverted, match="CommitOver"):
        panel.commit_vote(devnet.sender(third), pool, 0, commitment(devnet, pool, third))


@pytest.mark.parametrize("vote", [VOTE[:-1] + bytes([VOTE[-1], 0]), b"", VOTE + b"\x01"])
def test_vote_of_another_shape_cannot_be_revealed(drawn: tuple[Devnet, int, list[str]], vote: bytes) -> None:
    devnet, pool, names = drawn
    for name in names:
        devnet.chain.voting_panel.commit_vote(devnet.sender(name), pool, 0, commitment(devnet, pool, name, vote=vote))
    with pytest.raises(Reverted, match="OutcomesLength"):
        reveal(devnet, pool, names[0], vote=vote)
