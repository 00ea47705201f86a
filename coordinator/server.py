"""Puts a coordinator together from its settings and runs it until a signal. The only place that opens everything."""

from __future__ import annotations

import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import uvicorn
from eth_account.signers.local import LocalAccount

import stannary
from coordinator.app import create_app
from coordinator.desk import Desk
from coordinator.files import FileStore
from coordinator.mirror import Mirror, check_identity
from coordinator.poster import Poster
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.tick import Background, WaitBoard
from stannary import wallet
from stannary.chain import Chain, Offer, PoolTerms, Sender
from stannary.documents import MAX_DOCUMENT_BYTES, document_hash, parse_document
from stannary.errors import ChainError, Malformed, NetworkError, OperatorError, SettingsError, StannaryError
from stannary.types import Hash, PoolId, parse_address, to_hex
from stannary.waiting import Waiting

log = logging.getLogger(__name__)

SEND_WAIT_S = 20.0
"""How long one transaction is waited for before the chain is looked at again."""
RETRY_S = 2.0
KEEP_ALIVE_S = 30
CONNECTIONS = 2000
"""Connections at once; more are answered with 503."""
STOP_WAIT_S = 10
FEES_GAS = 1_000_000
"""Gas that the key should be able to pay for when it starts: a few of the dearest calls."""


def serve(settings: Settings) -> None:
    """Run a coordinator in this process until SIGTERM or SIGINT. Raises: OperatorError when it cannot start."""
    with _signals() as stop:
        account = wallet.load(settings.keystore, wallet.read_password(settings.password_file, str(settings.keystore)))
        chain = _when_reachable(lambda: Chain.open(settings.rpc_url, settings.deployment), stop)
        if chain is None:
            return
        desk = open_desk(settings, chain, account)
        listener = _listen(settings)
        try:
            app = create_app(desk, background(desk, chain))
            server = _Server(
                uvicorn.Config(
                    app,
                    http="h11",  # the pure parser: it bounds headers and holds back a sender whose body is not read
                    ws="none",
                    log_config=None,
                    access_log=False,
                    server_header=False,
                    timeout_keep_alive=KEEP_ALIVE_S,
                    timeout_graceful_shutdown=STOP_WAIT_S,
                    limit_concurrency=CONNECTIONS,
                )
            )
            port = listener.getsockname()[1]
            log.info("pool %d on chain %d: serving http://%s:%d", desk.pool, desk.domain.chain_id, settings.host, port)
            _run(server, listener, stop)
            log.info("stopped")
        finally:
            listener.close()
            desk.store.close()


def open_desk(settings: Settings, chain: Chain, account: LocalAccount) -> Desk:
    """Check the pool against key and documents, open database and files. Raises: OperatorError, ChainError."""
    pool = PoolId(settings.pool)
    terms = chain.pool_registry.terms_of(pool)
    offers = living_offers(chain, pool)
    check_fit(terms, offers, account)
    documents = read_documents(settings.documents, terms, offers)
    try:
        settings.run_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"run directory {settings.run_dir}: {error.strerror or error}") from None
    store = Store(settings.url)
    store.upgrade()
    check_identity(store, chain.deployment.chain_id, chain.deployment.submission_ledger, pool)
    return Desk(
        domain=chain.ledger_domain,
        pool=pool,
        terms=terms,
        account=account,
        store=store,
        files=FileStore(settings.run_dir / "files"),
        documents=documents,
        settings=settings,
        board=WaitBoard(time.monotonic),
        clock=time.time,
    )


def background(desk: Desk, chain: Chain) -> Background:
    """Return the background work of a desk."""
    settings = desk.settings
    mirror = Mirror(chain, desk.store, desk.pool, blocks_per_read=settings.blocks_per_read, clock=desk.clock)
    sender = Sender(chain, desk.account, wait_s=SEND_WAIT_S, fee_rules=settings.fee_rules)
    poster = Poster(chain, sender, desk.store, desk.pool, desk.terms, time.monotonic)
    return Background(mirror, poster, desk.board, settings.poll_s)


def living_offers(chain: Chain, pool: int) -> list[Offer]:
    """Return the offers that steps are or will be worked under: in force, of unsettled steps, and announced.

    Raises: ChainError, NetworkError.
    """
    at = chain.frozen()
    registry, ledger = chain.pool_registry, chain.submission_ledger
    numbers = {registry.offer_number_of(pool, at)}
    for step in range(ledger.settled_count_of(pool, at), ledger.step_count_of(pool, at)):
        numbers.add(ledger.step_of(pool, step, at).offer)
    found = [registry.offer_of(pool, number, at) for number in sorted(numbers, reverse=True)]
    pending = registry.pending_offer_of(pool, at)
    return found if pending is None else [*found, pending.offer]


def check_fit(terms: PoolTerms, offers: Sequence[Offer], account: LocalAccount) -> None:
    """Check that the key is the coordinator's of one of the offers and the version ours. Raises: SettingsError."""
    coordinators = [offer.coordinator for offer in offers]
    if parse_address(account.address) not in coordinators:
        raise SettingsError(f"the pool's coordinator is {coordinators[0]}, the keystore is of {account.address}")
    if terms.protocol_version != stannary.PROTOCOL_VERSION:
        raise SettingsError(
            f"the pool speaks protocol version {terms.protocol_version}, this software {stannary.PROTOCOL_VERSION}"
        )


def read_documents(paths: Sequence[Path], terms: PoolTerms, offers: Sequence[Offer]) -> Mapping[Hash, bytes]:
    """Return documents by hash. Raises: SettingsError for one that cannot be read or that the pool does not name."""
    wanted = {**{offer.card_hash: "card" for offer in offers}, terms.environment_hash: "environment"}
    found: dict[Hash, bytes] = {}
    for path in paths:
        try:
            with path.open("rb") as file:
                data = file.read(MAX_DOCUMENT_BYTES + 1)
            name = document_hash(parse_document(data, str(path)))
        except OSError as error:
            raise SettingsError(f"document {path}: {error.strerror or error}") from None
        except Malformed as error:
            raise SettingsError(f"document {error}") from None
        if name not in wanted:
            raise SettingsError(f"document {path} has the hash {to_hex(name)}, which the pool does not name")
        found[name] = data
    for name, what in wanted.items():
        if name not in found:
            log.warning("the pool's %s %s is not served here: give its file with --document", what, to_hex(name))
    return found


def checks(settings: Settings) -> Iterator[tuple[str, object]]:
    """Return what a start needs, one after the other: what was found, or the error that stands in the way."""
    try:
        password = wallet.read_password(settings.password_file, str(settings.keystore))
        account = wallet.load(settings.keystore, password)
        yield "wallet", account.address
        chain = Chain.open(settings.rpc_url, settings.deployment)
        yield "chain", f"{chain.chain_id}, block {chain.frozen().number}"
        terms = chain.pool_registry.terms_of(settings.pool)
        offers = living_offers(chain, settings.pool)
        check_fit(terms, offers, account)
        yield "pool", settings.pool
    except StannaryError as error:
        yield "wallet, chain and pool", error
        return
    try:
        Sender(chain, account, fee_rules=settings.fee_rules).require_fees(FEES_GAS)
        yield "fees", "enough for the next calls"
    except StannaryError as error:
        yield "fees", error
    try:
        found = read_documents(settings.documents, terms, offers)
        yield "documents", f"{len(found)} of {len({offer.card_hash for offer in offers}) + 1}"
    except StannaryError as error:
        yield "documents", error


def _listen(settings: Settings) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise SettingsError(f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}") from None
    return listener


class _Stop:
    """Whether a signal has come, and what else it should end."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self.server: uvicorn.Server | None = None

    def set(self) -> None:
        """Stop."""
        self.event.set()
        if self.server is not None:
            self.server.should_exit = True


@contextmanager
def _signals() -> Iterator[_Stop]:
    """Turn SIGTERM and SIGINT into a stop; a second one ends the process at once."""
    stop = _Stop()

    def note(number: int, _frame: FrameType | None) -> None:
        if stop.event.is_set():
            raise KeyboardInterrupt
        log.info("%s: stopping", signal.Signals(number).name)
        stop.set()

    before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Server(uvicorn.Server):  # type: ignore[misc]  # uvicorn is not followed
    """A server that leaves signals to us, so that a stop ends with exit code 0."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _run(server: uvicorn.Server, listener: socket.socket, stop: _Stop) -> None:
    stop.server = server
    if stop.event.is_set():
        return
    server.run(sockets=[listener])
    if not server.started:
        raise OperatorError("the server did not start; the log says why")


def _when_reachable(open_chain: Callable[[], Chain], stop: _Stop) -> Chain | None:
    waiting = Waiting(log)
    while not stop.event.is_set():
        try:
            chain = open_chain()
        except (NetworkError, ChainError) as error:
            waiting.on(f"the chain ({error})")
            stop.event.wait(RETRY_S)
        else:
            waiting.over()
            return chain
    return None
