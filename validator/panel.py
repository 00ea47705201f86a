"""A seat on a step's panel: judge the leaves, commit to the vote, reveal it when it is time.

Whatever fails on this side (chain, coordinator, weights, disk, its own code) is waited out within the commit window and
ends in abstention, never in a verdict and never in silence.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable

from stannary.chain import Block, StepHistory, StepState
from stannary.errors import AbstainError, ChainError, NetworkError, OperatorError, PeerError, Reverted, Unmined
from stannary.types import Outcome, Phase
from stannary.waiting import Waiting
from stannary.wire import LeafOut
from validator import checks
from validator.checks import Leaf
from validator.duty import Seat, StepView, Window
from validator.inspection import Inspector, Work, abstention
from validator.judgement import Judgement
from validator.parts import Parts
from validator.votes import Vote

log = logging.getLogger(__name__)

SETTLING_S = 15.0
"""After a transaction was sent and not seen in a block, how long until the next try."""


class PanelDuty:
    """What a validator does about steps; the work in hand is the loop's."""

    def __init__(self, parts: Parts, inspector: Inspector, waiting: Waiting, clock: Callable[[], float]) -> None:
        self._parts = parts
        self._inspector = inspector
        self._waiting = waiting
        self._clock = clock

    def look(self, at: Block) -> list[StepView]:
        """Return the unsettled steps, oldest first."""
        return [self._view(step, at) for step in self._parts.ledger.unsettled(at)]

    def serve(self, view: StepView, work: Work, at: Block) -> bool:
        """Judge, write down and commit; say whether nothing is left to commit."""
        state = self._parts.ledger.step(view.step, at)
        vote = self._prepared(view.step, state) or self._judge(view.step, state, work, at)
        if vote is None:
            if not work.is_sliced:
                work.back_off(self._clock())
            return False
        try:
            self._parts.votes.put(view.step, vote)
        except OperatorError as error:  # no commitment without its record; the disk may have room again in time
            self._waiting.on(str(error))
            work.back_off(self._clock())
            return False
        return self._commit(view, work, vote)

    def reveal(self, view: StepView, at: Block) -> bool:
        """Reveal what was committed; say whether that is done.

        Raises: NetworkError, ChainError when the chain does not answer.
        """
        ledger = self._parts.ledger
        vote = self._parts.votes.find(view.step, ledger.own_ballot(view.step, at).word)
        if vote is None:  # revealed since, or another block than the one that was looked at
            return False
        try:
            mined = ledger.reveal_vote(view.step, vote)
        except Reverted as error:
            if ledger.own_ballot(view.step, ledger.frozen()).is_revealed:
                return True
            log.warning("step %d: the vote cannot be revealed now: %s", view.step, error.reason)
            return False
        except (ChainError, OperatorError) as error:
            self._waiting.on(f"the reveal of step {view.step}: {error}")
            return False
        log.info("step %d: vote revealed, %d gas", view.step, mined.gas_used)
        return True

    def _view(self, step: int, at: Block) -> StepView:
        ledger = self._parts.ledger
        state = ledger.step(step, at)
        seat = None
        if state.phase is Phase.AUDITED and self._parts.provider in ledger.panel(step, at):
            times, ballot = ledger.panel_times(step, at), ledger.own_ballot(step, at)
            is_open = ballot.is_committed and not ballot.is_revealed
            seat = Seat(
                Window(times.commit_until, times.reveal_from, times.reveal_until),
                ballot.is_committed,
                ballot.is_revealed,
                is_recorded=is_open and self._parts.votes.find(step, ballot.word) is not None,
            )
        return StepView(step, state.phase, state.policy_step, seat)

    def _prepared(self, step: int, state: StepState) -> Vote | None:
        """Return the vote that was written down before, unless other leaves are committed now (fork, new devnet)."""
        vote = self._parts.votes.prepared(step, state.submission_root)
        return vote if vote is not None and len(vote.outcomes) == (state.positions + 3) // 4 else None

    def _judge(self, step: int, state: StepState, work: Work, at: Block) -> Vote | None:
        """Judge what can be judged now; return the vote once all is decided or the window closes."""
        rules = self._parts.rules
        try:
            if work.leaves is None:
                self._take_leaves(step, state, work, at)
        except (NetworkError, PeerError, AbstainError) as error:
            self._waiting.on(f"the leaves of step {step}: {error}")
            if self._clock() < work.until:
                return None
            log.error("step %d: abstained on all of it, its leaves cannot be had: %s", step, error)
            return Vote.blank(state.positions, state.submission_root)
        assert work.leaves is not None
        own_rules = self._inspector.rules(state, at)
        self._inspector.inspect(work, own_rules, self._inspector.facts(step, state, work.taken_beacons), at)
        missing = work.missing
        if missing and self._clock() < work.until:
            if not work.is_sliced:
                self._waiting.on(f"{len(missing)} of {len(work.leaves)} leaves of step {step}: {work.failure}")
            return None
        self._waiting.over()
        judgements = dict(work.judgements)
        for leaf in work.leaves:
            slot = leaf.submission.slot
            if slot not in judgements:
                log.error("step %d, slot %d: abstained, the commit window closes: %s", step, slot, work.failure)
                judgements[slot] = abstention(leaf, work.failure)
        self._tell(step, work, judgements)
        return Vote.of(
            judgements,
            positions=state.positions,
            submission_root=state.submission_root,
            pool=rules.pool,
            step=step,
            policy_step=state.policy_step,
            card_hash=own_rules.card_hash,
            compute=self._parts.compute,
            account=self._parts.account,
            domain=rules.domain,
        )

    def _take_leaves(self, step: int, state: StepState, work: Work, at: Block) -> None:
        """Note the leaves of a step. Raises: NetworkError, PeerError, AbstainError if others are served or paid."""
        leaves = served_leaves(self._parts, step)
        found = checks.check_commitment(
            leaves, state.slots, self._parts.rules.max_units, state.submission_root, state.settlement_hash
        )
        if not found.is_fine:
            raise AbstainError(found.explanation)
        if state.taken:
            history = self._parts.ledger.history(step, at)
            leaves += delivered_leaves(history)
            work.taken_beacons = history.taken_beacons
        work.leaves = tuple(leaves)

    def _tell(self, step: int, work: Work, judgements: dict[int, Judgement]) -> None:
        counts = Counter(judgement.finding.outcome.name.lower() for judgement in judgements.values())
        for slot, judgement in sorted(judgements.items()):
            found = judgement.finding
            if found.outcome in (Outcome.REJECT, Outcome.FAULT):
                outcome, reason = found.outcome.name.lower(), found.reason.name.lower()
                log.info("step %d, slot %d: %s, %s: %s", step, slot, outcome, reason, found.explanation)
        log.info(
            "step %d: %d leaves judged in %.1f s: %s",
            step,
            len(judgements),
            self._clock() - work.started,
            ", ".join(f"{count} {name}" for name, count in sorted(counts.items())),
        )

    def _commit(self, view: StepView, work: Work, vote: Vote) -> bool:
        step, ledger = view.step, self._parts.ledger
        commitment = self._parts.votes.commitment(step, vote)
        try:
            mined = ledger.commit_vote(step, commitment)
        except Unmined as error:
            self._waiting.on(f"the commitment of step {step}: {error}")
            work.next_try = self._clock() + SETTLING_S
            return False
        except Reverted as error:
            # An earlier try may have got through, or the step moved on: what the chain says now counts.
            ballot = ledger.own_ballot(step, ledger.frozen())
            if ballot.is_committed:
                return True
            log.error("step %d: the commitment was refused: %s", step, error.reason)
            work.back_off(self._clock())
            return False
        except (NetworkError, ChainError, OperatorError) as error:
            self._waiting.on(f"the commitment of step {step}: {error}")
            work.back_off(self._clock())
            return False
        log.info("step %d: vote committed, %d gas", step, mined.gas_used)
        return True


def served_leaves(parts: Parts, step: int) -> list[Leaf]:
    """Return the leaves that the coordinator serves. Raises: NetworkError, PeerError."""
    return [_leaf(message) for message in parts.coordinator.leaves(step).leaves]


def delivered_leaves(history: StepHistory) -> list[Leaf]:
    """Return the leaves of slots that were taken on chain, as they were delivered, in slot order."""
    return [
        Leaf(event.leaf, event.signature, None, location=event.location)
        for _, event in sorted(history.delivered.items())
    ]


def _leaf(message: LeafOut) -> Leaf:
    return Leaf(
        message.submission.submission(),
        bytes.fromhex(message.submission.signature[2:]),
        message.lease.lease(),
        bytes.fromhex(message.lease.signature[2:]),
    )
