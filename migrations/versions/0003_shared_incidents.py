"""Find the alerts of other runs that belong to an incident."""

from __future__ import annotations

from alembic import op

revision = "shared_incidents"
down_revision = "incidents"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(op.f("ix_alert_incident"), "alert", ["incident"], unique=False)
