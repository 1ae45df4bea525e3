"""Add the table for views of the fleet that users save."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "saved_views"
down_revision = "views"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "saved_view",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("filter", sa.Text(), nullable=False),
        sa.Column("columns", sa.Text(), nullable=False),
        sa.Column("sort", sa.Text(), nullable=False),
        sa.Column("grouping", sa.Text(), nullable=False),
        sa.Column("is_default", sa.Boolean(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.Column("updated_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_saved_view")),
        sa.UniqueConstraint("project", "name", name=op.f("uq_saved_view_project_name")),
    )
