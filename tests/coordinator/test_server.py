"""The coordinator as a process on a real chain: it starts, serves, does a whole step's deeds, and stops cleanly."""

from __future__ import annotations

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
from stannary.chain import devnet as local
from stannary.client import CoordinatorClient
from stannary.documents import canonical, document_hash
from stannary.errors import NetworkError, Refused, Unavailable
from stannary.rollout import content_hash
from stannary.structs import Submission, Verdict
from stannary.types import Hash, Outcome, Phase, Role
from stannary.wire import LeafOut, LeaseMessage, SubmissionIn, SubmissionMessage, VerdictMessage, VerdictsIn
from tests.chains import TOKENS, Devnet

PASSWORD = "correct horse"
WAIT_S = 30.0
T = TypeVar("T")


@dataclass(slots=True)
class Running:
    """A coordinator process and the world that it serves."""

    devnet: Devnet
    pool: int
    url: str
    command: list[str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    clients: list[CoordinatorClient] = field(default_factory=list)

    def start(self) -> None:
        """Start the process and wait until it is level with the chain."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stderr=log)
        client = self.client()
        eventually(lambda: self.is_up(client), f"answer, see {self.log}")

    def stop(self) -> int:
        """Ask the process to end and return its exit code."""
        for client in self.clients:
            client.close()
        self.clients.clear()
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)

    def is_up(self, client: CoordinatorClient) -> bool:
        """Say whether the process answers and is level with the chain."""
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()
        try:
            return client.health().status == "ok"
        except NetworkError:
            return False

    def client(self, name: str | None = None) -> CoordinatorClient:
        """Return a client that signs as the account of a name."""
        account = None if name is None else self.devnet.account(name)
        terms = self.devnet.chain.pool_registry.terms_of(self.pool)
        client = CoordinatorClient(self.url, self.devnet.chain.ledger_domain, terms.coordinator, account)
        self.clients.append(client)
        return client


def eventually(look: Callable[[], T | None], what: str) -> T:
    """Return the first answer that is neither None nor False."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"no {what} within {WAIT_S:.0f} s")


@pytest.fixture
def running(devnet: Devnet, tmp_path: Path) -> Iterator[Running]:
    """A coordinator that serves a pool with a worker `wendy` and four validators."""
    card, environment = {"format": "a card"}, {"name": "an environment"}
    documents = []
    for name, document in (("card", card), ("environment", environment)):
        path = tmp_path / f"{name}.json"
        path.write_bytes(canonical(document))
        documents += ["--document", str(path)]
    pool = devnet.pool(
        card_hash=document_hash(card), environment_hash=document_hash(environment), challenge_seconds=1, max_slots=4
    )
    devnet.stake("wendy", pool, Role.WORKER)
    for validator in ("vera", "victor", "vince", "zoe"):
        devnet.stake(validator, pool, Role.VALIDATOR)
    keystore, password = tmp_path / "coordinator.json", tmp_path / "password"
    wallet.import_key(keystore, devnet.account("coordinator").key.hex(), PASSWORD, kdf_cost=1024)
    password.write_text(PASSWORD)
    port = local.free_port()
    command = [sys.executable, "-c", "from stannary.cli import main; main()", "coordinator", "start"]
    command += ["--port", str(port), "--run-dir", str(tmp_path / "run"), "--rpc-url", devnet.chain.rpc_url]
    command += ["--deployment", str(tmp_path / "deployment.json"), "--pool", str(pool), "--keystore", str(keystore)]
    command += ["--password-file", str(password), *documents]
    running = Running(devnet, pool, f"http://127.0.0.1:{port}", command, tmp_path / "coordinator.log")
    try:
        running.start()
        yield running
    finally:
        if running.process is not None and running.process.poll() is None:
            running.stop()


def phase_of(running: Running, step: int) -> Phase:
    """Return a step's phase on chain."""
    return running.devnet.chain.submission_ledger.step_of(running.pool, step).phase


def leaves_of(client: CoordinatorClient) -> list[LeafOut] | None:
    """Return the leaves of step 0, None while the mirror is a moment behind the root on chain."""
    try:
        return client.leaves(0).leaves
    except Unavailable:
        return None


def is_taken(client: CoordinatorClient, verdicts: VerdictsIn) -> bool:
    """Post verdicts and say whether they were taken; the mirror may be a moment behind the panel draw."""
    try:
        client.post_verdicts(verdicts)
    except (Refused, Unavailable):
        return False
    return True


def test_coordinator_one_step_is_leased_committed_judged_and_finalized(running: Running) -> None:
    devnet, pool, ledger = running.devnet, running.pool, running.devnet.chain.submission_ledger
    trainer, wendy, reader = devnet.sender("trainer"), devnet.account("wendy"), running.client()
    ledger.publish_policy(trainer, pool, 0, Hash(b"p" * 32), Hash(bytes(32)))
    ledger.open_step(trainer, pool, 0, 0, 2)
    devnet.mine(2)

    worker = running.client("wendy")
    granted = eventually(lambda: worker.lease(2).leases, "leases")
    assert sorted(message.slot for message in granted) == [0, 1]
    assert sorted(worker.lease(2).leases, key=lambda m: m.slot) == sorted(granted, key=lambda m: m.slot)
    for message in granted:
        data = b"group of slot %d" % message.slot
        lease = message.lease()
        leaf = Submission(pool, 0, lease.slot, lease.provider, lease.node, 5, content_hash(data), lease.struct_hash())
        submission = SubmissionMessage.of(leaf, leaf.sign(wendy, devnet.chain.ledger_domain))
        receipt = worker.submit(SubmissionIn(submission=submission, lease=LeaseMessage(**message.model_dump())))
        assert receipt.leaf_hash == leaf.struct_hash()
        worker.upload_submission(data)
        assert worker.submission_file(content_hash(data)) == data
    eventually(lambda: phase_of(running, 0) is Phase.COMMITTED, "root on chain")
    devnet.mine(2)
    eventually(lambda: phase_of(running, 0) is Phase.AUDITED, "panel")

    leaves = eventually(lambda: leaves_of(reader), "leaves")
    outcomes = [Outcome.ACCEPT, Outcome.FAULT]
    panel = [devnet.name_of(member) for member in devnet.chain.voting_panel.panel_of(pool, 0)]
    for name in panel:
        verdicts = []
        account = devnet.account(name)
        for committed, outcome in zip(leaves, outcomes, strict=True):
            verdict = Verdict(pool, 0, committed.submission.submission().struct_hash(), outcome, 0, Hash(bytes(32)))
            signature = verdict.sign(account, devnet.chain.ledger_domain)
            verdicts.append(VerdictMessage.of(verdict, devnet.address(account), signature))
        client = running.client(name)
        eventually(lambda: is_taken(client, VerdictsIn(verdicts=verdicts)), "verdicts taken")  # noqa: B023
        client.post_verdicts(VerdictsIn(verdicts=verdicts))
    devnet.vote(pool, dict.fromkeys(panel, outcomes))
    assert len(reader.verdicts(0).verdicts) == 6

    devnet.advance(40)
    eventually(lambda: phase_of(running, 0) is Phase.FINALIZED, "finalized step")
    faulted = leaves[1].submission.submission()
    terms, vault, stakes = (
        devnet.chain.pool_registry.terms_of(pool),
        devnet.chain.payout_vault,
        devnet.chain.stake_manager,
    )
    assert vault.earnings_of(pool, devnet.address(wendy)).earned == terms.payout(5)
    assert vault.earnings_of(pool, terms.coordinator).earned == 2 * terms.seal_fee
    eventually(lambda: stakes.active_stake_of(pool, Role.WORKER, faulted.provider) == 900 * TOKENS, "slash of a tenth")
    eventually(lambda: reader.step(0).phase == Phase.FINALIZED, "step in the mirror")
    shown = reader.step(0)
    assert (shown.leased, shown.received, shown.uploaded, shown.leaf_count) == (2, 2, 2, 2)
    assert reader.document(devnet.chain.pool_registry.terms_of(pool).card_hash) == {"format": "a card"}


def test_coordinator_redraws_a_panel_that_stays_silent_and_finalizes_what_nobody_judged(running: Running) -> None:
    devnet, pool, chain = running.devnet, running.pool, running.devnet.chain
    worker = running.client("wendy")
    chain.submission_ledger.publish_policy(devnet.sender("trainer"), pool, 0, Hash(b"p" * 32), Hash(bytes(32)))
    chain.submission_ledger.open_step(devnet.sender("trainer"), pool, 0, 0, 1)
    devnet.mine(2)
    message = eventually(lambda: worker.lease(1).leases, "a lease")[0]
    lease, data = message.lease(), b"a group"
    leaf = Submission(pool, 0, 0, lease.provider, lease.node, 5, content_hash(data), lease.struct_hash())
    signed = SubmissionMessage.of(leaf, leaf.sign(devnet.account("wendy"), chain.ledger_domain))
    worker.submit(SubmissionIn(submission=signed, lease=LeaseMessage(**message.model_dump())))
    worker.upload_submission(data)
    eventually(lambda: phase_of(running, 0) is Phase.COMMITTED, "root on chain")
    devnet.mine(2)
    eventually(lambda: phase_of(running, 0) is Phase.AUDITED, "panel")
    terms, voting = chain.pool_registry.terms_of(pool), chain.voting_panel
    devnet.advance(terms.vote_seconds + terms.reveal_seconds + 1)
    eventually(lambda: voting.panel_times_of(pool, 0).was_redrawn, "another panel")
    devnet.advance(terms.vote_seconds + terms.reveal_seconds + terms.challenge_seconds + 1)
    eventually(lambda: phase_of(running, 0) is Phase.FINALIZED, "finalized step")
    assert chain.step_history(pool, 0).outcomes() == [Outcome.ABSTAIN]


def test_coordinator_sigterm_ends_cleanly_with_exit_code_0(running: Running) -> None:
    assert running.stop() == 0
    assert "Traceback" not in running.log.read_text()


def test_coordinator_restart_keeps_what_it_promised(running: Running) -> None:
    devnet, pool = running.devnet, running.pool
    trainer = devnet.sender("trainer")
    devnet.chain.submission_ledger.publish_policy(trainer, pool, 0, Hash(b"p" * 32), Hash(bytes(32)))
    devnet.chain.submission_ledger.open_step(trainer, pool, 0, 0, 2)
    devnet.mine(2)
    worker = running.client("wendy")
    before = eventually(lambda: worker.lease(1).leases, "a lease")
    assert running.stop() == 0
    running.start()
    assert running.client("wendy").lease(1).leases == before


def test_coordinator_check_says_whether_a_start_would_do(running: Running) -> None:
    command = [*running.command]
    command[command.index("start")] = "check"
    del command[command.index("--port") : command.index("--port") + 2]
    good = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (good.returncode, good.stderr) == (0, "")
    assert all(line.startswith("ok  ") for line in good.stdout.splitlines())
    command[command.index("--pool") + 1] = "999"
    bad = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert bad.returncode == 1
    assert "no  " in bad.stdout


@pytest.mark.parametrize("option", ["--document", "--keystore"])
def test_coordinator_with_something_of_another_pool_does_not_start(
    running: Running, tmp_path: Path, option: str
) -> None:
    running.stop()
    other = tmp_path / "other.json"
    if option == "--document":
        other.write_bytes(canonical({"format": "another card"}))
    else:
        wallet.import_key(other, running.devnet.account("wendy").key.hex(), PASSWORD, kdf_cost=1024)
    command = [*running.command]
    command[command.index(option) + 1] = str(other)
    found = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert found.returncode == 3
    assert "Traceback" not in found.stderr
