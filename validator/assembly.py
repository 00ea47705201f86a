"""Builds a validator's parts from its settings, cheapest checks first: what an operator must do is said early."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from eth_account.signers.local import LocalAccount

from contracts import ContractName
from stannary.accusation import Accusation
from stannary.admission import admit, require_coordinator
from stannary.cards import Card
from stannary.chain import (
    Ballot,
    Block,
    Case,
    Chain,
    JurorBallot,
    JuryTimes,
    Mined,
    Offer,
    PanelTimes,
    PoolTerms,
    Sender,
    StepHistory,
    StepState,
    events,
)
from stannary.chain.names import DISPUTE_COURT, STAKE_MANAGER
from stannary.client import CoordinatorClient
from stannary.commitments import vote_commitment
from stannary.confined import ConfinedReader
from stannary.disputes import Showcase, open_accusation, open_dispute
from stannary.environments import Environment, load_environment
from stannary.errors import SettingsError
from stannary.provider_record import PublicSources
from stannary.structs import Submission
from stannary.types import Address, CaseKind, Hash, Role, Ruling, parse_address, to_hex
from stannary.waiting import until_answered
from validator.accuser import Accuser
from validator.budget import Budget
from validator.checks import Leaf, Rules
from validator.fetching import fetch
from validator.inspection import Inspector
from validator.parts import Parts
from validator.records import Records
from validator.settings import Settings, WatchSettings
from validator.votes import RulingStore, Vote, VoteStore
from validator.watch import Stakes, Watcher
from validator.weights import FIRST, Policies

if TYPE_CHECKING:
    from validator.prefill import Prefill

log = logging.getLogger(__name__)

VOTE_GAS = 500_000
"""Gas that the node's account must be able to pay: a vote committed and revealed, with room."""
SEND_WAIT_S = 60.0
"""How long one transaction is waited for before the chain is looked at again."""
SHOWN = "accusations"
"""The folder of a watcher's run folder that is served to jurors: accusations, and the files of disputed leaves."""
T = TypeVar("T")


class Patiently(Protocol):
    """Does what may have to wait for an answer."""

    def __call__(self, act: Callable[[], T]) -> T:
        """Return what `act` returns once it is answered."""
        ...


class EventLog:
    """Events of one kind, read as the chain grows: only new blocks, and the newest again, which may be replaced."""

    def __init__(self, chain: Chain, contract: ContractName, topics: Sequence[bytes | None]) -> None:
        """`topics` says what is indexed in the events."""
        self._chain = chain
        self._contract = contract
        self._topics = topics
        self._found: list[events.Event] = []
        self._cursor = events.BlockCursor(chain.deployment.deployed_block)
        self._read_at: Hash | None = None
        """The block that was read up to last."""

    def read(self, at: Block) -> Sequence[events.Event]:
        """Return the events up to a block. They are kept range by range: what is broken off goes on from there.

        Raises: NetworkError, ChainError.
        """
        if self._read_at == at.hash:
            return self._found
        self._read_at = None
        for start, end in self._cursor.ranges(at.number):
            found = events.read_events(
                self._chain, self._chain.deployment, start, end, only=[self._contract], topics=self._topics
            )
            self._found = [*(event for event in self._found if event.place.block_number < start), *found]
        self._read_at = at.hash
        return self._found


class ChainCases:
    """The cases of a pool as they were opened, by whom they are about."""

    def __init__(self, chain: Chain, pool: int) -> None:
        self._chain = chain
        self._pool = pool
        self._logs: dict[Address, EventLog] = {}

    def __call__(self, provider: Address, at: Block) -> list[events.CaseOpened]:
        """Return the cases about a provider up to a block. Raises: NetworkError, ChainError."""
        if provider not in self._logs:
            topics = [None, None, self._pool.to_bytes(32), _word(provider)]
            self._logs[provider] = EventLog(self._chain, DISPUTE_COURT, topics)
        return [event for event in self._logs[provider].read(at) if isinstance(event, events.CaseOpened)]


class KeepingInspector(Inspector):
    """An inspector that has the files of the leaves that it judges kept, as long as a jury may ask for them."""

    def __init__(
        self, parts: Parts, clock: Callable[[], float], stop: threading.Event, keep: Callable[[Submission, bytes], None]
    ) -> None:
        super().__init__(parts, clock, stop)
        self._keep = keep

    def file_of(self, leaf: Leaf) -> bytes:
        """Return a leaf's file, and have it kept. Raises: NetworkError, PeerError."""
        data = super().file_of(leaf)
        self._keep(leaf.submission, data)
        return data


class ChainLedger:
    """The chain as the loop sees it: the steps of one pool, one validator."""

    def __init__(self, chain: Chain, pool: int, provider: Address, sender: Sender) -> None:
        self._chain = chain
        self._pool = pool
        self._provider = provider
        self._sender = sender
        self._offers: dict[int, Offer] = {}
        self._nodes: dict[Address, EventLog] = {}
        """The nodes that providers ever took on."""

    def frozen(self) -> Block:
        """Return the newest block."""
        return self._chain.frozen()

    def clock(self, at: Block) -> int:
        """Return the pool's clock. Units: seconds."""
        return self._chain.pool_registry.clock_of(self._pool, at)

    def unsettled(self, at: Block) -> range:
        """Return the steps that are opened and neither finalized nor cancelled."""
        ledger = self._chain.submission_ledger
        return range(ledger.settled_count_of(self._pool, at), ledger.step_count_of(self._pool, at))

    def step(self, step: int, at: Block) -> StepState:
        """Return where a step stands."""
        return self._chain.submission_ledger.step_of(self._pool, step, at)

    def history(self, step: int, at: Block) -> StepHistory:
        """Return what the events of a step say."""
        return self._chain.step_history(self._pool, step, at)

    def settled_histories(self, steps: range, at: Block) -> Iterator[StepHistory]:
        """Yield what the events of settled steps in a row say, up to the settlement of each."""
        return self._chain.settled_histories(self._pool, steps, at)

    def panel(self, step: int, at: Block) -> list[Address]:
        """Return the panel of a step."""
        return self._chain.voting_panel.panel_of(self._pool, step, at)

    def panel_times(self, step: int, at: Block) -> PanelTimes:
        """Return when the panel of a step commits and reveals."""
        return self._chain.voting_panel.panel_times_of(self._pool, step, at)

    def own_ballot(self, step: int, at: Block) -> Ballot:
        """Return how far this validator's vote on a step has come."""
        return self._chain.voting_panel.ballot_of(self._pool, step, self._provider, at)

    def policy_root(self, policy_step: int, at: Block) -> Hash:
        """Return the root of a policy step."""
        return self._chain.submission_ledger.policy_root_of(self._pool, policy_step, at)

    def provider_of(self, node: Address, at: Block) -> Address:
        """Return whom a node acts for."""
        return self._chain.stake_manager.provider_of(node, at)

    def has_acted_for(self, node: Address, provider: Address, at: Block) -> bool:
        """Say whether a node acts, or ever acted, for a provider: whoever it acts for now, its signatures stay."""
        if self.provider_of(node, at) == provider:
            return True
        if provider not in self._nodes:
            self._nodes[provider] = EventLog(self._chain, STAKE_MANAGER, [None, None, _word(provider)])
        return any(
            isinstance(event, events.NodeAdded) and event.node == node for event in self._nodes[provider].read(at)
        )

    def offer(self, number: int, at: Block) -> Offer:
        """Return the offer that a step was opened under; an offer in force never changes."""
        if number not in self._offers:
            self._offers[number] = self._chain.pool_registry.offer_of(self._pool, number, at)
        return self._offers[number]

    def validators(self, at: Block) -> list[Address]:
        """Return the pool's validators."""
        return self._chain.stake_manager.validators_of(self._pool, at)

    def commit_vote(self, step: int, commitment: Hash) -> Mined:
        """Commit a vote."""
        return self._chain.voting_panel.commit_vote(self._sender, self._pool, step, commitment)

    def reveal_vote(self, step: int, vote: Vote) -> Mined:
        """Reveal this validator's vote."""
        return self._chain.voting_panel.reveal_vote(
            self._sender,
            self._pool,
            step,
            self._provider,
            vote.outcomes,
            vote.verdict_root,
            vote.evidence_root,
            vote.salt,
        )


class ChainCourt:
    """The chain as the loop sees it: the cases of one pool, one validator."""

    def __init__(self, chain: Chain, pool: int, provider: Address, sender: Sender) -> None:
        self._chain = chain
        self._pool = pool
        self._provider = provider
        self._sender = sender

    def case_count(self, at: Block) -> int:
        """Return the highest case number."""
        return self._chain.dispute_court.case_count(at)

    def case(self, case_id: int, at: Block) -> Case | None:
        """Return a case of this pool, None for one of another."""
        found = self._chain.dispute_court.case_of(case_id, at)
        return None if found is None or found.pool != self._pool else found

    def location(self, case_id: int, case: Case) -> str:
        """Return where the disputant serves the leaf's file or the accusation, empty if the chain does not tell."""
        start = self._chain.submission_ledger.step_of(self._pool, case.step).opened_block
        found = self._chain.read_events(start, min(case.jury_block, self._chain.frozen().number))
        opened = (event for event in found if isinstance(event, events.CaseOpened) and event.case_id == case_id)
        return next((event.location for event in opened), "")

    def judged_up_to(self, provider: Address, at: Block) -> int:
        """Return the step after the last run for which a worker was convicted."""
        return self._chain.dispute_court.judged_up_to(self._pool, provider, at)

    def is_plant(self, leaf_hash: Hash, at: Block) -> bool:
        """Say whether a leaf is a planted fault that was shown."""
        return self._chain.planted_faults.is_plant(leaf_hash, at)

    def jury(self, case_id: int, at: Block) -> list[Address]:
        """Return the jury that sits."""
        return self._chain.dispute_court.jury_of(case_id, at)

    def jury_times(self, case_id: int, at: Block) -> JuryTimes:
        """Return when a jury commits and reveals."""
        return self._chain.dispute_court.jury_times_of(case_id, at)

    def own_ruling(self, case_id: int, at: Block) -> JurorBallot:
        """Return how far this validator's vote on a case has come."""
        return self._chain.dispute_court.ruling_of(case_id, self._provider, at)

    def draw_jury(self, case_id: int) -> Mined:
        """Draw the jury of a case."""
        return self._chain.dispute_court.draw_jury(self._sender, case_id)

    def commit_ruling(self, case_id: int, commitment: Hash) -> Mined:
        """Commit a juror's vote."""
        return self._chain.dispute_court.commit_ruling(self._sender, case_id, commitment)

    def reveal_ruling(self, case_id: int, ruling: Ruling, salt: Hash) -> Mined:
        """Reveal this validator's vote on a case."""
        return self._chain.dispute_court.reveal_ruling(self._sender, case_id, self._provider, ruling, salt)

    def resolve(self, case_id: int) -> Mined:
        """Count the jury."""
        return self._chain.dispute_court.resolve(self._sender, case_id)


def _word(address: Address) -> bytes:
    """Return an address as it is indexed in an event."""
    return bytes.fromhex(address[2:]).rjust(32, b"\0")


def rules_of(terms: PoolTerms, chain: Chain, pool: int) -> Rules:
    """Return what the checks need of a pool's terms."""
    return Rules(
        domain=chain.ledger_domain,
        pool=pool,
        coordinator=parse_address(terms.coordinator),
        group_size=terms.group_size,
        max_completion_tokens=terms.max_completion_tokens,
        collect_seconds=terms.collect_seconds,
        temperature_milli=terms.temperature_milli,
        protocol_version=terms.protocol_version,
        card_hash=terms.card_hash,
    )


def assemble(settings: Settings, account: LocalAccount, stop: threading.Event) -> Parts:
    """Return the parts of a validator that may vote.

    A chain or coordinator that is away is waited for. Raises: OperatorError, ChainError, PeerError, StopRequested.
    """
    node = parse_address(str(account.address))

    def patiently(act: Callable[[], T]) -> T:
        return until_answered(act, log, stop)

    chain = patiently(lambda: Chain.open(settings.rpc_url, settings.deployment))
    admission = patiently(lambda: admit(chain, settings.pool, node, Role.VALIDATOR, chain.frozen()))
    terms = admission.terms
    sender = Sender(chain, account, wait_s=SEND_WAIT_S, fee_rules=settings.fee_rules)
    patiently(lambda: sender.require_fees(VOTE_GAS))
    log.info(
        "%s validates for %s in pool %d: %.6f stake tokens allocated",
        node,
        admission.provider,
        settings.pool,
        admission.stake_wei / 1e18,
    )
    return _parts(settings, account, chain, terms, admission.provider, sender, patiently)


def assemble_watch(settings: WatchSettings, account: LocalAccount, stop: threading.Event) -> Watcher:
    """Return a watcher of a pool; it needs no stake. Raises: as `assemble`."""

    def patiently(act: Callable[[], T]) -> T:
        return until_answered(act, log, stop)

    chain = patiently(lambda: Chain.open(settings.rpc_url, settings.deployment))
    terms = patiently(lambda: chain.terms_in_force(settings.pool))
    sender = Sender(chain, account, wait_s=SEND_WAIT_S, fee_rules=settings.fee_rules)
    patiently(lambda: sender.require_fees(VOTE_GAS))
    parts = _parts(settings, account, chain, terms, parse_address(str(account.address)), sender, patiently)

    showcase = showcase_of(settings)

    def open_case(leaf: Leaf, committed: Sequence[Leaf], kind: CaseKind) -> int:
        step, slot = leaf.submission.step, leaf.submission.slot
        leaves = [each.submission for each in committed]
        shown = None if showcase is None else showcase.show_leaf(leaf.submission.struct_hash())
        location, served = shown or (settings.location or settings.coordinator_url, None)
        return open_dispute(
            chain, sender, settings.pool, step, slot, leaves, kind=kind, location=location, served=served
        )

    def accuse(accusation: Accusation) -> int:
        if settings.accusations_url is None or showcase is None:
            raise SettingsError(f"where is {settings.run_dir / SHOWN} served? give --accusations-url")
        return open_accusation(chain, sender, accusation, show_accusation(showcase, accusation))

    def forget(*leaves: Hash) -> None:
        for leaf_hash in leaves:
            if showcase is not None:
                showcase.forget(leaf_hash)

    client = CoordinatorClient(settings.coordinator_url, chain.ledger_domain, parse_address(terms.coordinator))
    bond, budget = chain.dispute_court.bond_of(settings.pool), Budget(int(settings.max_bonds * 1e18))
    cases = ChainCases(chain, settings.pool)
    inspector = (
        Inspector(parts, time.monotonic, stop)
        if showcase is None
        else KeepingInspector(parts, time.monotonic, stop, showcase.keep)
    )
    accuser = Accuser(
        parts,
        inspector,
        PublicSources(chain, client, settings.pool),
        accuse,
        budget,
        cases=cases,
        quorum=terms.quorum,
        bond_wei=2 * bond,
        challenge_seconds=terms.challenge_seconds,
        clock=time.monotonic,
        forget=lambda accusation: forget(*(leaf.leaf_hash for leaf in accusation.leaves)),
    )
    return Watcher(
        parts,
        inspector,
        open_case,
        Stakes(terms.quorum, terms.challenge_seconds, bond, budget),
        cases=cases,
        share=settings.share,
        poll_s=settings.poll_s,
        stop=stop,
        accuser=accuser,
        seed=settings.seed,
        forget=lambda leaf: forget(leaf.submission.struct_hash()),
    )


def showcase_of(settings: WatchSettings) -> Showcase | None:
    """Return what the watcher shows to jurors, None if nothing of its run folder is served."""
    url = settings.accusations_url
    return None if url is None else Showcase(settings.run_dir / SHOWN, settings.run_dir / "kept", url)


def show_accusation(showcase: Showcase, accusation: Accusation) -> str:
    """Serve an accusation, and beside it the files of its leaves that were kept; return where the accusation is.

    Raises: OperatorError when the disk refuses.
    """
    for leaf in accusation.leaves:
        showcase.show_leaf(leaf.leaf_hash)
    return showcase.show(f"{to_hex(accusation.evidence_hash())}.json", accusation.to_bytes())


def _parts(
    settings: Settings,
    account: LocalAccount,
    chain: Chain,
    terms: PoolTerms,
    provider: Address,
    sender: Sender,
    patiently: Patiently,
) -> Parts:
    client = CoordinatorClient(settings.coordinator_url, chain.ledger_domain, parse_address(terms.coordinator), account)
    require_coordinator(patiently(client.health), chain, settings.pool, terms)
    cards: dict[Hash, Card] = {}

    def card_of(card_hash: Hash) -> Card:
        if card_hash not in cards:
            cards[card_hash] = Card.from_document(client.document(card_hash))
        return cards[card_hash]

    patiently(lambda: card_of(terms.card_hash))
    environment = patiently(lambda: client.document(terms.environment_hash))

    def open_environment(folder: Path) -> Environment:
        return load_environment(environment, folder)

    def open_policy(folder: Path, dtype: str) -> Prefill:
        from validator.prefill import Prefill  # torch is loaded when there is something to judge

        return Prefill(folder, dtype, settings.device)

    def seal(step: int, vote: Vote) -> Hash:
        return vote_commitment(
            chain.panel_domain,
            settings.pool,
            step,
            provider,
            vote.outcomes,
            vote.verdict_root,
            vote.evidence_root,
            vote.salt,
        )

    place = chain.deployment.place_of(settings.pool)
    records = Records(settings.run_dir / "votes" / place)
    return Parts(
        rules=rules_of(terms, chain, settings.pool),
        court_domain=chain.court_domain,
        vote_seconds=terms.vote_seconds,
        provider=provider,
        account=account,
        card_of=card_of,
        ledger=ChainLedger(chain, settings.pool, provider, sender),
        court=ChainCourt(chain, settings.pool, provider, sender),
        coordinator=client,
        fetch=fetch,
        read_submission=ConfinedReader().decode_group,
        weights=Policies(
            settings.run_dir / "policies" / place,
            [*settings.relay_urls, settings.coordinator_url],
            open_policy,
        ),
        open_environment=open_environment,
        compute=f"transformers {FIRST} on {settings.device}",
        votes=VoteStore(records, seal),
        rulings=RulingStore(records),
    )
