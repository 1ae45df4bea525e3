"""Create the views for SQL again: on SQLite, their times were wrong. ``env.py`` does it after an upgrade."""

from __future__ import annotations

revision = "view_times"
down_revision = "embed_links"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change no table."""
