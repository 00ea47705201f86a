"""The chain as every role sees it: one connection, one deployment, a typed wrapper for each contract.

Reads take the block that they are read at, writes take the sender. web3 is known to `connection` alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Self

from stannary.chain.connection import Block, Call, Connection, Mined, NodeRefused
from stannary.chain.deployment import Deployment, deploy
from stannary.chain.events import Event, read_events
from stannary.chain.payout_vault import Escrow, PayoutVault
from stannary.chain.pool_registry import PoolRegistry, PoolTerms
from stannary.chain.sender import Sender, Submitted
from stannary.chain.stake_manager import Exit, Position, StakeManager
from stannary.chain.submission_ledger import LeafOpening, StepState, SubmissionLedger, Vote
from stannary.chain.token import Token
from stannary.structs import Domain

__all__ = [
    "Block",
    "Call",
    "Chain",
    "Connection",
    "Deployment",
    "Escrow",
    "Event",
    "Exit",
    "LeafOpening",
    "Mined",
    "NodeRefused",
    "PayoutVault",
    "PoolRegistry",
    "PoolTerms",
    "Position",
    "Sender",
    "StakeManager",
    "StepState",
    "SubmissionLedger",
    "Submitted",
    "Token",
    "Vote",
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

    def read_events(self, from_block: int, to_block: int) -> list[Event]:
        """Return all events of the contracts in a range, both ends included, in (block, log index) order."""
        return read_events(self, self.deployment, from_block, to_block)
