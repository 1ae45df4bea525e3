"""Write runs of a server into a folder that DuckDB queries: every record as Parquet, the rest as JSON lines.

``views.sql`` in the folder creates the views of docs/reference/sql.md over these files. A run that has ended
and was written since is not written again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from .answers import Alert, Incident, Run
from .api import Api
from .following import ENDED

RECORDS = "records"
COORDINATES = ("writer", "attempt", "rank", "seq", "step", "time_ns", "arrival")
_RUN = {
    **dict.fromkeys(("id", "file", "project", "name", "state", "host"), "VARCHAR"),
    "tags": "VARCHAR[]",
    "archived": "BOOLEAN",
    **dict.fromkeys(("created_ms", "last_seen_ms", "ended_ms"), "DOUBLE"),
    **dict.fromkeys(("last_step", "planned_steps", "attempts"), "BIGINT"),
    **dict.fromkeys(("last_loss", "last_grad_norm", "last_scale", "last_lr"), "DOUBLE"),
    **dict.fromkeys(("skipped", "nonfinite"), "BIGINT"),
    "gpu_util": "DOUBLE",
    "open_alerts": "BIGINT",
    "config": "JSON",
    "notes": "VARCHAR",
}
_ALERT = {
    **dict.fromkeys(("id", "incident_id", "run_id", "run_name", "project", "rule", "series"), "VARCHAR"),
    **dict.fromkeys(("severity", "state"), "VARCHAR"),
    **dict.fromkeys(("onset_step", "fired_step", "resolved_step"), "BIGINT"),
    **dict.fromkeys(("onset_ms", "fired_ms", "resolved_ms"), "DOUBLE"),
    "late": "BOOLEAN",
    **dict.fromkeys(("summary", "cause", "acknowledged_by"), "VARCHAR"),
    "acknowledged_ms": "DOUBLE",
}
_INCIDENT = {
    **dict.fromkeys(("id", "project", "run_id", "run_name", "state", "severity"), "VARCHAR"),
    **dict.fromkeys(("alerts", "onset_step"), "BIGINT"),
    **dict.fromkeys(("onset_ms", "updated_ms"), "DOUBLE"),
    **dict.fromkeys(("summary", "acknowledged_by"), "VARCHAR"),
    "acknowledged_ms": "DOUBLE",
}


@dataclass(frozen=True)
class Exported:
    """A run of the folder; ``is_new`` is False if its file was up to date."""

    run: Run
    path: Path
    is_new: bool


def export_runs(
    api: Api,
    folder: Path,
    filter: str = "",
    project: str | None = None,
    advance: Callable[[int], object] | None = None,
) -> Iterator[Exported]:
    """Write the runs that match a filter, newest first; yield each once its records are written.

    The list of runs, alerts and incidents is written at the end, so that it never names a missing file.
    """
    records = folder / RECORDS
    records.mkdir(parents=True, exist_ok=True)
    runs: list[Mapping[str, Any]] = []
    alerts: list[Mapping[str, Any]] = []
    known: set[str] = set()
    for run in api.runs(filter, project=project):
        path = records / f"{file_name(run.id)}.parquet"
        is_new = not _is_current(path, run)
        if is_new:
            api.download(f"/runs/{quote(run.id, safe='')}/records", path, {"format": "parquet"}, advance)
        detail = api.run(run)
        runs.append(_run_row(detail, path.name, detail.config, detail.notes))
        alerts += map(_alert_row, api.alerts(run))
        known.add(run.id)
        yield Exported(run, path, is_new)
    incidents = [each for each in api.incidents() if each.run_id in known]
    _write_lines(folder / "runs.jsonl", runs)
    _write_lines(folder / "alerts.jsonl", alerts)
    _write_lines(folder / "incidents.jsonl", map(_incident_row, incidents))
    (folder / "views.sql").write_text(views(folder.resolve(), has_records=bool(runs)), "utf-8")


def file_name(run_id: str) -> str:
    """Return a run's id as a file name; if it differs from the id, a digest is appended."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", run_id)[:100].strip(".") or "run"
    return name if name == run_id else f"{name}-{hashlib.sha256(run_id.encode()).hexdigest()[:8]}"


def _is_current(path: Path, run: Run) -> bool:
    """Return whether a run had ended before its file was written."""
    return run.state in ENDED and path.exists() and path.stat().st_mtime * 1000 > run.last_seen_ms


def _run_row(run: Run, file: str, config: Any, notes: str) -> dict[str, Any]:
    values = {name: getattr(run, name, None) for name in _RUN}
    last = {f"last_{name}": _number(run.last.get(name)) for name in ("loss", "grad_norm", "scale", "lr")}
    more = {"file": file, "gpu_util": _number(run.gpu_util), "open_alerts": run.alerts}
    return {**values, **last, **more, "config": config, "notes": notes}


def _alert_row(alert: Alert) -> dict[str, Any]:
    values = {name: getattr(alert, name, None) for name in _ALERT}
    more = {"series": alert.subject, "cause": alert.diagnosis.cause, "incident_id": alert.incident or None}
    return {**values, **more, **_acknowledged(alert)}


def _incident_row(incident: Incident) -> dict[str, Any]:
    values = {name: getattr(incident, name, None) for name in _INCIDENT}
    return {**values, "alerts": incident.count, **_acknowledged(incident)}


def _acknowledged(one: Alert | Incident) -> dict[str, Any]:
    ack = one.ack
    return {"acknowledged_by": ack and ack.by, "acknowledged_ms": ack and ack.at_ms}


def _number(value: float | None) -> float | str | None:
    """Return a number as DuckDB reads it from JSON: non-finite ones by name."""
    is_finite = value is None or value - value == 0
    return value if is_finite else str(value)


def _write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    part.replace(path)


def views(folder: Path, *, has_records: bool = True) -> str:
    """Return SQL that creates the views over the files of a folder, which may be in any database."""
    time = "make_timestamp(({0} * 1000)::BIGINT)"
    runs, alerts, incidents = (
        _lines(folder / f"{name}.jsonl", columns)
        for name, columns in (("runs", _RUN), ("alerts", _ALERT), ("incidents", _INCIDENT))
    )

    def at(columns: Mapping[str, str]) -> str:
        """Return all columns, with times instead of milliseconds."""
        found = [time.format(n) + f" AS {n[:-3]}_at" if n.endswith("_ms") else n for n in columns]
        return ", ".join(found)

    statements = [
        f"CREATE OR REPLACE VIEW runs AS SELECT {at(_RUN)} FROM {runs}",  # noqa: S608 - quoted
        f"CREATE OR REPLACE VIEW alerts AS SELECT {at(_ALERT)} FROM {alerts}",  # noqa: S608
        f"CREATE OR REPLACE VIEW incidents AS SELECT {at(_INCIDENT)} FROM {incidents}",  # noqa: S608
    ]
    if has_records:
        statements.append(_metrics(folder))
    return "".join(f"{statement};\n" for statement in statements)


def _metrics(folder: Path) -> str:
    """Return the view with one row per value. A missing value has no row; a NaN has."""
    files = _quoted(str(folder / RECORDS / "*.parquet"))
    kept = ", ".join((*COORDINATES, "filename"))
    return f"""CREATE OR REPLACE VIEW metrics_long AS
SELECT runs.id AS run_id, runs.name AS run_name, runs.project, attempt, rank, series, step, step AS step_end,
  make_timestamp(time_ns // 1000) AS at, value,
  CASE WHEN isfinite(value) THEN value END AS min, CASE WHEN isfinite(value) THEN value END AS max,
  1 AS n, isnan(value)::BIGINT AS nan, (value = 'inf'::DOUBLE)::BIGINT AS pinf,
  (value = '-inf'::DOUBLE)::BIGINT AS ninf
FROM (UNPIVOT (SELECT * FROM read_parquet({files}, union_by_name = true, filename = true))
      ON COLUMNS(* EXCLUDE ({kept})) INTO NAME series VALUE value) AS points
JOIN runs ON runs.file = parse_filename(points.filename)"""  # noqa: S608 - the folder is quoted


def _lines(path: Path, columns: Mapping[str, str]) -> str:
    kinds = ", ".join(f"{name}: '{kind}'" for name, kind in columns.items())
    return f"read_json({_quoted(str(path))}, format = 'newline_delimited', columns = {{{kinds}}})"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
