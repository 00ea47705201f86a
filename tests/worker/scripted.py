"""Scripted parts for the worker's loop: an engine that emits given tokens, a coordinator in memory, a chain as a value.

The coordinator signs and checks with the real structs; only time, HTTP and SQL are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from eth_account import Account
from eth_account.signers.local import LocalAccount

from stannary import PROTOCOL_VERSION
from stannary.environments import Environment, Problem
from stannary.errors import Refused
from stannary.rollout import content_hash
from stannary.structs import Domain, Lease, Receipt
from stannary.types import Address, Hash, Phase, parse_address, to_hex
from stannary.wire import HeartbeatIn, LeaseMessage, LeasesOut, SubmissionIn
from worker.capture import Capture
from worker.engine import RolloutOutput, RolloutRequest
from worker.leases import PoolRules, StepFacts
from worker.loop import Pace, Parts, Worker

NOW = 1_900_000_000
HIDDEN = 128
PROMPT = (0, 4, 20, 21, 3)
EOS = 1
DOMAIN = Domain(31337, parse_address("0x" + "11" * 20))
NODE: LocalAccount = Account.from_key("0x" + "01" * 32)
COORDINATOR: LocalAccount = Account.from_key("0x" + "02" * 32)
STRANGER: LocalAccount = Account.from_key("0x" + "03" * 32)
PROVIDER = parse_address("0x" + "22" * 20)
CARD_HASH = Hash(b"c" * 32)
RULES = PoolRules(
    pool=1,
    provider=PROVIDER,
    node=Address(NODE.address),
    group_size=2,
    max_completion_tokens=48,
    max_lag=2,
    lease_seconds=60,
    collect_seconds=120,
    temperature=1.0,
    protocol_version=PROTOCOL_VERSION,
    environment_hash=Hash(b"e" * 32),
)


def make_lease(slot: int = 0, step: int = 1, **changes: object) -> Lease:
    """Return a lease as an honest coordinator gives it."""
    lease = Lease(
        RULES.pool,
        step,
        max(0, step - 1),
        slot,
        RULES.provider,
        RULES.node,
        NOW,
        NOW + RULES.lease_seconds,
        RULES.max_units,
        CARD_HASH,
        RULES.protocol_version,
    )
    return replace(lease, **changes)  # type: ignore[arg-type]


def sign_lease(lease: Lease, signer: LocalAccount = COORDINATOR) -> LeaseMessage:
    """Return a lease as it travels."""
    return LeaseMessage.of(lease, lease.sign(signer, DOMAIN))


def step_facts(step: int = 1, **changes: object) -> StepFacts:
    """Return a step as the chain shows it while it collects."""
    policy_step = max(0, step - 1)
    beacon = Hash(bytes([step + 1]) * 32)
    facts = StepFacts(step, Phase.SEEDED, policy_step, 8, NOW - 10, beacon, root_of(policy_step), CARD_HASH, NOW)
    return replace(facts, **changes)  # type: ignore[arg-type]


def root_of(policy_step: int) -> Hash:
    """Return the root of a scripted policy step."""
    return Hash(bytes([policy_step + 100]) * 32)


@dataclass(slots=True)
class Clock:
    """A clock that moves when it is told to."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


class OnePrompt:
    """A task with one prompt."""

    PACKAGES = ()

    def __init__(self, prompt: tuple[int, ...] = PROMPT) -> None:
        self.prompt = prompt

    def problem(self, slot_seed: bytes) -> Problem:
        return Problem(self.prompt, {})

    def heldout(self, index: int) -> Problem:
        return Problem(self.prompt, {})

    def reward(self, problem: Problem, completion: Sequence[int]) -> float:
        return 0.0


class ScriptedEngine:
    """Emits completions from a script, with states that are theirs alone."""

    name = "scripted"

    def __init__(self, completions: Callable[[RolloutRequest], tuple[int, ...]] | None = None) -> None:
        self.completions = completions or (lambda request: (10, 11, 12, EOS))
        self.dtype = torch.bfloat16
        self.loaded: list[Path] = []
        self.requests: list[list[RolloutRequest]] = []

    def load(self, folder: Path) -> None:
        self.loaded.append(folder)

    def generate(self, requests: Sequence[RolloutRequest], temperature: float) -> list[RolloutOutput]:
        self.requests.append(list(requests))
        outputs = []
        for request in requests:
            tokens = self.completions(request)
            torch.manual_seed(int.from_bytes(request.seed[:4]))
            capture = Capture()
            keys = [(0, position) for position in range(len(tokens))]
            states = torch.randn(len(tokens), HIDDEN).to(self.dtype)
            for row, key in enumerate(keys):
                capture.add([key], states[row : row + 1], torch.tensor(tokens[row : row + 1]), torch.zeros(1))
            outputs.append(capture.take(0, tokens))
        return outputs

    def close(self) -> None:
        pass


@dataclass(slots=True)
class Folders:
    """Weights that are there at once, or fail as scripted."""

    failures: list[Exception] = field(default_factory=list)
    asked: list[tuple[int, Hash]] = field(default_factory=list)

    def folder_of(self, policy_step: int, policy_root: Hash) -> Path:
        self.asked.append((policy_step, policy_root))
        if self.failures:
            raise self.failures.pop(0)
        return Path(f"policy-{policy_step}")


@dataclass(slots=True)
class MemoryCoordinator:
    """Grants the leases that it is given, takes leaves and files, and fails as scripted."""

    grants: list[list[LeaseMessage]] = field(default_factory=list)
    failures: dict[str, list[Exception]] = field(default_factory=dict)
    leaves: list[SubmissionIn] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    beats: list[HeartbeatIn] = field(default_factory=list)
    asked: int = 0

    def heartbeat(self, beat: HeartbeatIn) -> None:
        self._fail("heartbeat")
        self.beats.append(beat)

    def lease(self, count: int) -> LeasesOut:
        self.asked += 1
        self._fail("lease")
        granted = self.grants.pop(0) if self.grants else []
        return LeasesOut(leases=granted, waiting=None if granted else "step 2 to open")

    def submit(self, submission: SubmissionIn) -> Receipt:
        self._fail("submit")
        leaf = submission.submission.submission()
        leaf.require_signer(bytes.fromhex(submission.submission.signature[2:]), DOMAIN, leaf.node)
        self.leaves.append(submission)
        return Receipt(leaf.struct_hash(), NOW)

    def upload_submission(self, data: bytes) -> None:
        self._fail("upload")
        name = to_hex(content_hash(data))
        if name not in [leaf.submission.content_hash for leaf in self.leaves]:
            raise Refused("PUT", status=409, reason="no receipt for these bytes")
        self.files[name] = data

    def _fail(self, call: str) -> None:
        if self.failures.get(call):
            raise self.failures[call].pop(0)


@dataclass(slots=True)
class Scene:
    """A worker among scripted parts."""

    coordinator: MemoryCoordinator
    engine: ScriptedEngine
    weights: Folders
    clock: Clock
    worker: Worker
    facts: dict[int, StepFacts]
    chain_failures: list[Exception]


def make_scene(
    *grants: list[LeaseMessage],
    engine: ScriptedEngine | None = None,
    rules: PoolRules = RULES,
    task: OnePrompt | None = None,
) -> Scene:
    """Return a worker whose coordinator will grant these leases, one list an answer."""
    coordinator = MemoryCoordinator(list(grants))
    engine = engine or ScriptedEngine()
    weights, clock = Folders(), Clock()
    facts = {step: step_facts(step) for step in range(4)}
    chain_failures: list[Exception] = []

    def read_step(step: int) -> StepFacts:
        if chain_failures:
            raise chain_failures.pop(0)
        return facts[step]

    parts = Parts(
        rules=rules,
        domain=DOMAIN,
        account=NODE,
        coordinator=coordinator,
        read_step=read_step,
        weights=weights,
        engine=engine,
        open_environment=lambda folder: Environment({"name": "one"}, task or OnePrompt()),
    )
    worker = Worker(parts, Pace(max_leases=4), clock=clock)
    return Scene(coordinator, engine, weights, clock, worker, facts, chain_failures)


def play(scene: Scene, ticks: int = 100) -> Iterator[object]:
    """Run the worker on the scripted clock, which jumps over its rests; yields each action."""
    from worker import plan

    event: plan.Event | None = None
    for _ in range(ticks):
        action = scene.worker.tick(event)
        yield action
        if isinstance(action, plan.Stop):
            return
        if isinstance(action, plan.Rest):
            scene.clock.now += action.seconds
            event = None
        else:
            event = scene.worker.perform(action)
