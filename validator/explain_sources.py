"""Gathers what an explanation needs from chain, coordinator and relays, as a validator would, and has it made.

What cannot be had is noted with its reason, and the rest is gathered all the same. Nothing is signed or sent.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from eth_account import Account

from stannary.admission import require_coordinator
from stannary.cards import Card
from stannary.chain import Block, Chain, PoolTerms, Sender, StepHistory
from stannary.client import CoordinatorClient
from stannary.confined import ConfinedReader
from stannary.environments import load_environment
from stannary.errors import (
    AbstainError,
    ChainError,
    Confinement,
    Malformed,
    NetworkError,
    PeerError,
    PolicyError,
    ProofError,
    Unavailable,
)
from stannary.published import committed_leaves
from stannary.types import ZERO_HASH, Address, Hash, parse_address, to_hex
from validator.assembly import ChainCourt, ChainLedger, rules_of
from validator.checks import Leaf, Rules, StepFacts
from validator.explain import (
    Explanation,
    Material,
    Place,
    Recomputed,
    State,
    Words,
    as_numbers,
    members_of,
    panel_decision,
    recompute,
    words_of,
)
from validator.fetching import fetch
from validator.finding import FINE, Finding, unavailable
from validator.inspection import Inspector
from validator.judgement import Computes, Judge
from validator.panel import delivered_leaves, served_leaves
from validator.parts import Parts
from validator.prefill import Prefill
from validator.records import Records
from validator.votes import RulingStore, VoteStore
from validator.weights import FIRST, Policies

if TYPE_CHECKING:
    from validator.explain_cli import ExplainSettings

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(slots=True)
class Missing:
    """What could not be had, each with the reason."""

    said: list[str] = field(default_factory=list)

    def ask(self, what: str, act: Callable[[], T]) -> T | None:
        """Return what `act` returns, or note that it could not be had."""
        try:
            return act()
        except (NetworkError, PeerError, ChainError, PolicyError, ProofError, AbstainError, Confinement) as error:
            self.said.append(f"{what}: {error}")
        except (ArithmeticError, LookupError, MemoryError, OSError, RuntimeError, TypeError, ValueError) as error:
            # A loader or a forward pass may fail in any way: it is this machine that cannot tell.
            log.debug("%s", what, exc_info=True)
            self.said.append(f"{what}: {type(error).__name__}: {error}")
        return None


class PublicCoordinator(Protocol):
    """What is asked of a coordinator beside what a validator's parts ask."""

    def evidence(self, evidence_root: Hash) -> bytes:
        """Read an evidence file."""
        ...


class FolderAStep:
    """Policies, each step in a folder of its own: an old one that is fetched anew must not push another out."""

    def __init__(self, parent: Path, sources: list[str], device: str) -> None:
        self._parent, self._sources, self._device = parent, sources, device

    def fetch(self, policy_step: int, policy_root: Hash) -> Path:
        """Return a policy step's folder, without loading it."""
        return self._of(policy_step).fetch(policy_step, policy_root)

    def load(self, policy_step: int, policy_root: Hash, before_root: Hash | None) -> tuple[Path, Computes]:
        """Return a policy step's folder and what recomputes it."""
        return self._of(policy_step).load(policy_step, policy_root, before_root)

    def _of(self, policy_step: int) -> Policies:
        folder = self._parent / f"{policy_step:08d}"
        return Policies(folder, self._sources, lambda path, dtype: Prefill(path, dtype, self._device))


def gather(settings: ExplainSettings, place: Place, missing: Missing) -> Explanation | None:
    """Fetch what a leaf's explanation needs and make it; None if not even the leaf can be had.

    Raises: OperatorError for settings that fit no chain or coordinator.
    """
    opened = missing.ask("the chain", lambda: Chain.open(settings.rpc_url, settings.deployment))
    if opened is None:
        return None
    chain: Chain = opened
    terms = missing.ask(f"the terms of pool {settings.pool}", lambda: chain.terms_in_force(settings.pool))
    if terms is None:
        return None
    with CoordinatorClient(settings.coordinator_url, chain.ledger_domain, terms.coordinator) as client:
        health = missing.ask("the coordinator", client.health)
        if health is None:
            return None
        require_coordinator(health, chain, settings.pool, terms)
        parts = read_only(settings, chain, terms, client)
        at = chain.frozen()
        count = chain.submission_ledger.step_count_of(settings.pool, at)
        leaf = missing.ask(str(place), lambda: find(parts, place, count, at))
        if leaf is None:
            return None
        return explain_leaf(
            parts, client, leaf, at, missing, quorum=terms.quorum, seated_at=lambda number: chain.block(number)
        )


def read_only(settings: ExplainSettings, chain: Chain, terms: PoolTerms, client: CoordinatorClient) -> Parts:
    """Return a validator's parts for somebody who only looks: the key is made up, and nothing is signed with it."""
    account = Account.create()
    nobody, sender = parse_address(str(account.address)), Sender(chain, account)
    place = chain.deployment.place_of(settings.pool)
    records = Records(settings.run_dir / "votes" / place)
    return Parts(
        rules=rules_of(terms, chain, settings.pool),
        court_domain=chain.court_domain,
        vote_seconds=terms.vote_seconds,
        provider=nobody,
        account=account,
        card_of=lambda card_hash: Card.from_document(client.document(card_hash)),
        ledger=ChainLedger(chain, settings.pool, nobody, sender),
        court=ChainCourt(chain, settings.pool, nobody, sender),
        coordinator=client,
        fetch=fetch,
        read_submission=ConfinedReader().decode_group,
        weights=FolderAStep(
            settings.run_dir / "policies" / place,
            [*settings.relay_urls, settings.coordinator_url],
            settings.device,
        ),
        open_environment=lambda folder: load_environment(client.document(terms.environment_hash), folder),
        compute=f"transformers {FIRST} on {settings.device}",
        votes=VoteStore(records, lambda _step, _vote: ZERO_HASH),
        rulings=RulingStore(records),
    )


def find(parts: Parts, place: Place, steps: int, at: Block) -> Leaf:
    """Return the leaf that is meant among the first `steps` steps.

    Raises: Unavailable if it is nowhere; NetworkError, PeerError, ChainError.
    """
    if place.leaf_hash is None:
        for leaf in _leaves(parts, place.step, at):
            if leaf.submission.slot == place.slot:
                return leaf
        raise Unavailable(f"no leaf stands in slot {place.slot} of step {place.step}")
    for step in reversed(range(steps)):
        try:
            leaves = _leaves(parts, step, at)
        except Unavailable:  # its root is not committed, or never was
            continue
        for leaf in leaves:
            if leaf.submission.struct_hash() == place.leaf_hash:
                return leaf
    raise Unavailable(f"none of the pool's {steps} steps has it")


def explain_leaf(
    parts: Parts,
    client: PublicCoordinator,
    leaf: Leaf,
    at: Block,
    missing: Missing,
    *,
    quorum: int,
    seated_at: Callable[[int], Block],
) -> Explanation | None:
    """Gather what concerns one leaf and explain it; None if the chain does not tell of its step.

    `quorum` is the pool's, `seated_at` returns a block by its number.
    """
    step, slot, ledger = leaf.submission.step, leaf.submission.slot, parts.ledger
    inspector = Inspector(parts, time.monotonic, threading.Event())

    def read_step() -> tuple[StepHistory, Rules, StepFacts]:
        state, history = ledger.step(step, at), ledger.history(step, at)
        return history, inspector.rules(state, at), inspector.facts(step, state, history.taken_beacons)

    read = missing.ask(f"step {step} on chain", read_step)
    if read is None:
        return None
    history, rules, facts = read
    judge, words = _judge(parts, rules, facts, at, missing)
    node, file = leaf.submission.node, to_hex(leaf.submission.content_hash)
    material = Material(
        leaf=leaf,
        rules=rules,
        facts=facts,
        commitment=_commitment(parts, leaf, history, missing),
        provider_of_node=missing.ask(
            f"whom node {node} acted for", lambda: _provider_of(parts, node, history, at, seated_at)
        ),
        data=missing.ask(f"submission file {file}", lambda: inspector.file_of(leaf)),
        judge=judge,
        words=words,
        read=parts.read_submission,
    )
    recomputed = missing.ask("the recomputation", lambda: recompute(material)) or Recomputed(())
    if not missing.said:
        unknown = [check for check in recomputed.checks if check.state is State.UNKNOWN]
        missing.said += [f"check {check.name}: {check.explanation}" for check in unknown]
    members = members_of(history, leaf, recomputed.judgement, client.evidence)
    missing.said += [f"evidence of {member.provider}: {member.missing}" for member in members if member.missing]
    panel = panel_decision(history, slot, quorum) if history.panel else None
    if panel is None:
        missing.said.append(
            "the panel's verdict: " + ("votes are still to come" if history.panel else "the panel is not drawn")
        )
    return Explanation(
        leaf, facts.policy_step, rules.card_hash, recomputed, panel, members, tuple(_notes(history, slot))
    )


def _leaves(parts: Parts, step: int, at: Block) -> list[Leaf]:
    """Return the leaves of a step, those of slots taken on chain included."""
    leaves = served_leaves(parts, step)
    return leaves + delivered_leaves(parts.ledger.history(step, at)) if parts.ledger.step(step, at).taken else leaves


def _judge(parts: Parts, rules: Rules, facts: StepFacts, at: Block, missing: Missing) -> tuple[Judge | None, Words]:
    """Return the judge of the step, None if something that it needs is missing, and how its policy spells tokens."""
    ledger, policy_step = parts.ledger, facts.policy_step

    def load() -> tuple[Path, Computes]:
        root = ledger.policy_root(policy_step, at)
        before = ledger.policy_root(policy_step - 1, at) if policy_step else None
        return parts.weights.load(policy_step, root, before)

    card = missing.ask(f"card {to_hex(rules.card_hash)}", lambda: parts.card_of(rules.card_hash))
    loaded = missing.ask(f"policy step {policy_step}", load)
    if loaded is None:
        return None, as_numbers
    folder, computes = loaded
    words = missing.ask("the policy's tokenizer", lambda: words_of(folder)) or as_numbers
    environment = missing.ask("the environment", lambda: parts.open_environment(folder))
    if card is None or environment is None:
        return None, words
    made = missing.ask("the judge", lambda: Judge(rules, facts, card, environment, computes, parts.read_submission))
    return made, words


def _commitment(parts: Parts, leaf: Leaf, history: StepHistory, missing: Missing) -> Finding:
    """Say whether the served leaves are those under the root on chain."""
    if leaf.lease is None:
        return FINE  # it was delivered on chain

    def check() -> Finding:
        try:
            committed_leaves(history, lambda step: [each.submission for each in served_leaves(parts, step)])
        except Malformed as error:
            return unavailable(str(error))
        return FINE

    return missing.ask("the leaves of the step", check) or unavailable("no leaves are served")


def _provider_of(
    parts: Parts, node: Address, history: StepHistory, at: Block, seated_at: Callable[[int], Block]
) -> Address:
    """Return whom a node acted for when the panel was drawn; as of now where the chain no longer tells."""
    if history.drawn is None:
        return parts.ledger.provider_of(node, at)
    try:
        return parts.ledger.provider_of(node, seated_at(history.drawn.place.block_number))
    except ChainError:
        return parts.ledger.provider_of(node, at)


def _notes(history: StepHistory, slot: int) -> Iterator[str]:
    outcomes = history.outcomes()
    if outcomes is not None:
        yield f"the step is settled, this slot as {outcomes[slot].name.lower()}"
    if slot in history.held:
        yield "a dispute took the leaf out of the settlement: see `stannary dispute status`"
    if slot in history.slashed:
        yield f"its provider was slashed for it: {history.slashed[slot].amount / 1e18:.6f} stake tokens"
