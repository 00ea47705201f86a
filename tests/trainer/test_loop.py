"""The trainer on a real chain beside a real coordinator: publish, open, learn, resume. Work and votes are scripted."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from stannary import wallet
from stannary.chain import devnet as local
from stannary.client import CoordinatorClient
from stannary.documents import canonical, document_hash
from stannary.environments import Environment
from stannary.errors import SettingsError, StannaryError
from stannary.rollout import PROOF_BYTES, Rollout, content_hash, encode_group
from stannary.seeds import StepSeeds
from stannary.shardcast import fetch, weights_url
from stannary.structs import Submission
from stannary.token_rules import TokenRules
from stannary.types import ZERO_HASH, Outcome, Phase, Role, to_hex
from stannary.wire import SubmissionIn, SubmissionMessage
from tests.chains import Devnet
from trainer.assembly import assemble
from trainer.generate import sample
from trainer.metrics import Metrics
from trainer.policy import Policy, Recipe
from trainer.settings import Settings

PASSWORD = "correct horse"
VALIDATORS = ("vera", "victor", "vince", "viola")
WAIT_S = 60.0
STEPS, SLOTS, GROUP, TOKENS = 2, 4, 4, 24


@dataclass(slots=True)
class World:
    """A pool, its coordinator's process, one worker and validators that follow a script."""

    devnet: Devnet
    environment: Environment
    pool: int
    url: str
    folder: Path
    toy: Path
    process: subprocess.Popen[str]
    voted: set[int] = field(default_factory=set)
    held: set[int] = field(default_factory=set)
    """Steps that nobody votes on for now."""
    judge: Callable[[int, int], Outcome] = lambda _step, _slot: Outcome.ACCEPT
    clients: dict[str, CoordinatorClient] = field(default_factory=dict)

    def client(self, name: str) -> CoordinatorClient:
        """Return a client that signs as the account of a name."""
        if name not in self.clients:
            coordinator = self.devnet.chain.pool_registry.terms_of(self.pool).coordinator
            account = self.devnet.account(name)
            self.clients[name] = CoordinatorClient(self.url, self.devnet.chain.ledger_domain, coordinator, account)
        return self.clients[name]

    def settings(self, **changes: Any) -> Settings:
        """Return the trainer's settings."""
        given = {
            "run_dir": self.folder / "trainer",
            "rpc_url": self.devnet.chain.rpc_url,
            "deployment": self.folder / "deployment.json",
            "pool": self.pool,
            "coordinator_url": self.url,
            "keystore": self.folder / "unused",
            "base": self.toy,
            "steps": STEPS,
            "slots": SLOTS,
            "learning_rate": 2e-3,
            "heldout": 16,
            "poll_s": 0.05,
            "file_wait_s": 1.0,
        }
        return Settings.load(**(given | changes))

    def advance(self) -> None:
        """Mine, work and vote: whatever can be done now."""
        self.devnet.mine()
        ledger = self.devnet.chain.submission_ledger
        self.work()
        for step in range(ledger.step_count_of(self.pool)):
            if step not in self.voted | self.held and ledger.step_of(self.pool, step).phase is Phase.AUDITED:
                self.vote(step)

    def work(self) -> None:
        """Generate every slot that is to be had, with the policy as the coordinator serves it."""
        client, account = self.client("wendy"), self.devnet.account("wendy")
        try:
            granted = client.lease(SLOTS).leases
        except StannaryError:
            return
        for message in granted:
            lease = message.lease()
            root = self.devnet.chain.submission_ledger.policy_root_of(self.pool, lease.policy_step)
            folder = self.folder / "worker" / f"policy-{lease.policy_step}"
            fetch([weights_url(self.url, lease.policy_step)], root, folder, like=self.toy)
            state = self.devnet.chain.submission_ledger.step_of(self.pool, lease.step)
            seeds = StepSeeds(self.devnet.chain.ledger_domain, self.pool, lease.step, state.seed_beacon)
            problem = self.environment.problem(seeds.slot_seed(lease.slot))
            completions = sample(
                Policy(folder, Recipe(0.0)).model,
                [problem.prompt] * GROUP,
                rules=TokenRules(frozenset({1})),
                max_tokens=TOKENS,
                temperature=1.0,
                seed=lease.step * SLOTS + lease.slot,
            )
            data = encode_group([Rollout(problem.prompt, tokens, (bytes(PROOF_BYTES),)) for tokens in completions])
            leaf = Submission(
                lease.pool,
                lease.step,
                lease.slot,
                lease.provider,
                lease.node,
                sum(map(len, completions)),
                content_hash(data),
                lease.struct_hash(),
            )
            signature = leaf.sign(account, self.devnet.chain.ledger_domain)
            client.submit(SubmissionIn(submission=SubmissionMessage.of(leaf, signature), lease=message))
            client.upload_submission(data)

    def vote(self, step: int) -> None:
        """Let the whole panel commit and reveal as the script says."""
        chain = self.devnet.chain
        slots = {leaf.submission.slot for leaf in self.client("vera").leaves(step).leaves}
        outcomes = [
            self.judge(step, slot) if slot in slots else Outcome.ABSTAIN
            for slot in range(chain.submission_ledger.step_of(self.pool, step).positions)
        ]
        panel = [self.devnet.name_of(member) for member in chain.voting_panel.panel_of(self.pool, step)]
        self.devnet.vote(self.pool, dict.fromkeys(panel, outcomes), step)
        self.voted.add(step)

    def run_trainer(self, until: Callable[[], bool] = lambda: False, **changes: Any) -> int:
        """Run a trainer while the world moves, until it ends or `until` holds; return its policy step."""
        stop = threading.Event()
        trainer = assemble(self.settings(**changes), self.devnet.account("trainer"), stop)
        assert trainer is not None
        failures: list[BaseException] = []

        def run() -> None:
            try:
                trainer.run(stop)
            except BaseException as error:  # noqa: BLE001  shown by the test's own thread
                failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        deadline = time.monotonic() + WAIT_S
        while thread.is_alive() and not until():
            if time.monotonic() > deadline:
                stop.set()
                thread.join()
                raise AssertionError(f"the trainer did not end within {WAIT_S:.0f} s")
            self.advance()
            time.sleep(0.05)
        stop.set()
        thread.join()
        trainer.close()
        if failures:
            raise failures[0]
        return trainer.policy_step

    def metrics(self, kind: str) -> list[dict[str, Any]]:
        """Return what the trainer wrote down."""
        return Metrics(self.folder / "trainer" / "metrics.jsonl").read(kind)


@pytest.fixture
def world(devnet: Devnet, sieve: Environment, toy: Path, tmp_path: Path) -> Iterator[World]:
    """A pool for the toy with everything running but the trainer."""
    documents = []
    card = json.loads((Path(__file__).parents[2] / "validator" / "cards" / "toy.json").read_bytes())
    for name, document in (("card", card), ("environment", sieve.document)):
        path = tmp_path / f"{name}.json"
        path.write_bytes(canonical(document))
        documents += ["--document", str(path)]
    pool = devnet.pool(
        card_hash=document_hash(card),
        environment_hash=document_hash(sieve.document),
        challenge_seconds=1,
        max_slots=SLOTS,
        group_size=GROUP,
        max_completion_tokens=TOKENS,
    )
    devnet.stake("wendy", pool, Role.WORKER)
    for validator in VALIDATORS:
        devnet.stake(validator, pool, Role.VALIDATOR)
    keystore, password = tmp_path / "coordinator.json", tmp_path / "password"
    wallet.import_key(keystore, devnet.account("coordinator").key.hex(), PASSWORD, kdf_cost=1024)
    password.write_text(PASSWORD)
    port = local.free_port()
    command = [sys.executable, "-m", "stannary.cli", "coordinator", "start"]
    command += ["--port", str(port), "--run-dir", str(tmp_path / "coordinator"), "--rpc-url", devnet.chain.rpc_url]
    command += ["--deployment", str(tmp_path / "deployment.json"), "--pool", str(pool), "--keystore", str(keystore)]
    command += ["--password-file", str(password), *documents]
    with (tmp_path / "coordinator.log").open("w") as log, subprocess.Popen(command, stderr=log, text=True) as process:
        found = World(devnet, sieve, pool, f"http://127.0.0.1:{port}", tmp_path, toy, process)
        try:
            yield found
        finally:
            for client in found.clients.values():
                client.close()
            process.terminate()
            process.wait(20)
            sys.stderr.write((tmp_path / "coordinator.log").read_text())


def test_trainer_publishes_learns_and_ends_after_its_steps(world: World) -> None:
    assert world.run_trainer() == STEPS
    ledger = world.devnet.chain.submission_ledger
    assert ledger.policy_count_of(world.pool) == STEPS + 1
    assert [ledger.step_of(world.pool, step).policy_step for step in range(STEPS)] == [0, 0]
    steps = world.metrics("step")
    assert [entry["accepted_groups"] for entry in steps] == [SLOTS, SLOTS]
    assert [entry["lag"] for entry in steps] == [0, 1]
    assert all(entry["optimizer_steps"] == 2 and 0 <= entry["reward"] <= 1 for entry in steps)
    assert [entry["policy_step"] for entry in world.metrics("heldout")] == [0, STEPS]
    published = world.metrics("policy")
    assert [entry["policy_root"] for entry in published] == [
        to_hex(ledger.policy_root_of(world.pool, step)) for step in range(STEPS + 1)
    ]
    assert len({entry["policy_root"] for entry in published}) == STEPS + 1
    assert published[0]["consumed_root"] == to_hex(ZERO_HASH) != published[1]["consumed_root"]


def test_trainer_learns_from_accepted_leaves_only(world: World) -> None:
    world.judge = lambda step, slot: Outcome.REJECT if step == 1 or slot % 2 else Outcome.ACCEPT
    assert world.run_trainer() == STEPS
    first, second = world.metrics("step")
    assert (first["accepted_groups"], first["rejected_leaves"]) == (2, 2)
    assert (second["accepted_groups"], second["rejected_leaves"]) == (0, SLOTS)
    assert (second["optimizer_steps"], second["reward"]) == (0, None)
    roots = [entry["policy_root"] for entry in world.metrics("policy")]
    assert roots[0] != roots[1] == roots[2]


def test_trainer_at_rate_zero_publishes_the_same_weights_and_score(world: World) -> None:
    world.run_trainer(learning_rate=0.0)
    assert len({entry["policy_root"] for entry in world.metrics("policy")}) == 1
    before, after = world.metrics("heldout")
    assert before["reward"] == after["reward"]


def test_a21_trainer_that_was_stopped_goes_on_where_it_was(world: World) -> None:
    ledger = world.devnet.chain.submission_ledger
    world.held = {1}
    assert world.run_trainer(until=lambda: ledger.policy_count_of(world.pool) == 2) == 1
    world.held = set()
    assert world.run_trainer() == STEPS
    assert [entry["step"] for entry in world.metrics("step")] == [0, 1]
    assert [entry["policy_step"] for entry in world.metrics("policy")] == [0, 1, 2]
    kept = sorted(path.name for path in (world.folder / "trainer" / "checkpoints").iterdir())
    assert kept == ["policy-00000001", "policy-00000002"]


def test_trainer_with_settings_that_the_pool_forbids_says_which(world: World) -> None:
    for changes, message in (({"lag": 9}, "lag"), ({"slots": 99}, "slots")):
        with pytest.raises(SettingsError, match=message):
            assemble(world.settings(**changes), world.devnet.account("trainer"), threading.Event())
    with pytest.raises(SettingsError, match="is trained by"):
        assemble(world.settings(), world.devnet.account("wendy"), threading.Event())


def test_trainer_metrics_are_json_lines(world: World) -> None:
    world.run_trainer(heldout=0, steps=1)
    lines = (world.folder / "trainer" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["run", "policy", "step", "policy"]
