"""Validator processes between a real chain, a real coordinator and a real worker: a step is decided, a case ruled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest

from stannary import wallet
from stannary.cards import Card
from stannary.chain import Case, LeafOpening
from stannary.chain import devnet as local
from stannary.client import CoordinatorClient
from stannary.documents import canonical, document_hash
from stannary.environments import describe_environment
from stannary.errors import StannaryError
from stannary.evidence import EvidenceFile
from stannary.shardcast import describe_folder
from stannary.types import ZERO_HASH, CasePhase, Hash, Outcome, Phase, Role, Ruling, to_hex
from stannary.verdict import unpack_outcomes
from tests.chains import Devnet

PASSWORD = "correct horse"
WAIT_S = 90.0
VALIDATORS = ("vera", "victor", "vince", "viola")
"""A panel of three, and one who can be drawn as a juror."""
T = TypeVar("T")


@dataclass(slots=True)
class Hall:
    """A pool with a coordinator, a worker and validators, each as a process."""

    devnet: Devnet
    pool: int
    folder: Path
    port: int
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, role: str, *options: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                self.command(name, role, "start", *options), stdout=log, stderr=log, env=self.variables()
            )

    def command(self, name: str, role: str, verb: str, *options: str) -> list[str]:
        return [
            *(sys.executable, "-m", "stannary.cli", role, verb, "--run-dir", str(self.folder / name)),
            *("--rpc-url", self.devnet.chain.rpc_url, "--deployment", str(self.folder / "deployment.json")),
            *("--pool", str(self.pool), "--keystore", str(self.folder / f"{name}.json")),
            *("--password-file", str(self.folder / "password"), *options),
        ]

    @staticmethod
    def variables() -> dict[str, str]:
        return os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start_validator(self, name: str, threads: int) -> None:
        self.start(name, "validator", "--coordinator-url", self.url, "--threads", str(threads))

    def stop(self, name: str) -> int:
        process = self.processes.pop(name)
        process.send_signal(signal.SIGTERM)
        return process.wait(30)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def client(self, account: str | None = None) -> CoordinatorClient:
        chain = self.devnet.chain
        coordinator = chain.pool_registry.terms_of(self.pool).coordinator
        signer = None if account is None else self.devnet.account(account)
        return CoordinatorClient(self.url, chain.ledger_domain, coordinator, signer)

    def eventually(self, look: Callable[[], T], what: str) -> T:
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            for name, process in self.processes.items():
                assert process.poll() is None, self.log(name)[-3000:]
            try:
                if found := look():
                    return found
            except StannaryError:
                pass
            time.sleep(0.2)
        raise AssertionError(
            f"no {what} within {WAIT_S:.0f} s\n" + "\n".join(self.log(n)[-1500:] for n in self.processes)
        )


@pytest.fixture
def hall(devnet: Devnet, tmp_path: Path, toy: Path, card: Card) -> Iterator[Hall]:
    environment = describe_environment("sieve", {}, toy)
    (tmp_path / "card.doc").write_bytes(card.to_bytes())
    (tmp_path / "environment.doc").write_bytes(canonical(environment))
    pool = devnet.pool(
        card_hash=card.hash(),
        environment_hash=document_hash(environment),
        max_completion_tokens=48,
        challenge_seconds=30,
    )
    for name in VALIDATORS:
        devnet.stake(name, pool, Role.VALIDATOR)
    devnet.stake("miner", pool, Role.WORKER)
    (tmp_path / "password").write_text(PASSWORD)
    accounts = {name: devnet.account(name) for name in (*VALIDATORS, "coordinator")}
    accounts["rig"] = devnet.add_node("miner", "rig")
    for name, account in accounts.items():
        wallet.import_key(tmp_path / f"{name}.json", account.key.hex(), PASSWORD, kdf_cost=1024)
    manifest = describe_folder(toy)
    devnet.chain.submission_ledger.publish_policy(devnet.sender("trainer"), pool, 0, manifest.policy_root, ZERO_HASH)
    hall = Hall(devnet, pool, tmp_path, local.free_port())
    documents = [word for name in ("card", "environment") for word in ("--document", str(tmp_path / f"{name}.doc"))]
    hall.start("coordinator", "coordinator", "--port", str(hall.port), *documents)
    try:

        def is_healthy() -> bool:
            with hall.client() as client:
                return client.health().status == "ok"

        hall.eventually(is_healthy, "coordinator")
        (tmp_path / "manifest.json").write_bytes(manifest.encode())

        def publish() -> bool:
            with hall.client("trainer") as trainer:
                trainer.put_weights(0, "manifest.json", tmp_path / "manifest.json")
                for file in manifest.files:
                    trainer.put_weights(0, f"files/{file.name}", toy / file.name)
            return True

        hall.eventually(publish, "weights")
        yield hall
    finally:
        for name in list(hall.processes):
            hall.stop(name)


def test_validator_processes_decide_a_step_and_overturn_an_accusation(hall: Hall) -> None:
    chain, trainer, pool = hall.devnet.chain, hall.devnet.sender("trainer"), hall.pool
    ledger, voting = chain.submission_ledger, chain.voting_panel
    for name, threads in zip(VALIDATORS, (1, 2, 1, 2), strict=True):
        hall.start_validator(name, threads)
    hall.start("rig", "worker", "--coordinator-url", hall.url, "--engine", "transformers")
    ledger.open_step(trainer, pool, 0, 0, 3)
    hall.devnet.mine(2)

    def is_voted(step: int) -> bool:
        hall.devnet.mine()  # beacons need blocks
        panel = voting.panel_of(pool, step)
        return bool(panel) and all(voting.ballot_of(pool, step, member).is_revealed for member in panel)

    hall.eventually(lambda: is_voted(0), "votes of the whole panel")
    history = chain.step_history(pool, 0)
    assert len(history.votes) == 3
    for vote in history.votes.values():
        assert unpack_outcomes(vote.outcomes, history.positions) == [Outcome.ACCEPT] * 3
    assert len({vote.verdict_root for vote in history.votes.values()}) == 1, "whatever their threads"

    case_id = accuse(hall)
    for vote in history.votes.values():

        def evidence_is_there(root: Hash = vote.evidence_root) -> EvidenceFile:
            with hall.client() as client:
                return EvidenceFile.parse(client.evidence(root))

        evidence = hall.eventually(evidence_is_there, "evidence")
        assert evidence.root() == vote.evidence_root
        assert all(leaf.measures["mean_gap"].value is not None for leaf in evidence.leaves)

    def resolved() -> Case | None:
        hall.devnet.mine()
        case = chain.dispute_court.case_of(case_id)
        return case if case is not None and case.phase is CasePhase.RESOLVED else None

    case = hall.eventually(resolved, "ruling")
    assert (case.ruling, case.outcome) == (Ruling.ACCEPT, Outcome.ACCEPT)
    (juror,) = chain.dispute_court.jury_of(case_id)
    assert juror not in history.panel
    assert chain.payout_vault.earnings_of(pool, juror).earned == chain.pool_registry.terms_of(pool).juror_fee

    first = hall.devnet.name_of(history.panel[0])
    assert hall.stop(first) == 0
    hall.start_validator(first, 2)
    ledger.open_step(trainer, pool, 1, 0, 2)
    hall.devnet.mine(2)
    hall.eventually(lambda: is_voted(1), "votes on the second step")
    hall.devnet.advance(40)

    def is_finalized() -> bool:
        hall.devnet.mine()
        return ledger.step_of(pool, 0).phase is Phase.FINALIZED

    hall.eventually(is_finalized, "end")
    for name in VALIDATORS:
        log = hall.log(name)
        assert "Traceback" not in log
        sat = hall.devnet.sender(name).address in history.panel
        assert log.count("step 0: vote committed") == log.count("step 0: vote revealed") == int(sat)
        assert hall.stop(name) == 0


def accuse(hall: Hall) -> int:
    """Say falsely that the first leaf of step 0 is bad; returns the case's number."""
    chain, pool, accuser = hall.devnet.chain, hall.pool, hall.devnet.sender("accuser")
    chain.token.require_allowance(accuser, chain.deployment.payout_vault, chain.dispute_court.bond_of(pool))
    with hall.client() as client:
        leaves = [leaf.submission.submission() for leaf in client.leaves(0).leaves]
    history = chain.step_history(pool, 0)
    where = f"{hall.url}/v1/submissions/{to_hex(leaves[0].content_hash)}"
    opening = LeafOpening.of(leaves, 3, leaves[0].slot)
    votes = history.votes_by_seat()
    return chain.dispute_court.challenge(accuser, pool, 0, opening, votes, ZERO_HASH, where)


def test_validator_check_says_line_by_line_that_all_is_well(hall: Hall) -> None:
    done = subprocess.run(
        hall.command("vera", "validator", "check", "--coordinator-url", hall.url),
        env=hall.variables(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert all(line.startswith("ok  ") for line in lines)
    assert [line[4:].partition(":")[0] for line in lines] == [
        *("wallet", "chain", f"pool {hall.pool}", "fees", "coordinator", "card", "environment")
    ]
