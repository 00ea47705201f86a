"""A10: a validator that cannot check accepts, or rejects. Here whatever breaks on its side ends in abstention.

It says so, tries again with back-off until the window closes, and a step of abstentions pays and slashes no worker.
"""

from __future__ import annotations

import itertools
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch

from stannary.chain import LeafOpening
from stannary.client import CoordinatorClient
from stannary.confined import ConfinedReader
from stannary.errors import Reverted, Unavailable
from stannary.rollout import Rollout
from stannary.shardcast import describe_folder, publish
from stannary.structs import Submission
from stannary.types import Outcome, Reason, Role, parse_hash, to_hex
from tests.chains import Devnet
from tests.validator.conftest import (
    COORDINATOR,
    DOMAIN,
    FACTS,
    STRANGER,
    Bench,
    Made,
    address,
    bench,
    bf16,
    card,
    environment,
    fp32,
    judge,
    toy,
)
from tests.validator.scripted import AUDITED_AT, VOTE_SECONDS, ScriptedCoordinator, ScriptedLedger
from tests.validator.test_loop import World, made, make_world, world
from validator import duty
from validator.judgement import Recompute
from validator.prefill import Prefill
from validator.weights import Policies

__all__ = ["bench", "bf16", "card", "environment", "fp32", "judge", "made", "toy", "world"]

WEIGHTS, FILES, LEAVES = "/v1/weights/", "/v1/submissions/", "/v1/steps/"
ALL_DECIDED = [Outcome.FAULT, Outcome.ACCEPT, Outcome.FAULT]
"""What a validator that works says of the leaves of `made`."""


@dataclass
class Storage:
    """A coordinator's storage over HTTP, parts of which fail."""

    published: Path
    """The policy as sources serve it."""
    content: ScriptedCoordinator
    """What lies there."""
    clock: Callable[[], float]
    statuses: dict[str, int] = field(default_factory=dict)
    """What is answered to addresses that begin so, instead of what lies there."""
    asked: list[tuple[float, str]] = field(default_factory=list)
    url: str = ""

    def answer(self, method: str, path: str) -> tuple[int, bytes]:
        self.asked.append((self.clock(), path))
        for start, status in self.statuses.items():
            if path.startswith(start):
                return status, b"out of order"
        if method != "GET":
            return 204, b""
        if path.startswith(WEIGHTS):
            return 200, (self.published / path.split("/", 4)[4]).read_bytes()
        if path.startswith(FILES):
            return 200, self.content.submission_file(parse_hash(path.removeprefix(FILES)))
        return 200, self.content.leaves(FACTS.step).model_dump_json().encode()

    def times(self, start: str) -> list[float]:
        """When an address that begins so was asked for."""
        return [at for at, path in self.asked if path.startswith(start)]

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Answer requests on a local port."""
        storage = self

        class Handler(BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                status, body = storage.answer(self.command, self.path)
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_PUT = do_POST = handle_any

            def log_message(self, *_: object) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            self.url = f"http://127.0.0.1:{server.server_address[1]}"
            try:
                yield
            finally:
                server.shutdown()
                thread.join()


@dataclass
class Scene:
    """A validator with its own weights folder and its own HTTP clients, on a storage."""

    world: World
    storage: Storage
    folder: Path

    def start(
        self,
        *,
        weights_folder: Path | None = None,
        open_policy: Callable[[Path, str], Prefill] = Prefill,
    ) -> None:
        client = CoordinatorClient(self.storage.url, DOMAIN, address(COORDINATOR), STRANGER)
        weights = Policies(weights_folder or self.folder / "weights", [self.storage.url], open_policy)
        self.world.restart(coordinator=client, weights=weights)


@pytest.fixture
def scene(world: World, toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    publish(toy, tmp_path / "published")
    root = describe_folder(toy).policy_root
    monkeypatch.setattr(ScriptedLedger, "policy_root", lambda *_: root)
    storage = Storage(tmp_path / "published", world.coordinator, world.clock)
    with storage.serving():
        scene = Scene(world, storage, tmp_path)
        yield scene
        world.parts.coordinator.close()  # type: ignore[attr-defined]


def require_abstention(world: World, caplog: pytest.LogCaptureFixture, why: str) -> None:
    """One vote, of nothing but abstentions, with the reason in the log and in the evidence."""
    world.ticks(70)
    assert world.outcomes == [Outcome.ABSTAIN] * 3
    assert set(world.reasons) == {Reason.UNAVAILABLE}
    assert all(why in leaf.explanation for leaf in world.evidence.leaves)
    assert "waiting for 3 of 3 leaves of step 2" in caplog.text
    assert caplog.text.count("abstained") == 3
    assert why in caplog.text


def require_back_off(times: Sequence[float], end: float) -> None:
    """Tried again, later and later, and never once the vote is written."""
    waits = [after - before for before, after in itertools.pairwise(times)]
    assert 4 <= len(times) <= 20
    assert waits[0] <= 2
    assert max(waits) <= duty.BACK_OFF_LAST_S + 1
    assert waits[:-1] == sorted(waits[:-1]), "the last may be shorter: the window ends"
    assert times[-1] <= end


def test_a10_validator_that_is_whole_decides_all_of_it(scene: Scene) -> None:
    """The control: with the same storage and nothing broken there is a verdict on each leaf."""
    scene.start()
    scene.world.ticks(6)
    assert scene.world.outcomes == ALL_DECIDED
    assert {path.split("/")[2] for _, path in scene.storage.asked} >= {"weights", "submissions", "evidence", "verdicts"}


def missing_path(folder: Path, dtype: str) -> Prefill:
    return Prefill(folder / "no such policy", dtype)


def too_large(folder: Path, dtype: str) -> Prefill:
    raise MemoryError("no memory for the policy")


@pytest.mark.parametrize(
    ("open_policy", "why"), [(missing_path, "no such policy"), (too_large, "no memory for the policy")]
)
def test_a10_a_model_that_cannot_be_opened_is_no_verdict(
    scene: Scene, caplog: pytest.LogCaptureFixture, open_policy: Callable[[Path, str], Prefill], why: str
) -> None:
    caplog.set_level(logging.INFO)
    scene.start(open_policy=open_policy)
    require_abstention(scene.world, caplog, why)


def test_a10_a_weights_folder_that_cannot_be_made_is_no_verdict(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    (scene.folder / "a file").write_bytes(b"")
    scene.start(weights_folder=scene.folder / "a file" / "weights")
    require_abstention(scene.world, caplog, "cannot write")


@pytest.mark.parametrize("status", [404, 500])
def test_a10_c_weights_that_cannot_be_had_are_asked_for_with_back_off_and_are_no_verdict(
    scene: Scene, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    caplog.set_level(logging.INFO)
    begun = scene.world.clock.now
    scene.start()
    scene.storage.statuses[WEIGHTS] = status
    require_abstention(scene.world, caplog, "not there" if status == 404 else "answered 500")
    require_back_off(scene.storage.times(WEIGHTS), begun + VOTE_SECONDS)


def test_a10_c_weights_that_come_in_time_do_no_harm(scene: Scene) -> None:
    scene.start()
    scene.storage.statuses[WEIGHTS] = 500
    scene.world.ticks(12)
    assert scene.world.ledger.votes == []
    del scene.storage.statuses[WEIGHTS]
    scene.world.ticks(20)
    assert scene.world.outcomes == ALL_DECIDED


def test_a10_d_storage_that_answers_500_leaves_its_leaves_undecided(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    begun = scene.world.clock.now
    scene.start()
    scene.storage.statuses[FILES] = 500
    require_abstention(scene.world, caplog, "answered 500")
    # A look asks once for each leaf.
    require_back_off(scene.storage.times(FILES)[::3], begun + VOTE_SECONDS)


def test_a10_d_one_file_that_cannot_be_had_leaves_the_others_decided(scene: Scene) -> None:
    scene.start()
    scene.storage.statuses[FILES + to_hex(scene.world.ledger.made[2].leaf.submission.content_hash)] = 500
    scene.world.ticks(70)
    assert scene.world.outcomes == [Outcome.FAULT, Outcome.ACCEPT, Outcome.ABSTAIN]


def test_a10_d_list_of_leaves_that_answers_500_leaves_the_whole_step_undecided(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    begun = scene.world.clock.now
    scene.start()
    scene.storage.statuses[LEAVES] = 500
    scene.world.ticks(70)
    assert scene.world.by_slot == [Outcome.ABSTAIN] * FACTS.slots
    assert "step 2: abstained on all of it" in caplog.text
    require_back_off(scene.storage.times(LEAVES), begun + VOTE_SECONDS)


class Failing:
    """A policy whose forward pass, from the second on, does something else than to return."""

    def __init__(self, real: Recompute, failure: Callable[[], object]) -> None:
        self._real, self._failure, self.calls = real, failure, 0
        self.vocabulary, self.hidden_size, self.tokens = real.vocabulary, real.hidden_size, real.tokens
        self.head_rows, self.compute, self.is_exact = real.head_rows, real.compute, real.is_exact

    def states(self, prompt: Sequence[int], completions: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        return [own.bfloat16() for own in self.unrounded_states(prompt, completions)]

    def unrounded_states(self, prompt: Sequence[int], completions: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        self.calls += 1
        if self.calls > 1:
            self._failure()
        return self._real.unrounded_states(prompt, completions)

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        return self._real.logits(states)


def raising(error: BaseException) -> Callable[[], object]:
    def fail() -> object:
        raise error

    return fail


@pytest.mark.parametrize(
    "error", [RuntimeError("device lost"), torch.OutOfMemoryError("device lost"), MemoryError("device lost")]
)
def test_a10_b_device_that_dies_abstains_on_what_was_left(
    made: list[Made], bench: Bench, tmp_path: Path, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """Slot 1 fails before any forward pass, slot 3 takes the only one, slot 4 is left, and tried thrice."""
    policy = Failing(bench.judge.computes.first, raising(error))
    world = make_world(made, bench, tmp_path, policy)
    world.ticks(30)
    assert world.outcomes == [Outcome.FAULT, Outcome.ACCEPT, Outcome.ABSTAIN]
    assert policy.calls == 1 + duty.OWN_FAILURES
    assert "device lost" in world.evidence.leaves[2].explanation
    assert "step 2, slot 4: abstained: this validator failed" in caplog.text


def test_a10_b_validator_killed_within_its_forward_pass_has_said_nothing_and_judges_anew(
    made: list[Made], bench: Bench, tmp_path: Path
) -> None:
    """The process is killed by the system, as for memory. What it found before is lost, and nothing is on chain."""
    killed = Failing(bench.judge.computes.first, lambda: os.kill(os.getpid(), signal.SIGKILL))
    world = make_world(made, bench, tmp_path, killed)
    child = os.fork()
    if not child:
        try:
            world.ticks(3)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "the process ended by itself"
    assert os.WTERMSIG(status) == signal.SIGKILL
    world.restart()
    assert world.prepared is None
    assert world.parts.votes.unpublished() == []
    world.restart(weights=make_world(made, bench, tmp_path / "other").weights)
    world.ticks(6)
    assert world.outcomes == ALL_DECIDED


def test_a10_b_leaf_that_kills_its_validator_every_time_is_abstained_on_in_the_end(
    made: list[Made], bench: Bench, tmp_path: Path
) -> None:
    """Started again after each death, the validator must not fall silent for one leaf: a vote that is due is fined."""
    killed = Failing(bench.judge.computes.first, lambda: os.kill(os.getpid(), signal.SIGKILL))
    world = make_world(made, bench, tmp_path, killed)
    for _ in range(duty.OWN_FAILURES):
        child = os.fork()
        if not child:
            try:
                world.ticks(3)
            finally:
                os._exit(0)
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
        world.restart()
        assert world.prepared is None
    world.ticks(30)
    assert world.outcomes == [Outcome.FAULT, Outcome.ACCEPT, Outcome.ABSTAIN]
    assert f"ended {duty.OWN_FAILURES} times while it judged this leaf" in world.evidence.leaves[2].explanation


@pytest.mark.parametrize("deaths", [1, duty.OWN_FAILURES])
def test_a10_b_reading_process_that_is_killed_within_a_file_is_tried_again_and_not_for_ever(
    world: World, made: list[Made], deaths: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Strangers' files are read in a process of its own; here the system kills it, a few times or always."""
    left = [deaths]

    def read(data: bytes, group_size: int) -> list[Rollout]:
        if data == made[2].data and left[0]:
            left[0] -= 1
            reader.decode_group(made[1].data, group_size)
            assert reader.pid is not None
            os.kill(reader.pid, signal.SIGSTOP)  # so that it has the file in hand when it dies
            threading.Timer(0.1, os.kill, (reader.pid, signal.SIGKILL)).start()
        return reader.decode_group(data, group_size)

    with ConfinedReader() as reader:
        world.restart(read_submission=read)
        world.ticks(40)
    assert reader.counts.failed == deaths
    if deaths < duty.OWN_FAILURES:
        assert world.outcomes == ALL_DECIDED
    else:
        assert world.outcomes == [Outcome.FAULT, Outcome.ACCEPT, Outcome.ABSTAIN]
        assert "step 2, slot 4: abstained: this validator failed" in caplog.text


def blind(world: World) -> list[Outcome]:
    """The vote of a validator that gets no weights, slot by slot."""
    world.weights.fails = Unavailable("no source of weights is configured")
    world.until(AUDITED_AT + VOTE_SECONDS + 5)
    return world.by_slot


@pytest.mark.parametrize("sighted", [0, 1])
def test_a10_step_that_no_quorum_could_check_pays_no_worker_and_slashes_nobody(
    world: World, devnet: Devnet, sighted: int
) -> None:
    """On the chain, with the votes that such validators really cast: all blind, or one of three that sees."""
    seen = [Outcome.ABSTAIN] * FACTS.slots
    for each, outcome in zip(world.ledger.made, ALL_DECIDED, strict=True):
        seen[each.leaf.submission.slot] = outcome
    votes = [blind(world)] * (3 - sighted) + [seen] * sighted
    pool = devnet.pool()
    devnet.judges(pool)
    worker = devnet.stake("worker", pool, Role.WORKER)
    devnet.mine()
    chain, trainer = devnet.chain, devnet.sender("trainer")
    devnet.open_step(pool, slots=FACTS.slots)
    leaves: list[Submission] = [
        replace(each.leaf.submission, pool=pool, step=0, provider=worker.address, node=worker.address)
        for each in world.ledger.made
    ]
    devnet.commit(pool, leaves)
    devnet.vote(pool, dict(zip(devnet.draw(pool), votes, strict=True)))
    history = devnet.finalize(pool)
    assert history.finalized is not None
    assert set(history.finalized.outcomes) == {0}

    terms = chain.pool_registry.terms_of(pool)
    assert chain.payout_vault.earnings_of(pool, worker.address).earned == 0
    with pytest.raises(Reverted, match="AmountZero"):
        chain.payout_vault.claim(trainer, pool, worker.address)
    for leaf in leaves:
        opening = LeafOpening.of(leaves, FACTS.slots, leaf.slot)
        with pytest.raises(Reverted, match="NotFault"):
            chain.voting_panel.slash_leaf(trainer, pool, 0, opening, history.finalized.outcomes)
    staked = {
        name: chain.stake_manager.position_of(pool, role, devnet.sender(name).address).tokens
        for name, role in [("worker", Role.WORKER), *((f"judge-{number}", Role.VALIDATOR) for number in range(4))]
    }
    assert set(staked.values()) == {staked["worker"]}
    escrow = chain.payout_vault.escrow_of(pool)
    assert (escrow.reserved, escrow.locked) == (0, 3 * terms.slot_price)
