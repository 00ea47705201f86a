"""A real worker process between a real chain and a real coordinator: it earns, outlives their absence, and stops."""

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

import numpy as np
import pytest
from tokenizers import Tokenizer, models

from stannary import toploc, wallet
from stannary.chain import devnet as local
from stannary.client import CoordinatorClient
from stannary.documents import canonical, document_hash
from stannary.environments import describe_environment, load_environment
from stannary.errors import StannaryError
from stannary.rollout import decode_group
from stannary.sampling import replay_completion
from stannary.seeds import StepSeeds
from stannary.shardcast import describe_folder
from stannary.types import ZERO_HASH, Hash, Phase, Role, parse_hash
from tests.chains import Devnet
from trainer.base import toy_words
from validator.prefill import Prefill, prefill
from worker.tripwire import write_tiny_policy

PASSWORD = "correct horse"
WAIT_S = 60.0
STANNARY = (sys.executable, "-m", "stannary.cli")
T = TypeVar("T")


@dataclass(slots=True)
class Town:
    """A pool with a coordinator and a worker, each as a process that can be ended and started again."""

    devnet: Devnet
    pool: int
    folder: Path
    policy: Path
    policy_root: Hash
    environment: dict[str, object]
    port: int
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    engine: str = "transformers"
    clients: dict[str | None, CoordinatorClient] = field(default_factory=dict)

    def start(self, role: str) -> None:
        with (self.folder / f"{role}.log").open("ab") as log:
            command = self.command(role, "start")
            self.processes[role] = subprocess.Popen(command, stdout=log, stderr=log, env=self.variables())

    def variables(self) -> dict[str, str]:
        return os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}

    def command(self, role: str, verb: str) -> list[str]:
        own = {
            "coordinator": ("--port", str(self.port), *self._documents()),
            "worker": ("--coordinator-url", f"http://127.0.0.1:{self.port}", "--engine", self.engine),
        }[role]
        return [
            *(*STANNARY, role, verb, "--run-dir", str(self.folder / role)),
            *("--rpc-url", self.devnet.chain.rpc_url, "--deployment", str(self.folder / "deployment.json")),
            *("--pool", str(self.pool), "--keystore", str(self.folder / f"{role}.json")),
            *("--password-file", str(self.folder / "password"), *own),
        ]

    def stop(self, role: str) -> tuple[int, float]:
        """Ask a process to end; returns its exit code and the seconds that it took."""
        process, begun = self.processes.pop(role), time.monotonic()
        process.send_signal(signal.SIGTERM)
        return process.wait(30), time.monotonic() - begun

    def log(self, role: str) -> str:
        return (self.folder / f"{role}.log").read_text()

    def client(self, name: str | None = None) -> CoordinatorClient:
        if name not in self.clients:
            chain, account = self.devnet.chain, None if name is None else self.devnet.account(name)
            coordinator = chain.pool_registry.terms_of(self.pool).coordinator
            url = f"http://127.0.0.1:{self.port}"
            self.clients[name] = CoordinatorClient(url, chain.ledger_domain, coordinator, account)
        return self.clients[name]

    def open_step(self, step: int, slots: int) -> None:
        ledger = self.devnet.chain.submission_ledger
        ledger.open_step(self.devnet.sender("trainer"), self.pool, step, 0, slots)
        self.devnet.mine(2)

    def eventually(self, look: Callable[[], T], what: str) -> T:
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            for role, process in self.processes.items():
                assert process.poll() is None, self.log(role)[-3000:]
            try:
                if found := look():
                    return found
            except StannaryError:
                pass
            time.sleep(0.1)
        raise AssertionError(f"no {what} within {WAIT_S:.0f} s\n" + self.log("worker")[-3000:])

    def phase(self, step: int) -> Phase:
        return self.devnet.chain.submission_ledger.step_of(self.pool, step).phase

    def _documents(self) -> list[str]:
        return [word for name in ("card", "environment") for word in ("--document", str(self.folder / f"{name}.doc"))]


@pytest.fixture
def town(devnet: Devnet, tmp_path: Path) -> Iterator[Town]:
    policy = write_tiny_policy(tmp_path / "policy", 4, is_tied=False)
    words = {word: index for index, word in enumerate(toy_words())}
    Tokenizer(models.WordLevel(words, unk_token="<unk>")).save(str(policy / "tokenizer.json"))
    card: dict[str, object] = {"format": "a card"}
    environment = describe_environment("sieve", {}, policy)
    (tmp_path / "card.doc").write_bytes(canonical(card))
    (tmp_path / "environment.doc").write_bytes(canonical(environment))
    pool = devnet.pool(card_hash=document_hash(card), environment_hash=document_hash(environment), lease_seconds=30)
    for validator in ("vera", "victor", "vince", "viola"):
        devnet.stake(validator, pool, Role.VALIDATOR)
    devnet.stake("miner", pool, Role.WORKER)
    (tmp_path / "password").write_text(PASSWORD)
    for role, account in (("coordinator", devnet.account("coordinator")), ("worker", devnet.add_node("miner", "rig"))):
        wallet.import_key(tmp_path / f"{role}.json", account.key.hex(), PASSWORD, kdf_cost=1024)
    manifest = describe_folder(policy)
    ledger = devnet.chain.submission_ledger
    ledger.publish_policy(devnet.sender("trainer"), pool, 0, manifest.policy_root, ZERO_HASH)
    town = Town(devnet, pool, tmp_path, policy, manifest.policy_root, environment, local.free_port())
    town.start("coordinator")
    try:
        town.eventually(lambda: town.client().health().status == "ok", "coordinator")
        (tmp_path / "manifest.json").write_bytes(manifest.encode())

        def publish() -> bool:
            trainer = town.client("trainer")
            trainer.put_weights(0, "manifest.json", tmp_path / "manifest.json")
            for file in manifest.files:
                trainer.put_weights(0, f"files/{file.name}", policy / file.name)
            return True

        town.eventually(publish, "weights")
        yield town
    finally:
        for client in town.clients.values():
            client.close()
        for role in list(town.processes):
            town.stop(role)


@pytest.mark.parametrize("engine", ["transformers", "vllm"])
def test_worker_process_delivers_what_a_validator_would_accept_and_stops_fast(town: Town, engine: str) -> None:
    town.engine = engine
    town.open_step(0, 3)
    town.start("worker")
    town.eventually(lambda: town.phase(0) is Phase.COMMITTED, "committed step")
    leaves = town.eventually(lambda: town.client().leaves(0).leaves, "leaves")
    assert len(leaves) == 3
    state = town.devnet.chain.submission_ledger.step_of(town.pool, 0)
    seeds = StepSeeds(town.devnet.chain.ledger_domain, town.pool, 0, state.seed_beacon)
    environment, model = load_environment(town.environment, town.policy), Prefill(town.policy, "fp32")
    worst = []
    for leaf in leaves:
        message = leaf.submission
        message.submission().require_signer(
            bytes.fromhex(message.signature[2:]),
            town.devnet.chain.ledger_domain,
            town.devnet.address(town.devnet.account("rig")),
        )
        assert message.provider == town.devnet.sender("miner").address
        rollouts = decode_group(town.client().submission_file(parse_hash(message.content_hash)), 4)
        assert message.units == sum(len(rollout.completion) for rollout in rollouts)
        for index, rollout in enumerate(rollouts):
            assert rollout.prompt == environment.problem(seeds.slot_seed(message.slot)).prompt
            states, logits = prefill(model, rollout.prompt, rollout.completion)
            assert all(drift.exponent_mismatches <= 24 for drift in toploc.verify(states, rollout.proofs))
            seed = seeds.rollout_seed(message.slot, index)
            worst.append(np.mean(replay_completion(logits.numpy(), rollout.completion, 1.0, seed).gap > 0.3))
    assert np.mean(worst) < 0.02
    # Signs of life come every few seconds: the one that tells of the policy may come after the groups.
    told = town.eventually(
        lambda: [node for node in town.client().nodes().nodes if node.policy_step == 0], "a heartbeat with the policy"
    )
    assert [node.engine for node in told] == [engine]
    code, seconds = town.stop("worker")
    assert code == 0
    assert seconds < 5
    assert "step 0 slot 0: " in town.log("worker")
    assert "Traceback" not in town.log("worker")


def test_worker_process_outlives_a_coordinator_that_is_away(town: Town) -> None:
    town.stop("coordinator")
    town.start("worker")
    town.eventually(lambda: "waiting for coordinator http://127.0.0.1" in town.log("worker"), "words about the wait")
    town.start("coordinator")
    town.open_step(0, 1)
    town.eventually(lambda: town.phase(0) is Phase.COMMITTED, "committed step")
    town.stop("coordinator")
    town.eventually(lambda: town.log("worker").count("waiting for coordinator http://127.0.0.1") >= 2, "second wait")
    town.open_step(1, 2)
    town.start("coordinator")
    town.eventually(lambda: town.phase(1) is Phase.COMMITTED, "second committed step")
    assert town.stop("worker")[0] == 0
    assert town.log("worker").count("delivered as 0x") == 3


def test_worker_check_says_line_by_line_that_all_is_well(town: Town) -> None:
    done = subprocess.run(
        town.command("worker", "check"), env=town.variables(), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert all(line.startswith("ok  ") for line in lines)
    assert [line[4:].partition(":")[0] for line in lines] == [
        *("wallet", "chain", f"pool {town.pool}", "coordinator", "card", "environment", "engine")
    ]


def test_worker_check_without_a_coordinator_says_so_and_fails(town: Town) -> None:
    town.stop("coordinator")
    done = subprocess.run(
        town.command("worker", "check"), env=town.variables(), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith("no  coordinator: coordinator http://127.0.0.1")
    assert done.stderr == ""
