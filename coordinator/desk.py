"""What every route works with, put together once at start: who this coordinator is, and its store, files and clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated

from eth_account.signers.local import LocalAccount
from fastapi import Depends, Request
from sqlalchemy.orm import Session

from coordinator import queries
from coordinator.files import FileStore
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.tick import WaitBoard
from stannary.chain import PoolTerms
from stannary.errors import Refused, Unavailable
from stannary.structs import Domain
from stannary.types import Address, Hash, PoolId, parse_address


@dataclass(frozen=True, slots=True)
class Desk:
    """The coordinator of one pool, without its HTTP."""

    domain: Domain
    pool: PoolId
    terms: PoolTerms
    """As the pool was created; what an offer changes is read for each step."""
    account: LocalAccount
    """The key of the pool's coordinator: signs leases and receipts."""
    store: Store
    files: FileStore
    documents: Mapping[Hash, bytes]
    """Canonical JSON by hash."""
    settings: Settings
    board: WaitBoard
    clock: Callable[[], float]
    """Server time in unix seconds."""

    @property
    def coordinator(self) -> Address:
        """The address of the key."""
        return parse_address(str(self.account.address))

    def fresh_now(self, session: Session) -> queries.Now:
        """Return the mirrored point of the chain. Raises: Refused with 503 if it was looked at too long ago."""
        try:
            now = queries.now(session)
        except Unavailable as error:
            raise Refused("chain time", status=503, reason=f"{error}; try again") from None
        age_s = self.clock() - now.seen_at
        if age_s > self.settings.stale_after_s:
            raise Refused("chain time", status=503, reason=f"the chain was last seen {age_s:.0f} s ago; try again")
        return now


def desk_of(request: Request) -> Desk:
    """Return the desk of the application that a request came to."""
    desk: Desk = request.app.state.desk
    return desk


DeskDep = Annotated[Desk, Depends(desk_of)]
