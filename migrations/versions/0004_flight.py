"""Flight records: what was recorded around the onset of an alert, frozen with it.

Those of alerts that were there before are made by the server at its next start.
Revision written once and never edited afterwards; docs/storage.md explains the tables.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "flight",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("episode", sa.Integer(), nullable=False),
        sa.Column("made_ns", sa.BigInteger(), nullable=False),
        sa.Column("whole", sa.Boolean(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "fingerprint", "episode", name=op.f("pk_flight")),
    )
    op.create_index(op.f("ix_flight_whole"), "flight", ["whole"])
    if op.get_bind().dialect.name == "postgresql":  # compressed already: Postgres shall not try again
        op.execute("ALTER TABLE flight ALTER COLUMN body SET STORAGE EXTERNAL")


def downgrade() -> None:
    op.drop_table("flight")
