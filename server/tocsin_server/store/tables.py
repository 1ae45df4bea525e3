"""The schema: one SQLAlchemy Core metadata for SQLite and Postgres.

Every primary key on the data path starts with the run, so that the rows of one run
are stored together and can be distributed by run. They are ordinary rowid tables on SQLite: an
append to a WITHOUT ROWID table dirties one page per run, which was six times slower.
Times are Unix nanoseconds on the server's clock. docs/internals/storage.md explains the layouts.
"""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    Index,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
    text,
)

from tocsin_server.store.columns import (
    ExactDouble,
    SafeText,
    json_column,
    number_column,
    run_column,
    shown_number,
    shown_small,
    small_column,
    text_column,
)

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

STEP, TIME, SEQ, ARRIVAL = 0, 1, 2, 3
"""Column numbers of every chunk (SEQ only if record numbers have gaps)."""
FIRST_SERIES = 16
"""Number of the first named series of a run; lower numbers are reserved for columns of every record."""


project = Table(
    "project",
    metadata,
    Column("name", SafeText, primary_key=True),
    shown_number("created_ns"),
    json_column("settings", "{}"),
)

run = Table(
    "run",
    metadata,
    Column("id", SafeText, primary_key=True),
    text_column("project"),
    text_column("name"),
    text_column("state", default="running"),
    shown_number("created_ns"),
    shown_number("last_seen_ns"),
    shown_number("ended_ns", nullable=True),
    shown_number("last_step", nullable=True),
    shown_number("planned_steps", nullable=True),
    shown_small("world_size", default="1"),
    text_column("host"),
    text_column("notes"),
    json_column("tags", "[]", kind=list),
    json_column("config"),
    json_column("environment", "{}"),
    json_column("error"),
    json_column("summary"),
    Column("archived", Boolean(create_constraint=False), nullable=False, server_default="0"),
    Index(None, "project", "name"),
    Index(None, "state"),
)

attempt = Table(
    "attempt",
    metadata,
    run_column(),
    small_column("attempt_no"),
    text_column("key"),
    text_column("launch"),
    shown_small("restarts", default="0"),
    text_column("rendezvous"),
    shown_small("world_size", default="1"),
    shown_number("started_ns"),
    PrimaryKeyConstraint("run_id", "attempt_no"),
    UniqueConstraint("run_id", "key"),
    Index(None, "rendezvous", "started_ns"),
)

writer = Table(
    "writer",
    metadata,
    run_column(),
    small_column("writer_no"),
    small_column("attempt_no"),
    small_column("rank"),
    text_column("key"),
    text_column("host"),
    text_column("boot"),
    shown_number("pid", default="0"),
    shown_number("process_ns", default="0"),
    shown_number("handshake_ns"),
    number_column("clock_offset_ns", default="0"),
    number_column("handled_seq", default="-1"),
    number_column("sealed_seq", default="-1"),
    number_column("sealed_arrival", default="-1"),
    number_column("sealed_records", default="0"),
    number_column("first_step", nullable=True),
    number_column("last_step", nullable=True),
    number_column("chunks", default="0"),
    PrimaryKeyConstraint("run_id", "writer_no"),
    UniqueConstraint("run_id", "key"),
)

metric = Table(
    "metric",
    metadata,
    run_column(),
    small_column("col_id"),
    text_column("name"),
    PrimaryKeyConstraint("run_id", "col_id"),
    UniqueConstraint("run_id", "name"),
)

series = Table(
    "series",
    metadata,
    run_column(),
    small_column("writer_no"),
    small_column("col_id"),
    number_column("n"),
    number_column("first_step"),
    number_column("last_step"),
    Column("last_value", ExactDouble, nullable=False),
    number_column("nan", default="0"),
    number_column("pinf", default="0"),
    number_column("ninf", default="0"),
    PrimaryKeyConstraint("run_id", "writer_no", "col_id"),
)
"""Sealed totals of each series of each writer: counts and ends, written with the chunk."""

latest = Table(
    "latest",
    metadata,
    run_column(),
    small_column("writer_no"),
    small_column("col_id"),
    number_column("seq"),
    number_column("step"),
    number_column("time_ns"),
    Column("value", ExactDouble, nullable=False),
    PrimaryKeyConstraint("run_id", "writer_no", "col_id"),
)
"""The newest value of each series of each writer, for SQL; at most a second old while records arrive."""

nonfinite_onset = Table(
    "nonfinite_onset",
    metadata,
    run_column(),
    small_column("writer_no"),
    small_column("col_id"),
    number_column("seq"),
    number_column("step"),
    number_column("time_ns"),
    text_column("kind"),
    number_column("end_seq", nullable=True),
    number_column("end_step", nullable=True),
    PrimaryKeyConstraint("run_id", "writer_no", "col_id", "seq"),
)
"""Where a series stopped being finite (``kind``: nan, +inf, -inf) and where it was finite again."""

tail = Table(
    "tail",
    metadata,
    run_column(),
    small_column("writer_no"),
    number_column("seq"),
    small_column("n"),
    number_column("arrival"),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("run_id", "writer_no", "seq"),
    Index(None, "run_id", "arrival"),
)
"""Batches as received, until their records are in ``packed`` or in a chunk."""

packed = Table(
    "packed",
    metadata,
    run_column(),
    small_column("writer_no"),
    number_column("seq"),
    small_column("n"),
    number_column("arrival"),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("run_id", "writer_no", "seq"),
)
"""Many batches in a row, compressed: the oldest part of a tail that is too short for a chunk.

``arrival`` is that of the newest. They are not in ``tail``, because its other rows are deleted soon and
would leave pages of SQLite nearly empty.
"""

chunk = Table(
    "chunk",
    metadata,
    run_column(),
    small_column("writer_no"),
    small_column("col_id"),
    small_column("no"),
    small_column("n"),
    small_column("codec"),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("run_id", "writer_no", "col_id", "no"),
)

chunk_dir = Table(
    "chunk_dir",
    metadata,
    run_column(),
    small_column("writer_no"),
    small_column("no"),
    small_column("n"),
    number_column("seq0"),
    number_column("seq1"),
    number_column("step0"),
    number_column("step1"),
    number_column("t0"),
    number_column("t1"),
    number_column("arrival0"),
    number_column("arrival1"),
    PrimaryKeyConstraint("run_id", "writer_no", "no"),
)

roll = Table(
    "roll",
    metadata,
    run_column(),
    small_column("writer_no"),
    small_column("col_id"),
    small_column("level"),
    small_column("no"),
    small_column("n"),
    small_column("codec"),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("run_id", "writer_no", "col_id", "level", "no"),
)

event = Table(
    "event",
    metadata,
    run_column(),
    small_column("writer_no"),
    number_column("no"),
    number_column("arrival"),
    text_column("kind"),
    shown_number("step", nullable=True),
    shown_number("time_ns"),
    json_column("data", "{}"),
    PrimaryKeyConstraint("run_id", "writer_no", "no"),
    Index(None, "run_id", "arrival"),
)

alert = Table(
    "alert",
    metadata,
    run_column(),
    text_column("fingerprint"),
    small_column("episode"),
    text_column("rule"),
    text_column("subject"),
    text_column("severity"),
    text_column("state"),
    shown_number("onset_step", nullable=True),
    shown_number("onset_ns"),
    shown_number("pending_ns", nullable=True),
    shown_number("fired_step", nullable=True),
    shown_number("fired_ns", nullable=True),
    shown_number("resolved_step", nullable=True),
    shown_number("resolved_ns", nullable=True),
    shown_number("updated_ns"),
    Column("late", Boolean(create_constraint=False), nullable=False),
    text_column("summary"),
    json_column("diagnosis", "{}"),
    json_column("labels", "{}"),
    Column("incident", SafeText, nullable=False, server_default=text("''")),
    PrimaryKeyConstraint("run_id", "fingerprint", "episode"),
    Index(None, "state", "updated_ns"),
    Index(None, "run_id", "incident"),
    Index(None, "incident"),
)

alert_transition = Table(
    "alert_transition",
    metadata,
    run_column(),
    text_column("fingerprint"),
    small_column("episode"),
    text_column("state"),
    text_column("severity"),
    text_column("previous", nullable=True),
    shown_number("at_ns"),
    shown_number("step", nullable=True),
    text_column("summary"),
    shown_number("routed_ns", nullable=True),
    PrimaryKeyConstraint("run_id", "fingerprint", "episode", "state", "severity"),
)
"""``routed_ns`` is null until the transition is routed.

A transition serves as its own inbox row and is committed with its records, so a kill can neither lose nor
duplicate it.
"""
Index(
    "ix_alert_transition_unrouted",
    alert_transition.c.at_ns,
    sqlite_where=alert_transition.c.routed_ns.is_(None),
    postgresql_where=alert_transition.c.routed_ns.is_(None),
)

acknowledgement = Table(
    "acknowledgement",
    metadata,
    run_column(),
    text_column("fingerprint"),
    small_column("episode"),
    shown_number("at_ns"),
    text_column("actor"),
    text_column("note"),
    Column("undone", Boolean(create_constraint=False), nullable=False),
    PrimaryKeyConstraint("run_id", "fingerprint", "episode", "at_ns"),
)
"""Acknowledgements of alerts and their withdrawals (``undone``); the newest row counts."""

group_member = Table(
    "group_member",
    metadata,
    run_column(),
    text_column("fingerprint"),
    small_column("episode"),
    text_column("group_id"),
    small_column("notified_level"),
    PrimaryKeyConstraint("run_id", "fingerprint", "episode", "group_id"),
    Index(None, "group_id"),
)
"""Alerts of an open group; ``notified_level``: severity level last notified, -1 for none."""

notified_alert = Table(
    "notified_alert",
    metadata,
    run_column(),
    text_column("fingerprint"),
    small_column("episode"),
    text_column("notification_id"),
    text_column("state"),
    PrimaryKeyConstraint("run_id", "fingerprint", "episode", "notification_id"),
    Index(None, "notification_id"),
)
"""Which notifications are about an alert, and the state they report."""

notify_group = Table(
    "notify_group",
    metadata,
    Column("id", SafeText, primary_key=True),
    text_column("kind"),
    text_column("route"),
    text_column("channel_id"),
    json_column("labels", "{}"),
    shown_number("first_ns"),
    shown_number("due_ns", nullable=True),
    shown_number("notified_ns", nullable=True),
    Index(None, "due_ns"),
)
"""Groups of alerts to notify together (``kind`` alerts, late or digest), and when each is next due."""

notification = Table(
    "notification",
    metadata,
    Column("id", SafeText, primary_key=True),
    text_column("channel_id"),
    text_column("group_id"),
    text_column("kind"),
    text_column("state"),
    text_column("title"),
    json_column("body", "{}"),
    shown_small("attempts", default="0"),
    shown_number("created_ns"),
    shown_number("due_ns"),
    text_column("owner", nullable=True),
    shown_number("lease_ns", nullable=True),
    shown_number("sent_ns", nullable=True),
    text_column("error", nullable=True),
    Index(None, "channel_id", "state"),
    Index(None, "group_id", "id"),
)
"""The outbox: waiting, claimed (until ``lease_ns``, by ``owner``), sent, failed. Ids sort by time."""

delivery = Table(
    "delivery",
    metadata,
    Column("notification_id", SafeText, nullable=False),
    small_column("no"),
    shown_number("at_ns"),
    shown_small("took_ms"),
    text_column("outcome"),
    text_column("detail"),
    PrimaryKeyConstraint("notification_id", "no"),
)
"""One row per attempt: ``outcome`` sent, retry or failed, and why."""

channel = Table(
    "channel",
    metadata,
    Column("id", SafeText, primary_key=True),
    text_column("name"),
    text_column("kind"),
    Column("enabled", Boolean(create_constraint=False), nullable=False),
    shown_small("limit_per_hour"),
    json_column("config", "{}"),
    json_column("secret", "{}"),
    shown_number("created_ns"),
    shown_number("updated_ns"),
    UniqueConstraint("name"),
)
"""Where notifications are sent. ``secret`` leaves the server only toward the channel itself."""

silence = Table(
    "silence",
    metadata,
    Column("id", SafeText, primary_key=True),
    json_column("matchers", "[]", kind=list),
    shown_number("starts_ns"),
    shown_number("ends_ns"),
    text_column("author"),
    text_column("reason"),
    shown_number("created_ns"),
    Index(None, "ends_ns"),
)

saved_view = Table(
    "saved_view",
    metadata,
    Column("id", SafeText, primary_key=True),
    text_column("project"),
    text_column("name"),
    text_column("filter"),
    text_column("columns"),
    text_column("sort"),
    text_column("grouping"),
    Column("is_default", Boolean(create_constraint=False), nullable=False),
    text_column("author"),
    shown_number("created_ns"),
    shown_number("updated_ns"),
    UniqueConstraint("project", "name"),
)
"""Views of the fleet that users saved; ``project`` is empty for all projects."""

embed_link = Table(
    "embed_link",
    metadata,
    Column("id", SafeText, primary_key=True),
    text_column("run_id"),
    text_column("chart"),
    text_column("author"),
    shown_number("created_ns"),
    shown_number("until_s"),
)
"""Links of embedded charts that were given out; a revoked one has no row."""

rule_state = Table(
    "rule_state",
    metadata,
    Column("run_id", SafeText, primary_key=True),
    number_column("arrival"),
    Column("body", LargeBinary, nullable=False),
)
"""The newest state of each run's rules and the last arrival that it covers."""

token = Table(
    "token",
    metadata,
    Column("id", SafeText, primary_key=True),
    text_column("name"),
    text_column("sha256"),
    text_column("scope"),
    text_column("project", nullable=True),
    shown_number("created_ns"),
    shown_number("used_ns", nullable=True),
    shown_number("revoked_ns", nullable=True),
    UniqueConstraint("sha256"),
)

audit = Table(
    "audit",
    metadata,
    Column("id", SafeText, primary_key=True),
    shown_number("at_ns"),
    text_column("actor"),
    text_column("action"),
    text_column("subject"),
    json_column("details", "{}"),
    Index(None, "at_ns"),
)

setting = Table(
    "setting",
    metadata,
    Column("name", SafeText, primary_key=True),
    json_column("value", kind=object),
    shown_number("updated_ns"),
)
"""Settings of this installation, such as the key that signs sessions."""

deletion = Table(
    "deletion",
    metadata,
    Column("run_id", SafeText, primary_key=True),
    shown_number("due_ns"),
    shown_number("begun_ns", nullable=True),
)
"""Runs whose rows are to be deleted from ``due_ns`` on: deleted runs and unfinished imports."""

RUN_TABLES = (
    attempt, writer, metric, series, latest, nonfinite_onset, tail, packed, chunk, chunk_dir, roll, event,
    alert, alert_transition, acknowledgement, group_member, notified_alert, rule_state,
)  # fmt: skip
"""Every table whose rows belong to one run, through ``run_id``."""

BODIES = (tail.c.body, packed.c.body, chunk.c.body, roll.c.body, rule_state.c.body)
"""Columns that are already compressed or small: STORAGE EXTERNAL on Postgres."""
