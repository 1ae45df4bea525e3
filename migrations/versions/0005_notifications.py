"""Notifications: acknowledgements, silences, channels, groups, the outbox and its log of attempts.

Transitions that are stored already count as routed: an upgrade tells nobody of the past. Runs that
ended with alerts still open get these resolved, as the end of a run does from now on.
Revision written once and never edited afterwards; docs/storage.md explains the tables.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def text(name: str, null: bool = False) -> sa.Column:
    return sa.Column(name, sa.Text(), nullable=null)


def big(name: str, null: bool = False) -> sa.Column:
    return sa.Column(name, sa.BigInteger(), nullable=null)


def small(name: str, default: str | None = None) -> sa.Column:
    return sa.Column(name, sa.Integer(), nullable=False, server_default=default)


def json(name: str, default: str) -> sa.Column:
    return sa.Column(name, sa.Text(), nullable=False, server_default=default)


def truth(name: str) -> sa.Column:
    return sa.Column(name, sa.Boolean(), nullable=False)


def key(table: str, *columns: str) -> sa.PrimaryKeyConstraint:
    return sa.PrimaryKeyConstraint(*columns, name=op.f(f"pk_{table}"))


def upgrade() -> None:
    op.add_column("alert_transition", big("routed_ns", null=True))
    op.execute("UPDATE alert_transition SET routed_ns = at_ns")
    close_what_ended()
    unrouted = sa.text("routed_ns IS NULL")
    op.create_index(
        op.f("ix_alert_transition_unrouted"),
        "alert_transition",
        ["at_ns"],
        sqlite_where=unrouted,
        postgresql_where=unrouted,
    )
    create_tables_of_runs()
    create_outbox()
    create_choices()


def close_what_ended() -> None:
    op.execute("""
        INSERT INTO alert_transition (run_id, fingerprint, episode, state, severity, previous, at_ns, step,
                                      summary, routed_ns)
        SELECT alert.run_id, alert.fingerprint, alert.episode, 'resolved', alert.severity, alert.state,
               COALESCE(run.ended_ns, run.last_seen_ns), run.last_step, 'Run ended',
               COALESCE(run.ended_ns, run.last_seen_ns)
        FROM alert JOIN run ON run.id = alert.run_id
        WHERE alert.state IN ('pending', 'firing', 'recovering') AND run.state IN ('finished', 'failed')
        ON CONFLICT DO NOTHING
    """)
    op.execute("""
        UPDATE alert SET state = 'resolved',
            resolved_ns = (SELECT COALESCE(ended_ns, last_seen_ns) FROM run WHERE run.id = alert.run_id),
            updated_ns = (SELECT COALESCE(ended_ns, last_seen_ns) FROM run WHERE run.id = alert.run_id),
            resolved_step = (SELECT last_step FROM run WHERE run.id = alert.run_id)
        WHERE alert.state IN ('pending', 'firing', 'recovering')
            AND alert.run_id IN (SELECT id FROM run WHERE run.state IN ('finished', 'failed'))
    """)


def create_tables_of_runs() -> None:
    episode = ("run_id", "fingerprint", "episode")
    op.create_table(
        "acknowledgement",
        text("run_id"),
        text("fingerprint"),
        small("episode"),
        big("at_ns"),
        text("actor"),
        text("note"),
        truth("undone"),
        key("acknowledgement", *episode, "at_ns"),
    )
    op.create_table(
        "group_member",
        text("run_id"),
        text("fingerprint"),
        small("episode"),
        text("group_id"),
        small("told"),
        key("group_member", *episode, "group_id"),
    )
    op.create_index(op.f("ix_group_member_group_id"), "group_member", ["group_id"])
    op.create_table(
        "notified_alert",
        text("run_id"),
        text("fingerprint"),
        small("episode"),
        text("notification_id"),
        text("state"),
        key("notified_alert", *episode, "notification_id"),
    )
    op.create_index(op.f("ix_notified_alert_notification_id"), "notified_alert", ["notification_id"])


def create_outbox() -> None:
    op.create_table(
        "notify_group",
        text("id"),
        text("kind"),
        text("route"),
        text("channel_id"),
        json("labels", "{}"),
        big("first_ns"),
        big("due_ns", null=True),
        big("told_ns", null=True),
        key("notify_group", "id"),
    )
    op.create_index(op.f("ix_notify_group_due_ns"), "notify_group", ["due_ns"])
    op.create_table(
        "notification",
        text("id"),
        text("channel_id"),
        text("group_id"),
        text("kind"),
        text("state"),
        text("title"),
        json("body", "{}"),
        small("attempts", "0"),
        big("created_ns"),
        big("due_ns"),
        text("owner", null=True),
        big("lease_ns", null=True),
        big("sent_ns", null=True),
        text("error", null=True),
        key("notification", "id"),
    )
    op.create_index(op.f("ix_notification_channel_id_state"), "notification", ["channel_id", "state"])
    op.create_index(op.f("ix_notification_group_id_id"), "notification", ["group_id", "id"])
    op.create_table(
        "delivery",
        text("notification_id"),
        small("no"),
        big("at_ns"),
        small("took_ms"),
        text("outcome"),
        text("detail"),
        key("delivery", "notification_id", "no"),
    )


def create_choices() -> None:
    op.create_table(
        "channel",
        text("id"),
        text("name"),
        text("kind"),
        truth("enabled"),
        small("limit_per_hour"),
        json("config", "{}"),
        json("secret", "{}"),
        big("created_ns"),
        big("updated_ns"),
        key("channel", "id"),
        sa.UniqueConstraint("name", name=op.f("uq_channel_name")),
    )
    op.create_table(
        "silence",
        text("id"),
        json("matchers", "[]"),
        big("starts_ns"),
        big("ends_ns"),
        text("author"),
        text("reason"),
        big("created_ns"),
        key("silence", "id"),
    )
    op.create_index(op.f("ix_silence_ends_ns"), "silence", ["ends_ns"])


def downgrade() -> None:
    for table in (
        "silence",
        "channel",
        "delivery",
        "notification",
        "notify_group",
        "notified_alert",
        "group_member",
        "acknowledgement",
    ):
        op.drop_table(table)
    op.drop_index("ix_alert_transition_unrouted", table_name="alert_transition")
    with op.batch_alter_table("alert_transition") as table:
        table.drop_column("routed_ns")
