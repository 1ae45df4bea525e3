"""Create the views for SQL again: those of alerts and incidents have who acknowledged, and when. ``env.py``
does it after an upgrade."""

from __future__ import annotations

revision = "view_acknowledgements"
down_revision = "view_times"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change no table."""
