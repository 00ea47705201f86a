"""The validator's daemon: watches for steps it must vote on, judges leaves, votes on chain, publishes the evidence.

It decides nothing itself: duties come from `duty`, judgements from `judgement`. Whatever fails on this side (chain,
coordinator, weights, disk, its own code) is waited out within the vote window and ends in abstention, never in a
verdict.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from eth_account.signers.local import LocalAccount

from stannary.cards import Card
from stannary.chain import Block, Mined, StepState, Vote
from stannary.environments import Environment
from stannary.errors import (
    AbstainError,
    ChainError,
    Malformed,
    NetworkError,
    OperatorError,
    PeerError,
    Refused,
    Reverted,
    StannaryError,
    Unmined,
)
from stannary.seeds import StepSeeds
from stannary.types import Address, Hash, Outcome, Phase
from stannary.waiting import Waiting
from stannary.wire import LeafOut, LeavesOut, VerdictsIn
from validator import checks, duty
from validator.checks import Leaf, Rules, StepFacts
from validator.duty import StepView
from validator.judgement import Judge, Judgement, Recompute, screen
from validator.votes import Ballot, BallotBox

log = logging.getLogger(__name__)

LOOK_BACK = 64
"""Steps behind the newest that a start looks at; older ones are past their windows."""
SETTLING_S = 15.0
"""After a vote was sent and not seen in a block, how long until the next try."""
MAX_PUBLISH_TRIES = 40


class Coordinator(Protocol):
    """What the loop asks of a coordinator; `stannary.client.CoordinatorClient` is one."""

    def leaves(self, step: int) -> LeavesOut:
        """List the leaves of a committed step."""
        ...

    def submission_file(self, expected: Hash) -> bytes:
        """Download a submission file, checked against its hash."""
        ...

    def put_evidence(self, evidence_root: Hash, data: bytes) -> None:
        """Publish an evidence file."""
        ...

    def post_verdicts(self, verdicts: VerdictsIn) -> None:
        """Publish verdicts."""
        ...


class Ledger(Protocol):
    """What the loop asks of the chain; `validator.assembly.ChainLedger` is one."""

    def frozen(self) -> Block:
        """Return the newest block."""
        ...

    def step_count(self, at: Block) -> int:
        """Return how many steps were opened."""
        ...

    def step(self, step: int, at: Block) -> StepState:
        """Return where a step stands."""
        ...

    def panel(self, step: int, at: Block) -> list[Address]:
        """Return the panel of a step."""
        ...

    def own_vote(self, step: int, at: Block) -> Vote:
        """Return this validator's vote on a step."""
        ...

    def policy_root(self, policy_step: int, at: Block) -> Hash:
        """Return the root of a policy step."""
        ...

    def provider_of(self, node: Address, at: Block) -> Address:
        """Return whom a node acts for."""
        ...

    def vote(self, step: int, ballot: Ballot) -> Mined:
        """Vote on chain."""
        ...


class Weights(Protocol):
    """Where policies come from; `validator.weights.Policies` is one."""

    def load(self, policy_step: int, policy_root: Hash) -> tuple[Path, Recompute]:
        """Return a policy step's folder and its model."""
        ...


@dataclass(frozen=True, slots=True)
class Parts:
    """The outside world of one validator, and the rules of its pool."""

    rules: Rules
    vote_seconds: int
    provider: Address
    account: LocalAccount
    card: Card
    ledger: Ledger
    coordinator: Coordinator
    weights: Weights
    open_environment: Callable[[Path], Environment]
    """Make the pool's environment on a policy folder."""
    compute: str
    """What recomputes states, for the evidence file."""
    box: BallotBox


@dataclass(slots=True)
class Work:
    """What has been found out about the step in hand."""

    view: StepView
    until: float
    """When to vote with what there is, on the loop's own clock."""
    judgements: dict[int, Judgement] = field(default_factory=dict)
    own_failures: Counter[int] = field(default_factory=Counter)
    failures: int = 0
    """Tries in a row that brought nothing new."""
    next_try: float = 0.0
    started: float = 0.0


class Validator:
    """One validator: the step in hand, the parts to act with, and what it waits for."""

    def __init__(
        self,
        parts: Parts,
        poll_s: float = 0.5,
        stop: threading.Event | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.parts = parts
        self.stop = stop or threading.Event()
        self.waiting = Waiting(log, clock)
        self._poll_s = poll_s
        self._clock = clock
        self._first: int | None = None
        self._given_up: set[int] = set()
        self._work: Work | None = None
        self._publish_tries: Counter[int] = Counter()
        self._publish_at = 0.0
        self._environment: tuple[Path, Environment] | None = None

    def run(self) -> None:
        """Work until asked to stop. Raises: OperatorError when going on would be of no use."""
        while not self.stop.is_set():
            try:
                self.tick()
            except (NetworkError, ChainError) as error:
                self.waiting.on(f"the chain: {error}")
            self.stop.wait(self._poll_s)
        log.info("stopped")

    def tick(self) -> None:
        """Look at the chain once and do what is due. Raises: NetworkError, ChainError if the chain does not answer."""
        self._publish()
        at = self.parts.ledger.frozen()
        seen = self._look(at)
        if seen.owed is not None:
            self._serve(seen.owed, at)
            return
        self._work = None
        if seen.coming is not None and seen.coming.phase in (Phase.SEEDED, Phase.COMMITTED):
            self._prepare(seen.coming, at)
        self.waiting.on(
            "the first step" if seen.coming is None and seen.first_open == 0
            else f"the panel of step {seen.first_open}"
        )  # fmt: skip

    def _look(self, at: Block) -> duty.Watch:
        ledger = self.parts.ledger
        steps = ledger.step_count(at)
        first = max(0, steps - LOOK_BACK) if self._first is None else self._first
        views = []
        for step in range(first, steps):
            state = ledger.step(step, at)
            panel = tuple(ledger.panel(step, at)) if state.phase is Phase.AUDITED else ()
            has_voted = self.parts.provider in panel and bool(ledger.own_vote(step, at).outcomes)
            views.append(StepView(step, state.phase, state.policy_step, panel, has_voted, state.audited_at))
        seen = duty.watch(views, first, self.parts.provider, frozenset(self._given_up))
        self._first = seen.first_open
        return seen

    def _prepare(self, view: StepView, at: Block) -> None:
        """Load a policy ahead; what fails here is tried again when it counts."""
        try:
            self.parts.weights.load(view.policy_step, self.parts.ledger.policy_root(view.policy_step, at))
        except Exception as error:  # noqa: BLE001  a folder that no loader takes must not end this process
            log.debug("policy step %d cannot be loaded yet: %s", view.policy_step, error)

    def _serve(self, view: StepView, at: Block) -> None:
        now = self._clock()
        if self._work is None or self._work.view.step != view.step:
            window = duty.window_s(view, self.parts.vote_seconds, at.timestamp)
            self._work = Work(view, until=now + window, started=now)
        work = self._work
        if now < work.next_try:
            return
        ballot = self._prepared(view.step, at) or self._judge(work, at)
        if ballot is None:
            self._back_off(work)
            return
        try:
            self.parts.box.put(view.step, ballot)
        except OperatorError as error:  # no vote without its record; the disk may have room again in time
            self.waiting.on(str(error))
            self._back_off(work)
            return
        self._vote(work, ballot)

    def _prepared(self, step: int, at: Block) -> Ballot | None:
        """Return the vote that was written down before, unless other leaves are committed now (fork, new devnet)."""
        ballot = self.parts.box.prepared(step)
        if ballot is None:
            return None
        if ballot.submission_root == self.parts.ledger.step(step, at).submission_root:
            return ballot
        log.error("step %d: the prepared vote is on other leaves than the committed ones; judged anew", step)
        self.parts.box.discard(step)
        return None

    def _judge(self, work: Work, at: Block) -> Ballot | None:
        """Judge what can be judged now; return the vote once all is decided or the window closes."""
        step = work.view.step
        is_late = self._clock() >= work.until
        try:
            state = self.parts.ledger.step(step, at)
            leaves = [_leaf(message) for message in self.parts.coordinator.leaves(step).leaves]
            root = checks.check_root(leaves, state.submission_root, state.leaf_count)
            if not root.is_fine:
                raise AbstainError(root.explanation)
        except (NetworkError, PeerError, AbstainError) as error:
            self.waiting.on(f"the leaves of step {step}: {error}")
            if is_late:
                log.error("step %d: no vote, its leaves cannot be had: %s", step, error)
                self._given_up.add(step)
            return None
        if not checks.is_in_order(leaves):
            log.warning("step %d: the coordinator committed its leaves out of order", step)
        failure = self._judge_leaves(work, state, leaves, at)
        missing = [index for index in range(len(leaves)) if index not in work.judgements]
        if missing and not self._clock() >= work.until:
            self.waiting.on(f"{len(missing)} of {len(leaves)} leaves of step {step}: {failure}")
            return None
        self.waiting.over()
        for index in missing:
            log.error("step %d, leaf %d: abstained, the vote window closes: %s", step, index, failure)
        judgements = [work.judgements.get(index) or _abstention(leaf, failure) for index, leaf in enumerate(leaves)]
        self._tell(work, judgements)
        return Ballot.of(
            judgements,
            pool=self.parts.rules.pool,
            step=step,
            policy_step=state.policy_step,
            card_hash=self.parts.rules.card_hash,
            compute=self.parts.compute,
            account=self.parts.account,
            domain=self.parts.rules.domain,
        )

    def _judge_leaves(self, work: Work, state: StepState, leaves: Sequence[Leaf], at: Block) -> str:
        """Judge every leaf that is not settled; return what was in the way of the last that could not be."""
        step, failure = work.view.step, ""
        rules = self.parts.rules
        facts = StepFacts(
            step=step,
            policy_step=state.policy_step,
            slots=state.slots,
            seeded_at=state.seeded_at,
            seeds=StepSeeds(rules.domain, rules.pool, step, state.seed_beacon),
        )
        providers: dict[Address, Address] = {}

        def provider_of(node: Address) -> Address:
            if node not in providers:
                providers[node] = self.parts.ledger.provider_of(node, at)
            return providers[node]

        screened = screen(leaves, rules, facts, provider_of)
        for index, found in enumerate(screened):
            if found.outcome is Outcome.ABSTAIN:
                failure = found.explanation
            elif not found.is_fine:
                work.judgements[index] = Judgement(leaves[index].submission.struct_hash(), found)
        left = [index for index, found in enumerate(screened) if found.is_fine and index not in work.judgements]
        if not left:
            return failure
        try:
            judge = self._open_judge(facts, state, at)
        except StannaryError as error:
            return f"this validator is not ready: {error}"
        except Exception as error:  # a folder that no loader takes, no memory for it: an abstention, not an end
            log.warning("step %d: the policy cannot be opened", step, exc_info=True)
            return f"this validator is not ready: {type(error).__name__}: {error}"
        for index in left:
            if self.stop.is_set():
                return "asked to stop"
            failure = self._judge_one(work, judge, index, leaves[index]) or failure
        return failure

    def _open_judge(self, facts: StepFacts, state: StepState, at: Block) -> Judge:
        root = self.parts.ledger.policy_root(state.policy_step, at)
        folder, policy = self.parts.weights.load(state.policy_step, root)
        if self._environment is None or self._environment[0] != folder:
            self._environment = (folder, self.parts.open_environment(folder))
        return Judge(self.parts.rules, facts, self.parts.card, self._environment[1], policy)

    def _judge_one(self, work: Work, judge: Judge, index: int, leaf: Leaf) -> str:
        """Judge one leaf; return what was in the way, if anything. Whatever one leaf does, the others go on."""
        name = f"step {work.view.step}, leaf {index}"
        try:
            data = self.parts.coordinator.submission_file(leaf.submission.content_hash)
        except (NetworkError, PeerError) as error:
            return str(error)
        try:
            judgement = judge.judge(leaf, data)
        except Exception as error:  # no failure of ours may become a verdict, or stop the other leaves
            failure = f"this validator failed: {type(error).__name__}: {error}"
            work.own_failures[index] += 1
            log.warning("%s: %s (try %d)", name, failure, work.own_failures[index], exc_info=True)
            if work.own_failures[index] >= duty.OWN_FAILURES:
                log.error("%s: abstained: %s", name, failure)
                work.judgements[index] = _abstention(leaf, failure)
            return failure
        if not judgement.is_decided:
            return judgement.finding.explanation
        work.judgements[index] = judgement
        work.failures = 0
        return ""

    def _tell(self, work: Work, judgements: Sequence[Judgement]) -> None:
        counts = Counter(judgement.finding.outcome.name.lower() for judgement in judgements)
        for index, judgement in enumerate(judgements):
            found = judgement.finding
            if found.outcome in (Outcome.REJECT, Outcome.FAULT):
                log.info(
                    "step %d, leaf %d: %s, %s: %s",
                    work.view.step,
                    index,
                    found.outcome.name.lower(),
                    found.reason.name.lower(),
                    found.explanation,
                )
        log.info(
            "step %d: %d leaves judged in %.1f s: %s",
            work.view.step,
            len(judgements),
            self._clock() - work.started,
            ", ".join(f"{count} {name}" for name, count in sorted(counts.items())),
        )

    def _vote(self, work: Work, ballot: Ballot) -> None:
        step = work.view.step
        try:
            mined = self.parts.ledger.vote(step, ballot)
        except Unmined as error:
            self.waiting.on(f"the vote on step {step}: {error}")
            work.next_try = self._clock() + SETTLING_S
            return
        except Reverted as error:
            # Somebody may have voted with this key, or the step moved on: what the chain says now counts.
            log.error("step %d: the vote was refused: %s", step, error.reason)
            self._settle_refused(work)
            return
        except (NetworkError, ChainError, OperatorError) as error:
            self.waiting.on(f"the vote on step {step}: {error}")
            self._back_off(work)
            return
        log.info("step %d: voted, %d gas", step, mined.gas_used)
        self._work = None
        self._publish()

    def _settle_refused(self, work: Work) -> None:
        step = work.view.step
        at = self.parts.ledger.frozen()
        if self.parts.ledger.own_vote(step, at).outcomes:
            self._work = None
            return
        if self.parts.ledger.step(step, at).phase is not Phase.AUDITED or self._clock() >= work.until:
            log.error("step %d: no vote got through", step)
            self.parts.box.discard(step)
            self._given_up.add(step)
            return
        self._back_off(work)

    def _back_off(self, work: Work) -> None:
        work.failures += 1
        now = self._clock()
        # Never past the end of the window: what is there then must still be voted.
        work.next_try = min(now + duty.back_off_s(work.failures), max(work.until, now + duty.BACK_OFF_FIRST_S))

    def _publish(self) -> None:
        """Publish what was voted and is not published yet, one step a call."""
        if self._clock() < self._publish_at:
            return
        for step in self.parts.box.unpublished():
            ballot = self.parts.box.prepared(step)
            if ballot is None or not self._is_on_chain(step, ballot):
                continue
            try:
                self.parts.coordinator.put_evidence(ballot.evidence_root, ballot.evidence.to_bytes())
                self.parts.coordinator.post_verdicts(VerdictsIn(verdicts=list(ballot.verdicts)))
            except (NetworkError, PeerError) as error:
                self._publish_tries[step] += 1
                self._publish_at = self._clock() + duty.back_off_s(self._publish_tries[step])
                if self._publish_tries[step] >= MAX_PUBLISH_TRIES or _is_final(error):
                    log.error("step %d: the evidence stays unpublished: %s", step, error)
                    self.parts.box.mark_published(step)
                else:
                    log.warning("step %d: evidence not published yet: %s", step, error)
                return
            self.parts.box.mark_published(step)

    def _is_on_chain(self, step: int, ballot: Ballot) -> bool:
        vote = self.parts.ledger.own_vote(step, self.parts.ledger.frozen())
        if vote.outcomes and vote.evidence_root != ballot.evidence_root:
            log.error("step %d: another vote than the prepared one is on chain; nothing is published", step)
            self.parts.box.discard(step)
            return False
        return bool(vote.outcomes)


def _leaf(message: LeafOut) -> Leaf:
    return Leaf(
        message.submission.submission(),
        bytes.fromhex(message.submission.signature[2:]),
        message.lease.lease(),
        bytes.fromhex(message.lease.signature[2:]),
    )


def _abstention(leaf: Leaf, failure: str) -> Judgement:
    return Judgement(leaf.submission.struct_hash(), checks.unavailable(failure))


def _is_final(error: StannaryError) -> bool:
    """Say whether a coordinator's refusal will not change: it may lag behind the chain, which 403 and 409 can mean."""
    return isinstance(error, Malformed) or (isinstance(error, Refused) and error.status not in (403, 408, 409, 429))
