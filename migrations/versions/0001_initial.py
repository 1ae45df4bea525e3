"""Create the schema.

docs/internals/storage.md explains the tables. Never edit a released revision: add another one.
"""

import sqlalchemy as sa
from alembic import op

revision = "initial"
down_revision = None
branch_labels = None
depends_on = None

BODIES = ("tail", "chunk", "roll", "rule_state")
"""Tables whose bodies are already compressed or small, so Postgres must not compress them."""

VACUUM_TAIL = """
ALTER TABLE tail SET (
    autovacuum_vacuum_cost_delay = 0, autovacuum_vacuum_scale_factor = 0.05,
    toast.autovacuum_vacuum_cost_delay = 0, toast.autovacuum_vacuum_scale_factor = 0.05
)
"""
"""Every record passes through the tail, so Postgres must free its space as fast as it is used."""


def upgrade() -> None:
    op.create_table(
        "acknowledgement",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("episode", sa.Integer(), nullable=False),
        sa.Column("at_ns", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("undone", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "fingerprint", "episode", "at_ns", name=op.f("pk_acknowledgement")),
    )
    op.create_table(
        "alert",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("episode", sa.Integer(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("severity", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("onset_step", sa.BigInteger(), nullable=True),
        sa.Column("onset_ns", sa.BigInteger(), nullable=False),
        sa.Column("pending_ns", sa.BigInteger(), nullable=True),
        sa.Column("fired_step", sa.BigInteger(), nullable=True),
        sa.Column("fired_ns", sa.BigInteger(), nullable=True),
        sa.Column("resolved_step", sa.BigInteger(), nullable=True),
        sa.Column("resolved_ns", sa.BigInteger(), nullable=True),
        sa.Column("updated_ns", sa.BigInteger(), nullable=False),
        sa.Column("late", sa.Boolean(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("diagnosis", sa.Text(), server_default="{}", nullable=False),
        sa.Column("labels", sa.Text(), server_default="{}", nullable=False),
        sa.PrimaryKeyConstraint("run_id", "fingerprint", "episode", name=op.f("pk_alert")),
    )
    op.create_index(op.f("ix_alert_state_updated_ns"), "alert", ["state", "updated_ns"], unique=False)
    op.create_table(
        "alert_transition",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("episode", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("severity", sa.Text(), nullable=False),
        sa.Column("previous", sa.Text(), nullable=True),
        sa.Column("at_ns", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=True),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("routed_ns", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint(
            "run_id", "fingerprint", "episode", "state", "severity", name=op.f("pk_alert_transition")
        ),
    )
    op.create_index(
        "ix_alert_transition_unrouted",
        "alert_transition",
        ["at_ns"],
        sqlite_where=sa.text("routed_ns IS NULL"),
        postgresql_where=sa.text("routed_ns IS NULL"),
    )
    op.create_table(
        "attempt",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("attempt_no", sa.Integer(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("launch", sa.Text(), nullable=False),
        sa.Column("restarts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("rendezvous", sa.Text(), nullable=False),
        sa.Column("world_size", sa.Integer(), server_default="1", nullable=False),
        sa.Column("started_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "attempt_no", name=op.f("pk_attempt")),
        sa.UniqueConstraint("run_id", "key", name=op.f("uq_attempt_run_id_key")),
    )
    op.create_index(
        op.f("ix_attempt_rendezvous_started_ns"), "attempt", ["rendezvous", "started_ns"], unique=False
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("at_ns", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("details", sa.Text(), server_default="{}", nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    op.create_index(op.f("ix_audit_at_ns"), "audit", ["at_ns"], unique=False)
    op.create_table(
        "channel",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("limit_per_hour", sa.Integer(), nullable=False),
        sa.Column("config", sa.Text(), server_default="{}", nullable=False),
        sa.Column("secret", sa.Text(), server_default="{}", nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.Column("updated_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_channel")),
        sa.UniqueConstraint("name", name=op.f("uq_channel_name")),
    )
    op.create_table(
        "chunk",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("writer_no", sa.Integer(), nullable=False),
        sa.Column("col_id", sa.Integer(), nullable=False),
        sa.Column("no", sa.Integer(), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("codec", sa.Integer(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "writer_no", "col_id", "no", name=op.f("pk_chunk")),
    )
    op.create_table(
        "chunk_dir",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("writer_no", sa.Integer(), nullable=False),
        sa.Column("no", sa.Integer(), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("seq0", sa.BigInteger(), nullable=False),
        sa.Column("seq1", sa.BigInteger(), nullable=False),
        sa.Column("step0", sa.BigInteger(), nullable=False),
        sa.Column("step1", sa.BigInteger(), nullable=False),
        sa.Column("t0", sa.BigInteger(), nullable=False),
        sa.Column("t1", sa.BigInteger(), nullable=False),
        sa.Column("arrival0", sa.BigInteger(), nullable=False),
        sa.Column("arrival1", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "writer_no", "no", name=op.f("pk_chunk_dir")),
    )
    op.create_table(
        "custom_rule",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), server_default="{}", nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("updated_ns", sa.BigInteger(), nullable=False),
        sa.Column("updated_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_custom_rule")),
    )
    op.create_index(op.f("ix_custom_rule_source"), "custom_rule", ["source"], unique=False)
    op.create_table(
        "deletion",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("due_ns", sa.BigInteger(), nullable=False),
        sa.Column("begun_ns", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_deletion")),
    )
    op.create_table(
        "delivery",
        sa.Column("notification_id", sa.Text(), nullable=False),
        sa.Column("no", sa.Integer(), nullable=False),
        sa.Column("at_ns", sa.BigInteger(), nullable=False),
        sa.Column("took_ms", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("notification_id", "no", name=op.f("pk_delivery")),
    )
    op.create_table(
        "event",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("writer_no", sa.Integer(), nullable=False),
        sa.Column("no", sa.BigInteger(), nullable=False),
        sa.Column("arrival", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=True),
        sa.Column("time_ns", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.Text(), server_default="{}", nullable=False),
        sa.PrimaryKeyConstraint("run_id", "writer_no", "no", name=op.f("pk_event")),
    )
    op.create_index(op.f("ix_event_run_id_arrival"), "event", ["run_id", "arrival"], unique=False)
    op.create_table(
        "group_member",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("episode", sa.Integer(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("notified_level", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "fingerprint", "episode", "group_id", name=op.f("pk_group_member")),
    )
    op.create_index(op.f("ix_group_member_group_id"), "group_member", ["group_id"], unique=False)
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
        "metric",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("col_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "col_id", name=op.f("pk_metric")),
        sa.UniqueConstraint("run_id", "name", name=op.f("uq_metric_run_id_name")),
    )
    op.create_table(
        "nonfinite_onset",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("writer_no", sa.Integer(), nullable=False),
        sa.Column("col_id", sa.Integer(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("time_ns", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("end_seq", sa.BigInteger(), nullable=True),
        sa.Column("end_step", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("run_id", "writer_no", "col_id", "seq", name=op.f("pk_nonfinite_onset")),
    )
    op.create_table(
        "notification",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("channel_id", sa.Text(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), server_default="{}", nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.Column("due_ns", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("lease_ns", sa.BigInteger(), nullable=True),
        sa.Column("sent_ns", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notification")),
    )
    op.create_index(
        op.f("ix_notification_channel_id_state"), "notification", ["channel_id", "state"], unique=False
    )
    op.create_index(op.f("ix_notification_group_id_id"), "notification", ["group_id", "id"], unique=False)
    op.create_table(
        "notified_alert",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("episode", sa.Integer(), nullable=False),
        sa.Column("notification_id", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint(
            "run_id", "fingerprint", "episode", "notification_id", name=op.f("pk_notified_alert")
        ),
    )
    op.create_index(
        op.f("ix_notified_alert_notification_id"), "notified_alert", ["notification_id"], unique=False
    )
    op.create_table(
        "notify_group",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("route", sa.Text(), nullable=False),
        sa.Column("channel_id", sa.Text(), nullable=False),
        sa.Column("labels", sa.Text(), server_default="{}", nullable=False),
        sa.Column("first_ns", sa.BigInteger(), nullable=False),
        sa.Column("due_ns", sa.BigInteger(), nullable=True),
        sa.Column("notified_ns", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notify_group")),
    )
    op.create_index(op.f("ix_notify_group_due_ns"), "notify_group", ["due_ns"], unique=False)
    op.create_table(
        "project",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.Column("settings", sa.Text(), server_default="{}", nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_project")),
    )
    op.create_table(
        "roll",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("writer_no", sa.Integer(), nullable=False),
        sa.Column("col_id", sa.Integer(), nullable=False),
        sa.Column("level", sa.Integer(), nullable=False),
        sa.Column("no", sa.Integer(), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("codec", sa.Integer(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "writer_no", "col_id", "level", "no", name=op.f("pk_roll")),
    )
    op.create_table(
        "rule_state",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("arrival", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_rule_state")),
    )
    op.create_table(
        "rule_tuning",
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), server_default="{}", nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("updated_ns", sa.BigInteger(), nullable=False),
        sa.Column("updated_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("rule", "project", name=op.f("pk_rule_tuning")),
    )
    op.create_table(
        "run",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), server_default="running", nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.Column("last_seen_ns", sa.BigInteger(), nullable=False),
        sa.Column("ended_ns", sa.BigInteger(), nullable=True),
        sa.Column("last_step", sa.BigInteger(), nullable=True),
        sa.Column("planned_steps", sa.BigInteger(), nullable=True),
        sa.Column("world_size", sa.Integer(), server_default="1", nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("notes", sa.Text(), nullable=False),
        sa.Column("tags", sa.Text(), server_default="[]", nullable=False),
        sa.Column("config", sa.Text(), nullable=True),
        sa.Column("environment", sa.Text(), server_default="{}", nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("summary", sa.Text(), nullable=True),
        sa.Column("archived", sa.Boolean(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_run")),
    )
    op.create_index(op.f("ix_run_project_name"), "run", ["project", "name"], unique=False)
    op.create_index(op.f("ix_run_state"), "run", ["state"], unique=False)
    op.create_table(
        "series",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("writer_no", sa.Integer(), nullable=False),
        sa.Column("col_id", sa.Integer(), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.Column("first_step", sa.BigInteger(), nullable=False),
        sa.Column("last_step", sa.BigInteger(), nullable=False),
        sa.Column("last_value", sa.Double(), nullable=False),
        sa.Column("nan", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("pinf", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("ninf", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("run_id", "writer_no", "col_id", name=op.f("pk_series")),
    )
    op.create_table(
        "setting",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=True),
        sa.Column("updated_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_setting")),
    )
    op.create_table(
        "silence",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("matchers", sa.Text(), server_default="[]", nullable=False),
        sa.Column("starts_ns", sa.BigInteger(), nullable=False),
        sa.Column("ends_ns", sa.BigInteger(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_silence")),
    )
    op.create_index(op.f("ix_silence_ends_ns"), "silence", ["ends_ns"], unique=False)
    op.create_table(
        "tail",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("writer_no", sa.Integer(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("arrival", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "writer_no", "seq", name=op.f("pk_tail")),
    )
    op.create_index(op.f("ix_tail_run_id_arrival"), "tail", ["run_id", "arrival"], unique=False)
    op.create_table(
        "token",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=True),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.Column("used_ns", sa.BigInteger(), nullable=True),
        sa.Column("revoked_ns", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_token")),
        sa.UniqueConstraint("sha256", name=op.f("uq_token_sha256")),
    )
    op.create_table(
        "writer",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("writer_no", sa.Integer(), nullable=False),
        sa.Column("attempt_no", sa.Integer(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("boot", sa.Text(), nullable=False),
        sa.Column("pid", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("process_ns", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("handshake_ns", sa.BigInteger(), nullable=False),
        sa.Column("clock_offset_ns", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("handled_seq", sa.BigInteger(), server_default="-1", nullable=False),
        sa.Column("sealed_seq", sa.BigInteger(), server_default="-1", nullable=False),
        sa.Column("sealed_arrival", sa.BigInteger(), server_default="-1", nullable=False),
        sa.Column("sealed_records", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("first_step", sa.BigInteger(), nullable=True),
        sa.Column("last_step", sa.BigInteger(), nullable=True),
        sa.Column("chunks", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("run_id", "writer_no", name=op.f("pk_writer")),
        sa.UniqueConstraint("run_id", "key", name=op.f("uq_writer_run_id_key")),
    )

    if op.get_bind().dialect.name == "postgresql":
        for table in BODIES:
            op.execute(f"ALTER TABLE {table} ALTER COLUMN body SET STORAGE EXTERNAL")
        op.execute(VACUUM_TAIL)


def downgrade() -> None:
    for table in (
        "acknowledgement",
        "alert",
        "alert_transition",
        "attempt",
        "audit",
        "channel",
        "chunk",
        "chunk_dir",
        "custom_rule",
        "deletion",
        "delivery",
        "event",
        "group_member",
        "latest",
        "metric",
        "nonfinite_onset",
        "notification",
        "notified_alert",
        "notify_group",
        "project",
        "roll",
        "rule_state",
        "rule_tuning",
        "run",
        "series",
        "setting",
        "silence",
        "tail",
        "token",
        "writer",
    ):
        op.drop_table(table)
