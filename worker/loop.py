"""The worker's daemon: performs what `plan.tick` chooses, with the parts that touch the world handed in.

It knows no engine and no relay by name; tests hand in scripted ones.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Protocol

from eth_account.signers.local import LocalAccount

from stannary.environments import Environment
from stannary.errors import (
    ChainError,
    Malformed,
    NetworkError,
    OperatorError,
    PeerError,
    PolicyError,
    ProofError,
    Refused,
    StannaryError,
    Unavailable,
)
from stannary.provider_record import Record
from stannary.seeds import StepSeeds
from stannary.structs import Domain, Receipt
from stannary.types import Hash, to_hex
from stannary.waiting import Waiting
from stannary.wire import HeartbeatIn, LeasesOut, SubmissionIn, SubmissionMessage
from worker import plan
from worker.engine import Engine, RolloutRequest
from worker.heartbeat import Heartbeat
from worker.leases import PoolRules, StepFacts, check_lease
from worker.status import feared, must_stop, why_stop
from worker.submission import Group, make_group

log = logging.getLogger(__name__)

LAST_REST_S = 1.0
"""The longest sleep between two looks at the plan."""
MAX_UNPROVABLE = 3
"""Groups in a row that could not be proved, after which the engine is taken for broken."""
_MAY_PASS = {408, 425, 429}


class Coordinator(Protocol):
    """What the loop asks of a coordinator; `stannary.client.CoordinatorClient` is one."""

    def heartbeat(self, beat: HeartbeatIn) -> None:
        """Give a sign of life."""
        ...

    def lease(self, count: int) -> LeasesOut:
        """Ask for up to `count` slots."""
        ...

    def submit(self, submission: SubmissionIn) -> Receipt:
        """Send a leaf for a receipt."""
        ...

    def upload_submission(self, data: bytes) -> None:
        """Upload the bytes of a leaf."""
        ...


class Weights(Protocol):
    """Where policy folders come from."""

    def folder_of(self, policy_step: int, policy_root: Hash) -> Path:
        """Return the folder of a policy step, fetched and checked against its root.

        Raises: NetworkError, PolicyError, PeerError.
        """
        ...


@dataclass(frozen=True, slots=True)
class Parts:
    """The outside world of one worker."""

    rules: PoolRules
    domain: Domain
    account: LocalAccount
    coordinator: Coordinator
    read_step: Callable[[int], StepFacts]
    """Read a step from the chain. Raises: NetworkError, ChainError."""
    weights: Weights
    engine: Engine
    open_environment: Callable[[Path], Environment]
    """Make the pool's environment on a policy folder."""
    standing: Callable[[], Record | None] = lambda: None
    """Read what panels have published of the provider, None while there is nothing. Raises: StannaryError."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often and how much. Units: seconds."""

    max_leases: int = 4
    poll_s: float = 0.5
    heartbeat_s: float = 3.0
    standing_s: float = 30.0
    """How often the provider's standing is looked at."""
    stop_log10: float | None = None
    """Stands in for the card's level of evidence at which a worker stops by itself."""


class TooMuchEvidence(OperatorError):
    """The worker stopped by itself, before its provider can be slashed."""


class Stopped(BaseException):
    """The operator asked to stop while something long was going on."""


class Interruption:
    """SIGTERM and SIGINT: noted at once, and raised only inside `allowed`; a second one is always raised."""

    def __init__(self) -> None:
        self.requested = threading.Event()
        self._is_allowed = False

    def install(self) -> None:
        """Take over the two signals of this process."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """Let a signal end the block by `Stopped`."""
        self._is_allowed = True
        try:
            yield
        finally:
            self._is_allowed = False

    def _note(self, number: int, _frame: FrameType | None) -> None:
        is_second = self.requested.is_set()
        self.requested.set()
        if self._is_allowed or is_second:
            raise Stopped(signal.Signals(number).name)


class Worker:
    """One worker: a state, the parts to act with, and what it last said."""

    def __init__(
        self,
        parts: Parts,
        pace: Pace,
        interruption: Interruption | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.parts = parts
        self.pace = pace
        self.interruption = interruption or Interruption()
        self.state = plan.State()
        self._clock = clock
        self._heartbeat = Heartbeat(parts.coordinator.heartbeat, parts.engine.name, pace.heartbeat_s)
        self._waits: dict[str, Waiting] = {}
        self._environment: Environment | None = None
        self._unprovable = 0
        self._made: dict[plan.Key, str] = {}
        self._over_for: str | None = None
        """Why it stops by itself."""

    def run(self) -> None:
        """Work until asked to stop.

        Raises: OperatorError, ProofError when going on would be of no use; TooMuchEvidence when it would cost stake.
        """
        self._heartbeat.start()
        try:
            event: plan.Event | None = None
            while not isinstance(action := self.tick(event), plan.Stop):
                event = self.perform(action)
            if self._over_for is not None:
                raise TooMuchEvidence(self._over_for)
            log.info("stopped")
        finally:
            self._heartbeat.stop()

    def tick(self, event: plan.Event | None) -> plan.Action:
        """Take in an event and choose the next action."""
        inputs = plan.Inputs(self._clock(), event, self.pace.max_leases, self.interruption.requested.is_set())
        self.state, action = plan.tick(self.state, inputs)
        return action

    def perform(self, action: plan.Action) -> plan.Event | None:
        """Do what was chosen and say what it came to."""
        match action:
            case plan.Ask(count):
                return self._ask(count)
            case plan.Check(step, slots):
                return self._check(step, slots)
            case plan.Load():
                return self._interruptible(lambda: self._load(action))
            case plan.Generate():
                return self._interruptible(lambda: self._generate(action))
            case plan.Submit(slot, group):
                return self._submit(slot, group)
            case plan.Upload(slot, group):
                return self._upload(slot, group)
            case plan.Drop(slots, why):
                for held in slots:
                    log.warning("step %d slot %d given up: %s", *held.key, why)
            case plan.Look():
                return self._interruptible(self._look)
            case plan.Rest(seconds):
                self._show("waiting")
                self.interruption.requested.wait(min(seconds, LAST_REST_S))
            case plan.Stop():
                pass
        return None

    def _ask(self, count: int) -> plan.Event:
        try:
            answer = self.parts.coordinator.lease(count)
            if len(answer.leases) > count:
                raise Malformed("leases", expected=f"at most {count}", got=len(answer.leases))
        except NetworkError as error:
            self._wait("coordinator", str(error))
            return plan.NotAnswered()
        except PeerError as error:
            self._wait("leases", f"leases: {error}")
            return plan.NotAnswered()
        self._over("coordinator")
        if answer.leases:
            self._over("leases")
        else:
            self._wait("leases", answer.waiting or "a free slot")
        return plan.Granted(tuple(answer.leases), self.pace.poll_s)

    def _look(self) -> plan.Event:
        pace = self.pace
        try:
            record = self.parts.standing()
        except StannaryError as error:
            self._wait("standing", f"what panels say of this provider ({error})")
            return plan.Looked(pace.standing_s)
        except Exception:  # whatever is wrong with somebody's evidence, the work goes on
            log.warning("what panels say of this provider cannot be read", exc_info=True)
            return plan.Looked(pace.standing_s)
        self._over("standing")
        if record is None:
            return plan.Looked(pace.standing_s)
        for each in record.missing:
            log.warning("what panels say of this provider is not all to be had: %s", each)
        if not must_stop(record.rules, feared(record), pace.stop_log10, under_way=record.under_way):
            return plan.Looked(pace.standing_s)
        lines = why_stop(record, self.parts.engine.name, pace.stop_log10)
        for line in lines:
            log.error("%s", line)
        self._over_for = f"{lines[0]}: this worker has stopped by itself, its log says what to look at"
        return plan.Looked(pace.standing_s, must_stop=True)

    def _check(self, step: int, slots: Sequence[plan.Held]) -> plan.Event:
        keys = frozenset(held.key for held in slots)
        refused = set()
        try:
            facts = self.parts.read_step(step)
            for held in slots:
                try:
                    check_lease(held.lease, self.parts.rules, facts)
                except Malformed as error:
                    log.warning("step %d slot %d: lease refused: %s", *held.key, error)
                    refused.add(held.lease.slot)
        except (NetworkError, ChainError, PeerError) as error:
            self._wait("chain", str(error))
            return plan.Failed(keys)
        self._over("chain")
        return plan.Checked(facts, frozenset(refused))

    def _load(self, action: plan.Load) -> plan.Event:
        keys = frozenset(held.key for held in action.slots)
        self._show("loading")
        started = self._clock()
        is_touched = False
        try:
            folder = self.parts.weights.folder_of(action.policy_step, action.policy_root)
            fetched = self._clock()
            is_touched = True
            self._environment = self.parts.open_environment(folder)
            self.parts.engine.load(folder)
        except (NetworkError, PeerError, PolicyError) as error:
            self._wait("weights", f"policy step {action.policy_step}: {error}")
            return plan.Failed(keys, is_policy_lost=is_touched)
        self._over("weights")
        self._heartbeat.status = replace(self._heartbeat.status, policy_step=action.policy_step)
        log.info(
            "policy step %d loaded: fetched in %.1f s, loaded in %.1f s",
            action.policy_step,
            fetched - started,
            self._clock() - fetched,
        )
        return plan.Loaded(action.policy_root)

    def _generate(self, action: plan.Generate) -> plan.Event:
        rules, facts, slots = self.parts.rules, action.facts, action.slots
        assert self._environment is not None
        self._show("generating")
        seeds = StepSeeds(self.parts.domain, rules.pool, facts.step, facts.seed_beacon)
        prompts = [self._environment.problem(seeds.slot_seed(held.lease.slot)).prompt for held in slots]
        requests = [
            RolloutRequest(seeds.rollout_seed(held.lease.slot, rollout), prompt, rules.max_completion_tokens)
            for held, prompt in zip(slots, prompts, strict=True)
            for rollout in range(rules.group_size)
        ]
        started = self._clock()
        try:
            outputs = self.parts.engine.generate(requests, rules.temperature)
        except PolicyError as error:
            log.warning("step %d: cannot generate: %s", facts.step, error)
            return plan.Made({}, frozenset(held.key for held in slots))
        seconds = max(self._clock() - started, 1e-6)
        tokens = sum(len(output.tokens) for output in outputs)
        self._heartbeat.status = replace(self._heartbeat.status, tokens_per_s=tokens / seconds)
        groups: dict[plan.Key, Group] = {}
        for index, (held, prompt) in enumerate(zip(slots, prompts, strict=True)):
            try:
                mine = outputs[index * rules.group_size : (index + 1) * rules.group_size]
                groups[held.key] = make_group(held.lease, rules, prompt, mine)
            except ProofError as error:
                log.error("step %d slot %d: not submitted, no proof can be given: %s", *held.key, error)
                self._unprovable += 1
                if self._unprovable == MAX_UNPROVABLE:
                    raise
                continue
            self._unprovable = 0
            units = groups[held.key].leaf.units
            self._made[held.key] = f"{units} tokens, {tokens / seconds:.0f} tokens/s, {seconds:.1f} s"
        return plan.Made(groups, frozenset(held.key for held in slots) - groups.keys())

    def _submit(self, held: plan.Held, group: Group) -> plan.Event:
        self._show("uploading")
        signature = group.leaf.sign(self.parts.account, self.parts.domain)
        message = SubmissionIn(submission=SubmissionMessage.of(group.leaf, signature), lease=held.message)
        failure = self._deliver(held, "leaf", lambda: self.parts.coordinator.submit(message))
        return failure or plan.Receipted(held.key)

    def _upload(self, held: plan.Held, group: Group) -> plan.Event:
        self._show("uploading")
        failure = self._deliver(held, "file", lambda: self.parts.coordinator.upload_submission(group.data))
        if failure is not None:
            return failure
        log.info(
            "step %d slot %d: %s, delivered as %s",
            *held.key,
            self._made.pop(held.key, f"{group.leaf.units} tokens"),
            to_hex(group.leaf.content_hash),
        )
        return plan.Ended(frozenset({held.key}))

    def _deliver(self, held: plan.Held, what: str, send: Callable[[], object]) -> plan.Failed | plan.Ended | None:
        try:
            send()
        except Unavailable as error:
            return self._refused(held, what, error)
        except Refused as error:
            if error.status not in _MAY_PASS:
                return self._refused(held, what, error)
            return self._delayed(held, error)
        except (NetworkError, PeerError) as error:
            # An answer that makes no sense is no refusal: another try may be better, and the lease bounds the tries.
            return self._delayed(held, error)
        self._over("delivery")
        return None

    def _delayed(self, held: plan.Held, error: Exception) -> plan.Failed:
        self._wait("delivery", f"a receipt ({error})" if held.stage is plan.Stage.MADE else f"an upload ({error})")
        return plan.Failed(frozenset({held.key}))

    def _refused(self, held: plan.Held, what: str, error: Exception) -> plan.Ended:
        log.warning("step %d slot %d: %s not taken, the group is lost: %s", *held.key, what, error)
        self._made.pop(held.key, None)
        return plan.Ended(frozenset({held.key}))

    def _interruptible(self, act: Callable[[], plan.Event]) -> plan.Event | None:
        try:
            with self.interruption.allowed():
                return act()
        except Stopped:
            return None

    def _show(self, state: str) -> None:
        self._heartbeat.status = replace(self._heartbeat.status, state=state)

    def _wait(self, on: str, what: str) -> None:
        self._waits.setdefault(on, Waiting(log)).on(what)

    def _over(self, on: str) -> None:
        if on in self._waits:
            self._waits[on].over()
