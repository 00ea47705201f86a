"""The first schema: the mirror of the chain, and what a coordinator promises and is given."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "blocks",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("hash", sa.LargeBinary(length=32), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_blocks")),
    )
    op.create_table(
        "cases",
        sa.Column("case_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("slot", sa.BigInteger(), nullable=False),
        sa.Column("provider", sa.String(length=42), nullable=False),
        sa.Column("kind", sa.BigInteger(), nullable=False),
        sa.Column("phase", sa.BigInteger(), nullable=False),
        sa.Column("ruling", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("case_id", name=op.f("pk_cases")),
    )
    op.create_index(op.f("ix_cases_step"), "cases", ["step"], unique=False)
    op.create_table(
        "commitments",
        sa.Column("step", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("submission_root", sa.LargeBinary(length=32), nullable=False),
        sa.Column("leaf_count", sa.BigInteger(), nullable=False),
        sa.Column("slot_table_root", sa.LargeBinary(length=32), nullable=False),
        sa.PrimaryKeyConstraint("step", name=op.f("pk_commitments")),
    )
    op.create_table(
        "cursor",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("chain_id", sa.BigInteger(), nullable=False),
        sa.Column("ledger", sa.String(length=42), nullable=False),
        sa.Column("pool", sa.BigInteger(), nullable=False),
        sa.Column("block_number", sa.BigInteger(), nullable=False),
        sa.Column("block_hash", sa.LargeBinary(length=32), nullable=False),
        sa.Column("chain_time", sa.BigInteger(), nullable=False),
        sa.Column("pool_time", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", sa.Float(precision=53), nullable=False),
        sa.Column("is_open", sa.Boolean(), nullable=False),
        sa.Column("is_paused", sa.Boolean(), nullable=False),
        sa.Column("trainer", sa.String(length=42), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cursor")),
    )
    op.create_table(
        "events",
        sa.Column("block_number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("log_index", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("block_hash", sa.LargeBinary(length=32), nullable=False),
        sa.Column("transaction", sa.LargeBinary(length=32), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=True),
        sa.Column("slot", sa.BigInteger(), nullable=True),
        sa.Column("arguments", sa.Text(), nullable=False),
        sa.Column("stale_key", sa.String(length=96), nullable=False),
        sa.PrimaryKeyConstraint("block_number", "log_index", name=op.f("pk_events")),
    )
    op.create_index(op.f("ix_events_step"), "events", ["step"], unique=False)
    op.create_table(
        "evidence",
        sa.Column("evidence_root", sa.LargeBinary(length=32), nullable=False),
        sa.Column("provider", sa.String(length=42), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("content_hash", sa.LargeBinary(length=32), nullable=False),
        sa.PrimaryKeyConstraint("evidence_root", "provider", name=op.f("pk_evidence")),
    )
    op.create_table(
        "heartbeats",
        sa.Column("node", sa.String(length=42), nullable=False),
        sa.Column("provider", sa.String(length=42), nullable=False),
        sa.Column("engine", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=64), nullable=False),
        sa.Column("policy_step", sa.BigInteger(), nullable=True),
        sa.Column("tokens_per_s", sa.Float(precision=53), nullable=True),
        sa.Column("last_seen_at", sa.Float(precision=53), nullable=False),
        sa.PrimaryKeyConstraint("node", name=op.f("pk_heartbeats")),
    )
    op.create_table(
        "leases",
        sa.Column("lease_hash", sa.LargeBinary(length=32), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("slot", sa.BigInteger(), nullable=False),
        sa.Column("issue", sa.BigInteger(), nullable=False),
        sa.Column("pool", sa.BigInteger(), nullable=False),
        sa.Column("policy_step", sa.BigInteger(), nullable=False),
        sa.Column("provider", sa.String(length=42), nullable=False),
        sa.Column("node", sa.String(length=42), nullable=False),
        sa.Column("valid_from", sa.BigInteger(), nullable=False),
        sa.Column("valid_until", sa.BigInteger(), nullable=False),
        sa.Column("max_units", sa.BigInteger(), nullable=False),
        sa.Column("card_hash", sa.LargeBinary(length=32), nullable=False),
        sa.Column("protocol_version", sa.BigInteger(), nullable=False),
        sa.Column("signature", sa.LargeBinary(), nullable=False),
        sa.Column("expires_at", sa.Float(precision=53), nullable=False),
        sa.PrimaryKeyConstraint("lease_hash", name=op.f("pk_leases")),
        sa.UniqueConstraint("step", "slot", "issue", name=op.f("uq_leases_step")),
    )
    op.create_index("ix_leases_node_step", "leases", ["node", "step"], unique=False)
    op.create_table(
        "nodes",
        sa.Column("node", sa.String(length=42), nullable=False),
        sa.Column("provider", sa.String(length=42), nullable=True),
        sa.PrimaryKeyConstraint("node", name=op.f("pk_nodes")),
    )
    op.create_table(
        "nonces",
        sa.Column("address", sa.String(length=42), nullable=False),
        sa.Column("nonce", sa.String(length=64), nullable=False),
        sa.Column("expires_at", sa.Float(precision=53), nullable=False),
        sa.PrimaryKeyConstraint("address", "nonce", name=op.f("pk_nonces")),
    )
    op.create_index(op.f("ix_nonces_expires_at"), "nonces", ["expires_at"], unique=False)
    op.create_table(
        "panels",
        sa.Column("step", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("place", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("provider", sa.String(length=42), nullable=False),
        sa.PrimaryKeyConstraint("step", "place", name=op.f("pk_panels")),
    )
    op.create_index(op.f("ix_panels_provider"), "panels", ["provider"], unique=False)
    op.create_table(
        "policies",
        sa.Column("policy_step", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("policy_root", sa.LargeBinary(length=32), nullable=False),
        sa.PrimaryKeyConstraint("policy_step", name=op.f("pk_policies")),
    )
    op.create_table(
        "positions",
        sa.Column("provider", sa.String(length=42), nullable=False),
        sa.Column("role", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("active", sa.String(length=78), nullable=False),
        sa.PrimaryKeyConstraint("provider", "role", name=op.f("pk_positions")),
    )
    op.create_table(
        "stale",
        sa.Column("key", sa.String(length=96), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_stale")),
    )
    op.create_table(
        "steps",
        sa.Column("step", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("phase", sa.BigInteger(), nullable=False),
        sa.Column("policy_step", sa.BigInteger(), nullable=False),
        sa.Column("slots", sa.BigInteger(), nullable=False),
        sa.Column("taken", sa.BigInteger(), nullable=False),
        sa.Column("opened_block", sa.BigInteger(), nullable=False),
        sa.Column("seed_block", sa.BigInteger(), nullable=False),
        sa.Column("seeded_at", sa.BigInteger(), nullable=False),
        sa.Column("audit_block", sa.BigInteger(), nullable=False),
        sa.Column("committed_at", sa.BigInteger(), nullable=False),
        sa.Column("audit_from", sa.BigInteger(), nullable=False),
        sa.Column("reveal_until", sa.BigInteger(), nullable=False),
        sa.Column("was_redrawn", sa.Boolean(), nullable=False),
        sa.Column("finalized_at", sa.BigInteger(), nullable=False),
        sa.Column("seed_beacon", sa.LargeBinary(length=32), nullable=False),
        sa.Column("submission_root", sa.LargeBinary(length=32), nullable=False),
        sa.Column("leaf_count", sa.BigInteger(), nullable=False),
        sa.Column("outcomes", sa.LargeBinary(), nullable=True),
        sa.Column("coordinator", sa.String(length=42), nullable=False),
        sa.Column("card_hash", sa.LargeBinary(length=32), nullable=False),
        sa.Column("price_per_group", sa.String(length=78), nullable=False),
        sa.Column("price_per_token", sa.String(length=78), nullable=False),
        sa.PrimaryKeyConstraint("step", name=op.f("pk_steps")),
    )
    op.create_table(
        "stakes",
        sa.Column("step", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("provider", sa.String(length=42), nullable=False),
        sa.Column("active", sa.String(length=78), nullable=False),
        sa.PrimaryKeyConstraint("step", "provider", name=op.f("pk_stakes")),
    )
    op.create_table(
        "taken",
        sa.Column("step", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("slot", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("provider", sa.String(length=42), nullable=False),
        sa.Column("leaf_hash", sa.LargeBinary(length=32), nullable=True),
        sa.PrimaryKeyConstraint("step", "slot", name=op.f("pk_taken")),
    )
    op.create_table(
        "verdicts",
        sa.Column("step", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("node", sa.String(length=42), nullable=False),
        sa.Column("slot", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("pool", sa.BigInteger(), nullable=False),
        sa.Column("leaf_hash", sa.LargeBinary(length=32), nullable=False),
        sa.Column("outcome", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.BigInteger(), nullable=False),
        sa.Column("rewards_hash", sa.LargeBinary(length=32), nullable=False),
        sa.Column("signature", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("step", "node", "slot", name=op.f("pk_verdicts")),
    )
    op.create_table(
        "votes",
        sa.Column("step", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("provider", sa.String(length=42), nullable=False),
        sa.Column("outcomes", sa.LargeBinary(), nullable=False),
        sa.Column("verdict_root", sa.LargeBinary(length=32), nullable=False),
        sa.Column("evidence_root", sa.LargeBinary(length=32), nullable=False),
        sa.PrimaryKeyConstraint("step", "provider", name=op.f("pk_votes")),
    )
    op.create_index(op.f("ix_votes_evidence_root"), "votes", ["evidence_root"], unique=False)
    op.create_table(
        "weights",
        sa.Column("policy_step", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("manifest_hash", sa.LargeBinary(length=32), nullable=False),
        sa.PrimaryKeyConstraint("policy_step", name=op.f("pk_weights")),
    )
    op.create_table(
        "weights_files",
        sa.Column("policy_step", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("content_hash", sa.LargeBinary(length=32), nullable=False),
        sa.PrimaryKeyConstraint("policy_step", "name", name=op.f("pk_weights_files")),
    )
    op.create_table(
        "submissions",
        sa.Column("leaf_hash", sa.LargeBinary(length=32), nullable=False),
        sa.Column("lease_hash", sa.LargeBinary(length=32), nullable=False),
        sa.Column("pool", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("slot", sa.BigInteger(), nullable=False),
        sa.Column("provider", sa.String(length=42), nullable=False),
        sa.Column("node", sa.String(length=42), nullable=False),
        sa.Column("units", sa.BigInteger(), nullable=False),
        sa.Column("content_hash", sa.LargeBinary(length=32), nullable=False),
        sa.Column("signature", sa.LargeBinary(), nullable=False),
        sa.Column("received_at", sa.BigInteger(), nullable=False),
        sa.Column("receipt_signature", sa.LargeBinary(), nullable=False),
        sa.Column("uploaded_at", sa.BigInteger(), nullable=True),
        sa.Column("is_committed", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["lease_hash"], ["leases.lease_hash"], name=op.f("fk_submissions_lease_hash")),
        sa.PrimaryKeyConstraint("leaf_hash", name=op.f("pk_submissions")),
        sa.UniqueConstraint("lease_hash", name=op.f("uq_submissions_lease_hash")),
    )
    op.create_index(op.f("ix_submissions_content_hash"), "submissions", ["content_hash"], unique=False)
    op.create_index(op.f("ix_submissions_node"), "submissions", ["node"], unique=False)
    op.create_index(op.f("ix_submissions_step"), "submissions", ["step"], unique=False)


def downgrade() -> None:
    """Undo."""
    op.drop_index(op.f("ix_submissions_step"), table_name="submissions")
    op.drop_index(op.f("ix_submissions_node"), table_name="submissions")
    op.drop_index(op.f("ix_submissions_content_hash"), table_name="submissions")
    op.drop_table("submissions")
    op.drop_table("weights_files")
    op.drop_table("weights")
    op.drop_index(op.f("ix_votes_evidence_root"), table_name="votes")
    op.drop_table("votes")
    op.drop_table("verdicts")
    op.drop_table("taken")
    op.drop_table("stakes")
    op.drop_table("steps")
    op.drop_table("stale")
    op.drop_table("positions")
    op.drop_table("policies")
    op.drop_index(op.f("ix_panels_provider"), table_name="panels")
    op.drop_table("panels")
    op.drop_index(op.f("ix_nonces_expires_at"), table_name="nonces")
    op.drop_table("nonces")
    op.drop_table("nodes")
    op.drop_index("ix_leases_node_step", table_name="leases")
    op.drop_table("leases")
    op.drop_table("heartbeats")
    op.drop_table("evidence")
    op.drop_index(op.f("ix_events_step"), table_name="events")
    op.drop_table("events")
    op.drop_table("cursor")
    op.drop_table("commitments")
    op.drop_index(op.f("ix_cases_step"), table_name="cases")
    op.drop_table("cases")
    op.drop_table("blocks")
