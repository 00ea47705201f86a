"""Judging leaves with what this machine can get: files, policy, card, environment. A failure of ours is no verdict.

What cannot be had is tried again until time is up; what fails on this side thrice is left undecided. A long piece of
work is cut into slices, so that a vote that is due to be revealed never waits for it.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from stannary.chain import Block, StepState
from stannary.environments import Environment
from stannary.errors import AbstainError, Malformed, NetworkError, PeerError, StannaryError
from stannary.rollout import content_hash
from stannary.seeds import StepSeeds
from stannary.types import Address, Hash, Outcome, to_hex
from validator import duty
from validator.checks import Leaf, Rules, StepFacts
from validator.finding import unavailable
from validator.judgement import Judge, Judgement, screen
from validator.parts import Parts

log = logging.getLogger(__name__)

SLICE_S = 3.0
"""After so long the loop looks at the chain again; a leaf that was begun is finished first."""


@dataclass(slots=True)
class Work:
    """What has been found out about the step or case in hand."""

    key: duty.Key
    until: float
    """When to commit what there is, on the loop's own clock."""
    paused_s: int
    """How far the pool's clock was behind the chain's when `until` was set."""
    started: float
    leaves: tuple[Leaf, ...] | None = None
    """None until they are known to be the committed ones."""
    taken_beacons: Mapping[int, Hash] = field(default_factory=dict)
    """Of the slots that were taken on chain."""
    screened: set[int] = field(default_factory=set)
    """Slots whose signatures and leases were found right."""
    judgements: dict[int, Judgement] = field(default_factory=dict)
    """By slot."""
    absent: set[int] = field(default_factory=set)
    """Slots whose file was to be had nowhere at the last try."""
    own_failures: Counter[int] = field(default_factory=Counter)
    failure: str = ""
    """What was in the way of the last leaf that could not be judged."""
    is_sliced: bool = False
    """Whether work was broken off only to look at the chain."""
    failures: int = 0
    """Tries in a row that brought nothing new."""
    next_try: float = 0.0

    @property
    def missing(self) -> list[int]:
        """Slots of leaves that are not judged."""
        return [leaf.submission.slot for leaf in self.leaves or () if leaf.submission.slot not in self.judgements]

    def back_off(self, now: float) -> None:
        """Wait before the next try, but never past the end: what is there then must still be committed."""
        self.failures += 1
        latest = self.until if now < self.until else now + duty.BACK_OFF_LATE_S
        self.next_try = min(now + duty.back_off_s(self.failures), latest)


class Inspector:
    """Judges leaves. Holds the environment of the policy that is loaded."""

    def __init__(self, parts: Parts, clock: Callable[[], float], stop: threading.Event) -> None:
        self._parts = parts
        self._clock = clock
        self._stop = stop
        self._environment: tuple[Path, Environment] | None = None

    def rules(self, state: StepState, at: Block) -> Rules:
        """Return the pool's rules with the coordinator and the card that a step was opened under."""
        offer = self._parts.ledger.offer(state.offer, at)
        return replace(self._parts.rules, coordinator=offer.coordinator, card_hash=offer.card_hash)

    def facts(self, step: int, state: StepState, taken_beacons: Mapping[int, Hash]) -> StepFacts:
        """Return what the checks need to know of a step."""
        rules = self._parts.rules
        return StepFacts(
            step=step,
            policy_step=state.policy_step,
            slots=state.slots,
            seeded_at=state.seeded_at,
            seeds=StepSeeds(rules.domain, rules.pool, step, state.seed_beacon, taken_beacons),
            audit_beacon=state.audit_beacon,
            taken=state.taken,
        )

    def inspect(self, work: Work, rules: Rules, facts: StepFacts, at: Block, *, is_jury: bool = False) -> None:
        """Judge the leaves in hand that are not judged yet, as far as one slice of time goes."""
        assert work.leaves is not None
        work.is_sliced = False
        work.absent.clear()
        begun = self._clock()
        left = self._screen(work, work.leaves, rules, facts, at)
        if not left:
            return
        try:
            judge = self._open(rules, facts, at, is_jury=is_jury)
        except StannaryError as error:
            work.failure = f"this validator is not ready: {error}"
            return
        except Exception as error:  # a folder that no loader takes, no memory for it: an abstention, not an end
            log.warning("step %d: the policy cannot be opened", facts.step, exc_info=True)
            work.failure = f"this validator is not ready: {type(error).__name__}: {error}"
            return
        for leaf in left:
            if self._stop.is_set():
                work.failure = "asked to stop"
                return
            if self._clock() - begun > SLICE_S:
                work.is_sliced = True
                return
            self._judge(work, judge, leaf)

    def file_of(self, leaf: Leaf) -> bytes:
        """Return a leaf's file: from the coordinator, or else from the place that was named for it.

        Raises: NetworkError, PeerError.
        """
        expected = leaf.submission.content_hash
        try:
            return self._parts.coordinator.submission_file(expected)
        except (NetworkError, PeerError) as error:
            if not leaf.location:
                raise
            log.debug("%s; asking %s", error, leaf.location)
        data = self._parts.fetch(leaf.location)
        if content_hash(data) != expected:
            raise Malformed(f"file at {leaf.location}", expected=to_hex(expected), got=to_hex(content_hash(data)))
        return data

    def _screen(self, work: Work, leaves: Sequence[Leaf], rules: Rules, facts: StepFacts, at: Block) -> list[Leaf]:
        """Judge what needs no file; return the leaves that do."""
        providers: dict[Address, Address] = {}

        def provider_of(node: Address) -> Address:
            if node not in providers:
                providers[node] = self._parts.ledger.provider_of(node, at)
            return providers[node]

        new = [leaf for leaf in leaves if leaf.submission.slot not in work.judgements.keys() | work.screened]
        for leaf, found in zip(new, screen(new, rules, facts, provider_of), strict=True):
            if found.outcome is Outcome.ABSTAIN:
                work.failure = found.explanation
            elif found.is_fine:
                work.screened.add(leaf.submission.slot)
            else:
                work.judgements[leaf.submission.slot] = Judgement(leaf.submission.struct_hash(), found)
        return [leaf for leaf in leaves if leaf.submission.slot in work.screened - work.judgements.keys()]

    def _open(self, rules: Rules, facts: StepFacts, at: Block, *, is_jury: bool) -> Judge:
        ledger, policy_step = self._parts.ledger, facts.policy_step
        root = ledger.policy_root(policy_step, at)
        before = ledger.policy_root(policy_step - 1, at) if policy_step else None
        folder, computes = self._parts.weights.load(policy_step, root, before)
        if self._environment is None or self._environment[0] != folder:
            self._environment = (folder, self._parts.open_environment(folder))
        card = self._parts.card_of(rules.card_hash)
        environment = self._environment[1]
        return Judge(rules, facts, card, environment, computes, self._parts.read_submission, is_jury=is_jury)

    def _judge(self, work: Work, judge: Judge, leaf: Leaf) -> None:
        """Judge one leaf. Whatever it does, the others go on."""
        slot = leaf.submission.slot
        name = f"step {judge.facts.step}, slot {slot}"
        leaf_hash, attempts = leaf.submission.struct_hash(), self._parts.votes.attempts
        try:
            data = self._file(work, leaf)
            if data is None:
                return
            ended = attempts.begun(leaf_hash)
            with attempts.counted(leaf_hash):
                if ended >= duty.OWN_FAILURES:
                    raise AbstainError(f"this process ended {ended} times while it judged this leaf")
                judgement = judge.judge(leaf, data)
        except AbstainError as error:
            self._abstain(work, leaf, name, str(error))
            return
        except Exception as error:  # no failure of ours may become a verdict, or stop the other leaves
            work.failure = f"this validator failed: {type(error).__name__}: {error}"
            work.own_failures[slot] += 1
            log.warning("%s: %s (try %d)", name, work.failure, work.own_failures[slot], exc_info=True)
            if work.own_failures[slot] >= duty.OWN_FAILURES:
                self._abstain(work, leaf, name, work.failure)
            return
        if not judgement.is_decided:
            work.failure = judgement.finding.explanation
            return
        work.judgements[slot] = judgement
        work.failures = 0

    def _file(self, work: Work, leaf: Leaf) -> bytes | None:
        """Return a leaf's file, None if it is to be had nowhere now."""
        try:
            return self.file_of(leaf)
        except (NetworkError, PeerError) as error:
            work.failure = str(error)
            work.absent.add(leaf.submission.slot)
            return None

    def _abstain(self, work: Work, leaf: Leaf, name: str, failure: str) -> None:
        log.error("%s: abstained: %s", name, failure)
        work.failure = failure
        work.judgements[leaf.submission.slot] = abstention(leaf, failure)


def abstention(leaf: Leaf, failure: str) -> Judgement:
    """Return the judgement on a leaf that this validator could not decide."""
    return Judgement(leaf.submission.struct_hash(), unavailable(failure))
