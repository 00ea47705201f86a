"""A false accusation, by script: somebody with money and no stake says that an honest worker's accepted leaf is bad.

It uses what anyone can: the chain's events, the leaves that the coordinator serves, and the court. It is meant to fail:
a jury judges the leaf again, the accuser loses its bond, and the worker is paid all the same.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from eth_utils.crypto import keccak

from demo.report import History, checked_leaves
from stannary.chain import Chain, LeafOpening, Sender, StepHistory
from stannary.client import CoordinatorClient
from stannary.errors import Reverted
from stannary.structs import Submission
from stannary.types import Address, Hash, Outcome, PoolId, to_hex
from stannary.verdict import tally, unpack_outcomes

CLAIM = "the activations of this group are not those of the policy"
"""What the accuser says; nothing stands behind it."""
_NOT_YET = ("TooEarly", "PanelBelowQuorum")


@dataclass(slots=True)
class Accuser:
    """Waits for an accepted leaf of an honest worker and disputes it, once."""

    chain: Chain
    pool: PoolId
    coordinator: CoordinatorClient
    sender: Sender
    accused: Collection[Address]
    """Workers that are honest."""
    quorum: int
    first_step: int
    case_id: int | None = None
    _next: int = field(init=False)

    def __post_init__(self) -> None:
        self._next = self.first_step

    def act(self, history: History) -> str | None:
        """Dispute a leaf if there is one whose challenge window is open; say what was done.

        Raises: what chain and coordinator raise, but for being early or late.
        """
        if self.case_id is not None:
            return None
        step = StepHistory.of(history.events, self.pool, self._next)
        if step.finalized is not None or step.is_cancelled:
            self._next += 1
            return None
        if step.committed is None or not step.panel or len(step.votes) < len(step.panel):
            return None
        leaf = self._choose(step)
        if leaf is None:
            self._next += 1
            return None
        try:
            self.case_id = self._challenge(step, leaf)
        except Reverted as error:
            if error.name not in _NOT_YET:
                self._next += 1
            return None
        return f"case {self.case_id}: slot {leaf.slot} of step {leaf.step}, accepted, is said to be bad"

    def _leaves(self, step: StepHistory) -> list[Submission]:
        assert step.opened is not None
        assert step.committed is not None
        served = checked_leaves(self.coordinator, step.committed, step.opened.slots)
        return [leaf.submission.submission() for leaf in served]

    def _choose(self, step: StepHistory) -> Submission | None:
        ballots = [unpack_outcomes(vote, step.positions) for vote in step.votes_by_seat() if vote]
        for leaf in self._leaves(step):
            outcome = tally([ballot[leaf.slot] for ballot in ballots], self.quorum)
            if leaf.provider in self.accused and outcome is Outcome.ACCEPT:
                return leaf
        return None

    def _challenge(self, step: StepHistory, leaf: Submission) -> int:
        assert step.opened is not None
        return self.chain.dispute_court.challenge(
            self.sender,
            self.pool,
            leaf.step,
            LeafOpening.of(self._leaves(step), step.opened.slots, leaf.slot),
            step.votes_by_seat(),
            Hash(keccak(text=CLAIM)),
            f"{self.coordinator.base_url}/v1/submissions/{to_hex(leaf.content_hash)}",
        )
