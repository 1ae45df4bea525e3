"""Rules that people make, and their settings of the built-in ones.

Revision written once and never edited afterwards; docs/storage.md explains the tables.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def text(name: str, default: str | None = None) -> sa.Column:
    return sa.Column(name, sa.Text(), nullable=False, server_default=default)


def big(name: str) -> sa.Column:
    return sa.Column(name, sa.BigInteger(), nullable=False)


def upgrade() -> None:
    op.create_table(
        "user_rule",
        text("id"),
        text("body", "{}"),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        text("source"),
        big("created_ns"),
        text("created_by"),
        big("updated_ns"),
        text("updated_by"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_user_rule")),
    )
    op.create_index(op.f("ix_user_rule_source"), "user_rule", ["source"])
    op.create_table(
        "rule_tuning",
        text("rule"),
        text("project"),
        text("body", "{}"),
        text("source"),
        big("updated_ns"),
        text("updated_by"),
        sa.PrimaryKeyConstraint("rule", "project", name=op.f("pk_rule_tuning")),
    )


def downgrade() -> None:
    op.drop_table("rule_tuning")
    op.drop_table("user_rule")
