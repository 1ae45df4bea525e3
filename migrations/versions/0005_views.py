"""Add the views for SQL from outside. ``env.py`` creates them after every upgrade (``store/views.py``)."""

from __future__ import annotations

revision = "views"
down_revision = "packed_tail"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change no table."""
