"""Give each alert its incident, and group the alerts of earlier versions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "incidents"
down_revision = "initial"
branch_labels = None
depends_on = None

NEAR_STEPS = 100
"""Alerts that began at most this many steps apart belong together if one was open when the other fired."""
FOREVER = 1 << 62


def upgrade() -> None:
    none = sa.text("''")
    op.add_column("alert", sa.Column("incident", sa.Text(), server_default=none, nullable=False))
    op.create_index(op.f("ix_alert_run_id_incident"), "alert", ["run_id", "incident"], unique=False)
    connection = op.get_bind()
    fired = connection.execute(
        sa.text(
            "SELECT run_id, fingerprint, episode, onset_step, fired_ns, resolved_ns FROM alert"
            " WHERE fired_ns IS NOT NULL ORDER BY run_id, fired_ns, fingerprint, episode"
        )
    ).all()
    grouped = [{"of": row[0], "fp": row[1], "ep": row[2], "to": name} for row, name in _grouped(fired)]
    if grouped:
        connection.execute(
            sa.text(
                "UPDATE alert SET incident = :to WHERE run_id = :of AND fingerprint = :fp AND episode = :ep"
            ),
            grouped,
        )


def _grouped(fired):
    """Return (row, incident) of alerts in the order in which they fired."""
    run_id, opened, found = None, [], []
    for row in fired:
        if row.run_id != run_id:
            run_id, opened = row.run_id, []
        opened = [one for one in opened if one[1] >= row.fired_ns]
        near = [
            name
            for step, _, name in opened
            if step is not None and row.onset_step is not None and abs(step - row.onset_step) <= NEAR_STEPS
        ]
        name = near[0] if near else f"{row.fingerprint}.{row.episode}"
        opened.append((row.onset_step, FOREVER if row.resolved_ns is None else row.resolved_ns, name))
        found.append((row, name))
    return found
