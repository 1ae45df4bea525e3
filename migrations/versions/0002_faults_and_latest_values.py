"""Where series stopped being finite, and the newest value of each: ordinary columns for SQL.

Onsets are recorded from this revision on; the counts of what came before stay in ``series``.
Revision written once and never edited afterwards; docs/storage.md explains the tables.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

LATEST_OF_SEALED = """
INSERT INTO latest (run_id, writer_no, col_id, seq, step, time_ns, value)
SELECT series.run_id, series.writer_no, series.col_id, writer.sealed_seq, series.last_step,
       run.last_seen_ns, series.last_value
FROM series
JOIN writer ON writer.run_id = series.run_id AND writer.writer_no = series.writer_no
JOIN run ON run.id = series.run_id
"""

VACUUM_TAIL = """
ALTER TABLE tail SET (
    autovacuum_vacuum_cost_delay = 0, autovacuum_vacuum_scale_factor = 0.05,
    toast.autovacuum_vacuum_cost_delay = 0, toast.autovacuum_vacuum_scale_factor = 0.05
)
"""
"""Every record passes through the tail: its room must come back as fast as it is left."""


def upgrade() -> None:
    op.create_table(
        "latest",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("writer_no", sa.Integer(), nullable=False),
        sa.Column("col_id", sa.Integer(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("time_ns", sa.BigInteger(), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "writer_no", "col_id", name=op.f("pk_latest")),
    )
    op.create_table(
        "fault",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("writer_no", sa.Integer(), nullable=False),
        sa.Column("col_id", sa.Integer(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("time_ns", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("end_seq", sa.BigInteger(), nullable=True),
        sa.Column("end_step", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("run_id", "writer_no", "col_id", "seq", name=op.f("pk_fault")),
    )
    op.execute(LATEST_OF_SEALED)
    if op.get_bind().dialect.name == "postgresql":
        op.execute(VACUUM_TAIL)


def downgrade() -> None:
    op.drop_table("fault")
    op.drop_table("latest")
