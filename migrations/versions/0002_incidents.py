"""Give each alert its incident, and group the alerts of earlier versions."""

from __future__ import annotations

from collections import deque

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
    """Return (row, incident) of alerts in the order in which they fired.

    An alert joins the incident of the first one near it that is still open.
    """
    run_id, opened, found = None, {}, []
    for number, row in enumerate(fired):
        if row.run_id != run_id:
            run_id, opened = row.run_id, {}
        name = f"{row.fingerprint}.{row.episode}"
        if row.onset_step is not None:
            near = range(row.onset_step - NEAR_STEPS, row.onset_step + NEAR_STEPS + 1)
            firsts = (_first(opened.get(step), row.fired_ns) for step in near)
            first = min((one for one in firsts if one), default=None)
            name = first[1] if first else name
            until = FOREVER if row.resolved_ns is None else row.resolved_ns
            opened.setdefault(row.onset_step, deque()).append((number, name, until))
        found.append((row, name))
    return found


def _first(alerts, now):
    """Return the oldest of these alerts that is open; those before it never are again."""
    while alerts and alerts[0][2] < now:
        alerts.popleft()
    return alerts[0] if alerts else None
