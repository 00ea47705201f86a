"""The chain as every role sees it: one connection, one deployment, a typed wrapper for each contract.

Reads take the block that they are read at, writes take the sender. web3 is known to `connection` alone.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from stannary.chain.connection import Block, Call, Connection, Mined, NodeRefused
from stannary.chain.deployment import Deployment, deploy
from stannary.chain.dispute_court import Case, DisputeCourt, JurorBallot, JuryTimes
from stannary.chain.events import Event, StepCancelled, StepFinalized, block_ranges, read_events
from stannary.chain.history import StepHistory
from stannary.chain.names import SUBMISSION_LEDGER, VOTING_PANEL
from stannary.chain.payout_vault import Earnings, Escrow, PayoutVault
from stannary.chain.planted_faults import PlantedFaults
from stannary.chain.pool_registry import Offer, PendingOffer, PoolRegistry, PoolTerms
from stannary.chain.sender import Sender, Submitted
from stannary.chain.stake_manager import Exit, Position, StakeManager, Standing
from stannary.chain.submission_ledger import LeafOpening, Rates, StepState, SubmissionLedger, TakenSlot
from stannary.chain.token import Token
from stannary.chain.voting_panel import Ballot, PanelTimes, VotingPanel
from stannary.errors import Unavailable
from stannary.structs import Domain
from stannary.types import Phase

__all__ = [
    "Ballot",
    "Block",
    "Call",
    "Case",
    "Chain",
    "Connection",
    "Deployment",
    "DisputeCourt",
    "Earnings",
    "Escrow",
    "Event",
    "Exit",
    "JurorBallot",
    "JuryTimes",
    "LeafOpening",
    "Mined",
    "NodeRefused",
    "Offer",
    "PanelTimes",
    "PayoutVault",
    "PendingOffer",
    "PlantedFaults",
    "PoolRegistry",
    "PoolTerms",
    "Position",
    "Rates",
    "Sender",
    "StakeManager",
    "Standing",
    "StepHistory",
    "StepState",
    "SubmissionLedger",
    "Submitted",
    "TakenSlot",
    "Token",
    "VotingPanel",
    "deploy",
]


class Chain(Connection):
    """A connection and the deployment on it."""

    def __init__(self, rpc_url: str, deployment: Deployment) -> None:
        super().__init__(rpc_url)
        self.deployment = deployment
        self.token = Token(self, deployment.token)
        self.stake_manager = StakeManager(self, deployment.stake_manager)
        self.pool_registry = PoolRegistry(self, deployment.pool_registry)
        self.submission_ledger = SubmissionLedger(self, deployment.submission_ledger)
        self.payout_vault = PayoutVault(self, deployment.payout_vault)
        self.dispute_court = DisputeCourt(self, deployment.dispute_court)
        self.voting_panel = VotingPanel(self, deployment.voting_panel)
        self.planted_faults = PlantedFaults(self, deployment.planted_faults)

    @classmethod
    def open(cls, rpc_url: str, deployment_file: Path) -> Self:
        """Connect, and check that the chain holds the contracts of the file. Raises: SettingsError, Unreachable."""
        chain = cls(rpc_url, Deployment.read(deployment_file))
        chain.deployment.verify(chain)
        return chain

    @property
    def ledger_domain(self) -> Domain:
        """What leases, receipts, submissions, verdicts and requests are signed for."""
        return self.deployment.ledger_domain

    @property
    def stake_domain(self) -> Domain:
        """What a node's consent is signed for."""
        return self.deployment.stake_domain

    @property
    def court_domain(self) -> Domain:
        """What jurors' rulings are committed to for."""
        return self.deployment.court_domain

    @property
    def panel_domain(self) -> Domain:
        """What votes are committed to for."""
        return self.deployment.panel_domain

    @property
    def plants_domain(self) -> Domain:
        """What planted faults are committed to for."""
        return self.deployment.plants_domain

    def terms_at(self, pool: int, step: int, at: Block | None = None) -> PoolTerms:
        """Return a pool's terms with the offer in place that a step was opened under.

        Raises: Unavailable if the step is not open yet; Reverted if there is no such pool.
        """
        state = self.submission_ledger.step_of(pool, step, at)
        if state.phase is Phase.NONE:
            raise Unavailable(f"step {step} of pool {pool} is not open on chain yet")
        return self.pool_registry.terms_under(pool, state.offer, at)

    def terms_in_force(self, pool: int, at: Block | None = None) -> PoolTerms:
        """Return a pool's terms for a step opened now. Raises: Reverted if there is no such pool."""
        return self.pool_registry.terms_in_force(pool, at)

    def step_history(self, pool: int, step: int, at: Block | None = None) -> StepHistory:
        """Return all that happened to a step up to a block. Raises: Unavailable if it is not open yet; NodeRefused."""
        block = at or self.frozen()
        state = self.submission_ledger.step_of(pool, step, block)
        if state.phase is Phase.NONE:
            raise Unavailable(f"step {step} of pool {pool} is not open on chain yet")
        found = read_events(
            self,
            self.deployment,
            state.opened_block,
            block.number,
            only=[SUBMISSION_LEDGER, VOTING_PANEL],
            topics=[None, pool.to_bytes(32), step.to_bytes(32)],
        )
        return StepHistory.of(found, pool, step)

    def settled_histories(self, pool: int, steps: range, at: Block) -> Iterator[StepHistory]:
        """Yield what happened to settled steps in a row, each up to its settlement; every block is read once.

        What disputes changed afterwards is left out. Raises: Unreachable; NodeRefused.
        """
        waiting = deque(steps)
        found: defaultdict[int, list[Event]] = defaultdict(list)
        opened = self.submission_ledger.step_of(pool, steps.start, at).opened_block
        only, topics = [SUBMISSION_LEDGER, VOTING_PANEL], [None, pool.to_bytes(32)]
        for start, end in block_ranges(opened, at.number):
            for event in read_events(self, self.deployment, start, end, only=only, topics=topics):
                step: int | None = getattr(event, "step", None)
                if step is not None and waiting[0] <= step < steps.stop:
                    found[step].append(event)
            while waiting and any(isinstance(event, StepFinalized | StepCancelled) for event in found[waiting[0]]):
                step = waiting.popleft()
                yield StepHistory.of(found.pop(step), pool, step)
            if not waiting:
                return
        for step in waiting:
            yield StepHistory.of(found.pop(step, []), pool, step)

    def read_events(self, from_block: int, to_block: int) -> list[Event]:
        """Return all events of the contracts in a range, both ends included, in (block, log index) order."""
        return read_events(self, self.deployment, from_block, to_block)
