"""Add the table for the links of embedded charts that were given out."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "embed_links"
down_revision = "saved_views"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "embed_link",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("chart", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.Column("until_s", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_embed_link")),
    )
