"""Tables of custom rules and of settings of the built-in rules."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Index, PrimaryKeyConstraint, Table

from tocsin_server.store.columns import SafeText, json_column, shown_number, text_column
from tocsin_server.store.tables import metadata

custom_rule = Table(
    "custom_rule",
    metadata,
    Column("id", SafeText, primary_key=True),
    json_column("body", "{}"),
    Column("enabled", Boolean(create_constraint=False), nullable=False),
    text_column("source"),
    shown_number("created_ns"),
    text_column("created_by"),
    shown_number("updated_ns"),
    text_column("updated_by"),
    Index(None, "source"),
)
"""A custom rule; ``source`` is empty if it was created by hand, else the file or pack that owns it."""

rule_tuning = Table(
    "rule_tuning",
    metadata,
    Column("rule", SafeText, nullable=False),
    Column("project", SafeText, nullable=False),
    json_column("body", "{}"),
    text_column("source"),
    shown_number("updated_ns"),
    text_column("updated_by"),
    PrimaryKeyConstraint("rule", "project"),
)
"""Enabled state, severity and settings of a built-in rule; project ``*`` means all projects."""
