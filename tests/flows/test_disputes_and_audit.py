"""A step with a false accusation, a false rejection and a fault: juries decide, the loser pays, the audit agrees."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from stannary.audit import audit_pool
from stannary.chain import LeafOpening, events
from stannary.commitments import ruling_commitment
from stannary.disputes import open_dispute
from stannary.errors import SettingsError
from stannary.structs import Submission
from stannary.types import CaseKind, Hash, Outcome, PoolId, Role, Ruling
from tests.chains import ROOT, TOKENS, Devnet

STAKE = 1_000 * TOKENS
ACCEPT, REJECT, FAULT, ABSTAIN = Outcome.ACCEPT, Outcome.REJECT, Outcome.FAULT, Outcome.ABSTAIN
SLOTS, UNITS = 5, 50


@dataclass(frozen=True, slots=True)
class Judged:
    """A step after all its cases, finalized and claimed."""

    devnet: Devnet
    pool: PoolId
    panel: list[str]
    false_challenge: int
    good_appeal: int


@pytest.fixture
def judged(devnet: Devnet) -> Judged:
    pool = devnet.pool(jury_size=3)
    devnet.judges(pool, 9)
    workers = [devnet.stake(name, pool, Role.WORKER).address for name in ("ada", "bob", "eve")]
    devnet.mine()
    devnet.open_step(pool, slots=SLOTS)
    leaves = [
        Submission(pool, 0, slot, worker, worker, UNITS, Hash(bytes([slot + 1]) * 32), ROOT)
        for slot, worker in enumerate(workers)
    ]
    devnet.commit(pool, leaves)
    panel = devnet.draw(pool)
    devnet.vote(pool, {name: [ACCEPT, REJECT, FAULT, ABSTAIN, ABSTAIN] for name in panel})

    court, accuser = devnet.chain.dispute_court, devnet.sender("accuser")
    with pytest.raises(SettingsError, match="challenge it instead"):
        open_dispute(devnet.chain, accuser, pool, 0, 0, leaves, kind=CaseKind.APPEAL, location="")
    challenge = open_dispute(devnet.chain, accuser, pool, 0, 0, leaves, kind=CaseKind.CHALLENGE, location="here")
    appeal = open_dispute(devnet.chain, devnet.sender("bob"), pool, 0, 1, leaves, kind=CaseKind.APPEAL, location="here")
    for case in (challenge, appeal):
        devnet.mine(2)
        court.draw_jury(accuser, case)
        jury = court.jury_of(case)
        assert not set(jury) & {devnet.sender(name).address for name in panel}
        for juror in jury:
            sealed = ruling_commitment(devnet.chain.court_domain, case, 0, juror, Ruling.ACCEPT, ROOT)
            court.commit_ruling(devnet.sender(devnet.name_of(juror)), case, sealed)
        for juror in jury:
            court.reveal_ruling(accuser, case, juror, Ruling.ACCEPT, ROOT)
        court.resolve(accuser, case)

    history = devnet.finalize(pool)
    assert history.finalized is not None
    opening = LeafOpening.of(leaves, SLOTS, 2)
    devnet.chain.voting_panel.slash_leaf(accuser, pool, 0, opening, history.finalized.outcomes)
    for earner in (*workers, *(devnet.sender(name).address for name in panel)):
        if devnet.chain.payout_vault.earnings_of(pool, earner).unclaimed:
            devnet.chain.payout_vault.claim(accuser, pool, earner)
    return Judged(devnet, pool, panel, challenge, appeal)


def test_accuser_loses_its_bond_and_the_worker_is_paid_for_the_leaf_and_the_wait(judged: Judged) -> None:
    chain, pool = judged.devnet.chain, judged.pool
    terms, bond = chain.pool_registry.terms_of(pool), chain.dispute_court.bond_of(pool)
    ada, accuser = (judged.devnet.sender(name).address for name in ("ada", "accuser"))
    earned = chain.payout_vault.earnings_of(pool, ada).earned
    assert earned == terms.payout(UNITS) + bond - 3 * terms.juror_fee
    assert chain.payout_vault.earnings_of(pool, accuser).earned == 0
    assert chain.stake_manager.position_of(pool, Role.WORKER, ada).tokens == STAKE


def test_false_voters_pay_and_the_rejected_worker_is_made_whole(judged: Judged) -> None:
    chain, pool = judged.devnet.chain, judged.pool
    terms, bond = chain.pool_registry.terms_of(pool), chain.dispute_court.bond_of(pool)
    bob = judged.devnet.sender("bob").address
    assert chain.payout_vault.earnings_of(pool, bob).earned == terms.payout(UNITS) + bond
    slashed = STAKE * terms.wrong_vote_slash_bps // 10_000
    for name in judged.panel:
        position = chain.stake_manager.position_of(pool, Role.VALIDATOR, judged.devnet.sender(name).address)
        assert position.tokens == STAKE - slashed
    assert chain.stake_manager.idle_of(bob) == 3 * slashed * terms.reward_bps // 10_000


def test_audit_finds_every_payout_and_slash_as_the_rules_give_it(judged: Judged) -> None:
    chain = judged.devnet.chain
    found = audit_pool(judged.pool, chain.read_events(0, chain.frozen().number))
    assert [str(difference) for difference in found.differences] == []
    assert (found.steps, found.settled_steps, found.cases) == (1, 1, 2)
    eve = judged.devnet.sender("eve").address
    assert found.slashed[eve] == STAKE // 10
    assert sum(found.claimed.values()) <= sum(found.earned.values())


def test_audit_finds_what_the_rules_do_not_give(judged: Judged) -> None:
    chain = judged.devnet.chain
    honest = chain.read_events(0, chain.frozen().number)

    def differing(change: type[events.Event], **values: object) -> str:
        index = next(
            number
            for number, event in enumerate(honest)
            if type(event) is change and getattr(event, "pool", judged.pool) == judged.pool
        )
        forged = list(honest)
        forged[index] = replace(honest[index], **values)  # type: ignore[arg-type]
        return "; ".join(str(difference) for difference in audit_pool(judged.pool, forged).differences)

    assert "earnings of" in differing(events.Earned, amount=1)
    settled = next(event for event in honest if isinstance(event, events.Settled) and event.pool == judged.pool)
    assert "earnings of" in differing(events.Settled, amounts=(settled.amounts[0] + 1, *settled.amounts[1:]))
    assert "slash of" in differing(events.Slashed, amount=1)
    assert "bonds to" in differing(events.BondSpent, amount=1)
    assert "outcomes: expected" in differing(events.StepFinalized, outcomes=b"\x55\x00")
    assert "ruling: expected" in differing(events.CaseResolved, ruling=int(Ruling.FAULT))
    assert "no more than it earned" in differing(events.Claimed, amount=10**30)


def test_commands_show_the_cases_and_a_clean_audit(judged: Judged, tmp_path: Path) -> None:
    audit = json.loads(_run(judged.devnet, tmp_path, "pool", "audit", str(judged.pool)))
    assert audit["differences"] == []
    assert (audit["settledSteps"], audit["cases"]) == (1, 2)
    cases = json.loads(_run(judged.devnet, tmp_path, "dispute", "status", "--pool", str(judged.pool)))
    assert [(case["kind"], case["ruling"], case["outcome"]) for case in cases] == [
        ("challenge", "accept", "accept"),
        ("appeal", "accept", "accept"),
    ]
    one = json.loads(_run(judged.devnet, tmp_path, "dispute", "status", str(judged.false_challenge)))
    assert list(one["jury"].values()) == ["accept"] * 3


def _run(devnet: Devnet, folder: Path, *words: str) -> str:
    deployment = folder / "deployment.json"
    devnet.chain.deployment.write(deployment)
    options = ["--rpc-url", devnet.chain.rpc_url, "--deployment", str(deployment)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STANNARY_")}
    done = subprocess.run(
        [sys.executable, "-c", "from stannary.cli import main; main()", *words, *options],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout
