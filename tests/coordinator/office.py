"""A coordinator's office in this process: real database, files and HTTP server; the chain's rows written by hand."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import uvicorn
from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_utils.crypto import keccak
from sqlalchemy import select
from sqlalchemy.orm import Session

from coordinator.app import create_app
from coordinator.desk import Desk
from coordinator.files import FileStore
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.tables import (
    SINGLE_ROW,
    CursorRow,
    NodeRow,
    PanelRow,
    PolicyRow,
    PositionRow,
    StakeRow,
    StepRow,
    TakenRow,
)
from coordinator.tick import WaitBoard
from stannary.chain import PoolTerms
from stannary.client import CoordinatorClient
from stannary.rollout import content_hash
from stannary.signing import body_hash, sign_request
from stannary.structs import Domain, Submission
from stannary.types import ZERO_HASH, Address, Hash, Phase, PoolId, Role, Wei, parse_address
from stannary.wire import LeaseMessage, SubmissionIn, SubmissionMessage
from tests.chains import small_terms

TOKENS = 10**18
POOL = PoolId(7)
START = 1_000_000
"""Pool time at the start of each test; the chain's is the same as long as the pool never stood."""


def account_of(name: str) -> LocalAccount:
    """Return the account of a name."""
    account: LocalAccount = Account.from_key(keccak(text=f"coordinator test {name}"))
    return account


def address_of(name: str) -> Address:
    """Return the address of a name."""
    return parse_address(account_of(name).address)


TERMS = replace(
    small_terms(address_of("token"), address_of("coordinator"), address_of("trainer")),
    price_per_group=1,
    price_per_token=1,
    panel_fee=1,
)
DOMAIN = Domain(31337, address_of("ledger"))


@dataclass(slots=True)
class Office:
    """One coordinator, and hands to move its clocks and its picture of the chain."""

    folder: Path
    terms: PoolTerms = TERMS
    domain: Domain = DOMAIN
    pool_time: int = START
    server_offset_s: float = 0.0
    url: str = ""
    documents: dict[Hash, bytes] = field(default_factory=dict)
    _store: Store | None = None
    _server: uvicorn.Server | None = None
    _thread: threading.Thread | None = None
    _clients: list[CoordinatorClient] = field(default_factory=list)

    def open(self) -> None:
        """Start the server on the folder's database, as a new process would."""
        self._store = Store(f"sqlite:///{self.folder / 'coordinator.sqlite'}")
        self._store.upgrade()
        settings = Settings(run_dir=self.folder, pool=POOL, keystore=self.folder / "none.json")
        app = create_app(self.desk(settings))
        self._server = uvicorn.Server(
            uvicorn.Config(app, port=0, http="h11", ws="none", log_config=None, access_log=False)
        )
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive()
            time.sleep(0.01)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"

    def desk(self, settings: Settings) -> Desk:
        """Return the desk of this office."""
        return Desk(
            domain=self.domain,
            pool=POOL,
            terms=self.terms,
            account=account_of("coordinator"),
            store=self.store,
            files=FileStore(self.folder / "files"),
            documents=self.documents,
            settings=settings,
            board=WaitBoard(time.monotonic),
            clock=self.now,
        )

    def close(self) -> None:
        """End the server and close the database."""
        for client in self._clients:
            client.close()
        self._clients.clear()
        assert self._server is not None
        assert self._thread is not None
        self._server.should_exit = True
        self._thread.join()
        self.store.close()

    @property
    def store(self) -> Store:
        """The database."""
        assert self._store is not None
        return self._store

    def now(self) -> float:
        """Server time."""
        return time.time() + self.server_offset_s

    def see(self, pool_time: int | None = None, *, is_open: bool = True, is_paused: bool = False) -> None:
        """Let the mirror have seen a block of this time just now."""
        self.pool_time = pool_time or self.pool_time

        def work(session: Session) -> None:
            session.merge(
                CursorRow(
                    id=SINGLE_ROW,
                    chain_id=31337,
                    ledger=self.domain.contract,
                    pool=POOL,
                    block_number=self.pool_time,
                    block_hash=Hash(bytes(31) + b"1"),
                    chain_time=self.pool_time,
                    pool_time=self.pool_time,
                    seen_at=self.now(),
                    is_open=is_open,
                    is_paused=is_paused,
                    trainer=self.terms.trainer,
                )
            )

        self.store.write(work)

    def pass_seconds(self, seconds: int) -> None:
        """Move the pool's clock and the servers'; clients go by the latter."""
        self.server_offset_s += seconds
        self.see(self.pool_time + seconds)

    def stake(self, name: str, role: Role = Role.WORKER, tokens: int = 1000, *, is_late: bool = False) -> Address:
        """Give the account of a name a position, before all steps were opened unless it is late."""
        active = Wei(tokens * TOKENS)

        def work(session: Session) -> None:
            session.merge(PositionRow(provider=address_of(name), role=int(role), active=active))
            if role is Role.WORKER and not is_late:
                for step in session.scalars(select(StepRow.step)).all():
                    session.merge(StakeRow(step=step, provider=address_of(name), active=active))

        self.store.write(work)
        return address_of(name)

    def take(self, name: str, slot: int, leaf_hash: Hash | None = None, step: int = 0) -> None:
        """Let a worker have taken a slot of a step on chain."""
        row = TakenRow(step=step, slot=slot, provider=address_of(name), leaf_hash=leaf_hash)
        self.store.write(lambda session: session.merge(row) and None)

    def node(self, name: str, provider: str) -> Address:
        """Let the account of a name act for a provider."""
        row = NodeRow(node=address_of(name), provider=address_of(provider))
        self.store.write(lambda session: session.merge(row) and None)
        return address_of(name)

    def policy(self, policy_step: int, root: Hash) -> None:
        """Let a policy step be published."""
        self.store.write(lambda session: session.merge(PolicyRow(policy_step=policy_step, policy_root=root)) and None)

    def step(
        self,
        step: int = 0,
        slots: int = 8,
        phase: Phase = Phase.SEEDED,
        *,
        panel: tuple[str, ...] = (),
        root: Hash = ZERO_HASH,
        leaf_count: int = 0,
        terms: PoolTerms | None = None,
    ) -> None:
        """Let the chain have a step that was seeded at the start of the test, under these terms or the pool's."""
        offer = (terms or self.terms).offer

        def work(session: Session) -> None:
            session.merge(
                StepRow(
                    step=step,
                    phase=int(phase),
                    policy_step=0,
                    slots=slots,
                    taken=0,
                    opened_block=1,
                    seed_block=2,
                    seeded_at=START if phase >= Phase.SEEDED else 0,
                    audit_block=0,
                    committed_at=0,
                    audit_from=0,
                    reveal_until=0,
                    was_redrawn=False,
                    finalized_at=0,
                    seed_beacon=Hash(keccak(text=f"beacon of {step}")) if phase >= Phase.SEEDED else ZERO_HASH,
                    submission_root=root,
                    leaf_count=leaf_count,
                    outcomes=None,
                    coordinator=offer.coordinator,
                    card_hash=offer.card_hash,
                    price_per_group=Wei(offer.price_per_group),
                    price_per_token=Wei(offer.price_per_token),
                )
            )
            for position in session.scalars(select(PositionRow).where(PositionRow.role == Role.WORKER)).all():
                session.merge(StakeRow(step=step, provider=position.provider, active=position.active))
            for place, name in enumerate(panel):
                session.merge(PanelRow(step=step, place=place, provider=address_of(name)))

        self.store.write(work)

    def client(self, name: str | None = None) -> CoordinatorClient:
        """Return a client that signs as the account of a name."""
        account = None if name is None else account_of(name)
        client = CoordinatorClient(self.url, self.domain, self.terms.coordinator, account)
        self._clients.append(client)
        return client

    def headers(
        self,
        name: str,
        method: str,
        path: str,
        body: bytes,
        *,
        query: str = "",
        time_s: int | None = None,
        domain: Domain | None = None,
        audience: Address | None = None,
    ) -> dict[str, str]:
        """Return the headers that sign a request as the account of a name."""
        return sign_request(
            account_of(name),
            domain or self.domain,
            audience or self.terms.coordinator,
            method=method,
            path=path,
            query=query,
            body=body_hash(body),
            time_s=int(self.now()) if time_s is None else time_s,
        )

    def send(self, name: str, method: str, path: str, body: bytes) -> httpx.Response:
        """Send a signed request with any body."""
        return httpx.request(method, self.url + path, content=body, headers=self.headers(name, method, path, body))

    def submit(self, name: str, lease: LeaseMessage, data: bytes, units: int = 9) -> SubmissionIn:
        """Return the signed leaf of some bytes."""
        terms = lease.lease()
        leaf = Submission(
            POOL,
            terms.step,
            terms.slot,
            terms.provider,
            terms.node,
            units,
            content_hash(data),
            terms.struct_hash(),
        )
        message = SubmissionMessage.of(leaf, leaf.sign(account_of(name), self.domain))
        return SubmissionIn(submission=message, lease=lease)
