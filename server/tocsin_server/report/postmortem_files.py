"""Read an incident and write its postmortem: Markdown, and a ZIP file with its charts."""

from __future__ import annotations

import io
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tocsin_server.core.incidents import Incident
from tocsin_server.notify import chart_image, links
from tocsin_server.report.material import VITAL_SIGNS, ReportError, runs_of
from tocsin_server.report.postmortem import Postmortem, markdown
from tocsin_server.runs.remedy_search import remedies_of
from tocsin_server.runs.run_comparison import changes_of_incident
from tocsin_server.store.alert_timeline import incident_timeline
from tocsin_server.store.checkpoints import resume_from
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.results import StoredRun
from tocsin_server.transfer.record_export import file_name, find_run

AROUND = 200
"""Steps before and after the onset that the charts show."""
BUCKETS = 600
MARKDOWN = "postmortem.md"
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class PostmortemFiles:
    """A finished postmortem: the Markdown, and the PNG charts by their path relative to it."""

    name: str
    text: str
    charts: Mapping[str, bytes]

    def zipped(self) -> bytes:
        """Return a ZIP file of one folder with the Markdown and the charts; equal input gives equal bytes."""
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            for path, content in self._files().items():
                archive.writestr(zipfile.ZipInfo(f"{self.name}/{path}", _EPOCH), content)
        return out.getvalue()

    def save(self, folder: Path) -> list[Path]:
        """Write the files to a folder, which is created if it does not exist, and return their paths."""
        saved = []
        for path, content in self._files().items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
            saved.append(file)
        return saved

    def _files(self) -> dict[str, bytes]:
        return {MARKDOWN: self.text.encode("utf-8", "replace"), **self.charts}


def find_incident(reader: StoreReader, name: str) -> str:
    """Return the id of an incident, given its id, or the id or name of a run: then its most severe one.

    Raises:
        UnknownRun: There is no such incident, and no or more than one run has that id or name.
        ReportError: The run has no incident.
    """
    if reader.incident(name) is not None:
        return name
    run_id = find_run(reader, name)
    found = reader.incidents(run_id)
    if not found:
        raise ReportError(f"Run {name!r} has no incident.")
    return max(
        (each.incident for each in found), key=lambda incident: (incident.severity.level, incident.onset_ns)
    ).id


def write_postmortem(
    reader: StoreReader, incident_id: str, *, base: str = "", charts: bool = True, now_ns: int | None = None
) -> PostmortemFiles:
    """Return the postmortem of an incident.

    Args:
        reader: The store.
        incident_id: The incident.
        base: Address of the server for the link to the incident, or "" for none.
        charts: Whether the charts are drawn; without them the Markdown refers to no files.
        now_ns: When it is written; by default now.

    Raises:
        ReportError: There is no such incident.
    """
    stored = reader.incident(incident_id)
    runs = [] if stored is None else runs_of(reader, stored)
    if stored is None or not runs:
        raise ReportError(f"Incident {incident_id!r} not found.")
    run, incident = runs[0], stored.incident
    drawn = _charts(reader, run, incident) if charts else {}
    with reader.consistent() as connection:
        timeline = incident_timeline(connection, incident)
        changes = changes_of_incident(connection, run, incident)
    link = links.page(base, {"incident": incident.id}) if base else ""
    text = markdown(
        Postmortem(
            stored=stored,
            runs=runs,
            timeline=timeline,
            resume=resume_from(reader, incident),
            charts={path: name for path, (name, _) in drawn.items()},
            link=link,
            written_ns=now_ns or time.time_ns(),
            changes=changes,
            remedies=remedies_of(reader, incident),
        )
    )
    images = {path: image for path, (_, image) in drawn.items()}
    return PostmortemFiles(f"postmortem-{file_name(incident_id)}", text, images)


def _charts(reader: StoreReader, run: StoredRun, incident: Incident) -> dict[str, tuple[str, bytes]]:
    """Return the series and the image of each chart by path: the signal of the alert, then vital signs."""
    onset = incident.onset_step
    window = (None, None) if onset is None else (onset - AROUND, onset + AROUND)
    present = {each.name for each in run.series}
    names = [name for name in dict.fromkeys([incident.lead.subject, *VITAL_SIGNS]) if name in present]
    found: dict[str, tuple[str, bytes]] = {}
    for name in names:
        answer = reader.series(run.id, [name], start=window[0], stop=window[1], buckets=BUCKETS)
        layer = next(iter(answer.series[name]), None)
        if layer is not None and layer.x.size:
            image = chart_image.draw(f"{name} · {run.name}", chart_image.curve_of(layer), onset)
            found[f"charts/{file_name(name)}.png"] = (name, image)
    return found
