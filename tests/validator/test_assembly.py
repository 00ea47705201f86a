"""The validator's loop on the real contracts: seats by draw and by redraw, commitments, reveals, cases moved on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from threading import Event
from urllib.parse import urljoin

import pytest

from stannary.accusation import Accusation
from stannary.chain import Block, Chain, Deployment, LeafOpening, events
from stannary.commitments import vote_commitment
from stannary.disputes import Showcase
from stannary.errors import Unavailable
from stannary.rollout import content_hash
from stannary.standing import ScoredLeaf
from stannary.structs import Submission
from stannary.types import ZERO_HASH, Address, CaseKind, Hash, Outcome, Role, Ruling, to_hex
from stannary.verdict import unpack_outcomes
from stannary.wire import LeavesOut, VerdictsIn
from tests.chains import ROOT, Devnet
from validator.assembly import (
    ChainCases,
    ChainCourt,
    ChainLedger,
    KeepingInspector,
    rules_of,
    show_accusation,
)
from validator.checks import Leaf
from validator.judgement import Computes
from validator.loop import Validator
from validator.parts import Parts
from validator.records import Records
from validator.votes import RulingStore, Vote, VoteStore

SLOTS = 4
OWNER = Address("0x" + "22" * 20)
A = Outcome.ACCEPT


class NoCoordinator:
    """Serves nothing, so that every vote is an abstention."""

    def leaves(self, step: int) -> LeavesOut:
        raise Unavailable("no leaves here")

    def submission_file(self, expected: Hash) -> bytes:
        raise Unavailable("no file here")

    def put_evidence(self, evidence_root: Hash, data: bytes) -> None:
        raise AssertionError("an abstention on the whole step has no evidence")

    def post_verdicts(self, verdicts: VerdictsIn) -> None:
        raise AssertionError("an abstention on the whole step has no verdicts")


class NoWeights:
    """Holds no policy."""

    def fetch(self, policy_step: int, policy_root: Hash) -> Path:
        raise Unavailable("no policy here")

    def load(self, policy_step: int, policy_root: Hash, before_root: Hash | None) -> tuple[Path, Computes]:
        raise Unavailable("no policy here")


class Clock:
    """The loop's own clock, as fast as the chain's."""

    def __init__(self, devnet: Devnet) -> None:
        self.devnet = devnet

    def __call__(self) -> float:
        return float(self.devnet.chain.frozen().timestamp)


def open_validator(devnet: Devnet, pool: int, name: str, folder: Path) -> Validator:
    chain, sender = devnet.chain, devnet.sender(name)

    def seal(step: int, vote: Vote) -> Hash:
        rest = (vote.outcomes, vote.verdict_root, vote.evidence_root, vote.salt)
        return vote_commitment(chain.panel_domain, pool, step, sender.address, *rest)

    terms, records = chain.pool_registry.terms_of(pool), Records(folder / name)
    parts = Parts(
        rules=rules_of(terms, chain, pool),
        court_domain=chain.court_domain,
        vote_seconds=terms.vote_seconds,
        provider=sender.address,
        account=devnet.account(name),
        card_of=lambda _: pytest.fail("nothing is judged"),
        ledger=ChainLedger(chain, pool, sender.address, sender),
        court=ChainCourt(chain, pool, sender.address, sender),
        coordinator=NoCoordinator(),
        fetch=lambda _: pytest.fail("nothing is fetched"),
        read_submission=lambda *_: pytest.fail("nothing is read"),
        weights=NoWeights(),
        open_environment=lambda _: pytest.fail("nothing is judged"),
        compute="test",
        votes=VoteStore(records, seal),
        rulings=RulingStore(records),
    )
    return Validator(parts, clock=Clock(devnet))


def drawn(devnet: Devnet) -> tuple[int, list[str], str, list[Submission]]:
    """Return a pool whose step 0 has its panel: the panel's names, and who did not get a seat."""
    pool = devnet.pool()
    judges = {devnet.name_of(sender.address) for sender in devnet.judges(pool)}
    worker = devnet.stake("worker", pool, Role.WORKER).address
    devnet.open_step(pool, slots=SLOTS)
    leaves = [Submission(pool, 0, slot, worker, worker, 1, ROOT, ROOT) for slot in (1, 2)]
    devnet.commit(pool, leaves)
    panel = devnet.draw(pool)
    (rest,) = judges - set(panel)
    return pool, panel, rest, leaves


def test_abstention_is_committed_at_the_end_of_the_window_and_revealed(devnet: Devnet, tmp_path: Path) -> None:
    pool, panel, _, _ = drawn(devnet)
    validator, voting = open_validator(devnet, pool, panel[0], tmp_path), devnet.chain.voting_panel
    member, times = devnet.sender(panel[0]).address, voting.panel_times_of(pool, 0)
    validator.tick()
    assert not voting.ballot_of(pool, 0, member).is_committed
    devnet.wait_until(pool, times.commit_until - 10)
    for _ in range(2):
        validator.tick()
        devnet.mine()
    assert voting.ballot_of(pool, 0, member).is_committed
    again = open_validator(devnet, pool, panel[0], tmp_path)
    devnet.wait_until(pool, times.reveal_from)
    again.tick()
    assert voting.ballot_of(pool, 0, member).is_revealed
    vote = devnet.chain.step_history(pool, 0).votes[member]
    assert unpack_outcomes(vote.outcomes, SLOTS) == [Outcome.ABSTAIN] * SLOTS
    assert (vote.verdict_root, vote.evidence_root) == (ZERO_HASH, ZERO_HASH)
    devnet.mine()
    again.tick()
    assert again.parts.votes.unpublished() == []


def test_seat_by_redraw_is_noticed_and_served(devnet: Devnet, tmp_path: Path) -> None:
    pool, _, rest, _ = drawn(devnet)
    validator, voting = open_validator(devnet, pool, rest, tmp_path), devnet.chain.voting_panel
    validator.tick()
    devnet.wait_until(pool, voting.panel_times_of(pool, 0).reveal_until)
    voting.redraw_panel(devnet.sender("trainer"), pool, 0)
    assert voting.panel_of(pool, 0) == [devnet.sender(rest).address]
    validator.tick()
    devnet.wait_until(pool, voting.panel_times_of(pool, 0).commit_until - 10)
    for _ in range(3):
        validator.tick()
        devnet.mine()
    assert voting.ballot_of(pool, 0, devnet.sender(rest).address).is_revealed


def disputed(devnet: Devnet, tmp_path: Path) -> tuple[int, int, Validator, Address]:
    """Return a case about an accepted leaf, and who alone can be its juror."""
    pool, panel, rest, leaves = drawn(devnet)
    devnet.vote(pool, dict.fromkeys(panel, (Outcome.ABSTAIN, A, A, Outcome.ABSTAIN)))
    accuser, chain = devnet.sender("accuser"), devnet.chain
    chain.token.require_allowance(accuser, chain.deployment.payout_vault, chain.dispute_court.bond_of(pool))
    votes = chain.step_history(pool, 0).votes_by_seat()
    opening = LeafOpening.of(leaves, SLOTS, 2)
    case_id = chain.dispute_court.challenge(accuser, pool, 0, opening, votes, ZERO_HASH, "http://accuser.example/x")
    return pool, case_id, open_validator(devnet, pool, rest, tmp_path), devnet.sender(rest).address


def test_juror_draws_its_jury_abstains_for_want_of_the_leaf_and_resolves(devnet: Devnet, tmp_path: Path) -> None:
    pool, case_id, validator, juror = disputed(devnet, tmp_path)
    court = devnet.chain.dispute_court
    for _ in range(12):  # its turn comes after others had theirs
        validator.tick()
        devnet.advance(1)
    assert court.jury_of(case_id) == [juror]
    devnet.wait_until(pool, court.jury_times_of(case_id).commit_until - 10)
    for _ in range(6):
        validator.tick()
        devnet.mine()
    shown = devnet.chain.read_events(devnet.chain.deployment.deployed_block, devnet.chain.frozen().number)
    rulings = [event for event in shown if isinstance(event, events.JurorRevealed)]
    assert [(event.provider, event.ruling) for event in rulings] == [(juror, Ruling.NONE)]
    assert any(isinstance(event, events.JuryRedrawn) for event in shown), "a jury without quorum is drawn anew"


def test_location_of_a_case_is_read_from_the_chain(devnet: Devnet, tmp_path: Path) -> None:
    _, case_id, validator, _ = disputed(devnet, tmp_path)
    at: Block = devnet.chain.frozen()
    case = validator.parts.court.case(case_id, at)
    assert case is not None
    assert validator.parts.court.location(case_id, case) == "http://accuser.example/x"
    assert validator.parts.court.case_count(at) == 1


def test_case_of_another_pool_is_none(devnet: Devnet, tmp_path: Path) -> None:
    _, case_id, _, _ = disputed(devnet, tmp_path)
    other = ChainCourt(devnet.chain, 77, devnet.sender("judge-0").address, devnet.sender("judge-0"))
    assert other.case(case_id, devnet.chain.frozen()) is None


def test_cases_about_a_provider_are_found_and_others_are_not(devnet: Devnet, tmp_path: Path) -> None:
    pool, case_id, _, _ = disputed(devnet, tmp_path)
    worker, at = devnet.sender("worker").address, devnet.chain.frozen()
    (found,) = ChainCases(devnet.chain, pool)(worker, at)
    assert (found.case_id, found.details.kind) == (case_id, CaseKind.CHALLENGE)
    assert found.details.disputant == devnet.sender("accuser").address
    assert ChainCases(devnet.chain, pool)(devnet.sender("judge-0").address, at) == []
    assert ChainCases(devnet.chain, pool + 1)(worker, at) == []


def read_blocks(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Note the ranges of blocks that are read from now on."""
    ranges: list[tuple[int, int]] = []
    real = events.read_events

    def noting(chain: Chain, deployment: Deployment, first: int, last: int, **more: object) -> list[events.Event]:
        ranges.append((first, last))
        return real(chain, deployment, first, last, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(events, "read_events", noting)
    return ranges


def test_nodes_of_a_provider_are_read_once_and_then_only_new_blocks(
    devnet: Devnet, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain, first, second = devnet.chain, devnet.sender("first").address, devnet.sender("second").address
    worker = devnet.sender("worker")
    ledger = ChainLedger(chain, 1, worker.address, worker)
    ranges = read_blocks(monkeypatch)
    devnet.mine(100)
    at = chain.frozen()
    assert not any(ledger.has_acted_for(node, worker.address, at) for node in (first, second, first))
    assert ranges == [(chain.deployment.deployed_block, at.number)]
    devnet.add_node("worker", "first")
    chain.stake_manager.remove_node(worker, first)
    later = chain.frozen()
    assert [ledger.has_acted_for(node, worker.address, later) for node in (first, second)] == [True, False]
    assert ranges[1:] == [(at.number + 1 - events.REREAD_BLOCKS, later.number)]
    assert not ledger.has_acted_for(first, worker.address, at), "as it was at that block"
    assert ledger.has_acted_for(first, worker.address, later)


def test_files_of_disputed_leaves_are_kept_and_shown_beside_the_accusation(tmp_path: Path) -> None:
    data = [b"the bytes of a leaf", b"the bytes of another", b"of one that is fine"]
    leaves = [Submission(1, 0, slot, OWNER, OWNER, 1, content_hash(own), ROOT) for slot, own in enumerate(data)]
    showcase = Showcase(tmp_path / "shown", tmp_path / "kept", "http://watcher.example/shown/")
    for leaf, own in zip(leaves, data, strict=True):
        showcase.keep(leaf, own)
    named = tuple(ScoredLeaf(0, leaf.slot, leaf.struct_hash(), (9.0, 0.0, 0.0)) for leaf in leaves[:2])
    accusation = Accusation(1, OWNER, 0, 0, ROOT, named)
    where = show_accusation(showcase, accusation)
    assert where == f"http://watcher.example/shown/{to_hex(accusation.evidence_hash())}.json"
    beside = {urljoin(where, to_hex(content_hash(own))).rpartition("/")[2]: own for own in data}
    shown = {path.name: path.read_bytes() for path in (tmp_path / "shown").iterdir()}
    assert shown.pop(where.rpartition("/")[2]) == accusation.to_bytes()
    assert shown == {name: own for name, own in beside.items() if own != data[2]}
    for leaf in leaves:
        showcase.forget(leaf.struct_hash())
    assert list((tmp_path / "kept").iterdir()) == []
    assert showcase.show_leaf(leaves[0].struct_hash()) is None


def test_file_of_a_disputed_leaf_is_shown_at_the_very_place_that_is_named(tmp_path: Path) -> None:
    leaf = Submission(1, 0, 2, OWNER, OWNER, 1, content_hash(b"bytes"), ROOT)
    showcase = Showcase(tmp_path / "shown", tmp_path / "kept", "http://watcher.example/shown")
    showcase.keep(leaf, b"bytes")
    for _ in range(2):  # a dispute that failed is tried again
        found = showcase.show_leaf(leaf.struct_hash())
        assert found == (f"http://watcher.example/shown/{to_hex(leaf.content_hash)}", b"bytes")
    assert (tmp_path / "shown" / to_hex(leaf.content_hash)).read_bytes() == b"bytes"
    again = Showcase(tmp_path / "shown", tmp_path / "kept", "http://watcher.example/shown")
    assert again.show_leaf(leaf.struct_hash()) is None, "a start measures anew"


class OneFile(NoCoordinator):
    """Serves one file."""

    def submission_file(self, expected: Hash) -> bytes:
        return b"bytes"


def test_inspector_keeps_the_files_that_it_gets(devnet: Devnet, tmp_path: Path) -> None:
    parts = open_validator(devnet, devnet.pool(), "judge-0", tmp_path).parts
    kept: list[tuple[Submission, bytes]] = []
    leaf = Submission(1, 0, 2, OWNER, OWNER, 1, content_hash(b"bytes"), ROOT)
    inspector = KeepingInspector(
        replace(parts, coordinator=OneFile()), Clock(devnet), Event(), lambda own, data: kept.append((own, data))
    )
    assert inspector.file_of(Leaf(leaf, b"", None)) == b"bytes"
    assert kept == [(leaf, b"bytes")]
