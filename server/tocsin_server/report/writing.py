"""Read one or several runs and write their report within its size limit."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tocsin_server.report import material, page
from tocsin_server.report.material import MOST_RUNS, Material, ReportError
from tocsin_server.report.page import LIMIT_BYTES, Assets, Report
from tocsin_server.store.checkpoints import resume_from
from tocsin_server.store.reader import StoreReader


def write_report(
    reader: StoreReader, assets: Assets, run_ids: Sequence[str], series: Sequence[str] | None = None
) -> Report:
    """Return the report of one run, or the comparison of several.

    If it exceeds :data:`page.LIMIT_BYTES`, it is written again with coarser curves, whose ranges and marks
    still cover every value.

    Args:
        reader: The store.
        assets: The scripts and the style sheet.
        run_ids: The runs.
        series: Series besides the vital signs; by default all of a single run, none in a comparison.

    Raises:
        ReportError: A run does not exist, or there is too much to report.
    """
    ids = list(dict.fromkeys(run_ids))
    if not 1 <= len(ids) <= MOST_RUNS:
        raise ReportError(f"runs: expected 1 to {MOST_RUNS}, got {len(ids)}")
    names = list(series) if series else (None if len(ids) == 1 else [])
    for coarser in (1, 4, 16):
        gathered = [material.gather(reader, run_id, names, share=len(ids) * coarser) for run_id in ids]
        made = _written(gathered, assets)
        if len(made.body) <= LIMIT_BYTES:
            return made
    raise ReportError(f"The report exceeds {LIMIT_BYTES} bytes: {len(made.body)}")


def write_incident_report(reader: StoreReader, assets: Assets, incident_id: str) -> Report:
    """Return the report of one incident.

    Raises:
        ReportError: There is no such incident.
    """
    stored = reader.incident(incident_id)
    if stored is None:
        raise ReportError(f"Incident {incident_id!r} not found.")
    gathered = material.gather_incident(reader, stored)
    resume = resume_from(reader, stored.incident)
    runs = material.runs_of(reader, stored)
    return page.incident_report(gathered, stored, runs, resume, assets, time.time_ns())


def _written(gathered: list[Material], assets: Assets) -> Report:
    now_ns = time.time_ns()
    if len(gathered) == 1:
        return page.run_report(gathered[0], assets, now_ns)
    return page.comparison_report(gathered, assets, now_ns)
