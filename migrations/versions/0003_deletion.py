"""Which runs are being deleted: a kill in the middle leaves nothing behind.

Revision written once and never edited afterwards; docs/storage.md explains the tables.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "deletion",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("due_ns", sa.BigInteger(), nullable=False),
        sa.Column("taken_ns", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_deletion")),
    )


def downgrade() -> None:
    op.drop_table("deletion")
