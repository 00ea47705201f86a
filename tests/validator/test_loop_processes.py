"""Three real validator processes between a real chain, a real coordinator and a real worker: the step is decided."""

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
from stannary.chain import devnet as local
from stannary.client import CoordinatorClient
from stannary.documents import canonical, document_hash
from stannary.environments import describe_environment
from stannary.errors import StannaryError
from stannary.evidence import EvidenceFile
from stannary.shardcast import describe_folder
from stannary.types import ZERO_HASH, Outcome, Phase, Role
from stannary.verdict import unpack_outcomes
from tests.chains import Devnet

PASSWORD = "correct horse"
WAIT_S = 90.0
VALIDATORS = ("vera", "victor", "vince")
T = TypeVar("T")


@dataclass(slots=True)
class Court:
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

    def start_validator(self, name: str, dtype: str) -> None:
        self.start(name, "validator", "--coordinator-url", self.url, "--dtype", dtype, "--threads", "1")

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
def court(devnet: Devnet, tmp_path: Path, toy: Path, card: Card) -> Iterator[Court]:
    environment = describe_environment("sieve", {}, toy)
    (tmp_path / "card.doc").write_bytes(card.to_bytes())
    (tmp_path / "environment.doc").write_bytes(canonical(environment))
    pool = devnet.pool(
        card_hash=card.hash(),
        environment_hash=document_hash(environment),
        max_completion_tokens=48,
        challenge_seconds=1,
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
    court = Court(devnet, pool, tmp_path, local.free_port())
    documents = [word for name in ("card", "environment") for word in ("--document", str(tmp_path / f"{name}.doc"))]
    court.start("coordinator", "coordinator", "--port", str(court.port), *documents)
    try:

        def is_healthy() -> bool:
            with court.client() as client:
                return client.health().status == "ok"

        court.eventually(is_healthy, "coordinator")
        (tmp_path / "manifest.json").write_bytes(manifest.encode())

        def publish() -> bool:
            with court.client("trainer") as trainer:
                trainer.put_weights(0, "manifest.json", tmp_path / "manifest.json")
                for file in manifest.files:
                    trainer.put_weights(0, f"files/{file.name}", toy / file.name)
            return True

        court.eventually(publish, "weights")
        yield court
    finally:
        for name in list(court.processes):
            court.stop(name)


def test_validator_processes_accept_an_honest_step_and_survive_a_restart(court: Court) -> None:
    ledger, trainer = court.devnet.chain.submission_ledger, court.devnet.sender("trainer")
    for name, dtype in zip(VALIDATORS, ("fp32", "bf16", "fp32"), strict=True):
        court.start_validator(name, dtype)
    court.start("rig", "worker", "--coordinator-url", court.url, "--engine", "transformers")
    ledger.open_step(trainer, court.pool, 0, 0, 3)
    court.devnet.mine(2)

    def voted(step: int) -> bool:
        court.devnet.mine()  # beacons need blocks
        return ledger.step_of(court.pool, step).voted_at > 0

    court.eventually(lambda: voted(0), "votes of the whole panel")
    state = ledger.step_of(court.pool, 0)
    panel = ledger.panel_of(court.pool, 0)
    assert sorted(panel) == sorted(court.devnet.sender(name).address for name in VALIDATORS)
    roots = set()
    for provider in panel:
        vote = ledger.vote_of(court.pool, 0, provider)
        assert unpack_outcomes(vote.outcomes, state.leaf_count) == [Outcome.ACCEPT] * 3
        roots.add(vote.verdict_root)

        def evidence_is_there(root: bytes = vote.evidence_root) -> EvidenceFile:
            with court.client() as client:
                return EvidenceFile.parse(client.evidence(root))  # type: ignore[arg-type]

        evidence = court.eventually(evidence_is_there, "evidence")
        assert evidence.root() == vote.evidence_root
        assert all(leaf.measures["capped_gap_sum"].value is not None for leaf in evidence.leaves)
    assert len(roots) == 1, "honest validators sign identical verdicts, whatever their dtype"

    assert court.stop("vera") == 0
    court.start_validator("vera", "bf16")
    ledger.open_step(trainer, court.pool, 1, 0, 2)
    court.devnet.mine(2)
    court.eventually(lambda: voted(1), "votes on the second step")
    court.devnet.advance(40)

    def finalized() -> bool:
        court.devnet.mine()
        return ledger.step_of(court.pool, 0).phase is Phase.FINALIZED

    court.eventually(finalized, "end")
    for name in VALIDATORS:
        log = court.log(name)
        assert "Traceback" not in log
        assert log.count("step 0: voted") == 1
        assert court.stop(name) == 0


def test_validator_check_says_line_by_line_that_all_is_well(court: Court) -> None:
    done = subprocess.run(
        court.command("vera", "validator", "check", "--coordinator-url", court.url),
        env=court.variables(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert all(line.startswith("ok  ") for line in lines)
    assert [line[4:].partition(":")[0] for line in lines] == [
        *("wallet", "chain", f"pool {court.pool}", "fees", "coordinator", "card", "environment")
    ]
