"""Alembic's entry: runs the migrations on the engine that `coordinator.store` hands over."""

from __future__ import annotations

from alembic import context

from coordinator.tables import Base

with context.config.attributes["engine"].connect() as connection:
    context.configure(connection=connection, target_metadata=Base.metadata, transactional_ddl=True)
    with context.begin_transaction():
        context.run_migrations()
