"""The outside world of one validator, as its daemon sees it: chain, coordinator, weights, and its own records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from eth_account.signers.local import LocalAccount

from stannary.cards import Card
from stannary.chain import Ballot, Block, Case, JurorBallot, JuryTimes, Mined, Offer, PanelTimes, StepHistory, StepState
from stannary.environments import Environment
from stannary.structs import Domain
from stannary.types import Address, Hash, Ruling
from stannary.wire import LeavesOut, VerdictsIn
from validator.checks import Read, Rules
from validator.judgement import Computes
from validator.votes import RulingStore, Vote, VoteStore


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
    """What the loop asks of the chain about steps; `validator.assembly.ChainLedger` is one."""

    def frozen(self) -> Block:
        """Return the newest block."""
        ...

    def clock(self, at: Block) -> int:
        """Return the pool's clock. Units: seconds."""
        ...

    def unsettled(self, at: Block) -> range:
        """Return the steps that are opened and neither finalized nor cancelled."""
        ...

    def step(self, step: int, at: Block) -> StepState:
        """Return where a step stands."""
        ...

    def history(self, step: int, at: Block) -> StepHistory:
        """Return what the events of a step say."""
        ...

    def settled_histories(self, steps: range, at: Block) -> Iterator[StepHistory]:
        """Yield what the events of settled steps in a row say, up to the settlement of each."""
        ...

    def panel(self, step: int, at: Block) -> list[Address]:
        """Return the panel of a step."""
        ...

    def panel_times(self, step: int, at: Block) -> PanelTimes:
        """Return when the panel of a step commits and reveals."""
        ...

    def own_ballot(self, step: int, at: Block) -> Ballot:
        """Return how far this validator's vote on a step has come."""
        ...

    def policy_root(self, policy_step: int, at: Block) -> Hash:
        """Return the root of a policy step."""
        ...

    def provider_of(self, node: Address, at: Block) -> Address:
        """Return whom a node acts for."""
        ...

    def has_acted_for(self, node: Address, provider: Address, at: Block) -> bool:
        """Say whether a node acts, or ever acted, for a provider."""
        ...

    def offer(self, number: int, at: Block) -> Offer:
        """Return the offer that a step was opened under."""
        ...

    def validators(self, at: Block) -> list[Address]:
        """Return the pool's validators."""
        ...

    def commit_vote(self, step: int, commitment: Hash) -> Mined:
        """Commit a vote."""
        ...

    def reveal_vote(self, step: int, vote: Vote) -> Mined:
        """Reveal this validator's vote."""
        ...


class Court(Protocol):
    """What the loop asks of the chain about cases; `validator.assembly.ChainCourt` is one."""

    def case_count(self, at: Block) -> int:
        """Return the highest case number."""
        ...

    def case(self, case_id: int, at: Block) -> Case | None:
        """Return a case of this pool, None for one of another."""
        ...

    def location(self, case_id: int, case: Case) -> str:
        """Return where the disputant serves the leaf's file or the accusation, empty if the chain does not tell."""
        ...

    def judged_up_to(self, provider: Address, at: Block) -> int:
        """Return the step after the last run for which a worker was convicted."""
        ...

    def is_plant(self, leaf_hash: Hash, at: Block) -> bool:
        """Say whether a leaf is a planted fault that was shown."""
        ...

    def jury(self, case_id: int, at: Block) -> list[Address]:
        """Return the jury that sits."""
        ...

    def jury_times(self, case_id: int, at: Block) -> JuryTimes:
        """Return when a jury commits and reveals."""
        ...

    def own_ruling(self, case_id: int, at: Block) -> JurorBallot:
        """Return how far this validator's vote on a case has come."""
        ...

    def draw_jury(self, case_id: int) -> Mined:
        """Draw the jury of a case."""
        ...

    def commit_ruling(self, case_id: int, commitment: Hash) -> Mined:
        """Commit a juror's vote."""
        ...

    def reveal_ruling(self, case_id: int, ruling: Ruling, salt: Hash) -> Mined:
        """Reveal this validator's vote on a case."""
        ...

    def resolve(self, case_id: int) -> Mined:
        """Count the jury."""
        ...


class Weights(Protocol):
    """Where policies come from; `validator.weights.Policies` is one."""

    def fetch(self, policy_step: int, policy_root: Hash) -> Path:
        """Return a policy step's folder, without loading it."""
        ...

    def load(self, policy_step: int, policy_root: Hash, before_root: Hash | None) -> tuple[Path, Computes]:
        """Return a policy step's folder and what recomputes it; `before_root` is that of the policy step before."""
        ...


@dataclass(frozen=True, slots=True)
class Parts:
    """The outside world of one validator, and the rules of its pool."""

    rules: Rules
    """As of the offer in force at start; each step has the coordinator and the card of its own."""
    court_domain: Domain
    vote_seconds: int
    provider: Address
    account: LocalAccount
    card_of: Callable[[Hash], Card]
    """Return the card of a hash. Raises: NetworkError, PeerError."""
    ledger: Ledger
    court: Court
    coordinator: Coordinator
    fetch: Callable[[str], bytes]
    """Fetch what an address serves. Raises: NetworkError, PeerError."""
    read_submission: Read
    """Read a submission file where it can do no harm. Raises: Malformed, ConfinementError."""
    weights: Weights
    open_environment: Callable[[Path], Environment]
    """Make the pool's environment on a policy folder."""
    compute: str
    """What recomputes states, for the evidence file."""
    votes: VoteStore
    rulings: RulingStore
