"""Views for SQL from outside: Grafana, notebooks, ``psql`` (docs/reference/sql.md).

They are the same on SQLite and Postgres, contain no secrets, and hide how points are packed. ``metrics_long``
has the buckets of the sparklines, because a database cannot decode chunks; ``tocsin export`` writes every
record for DuckDB, with a view of the same name and columns.

Every upgrade drops the views first, because a database does not change a table that a view uses, and creates
those of its version afterwards (migrations/env.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, text

_SQLITE = {
    # NULL stays NULL; milliseconds, so that times sort and compare as text
    "time": "strftime('%Y-%m-%d %H:%M:%f', {0} / 1e9, 'unixepoch')",
    "summary": "CASE WHEN json_valid(run.summary) THEN run.summary ELSE '{{}}' END",
    "last_value": "json_extract({0}, '$.last.{1}')",
    "real": "json_extract({0}, '$.{1}')",
    "whole": "CAST(json_extract({0}, '$.{1}') AS INTEGER)",
    "cause": "CASE WHEN json_valid(alert.diagnosis) THEN json_extract(alert.diagnosis, '$.cause') END",
    "sparks": (
        "run JOIN json_each({summary}, '$.sparks') AS spark"
        " JOIN json_each(spark.value, '$.buckets') AS bucket"
    ),
    "low": "CAST(json_extract(bucket.value, '$[0]') AS REAL)",
    "high": "CAST(json_extract(bucket.value, '$[1]') AS REAL)",
    "total": "json_extract(bucket.value, '$[2]')",
    "count": "json_extract(bucket.value, '$[{0}]')",
    "is_number": "typeof({0}) IN ('real', 'integer')",
    "key": "CAST(bucket.key AS INTEGER)",
    "width": "json_extract(spark.value, '$.width')",
    "first": "json_extract(spark.value, '$.first')",
    "last": "json_extract(spark.value, '$.last')",
    "larger": "max({0}, {1})",
    "smaller": "min({0}, {1})",
}
_POSTGRES = {
    "time": "to_timestamp({0} / 1e9)",
    "summary": "run.summary::json",
    "last_value": "({0} -> 'last' ->> '{1}')::float8",
    "real": "({0} ->> '{1}')::float8",
    "whole": "({0} ->> '{1}')::bigint",
    "cause": "(alert.diagnosis::json ->> 'cause')",
    "sparks": (
        "run CROSS JOIN LATERAL json_each({summary} -> 'sparks') AS spark"
        " CROSS JOIN LATERAL json_each(spark.value -> 'buckets') AS bucket"
    ),
    "low": "(bucket.value ->> 0)::float8",
    "high": "(bucket.value ->> 1)::float8",
    "total": "(bucket.value ->> 2)::float8",
    "count": "(bucket.value ->> {0})::bigint",
    "is_number": "abs({0}) < 'Infinity'::float8",
    "key": "bucket.key::bigint",
    "width": "(spark.value ->> 'width')::bigint",
    "first": "(spark.value ->> 'first')::bigint",
    "last": "(spark.value ->> 'last')::bigint",
    "larger": "greatest({0}, {1})",
    "smaller": "least({0}, {1})",
}
_LEVEL = "CASE alert.severity WHEN 'critical' THEN 2 WHEN 'warning' THEN 1 ELSE 0 END"
_NAMED_LEVEL = "CASE max(level) WHEN 2 THEN 'critical' WHEN 1 THEN 'warning' WHEN 0 THEN 'info' END"
_INCIDENT = (
    "CASE WHEN alert.incident = '' THEN NULL WHEN alert.incident LIKE '%.%.%' THEN alert.incident"
    " ELSE alert.run_id || '.' || alert.incident END"
)
"""As ``incident_rows`` computes the id of an incident."""
_ACK = (
    "LEFT JOIN acknowledgement AS ack ON ack.run_id = alert.run_id AND ack.fingerprint = alert.fingerprint"
    " AND ack.episode = alert.episode AND NOT ack.undone AND NOT EXISTS (SELECT 1"
    " FROM acknowledgement AS later WHERE later.run_id = ack.run_id AND later.fingerprint = ack.fingerprint"
    " AND later.episode = ack.episode AND later.at_ns > ack.at_ns)"
)
"""Joins the acknowledgement of an alert that is in force."""
NAMES = ("runs", "alerts", "incidents", "metrics_long", "metrics_latest", "nonfinite_values")
"""The views, each after those that it uses."""


def create(connection: Connection) -> None:
    """Create the views, and let read them who could read the ones that :func:`drop` dropped."""
    for name, query in definitions(connection.dialect.name).items():
        # The driver of Postgres reads % as a parameter, that of SQLite does not.
        escaped = query if connection.dialect.name == "sqlite" else query.replace("%", "%%")
        connection.exec_driver_sql(f"CREATE VIEW {name} AS {escaped}")
    for grantee, name in connection.info.pop("view_readers", ()):
        quoted = connection.dialect.identifier_preparer.quote(grantee)
        connection.execute(text(f"GRANT SELECT ON {name} TO {quoted}"))


def drop(connection: Connection) -> None:
    """Drop the views if they exist; :func:`create` on the same connection restores who may read them."""
    if connection.dialect.name == "postgresql":
        granted = text(
            "SELECT grantee, table_name FROM information_schema.role_table_grants WHERE privilege_type ="
            " 'SELECT' AND table_schema = current_schema() AND table_name = ANY(:names)"
            " AND grantee NOT IN (current_user, 'PUBLIC')"
        )
        connection.info["view_readers"] = connection.execute(granted, {"names": list(NAMES)}).all()
    for name in reversed(NAMES):
        connection.execute(text(f"DROP VIEW IF EXISTS {name}"))


def definitions(dialect: str) -> dict[str, str]:
    """Return the query of each view for ``sqlite`` or ``postgresql``."""
    words = _SQLITE if dialect == "sqlite" else _POSTGRES
    queries = (_runs, _alerts, _incidents, _metrics_long, _metrics_latest, _nonfinite_values)
    return {name: query(words) for name, query in zip(NAMES, queries, strict=True)}


def _runs(words: Mapping[str, str]) -> str:
    summary, time = words["summary"].format(), words["time"]
    signs = ("loss", "grad_norm", "scale", "lr")
    vitals = ", ".join(f"{words['last_value'].format(summary, name)} AS last_{name}" for name in signs)
    alerts = (
        "SELECT count(*) FROM alert WHERE alert.run_id = run.id AND alert.state IN ('firing', 'recovering')"
    )
    return f"""
        SELECT run.id, run.project, run.name, run.state, run.host, run.tags, run.archived,
          {time.format("run.created_ns")} AS created_at, {time.format("run.last_seen_ns")} AS last_seen_at,
          {time.format("run.ended_ns")} AS ended_at, run.last_step, run.planned_steps, run.world_size,
          (SELECT count(*) FROM attempt WHERE attempt.run_id = run.id) AS attempts,
          {vitals},
          {words["whole"].format(summary, "skipped")} AS skipped,
          {words["whole"].format(summary, "nonfinite")} AS nonfinite,
          {words["real"].format(summary, "gpu_util")} AS gpu_util, ({alerts}) AS open_alerts,
          run.config, run.notes
        FROM run"""  # noqa: S608 - constants


def _alerts(words: Mapping[str, str]) -> str:
    time = words["time"]
    times = ", ".join(
        f"alert.{name}_step, {time.format(f'alert.{name}_ns')} AS {name}_at"
        for name in ("onset", "fired", "resolved")
    )
    return f"""
        SELECT alert.run_id || '.' || alert.fingerprint || '.' || alert.episode AS id,
          {_INCIDENT} AS incident_id, alert.run_id, run.name AS run_name, run.project, alert.rule,
          alert.subject AS series, alert.severity, alert.state, {times},
          {time.format("alert.updated_ns")} AS updated_at, alert.late, alert.summary,
          {words["cause"]} AS cause, ack.actor AS acknowledged_by,
          {time.format("ack.at_ns")} AS acknowledged_at
        FROM alert JOIN run ON run.id = alert.run_id {_ACK}"""  # noqa: S608 - constants


def _incidents(words: Mapping[str, str]) -> str:
    time = words["time"]
    return f"""
        WITH numbered AS (
          SELECT {_INCIDENT} AS id, alert.run_id, run.name AS run_name, run.project, alert.state,
            alert.summary, alert.onset_step, alert.onset_ns, alert.updated_ns, {_LEVEL} AS level,
            row_number() OVER (PARTITION BY {_INCIDENT} ORDER BY {_LEVEL} DESC, alert.onset_ns, alert.rule)
              AS place,
            ack.actor, ack.at_ns, row_number() OVER (PARTITION BY {_INCIDENT} ORDER BY {_LEVEL} DESC,
              CASE WHEN ack.at_ns IS NULL THEN 1 ELSE 0 END, ack.at_ns DESC) AS ack_place
          FROM alert JOIN run ON run.id = alert.run_id {_ACK} WHERE alert.incident <> '')
        SELECT id, max(CASE WHEN place = 1 THEN project END) AS project,
          max(CASE WHEN place = 1 THEN run_id END) AS run_id,
          max(CASE WHEN place = 1 THEN run_name END) AS run_name, count(DISTINCT run_id) AS runs,
          CASE WHEN sum(CASE WHEN state = 'firing' THEN 1 ELSE 0 END) > 0 THEN 'open'
            WHEN sum(CASE WHEN state = 'recovering' THEN 1 ELSE 0 END) > 0 THEN 'mitigated'
            WHEN sum(CASE WHEN state = 'ended' THEN 1 ELSE 0 END) > 0 THEN 'ended'
            ELSE 'resolved' END AS state,
          {_NAMED_LEVEL} AS severity, count(*) AS alerts, min(onset_step) AS onset_step,
          {time.format("min(onset_ns)")} AS onset_at, {time.format("max(updated_ns)")} AS updated_at,
          max(CASE WHEN place = 1 THEN summary END) AS summary,
          max(CASE WHEN ack_place = 1 THEN actor END) AS acknowledged_by,
          {time.format("max(CASE WHEN ack_place = 1 THEN at_ns END)")} AS acknowledged_at
        FROM numbered GROUP BY id"""  # noqa: S608 - constants


def _metrics_long(words: Mapping[str, str]) -> str:
    source = words["sparks"].format(summary=words["summary"].format())
    low, high, total = words["low"], words["high"], words["total"]
    finite, nan, pinf, ninf = (words["count"].format(place) for place in (3, 4, 5, 6))
    start, width = f"{words['key']} * {words['width']}", words["width"]
    is_number = words["is_number"].format(total)  # not if the sum of huge values overflowed
    mean = f"CASE WHEN {is_number} THEN {total} / {finite} ELSE {low} / 2 + {high} / 2 END"
    return f"""
        SELECT run.id AS run_id, run.name AS run_name, run.project, spark.key AS series,
          {words["larger"].format(start, words["first"])} AS step,
          {words["smaller"].format(f"{start} + {width} - 1", words["last"])} AS step_end,
          CASE WHEN {finite} > 0 THEN {mean} END AS value,
          CASE WHEN {finite} > 0 THEN {low} END AS min, CASE WHEN {finite} > 0 THEN {high} END AS max,
          {finite} + {nan} + {pinf} + {ninf} AS n, {nan} AS nan, {pinf} AS pinf, {ninf} AS ninf
        FROM {source}"""  # noqa: S608 - constants


_SERIES = (
    "JOIN run ON run.id = {0}.run_id"
    " JOIN metric ON metric.run_id = {0}.run_id AND metric.col_id = {0}.col_id"
    " JOIN writer ON writer.run_id = {0}.run_id AND writer.writer_no = {0}.writer_no"
)
_WHOSE = (
    "run.id AS run_id, run.name AS run_name, run.project, writer.attempt_no AS attempt, writer.rank,"
    " metric.name AS series"
)


def _metrics_latest(words: Mapping[str, str]) -> str:
    return f"""
        SELECT {_WHOSE}, latest.step, {words["time"].format("latest.time_ns")} AS at, latest.value
        FROM latest {_SERIES.format("latest")}"""  # noqa: S608 - constants


def _nonfinite_values(words: Mapping[str, str]) -> str:
    return f"""
        SELECT {_WHOSE}, nonfinite_onset.step, {words["time"].format("nonfinite_onset.time_ns")} AS at,
          nonfinite_onset.kind, nonfinite_onset.end_step AS finite_again_step
        FROM nonfinite_onset {_SERIES.format("nonfinite_onset")}"""  # noqa: S608 - constants
