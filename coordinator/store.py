"""The database: one engine, short transactions, the same promises on SQLite and PostgreSQL. Knows no table."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError
from sqlalchemy.orm import Session

from stannary.errors import OperatorError, Unreachable

BUSY_TIMEOUT_S = 30.0
"""How long a transaction waits for another one's write lock."""
ATTEMPTS = 8
"""How often a transaction that lost against a concurrent one is run again."""
_WRITES = "stannary_writes"
_RETRYABLE = ("40001", "40P01", "55P03")  # PostgreSQL: serialization failure, deadlock, lock not available
T = TypeVar("T")


class Store:
    """Runs functions in transactions. A function may run more than once, so it must do nothing outside its session."""

    def __init__(self, url: str) -> None:
        is_sqlite = url.startswith("sqlite")
        arguments: dict[str, Any] = {"timeout": BUSY_TIMEOUT_S, "isolation_level": None} if is_sqlite else {}
        self.engine: Engine = create_engine(
            url, connect_args=arguments, pool_size=8, max_overflow=40, pool_timeout=BUSY_TIMEOUT_S
        )
        if is_sqlite:
            event.listen(self.engine, "connect", _prepare_sqlite)
            event.listen(self.engine, "begin", _begin_sqlite)
            self._writer = self.engine.execution_options(**{_WRITES: True})
        else:
            self._writer = self.engine.execution_options(isolation_level="SERIALIZABLE")

    def read(self, work: Callable[[Session], T]) -> T:
        """Return what `work` reads from one snapshot."""
        with Session(self.engine, expire_on_commit=False) as session, session.begin():
            return work(session)

    def write(self, work: Callable[[Session], T]) -> T:
        """Run `work` in a transaction that no other write can interleave with, again if it lost against one.

        Raises: Unreachable if the database stays locked.
        """
        for attempt in range(ATTEMPTS):
            try:
                with Session(self._writer, expire_on_commit=False) as session, session.begin():
                    return work(session)
            except DBAPIError as error:
                if attempt + 1 == ATTEMPTS or not _is_conflict(error):
                    if isinstance(error, OperationalError):
                        raise Unreachable(f"database: {error.orig}") from error
                    raise
                time.sleep(random.uniform(0, 0.02 * (attempt + 1)))  # noqa: S311  spreads the retries, keeps no secret
        raise AssertionError("unreachable")

    def upgrade(self) -> None:
        """Bring the schema to the newest version. Raises: OperatorError if the database is newer than this software."""
        logging.getLogger("alembic").setLevel(logging.WARNING)
        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
        config.attributes["engine"] = self._writer
        try:
            command.upgrade(config, "head")
        except Exception as error:
            raise OperatorError(f"database {self.engine.url.render_as_string()}: cannot upgrade: {error}") from error

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def _prepare_sqlite(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    # A deferred transaction that reads and then writes can lose its snapshot half-way; the write lock comes first.
    is_write = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if is_write else "BEGIN")


def _is_conflict(error: DBAPIError) -> bool:
    if isinstance(error, IntegrityError):
        return True
    return getattr(error.orig, "sqlstate", None) in _RETRYABLE or "database is locked" in str(error.orig)
