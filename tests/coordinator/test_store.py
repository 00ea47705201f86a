"""coordinator.store and tables: exclusive writes, exact amounts, a schema equal to its migrations (A28)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import select
from sqlalchemy.exc import StatementError
from sqlalchemy.orm import Session

from coordinator.store import Store
from coordinator.tables import Base, PositionRow, StaleRow
from stannary.types import Wei
from tests.coordinator.office import address_of


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A new database."""
    store = Store(f"sqlite:///{tmp_path / 'test.sqlite'}")
    store.upgrade()
    yield store
    store.close()


def test_schema_after_migrations_is_that_of_the_tables(store: Store) -> None:
    store.upgrade()
    with store.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []


def test_amounts_beyond_64_bits_are_exact_and_sorted(store: Store) -> None:
    amounts = [Wei(2**256 - 1), Wei(0), Wei(10**19), Wei(9), Wei(2**255)]

    def fill(session: Session) -> None:
        session.add_all(
            PositionRow(provider=address_of(str(index)), role=0, active=amount) for index, amount in enumerate(amounts)
        )

    store.write(fill)
    found = store.read(lambda session: session.scalars(select(PositionRow.active).order_by(PositionRow.active)).all())
    assert list(found) == sorted(amounts)
    above = select(PositionRow.active).where(PositionRow.active >= Wei(10**19))
    assert len(store.read(lambda session: session.scalars(above).all())) == 3


@pytest.mark.parametrize("amount", [-1, 2**256])
def test_amount_that_is_no_uint256_is_refused(store: Store, amount: int) -> None:
    row = PositionRow(provider=address_of("x"), role=0, active=Wei(amount))
    with pytest.raises(StatementError, match="uint256"):
        store.write(lambda session: session.add(row))


def test_writes_that_read_first_lose_no_update(tmp_path: Path, store: Store) -> None:
    """Two engines, as two processes have: a read that leads to a write is never interleaved with another."""
    other = Store(f"sqlite:///{tmp_path / 'test.sqlite'}")
    provider = address_of("counter")
    store.write(lambda session: session.add(PositionRow(provider=provider, role=0, active=Wei(0))))

    def increment(session: Session) -> None:
        row = session.get(PositionRow, (provider, 0))
        assert row is not None
        row.active = Wei(row.active + 1)

    barrier = threading.Barrier(8)

    def run(index: int) -> None:
        barrier.wait()
        for _ in range(25):
            (store, other)[index % 2].write(increment)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(run, range(8)))
    other.close()
    row = store.read(lambda session: session.get(PositionRow, (provider, 0)))
    assert row is not None
    assert row.active == 200


def test_write_that_fails_leaves_nothing(store: Store) -> None:
    def work(session: Session) -> None:
        session.add(StaleRow(key="half"))
        session.flush()
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        store.write(work)
    assert store.read(lambda session: session.get(StaleRow, "half")) is None
    assert store.engine.pool.checkedout() == 0  # type: ignore[attr-defined]
