"""The end of a run: everybody claims what the chain owes them, each all of it in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from stannary.chain import Chain, Sender
from stannary.types import PoolId


def claim_all(chain: Chain, pool: PoolId, senders: Sequence[Sender]) -> None:
    """Let each account claim what it has earned and not claimed; the accounts do so side by side."""
    owed = [sender for sender in senders if chain.payout_vault.earnings_of(pool, sender.address).unclaimed]
    with ThreadPoolExecutor(max(len(owed), 1)) as threads:
        claims = [threads.submit(chain.payout_vault.claim, sender, pool, sender.address) for sender in owed]
        for claim in claims:
            claim.result()
