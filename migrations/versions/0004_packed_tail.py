"""Add the table for compressed records that are too few for a chunk."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "packed_tail"
down_revision = "shared_incidents"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "packed",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("writer_no", sa.Integer(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("arrival", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "writer_no", "seq", name=op.f("pk_packed")),
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE packed ALTER COLUMN body SET STORAGE EXTERNAL")
