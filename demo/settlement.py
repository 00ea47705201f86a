"""The end of a run: everybody claims what the chain owes them, with openings built from the coordinator's leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from demo.report import History, checked_leaves
from stannary.chain import Call, Chain, LeafOpening, Sender, events
from stannary.client import CoordinatorClient
from stannary.merkle import merkle_proof
from stannary.types import Address, Outcome, PoolId


def claim_payouts(
    chain: Chain, pool: PoolId, coordinator: CoordinatorClient, senders: Mapping[Address, Sender]
) -> None:
    """Let each provider claim its accepted leaves, a transaction a step."""
    owed: dict[Address, list[tuple[int, list[LeafOpening]]]] = {address: [] for address in senders}
    history = History.read(chain)
    for finalized in history.of(events.StepFinalized, pool=pool):
        for provider, openings in _accepted(chain, pool, coordinator, history, finalized.step).items():
            owed[provider].append((finalized.step, openings))

    def calls_of(provider: Address) -> list[Call]:
        structs = [(step, [opening.as_struct() for opening in openings]) for step, openings in owed[provider]]
        return [chain.payout_vault.encode("claim", pool, step, leaves) for step, leaves in structs]

    _send(senders, calls_of)


def claim_fees(chain: Chain, pool: PoolId, senders: Mapping[Address, Sender]) -> None:
    """Let each validator claim the fees of the finalized steps that it voted on."""
    history = History.read(chain)
    final = {finalized.step for finalized in history.of(events.StepFinalized, pool=pool)}

    def calls_of(provider: Address) -> list[Call]:
        voted = [vote.step for vote in history.of(events.Voted, pool=pool, provider=provider) if vote.step in final]
        return [chain.payout_vault.encode("claimFee", pool, step, provider) for step in voted]

    _send(senders, calls_of)


def _accepted(
    chain: Chain, pool: PoolId, coordinator: CoordinatorClient, history: History, step: int
) -> dict[Address, list[LeafOpening]]:
    committed = history.of(events.RootCommitted, pool=pool, step=step)[0]
    submissions = [leaf.submission.submission() for leaf in checked_leaves(coordinator, committed)]
    hashes = [submission.struct_hash() for submission in submissions]
    found: dict[Address, list[LeafOpening]] = {}
    for index, submission in enumerate(submissions):
        if chain.submission_ledger.outcome_of(pool, step, index) == Outcome.ACCEPT:
            opening = LeafOpening(submission, index, tuple(merkle_proof(hashes, index)))
            found.setdefault(submission.provider, []).append(opening)
    return found


def _send(senders: Mapping[Address, Sender], calls_of: Callable[[Address], list[Call]]) -> None:
    """Send each account's calls one behind the other and wait for all; the accounts do so side by side."""

    def send(provider: Address) -> None:
        sender = senders[provider]
        for submitted in [sender.submit(call) for call in calls_of(provider)]:
            sender.wait(submitted)

    with ThreadPoolExecutor(max(len(senders), 1)) as threads:
        for done in [threads.submit(send, provider) for provider in senders]:
            done.result()
