"""The schema: one SQLAlchemy Core metadata for SQLite and Postgres.

Every table on the data path leads its primary key with the run, so that the rows of one run
live together and can be distributed by run. They are ordinary rowid tables on SQLite: an
append to a WITHOUT ROWID table dirties one page a run, which measured six times slower.
Times are Unix nanoseconds on the server's clock. docs/storage.md explains the layouts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)

from tocsin_server import exactjson

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

STEP, TIME, SEQ, ARRIVAL = 0, 1, 2, 3
"""Column numbers that every chunk has (SEQ only where record numbers have gaps)."""
FIRST_SERIES = 16
"""Number of the first named series of a run; those below are kept for what every record has."""


class ExactDouble(TypeDecorator[float]):
    """A float64 scalar whose every value survives SQLite, which would store NaN as NULL and -0.0 as 0.

    There NaN is the text ``NaN`` and -0.0 the blob ``-0.0``, for a text that looks like a number would
    become one. Never aggregate such a column in SQL: SQLite's AVG counts the text as 0.
    """

    impl = Double
    cache_ok = True

    def bind_processor(self, dialect: Dialect) -> Callable[[float | None], Any]:
        """Passes by the float type's own processor, which would turn the text back into a float."""
        return _for_sqlite if dialect.name == "sqlite" else _as_it_is

    def process_result_value(self, value: Any, dialect: Dialect) -> float | None:
        return None if value is None else float(value)


def _for_sqlite(value: float | None) -> Any:
    if value is None or (value and value == value):
        return value
    if value != value:
        return "NaN"
    return b"-0.0" if math.copysign(1.0, value) < 0 else value


def _as_it_is(value: float | None) -> Any:
    return value


class Words(TypeDecorator[str]):
    """Text from outside. Postgres has no NUL in text: it becomes U+FFFD, on both databases alike."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return value.replace("\x00", "\ufffd") if value is not None else None


class ExactJson(TypeDecorator[Any]):
    """Data as strict JSON text, non-finite numbers as their names (see ``exactjson``)."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else exactjson.dumps(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return None if value is None else exactjson.loads(value)


def _number(name: str, *, nullable: bool = False, default: str | None = None) -> Column[int]:
    return Column(name, BigInteger, nullable=nullable, server_default=default)


def _small(name: str, *, nullable: bool = False, default: str | None = None) -> Column[int]:
    return Column(name, Integer, nullable=nullable, server_default=default)


def _text(name: str, *, nullable: bool = False, default: str | None = None) -> Column[str]:
    return Column(name, Words, nullable=nullable, server_default=default)


def _json(name: str, default: str | None = None) -> Column[Any]:
    return Column(name, ExactJson, nullable=default is None, server_default=default)


def _run() -> Column[str]:
    return Column("run_id", Words, nullable=False)


project = Table(
    "project",
    metadata,
    Column("name", Words, primary_key=True),
    _number("created_ns"),
    _json("settings", "{}"),
)

run = Table(
    "run",
    metadata,
    Column("id", Words, primary_key=True),
    _text("project"),
    _text("name"),
    _text("state", default="running"),
    _number("created_ns"),
    _number("last_seen_ns"),
    _number("ended_ns", nullable=True),
    _number("last_step", nullable=True),
    _number("planned_steps", nullable=True),
    _small("world_size", default="1"),
    _text("host"),
    _text("notes"),
    _json("tags", "[]"),
    _json("config"),
    _json("facts", "{}"),
    _json("error"),
    _json("board"),
    Column("archived", Boolean(create_constraint=False), nullable=False, server_default="0"),
    Index(None, "project", "name"),
    Index(None, "state"),
)

attempt = Table(
    "attempt",
    metadata,
    _run(),
    _small("attempt_no"),
    _text("key"),
    _text("launch"),
    _small("restarts", default="0"),
    _text("rendezvous"),
    _small("world_size", default="1"),
    _number("started_ns"),
    PrimaryKeyConstraint("run_id", "attempt_no"),
    UniqueConstraint("run_id", "key"),
    Index(None, "rendezvous", "started_ns"),
)

writer = Table(
    "writer",
    metadata,
    _run(),
    _small("writer_no"),
    _small("attempt_no"),
    _small("rank"),
    _text("key"),
    _text("host"),
    _text("boot"),
    _number("pid", default="0"),
    _number("process_ns", default="0"),
    _number("hello_ns"),
    _number("clock_offset_ns", default="0"),
    _number("dealt_seq", default="-1"),
    _number("sealed_seq", default="-1"),
    _number("sealed_arrival", default="-1"),
    _number("sealed_records", default="0"),
    _number("first_step", nullable=True),
    _number("last_step", nullable=True),
    _number("chunks", default="0"),
    PrimaryKeyConstraint("run_id", "writer_no"),
    UniqueConstraint("run_id", "key"),
)

metric = Table(
    "metric",
    metadata,
    _run(),
    _small("col_id"),
    _text("name"),
    PrimaryKeyConstraint("run_id", "col_id"),
    UniqueConstraint("run_id", "name"),
)

series = Table(
    "series",
    metadata,
    _run(),
    _small("writer_no"),
    _small("col_id"),
    _number("n"),
    _number("first_step"),
    _number("last_step"),
    Column("last_value", ExactDouble, nullable=False),
    _number("nan", default="0"),
    _number("pinf", default="0"),
    _number("ninf", default="0"),
    PrimaryKeyConstraint("run_id", "writer_no", "col_id"),
)
"""What is sealed of each series of each writer: counts and ends, written with the chunk."""

latest = Table(
    "latest",
    metadata,
    _run(),
    _small("writer_no"),
    _small("col_id"),
    _number("seq"),
    _number("step"),
    _number("time_ns"),
    Column("value", ExactDouble, nullable=False),
    PrimaryKeyConstraint("run_id", "writer_no", "col_id"),
)
"""The newest value of each series of each writer, for SQL; at most a second behind while records come."""

fault = Table(
    "fault",
    metadata,
    _run(),
    _small("writer_no"),
    _small("col_id"),
    _number("seq"),
    _number("step"),
    _number("time_ns"),
    _text("kind"),
    _number("end_seq", nullable=True),
    _number("end_step", nullable=True),
    PrimaryKeyConstraint("run_id", "writer_no", "col_id", "seq"),
)
"""Where a series stopped being finite (``kind``: nan, +inf, -inf) and where it was finite again."""

tail = Table(
    "tail",
    metadata,
    _run(),
    _small("writer_no"),
    _number("seq"),
    _small("n"),
    _number("arrival"),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("run_id", "writer_no", "seq"),
    Index(None, "run_id", "arrival"),
)

chunk = Table(
    "chunk",
    metadata,
    _run(),
    _small("writer_no"),
    _small("col_id"),
    _small("no"),
    _small("n"),
    _small("codec"),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("run_id", "writer_no", "col_id", "no"),
)

chunk_dir = Table(
    "chunk_dir",
    metadata,
    _run(),
    _small("writer_no"),
    _small("no"),
    _small("n"),
    _number("seq0"),
    _number("seq1"),
    _number("step0"),
    _number("step1"),
    _number("t0"),
    _number("t1"),
    _number("arrival0"),
    _number("arrival1"),
    PrimaryKeyConstraint("run_id", "writer_no", "no"),
)

roll = Table(
    "roll",
    metadata,
    _run(),
    _small("writer_no"),
    _small("col_id"),
    _small("level"),
    _small("no"),
    _small("n"),
    _small("codec"),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("run_id", "writer_no", "col_id", "level", "no"),
)

event = Table(
    "event",
    metadata,
    _run(),
    _small("writer_no"),
    _number("no"),
    _number("arrival"),
    _text("kind"),
    _number("step", nullable=True),
    _number("time_ns"),
    _json("data", "{}"),
    PrimaryKeyConstraint("run_id", "writer_no", "no"),
    Index(None, "run_id", "arrival"),
)

alert = Table(
    "alert",
    metadata,
    _run(),
    _text("fingerprint"),
    _small("episode"),
    _text("rule"),
    _text("subject"),
    _text("severity"),
    _text("state"),
    _number("onset_step", nullable=True),
    _number("onset_ns"),
    _number("pending_ns", nullable=True),
    _number("fired_step", nullable=True),
    _number("fired_ns", nullable=True),
    _number("resolved_step", nullable=True),
    _number("resolved_ns", nullable=True),
    _number("updated_ns"),
    Column("late", Boolean(create_constraint=False), nullable=False),
    _text("summary"),
    _json("diagnosis", "{}"),
    _json("labels", "{}"),
    PrimaryKeyConstraint("run_id", "fingerprint", "episode"),
    Index(None, "state", "updated_ns"),
)

alert_transition = Table(
    "alert_transition",
    metadata,
    _run(),
    _text("fingerprint"),
    _small("episode"),
    _text("state"),
    _text("severity"),
    _text("previous", nullable=True),
    _number("at_ns"),
    _number("step", nullable=True),
    _text("summary"),
    _number("routed_ns", nullable=True),
    PrimaryKeyConstraint("run_id", "fingerprint", "episode", "state", "severity"),
)
"""``routed_ns`` is null until the notifier has dealt with it: a transition is its own inbox row, durable
in the transaction of its records, so there is no moment in which a kill loses or doubles it."""
Index(
    "ix_alert_transition_unrouted",
    alert_transition.c.at_ns,
    sqlite_where=alert_transition.c.routed_ns.is_(None),
    postgresql_where=alert_transition.c.routed_ns.is_(None),
)

acknowledgement = Table(
    "acknowledgement",
    metadata,
    _run(),
    _text("fingerprint"),
    _small("episode"),
    _number("at_ns"),
    _text("actor"),
    _text("note"),
    Column("undone", Boolean(create_constraint=False), nullable=False),
    PrimaryKeyConstraint("run_id", "fingerprint", "episode", "at_ns"),
)
"""Every time that somebody took an alert on, or (``undone``) gave it back; the newest row counts."""

group_member = Table(
    "group_member",
    metadata,
    _run(),
    _text("fingerprint"),
    _small("episode"),
    _text("group_id"),
    _small("told"),
    PrimaryKeyConstraint("run_id", "fingerprint", "episode", "group_id"),
    Index(None, "group_id"),
)
"""Alerts of an open group; ``told``: height of the severity last told, -1 for nothing yet."""

notified_alert = Table(
    "notified_alert",
    metadata,
    _run(),
    _text("fingerprint"),
    _small("episode"),
    _text("notification_id"),
    _text("state"),
    PrimaryKeyConstraint("run_id", "fingerprint", "episode", "notification_id"),
    Index(None, "notification_id"),
)
"""Which notifications tell of an alert, and in which state."""

notify_group = Table(
    "notify_group",
    metadata,
    Column("id", Words, primary_key=True),
    _text("kind"),
    _text("route"),
    _text("channel_id"),
    _json("labels", "{}"),
    _number("first_ns"),
    _number("due_ns", nullable=True),
    _number("told_ns", nullable=True),
    Index(None, "due_ns"),
)
"""What is told together (``kind`` alerts, late or digest), and when it is looked at next."""

notification = Table(
    "notification",
    metadata,
    Column("id", Words, primary_key=True),
    _text("channel_id"),
    _text("group_id"),
    _text("kind"),
    _text("state"),
    _text("title"),
    _json("body", "{}"),
    _small("attempts", default="0"),
    _number("created_ns"),
    _number("due_ns"),
    _text("owner", nullable=True),
    _number("lease_ns", nullable=True),
    _number("sent_ns", nullable=True),
    _text("error", nullable=True),
    Index(None, "channel_id", "state"),
    Index(None, "group_id", "id"),
)
"""The outbox: waiting, claimed (until ``lease_ns``, by ``owner``), sent, failed. Ids are in order."""

delivery = Table(
    "delivery",
    metadata,
    Column("notification_id", Words, nullable=False),
    _small("no"),
    _number("at_ns"),
    _small("took_ms"),
    _text("outcome"),
    _text("detail"),
    PrimaryKeyConstraint("notification_id", "no"),
)
"""One row an attempt: ``outcome`` sent, retry or failed, and why."""

channel = Table(
    "channel",
    metadata,
    Column("id", Words, primary_key=True),
    _text("name"),
    _text("kind"),
    Column("enabled", Boolean(create_constraint=False), nullable=False),
    _small("limit_per_hour"),
    _json("config", "{}"),
    _json("secret", "{}"),
    _number("created_ns"),
    _number("updated_ns"),
    UniqueConstraint("name"),
)
"""Where notifications go. ``secret`` never leaves the server but to the channel itself."""

silence = Table(
    "silence",
    metadata,
    Column("id", Words, primary_key=True),
    _json("matchers", "[]"),
    _number("starts_ns"),
    _number("ends_ns"),
    _text("author"),
    _text("reason"),
    _number("created_ns"),
    Index(None, "ends_ns"),
)

flight = Table(
    "flight",
    metadata,
    _run(),
    _text("fingerprint"),
    _small("episode"),
    _number("made_ns"),
    Column("whole", Boolean(create_constraint=False), nullable=False),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("run_id", "fingerprint", "episode"),
    Index(None, "whole"),
)
"""Records and events around the onset of an alert, frozen; ``whole``: nothing more will come."""

rule_state = Table(
    "rule_state",
    metadata,
    Column("run_id", Words, primary_key=True),
    _number("arrival"),
    Column("body", LargeBinary, nullable=False),
)
"""The newest snapshot of each run's rules and the last arrival that it covers."""

token = Table(
    "token",
    metadata,
    Column("id", Words, primary_key=True),
    _text("name"),
    _text("sha256"),
    _text("scope"),
    _text("project", nullable=True),
    _number("created_ns"),
    _number("used_ns", nullable=True),
    _number("revoked_ns", nullable=True),
    UniqueConstraint("sha256"),
)

audit = Table(
    "audit",
    metadata,
    Column("id", Words, primary_key=True),
    _number("at_ns"),
    _text("actor"),
    _text("action"),
    _text("subject"),
    _json("details", "{}"),
    Index(None, "at_ns"),
)

setting = Table(
    "setting",
    metadata,
    Column("name", Words, primary_key=True),
    _json("value"),
    _number("updated_ns"),
)
"""What is decided once for this installation, such as the key that signs sessions."""

deletion = Table(
    "deletion",
    metadata,
    Column("run_id", Words, primary_key=True),
    _number("due_ns"),
    _number("taken_ns", nullable=True),
)
"""Runs whose rows are to go from ``due_ns`` on: deleted ones, and imports that nobody finishes."""

RUN_TABLES = (
    attempt, writer, metric, series, latest, fault, tail, chunk, chunk_dir, roll, event,
    alert, alert_transition, acknowledgement, group_member, notified_alert, flight, rule_state,
)  # fmt: skip
"""Every table whose rows belong to one run, by ``run_id``."""

BODIES = (tail.c.body, chunk.c.body, roll.c.body, rule_state.c.body, flight.c.body)
"""Columns that are compressed or small already: STORAGE EXTERNAL on Postgres."""
