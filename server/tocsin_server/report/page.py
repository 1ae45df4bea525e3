"""Build the report: one HTML file that contains plotly.js and uses no network.

The charts are drawn by the modules of the pages, joined into one script; the rest is HTML without scripts.

A Content-Security-Policy in the file allows only its own two scripts, by their hashes, and no requests, so
that a run name cannot inject code.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tocsin_server import __version__
from tocsin_server.core import exact_json
from tocsin_server.core.checkpoints import LastGood
from tocsin_server.report.bundle import bundle
from tocsin_server.report.diagnoses import alerts_section
from tocsin_server.report.impact import STATES, impact_lines
from tocsin_server.report.material import Material
from tocsin_server.report.panels import chart_data, frame, series_names
from tocsin_server.report.sections import details, differing, ending, environment_line, notes, outcome
from tocsin_server.report.words import counted, esc, foreign, moment, title_of, whole
from tocsin_server.store.results import StoredIncident, StoredRun

LIMIT_BYTES = 24_000_000
"""Maximum size of a report; plotly.js takes 1.2 MB of it."""
LEGEND = (
    "⊗ NaN · △ +Inf · ▽ \u2212Inf · ○ zero and ◇ negative on a log axis · pale band: minimum to maximum "
    "of each pixel and of all ranks · tint: alert · colored line: its onset, dotted where it fired · gray "
    "dotted line: restart. Drag to zoom all charts. Double-click to reset."
)


@dataclass(frozen=True, slots=True)
class Assets:
    """What every report contains: plotly.js, the script and the style sheet."""

    plotly_js: str
    script: str
    style: str


def assets_of(web: Path, plotly_js: str) -> Assets:
    """Return the assets from the folder of the pages."""
    style = "".join((web / "styles" / name).read_text("utf-8") for name in ("tokens.css", "report.css"))
    return Assets(plotly_js, bundle(web / "report.js"), style)


@dataclass(frozen=True, slots=True)
class Report:
    """A finished report: its file name and content."""

    title: str
    body: bytes


def run_report(material: Material, assets: Assets, now_ns: int) -> Report:
    """Return the report of one run: charts, alerts with their diagnoses, notes, settings, events."""
    run = material.run
    left = (
        f'<p class="soft">{counted(len(material.left_out), "series", "series")} not drawn: '
        f"{', '.join(foreign(name) for name in material.left_out[:200])}</p>"
        if material.left_out
        else ""
    )
    head = (
        f"<p class=crumb>{foreign(run.project)}</p><h1>{foreign(run.name)}</h1><p>{environment_line(run)}</p>"
    )
    parts = (
        ending(run),
        notes(run),
        _charts([material], left),
        alerts_section(material.alerts, material.alerts_left),
        details(material),
    )
    return _page(f"{run.name} · {run.project}", head, parts, [material], assets, now_ns)


def incident_report(
    material: Material,
    stored: StoredIncident,
    runs: Sequence[StoredRun],
    resume: LastGood,
    assets: Assets,
    now_ns: int,
) -> Report:
    """Return the report of one incident: impact, where to resume, its alerts, the charts of the onset."""
    run, incident = material.run, stored.incident
    title = title_of(incident.lead.rule)
    since = "" if incident.onset_step is None else f" since step {whole(incident.onset_step)}"
    head = (
        f"<p class=crumb>{foreign(run.project)} / {foreign(run.name)}</p><h1>{esc(title)}{since}</h1>"
        f"<p><b>{esc(STATES[stored.state])}</b> · {environment_line(run)}</p>"
    )
    lines = "".join(
        f"<li>{foreign(name) + ': ' if name else ''}{esc(line)}</li>"
        for name, line in impact_lines(stored, runs, resume.checkpoint)
    )
    known = f"<li>{esc(resume.text)}</li>" if resume.checkpoint else ""
    parts = (
        f"<section><h2>Impact</h2><ul>{lines}{known}</ul></section>",
        alerts_section(material.alerts, material.alerts_left),
        _charts([material], ""),
        ending(run),
        notes(run),
        details(material),
    )
    return _page(f"{title} · {run.name} · {run.project}", head, parts, [material], assets, now_ns)


def comparison_report(materials: Sequence[Material], assets: Assets, now_ns: int) -> Report:
    """Return a comparison of runs: charts, settings that differ, then alerts and notes of each run."""
    names = ", ".join(material.run.name for material in materials)
    head = f"<h1>{counted(len(materials), 'run')} compared</h1>{_runs(materials)}"
    each = [
        f'<section class="each"><h2>{foreign(one.run.name)}</h2>{ending(one.run)}{notes(one.run)}'
        f"{alerts_section(one.alerts, one.alerts_left)}</section>"
        for one in materials
    ]
    parts = (_charts(materials, ""), differing([one.run for one in materials]), *each)
    return _page(f"Comparison: {names}"[:300], head, parts, materials, assets, now_ns)


def _runs(materials: Sequence[Material]) -> str:
    """Return the legend: color, state, steps and alerts of each run."""
    lines = "".join(
        f'<li><i class="swatch{" dashed" * (slot >= 10)}" style="--slot:var(--run-{slot % 10 + 1})"></i> '
        f"<b>{foreign(one.run.name)}</b> <span class=soft>{foreign(one.run.project)} · "
        f"{esc(outcome(one.run))} · "
        f"step {whole(one.run.last_step)} · {counted(len(one.alerts) + one.alerts_left, 'alert')}</span></li>"
        for slot, one in enumerate(materials)
    )
    return f'<ul class="runs">{lines}</ul>'


def _charts(materials: Sequence[Material], after: str) -> str:
    names = series_names(materials)
    if not names:
        return "<section><h2>Charts</h2><p class=soft>No step was logged.</p></section>"
    figures = "".join(frame(name, materials) for name in names)
    here = '<span id="here" class="soft" role="status"></span>'
    bar = f'<p class="bar"><button type="button" id="reset">All steps</button> {here}</p>'
    no_script = "<noscript><p>The charts need JavaScript. Everything else works without it.</p></noscript>"
    legend = f'<p class="legend soft">{LEGEND}</p>'
    return f"<section><h2>Charts</h2>{bar}{no_script}{legend}{figures}{after}</section>"


def _page(
    title: str, head: str, parts: Sequence[str], materials: Sequence[Material], assets: Assets, now_ns: int
) -> Report:
    data = exact_json.dumps(chart_data(materials, series_names(materials))).replace("<", "\\u003c")
    foot = (
        f"<footer>Written by tocsin {esc(__version__)} on {moment(now_ns)}. "
        "This file is complete and works offline.</footer>"
    )
    policy = _policy(assets.plotly_js, assets.script)
    text = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">{policy}'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" '
        f'content="light dark"><title>{esc(title)}</title><style>{assets.style}</style></head><body>'
        f"<main><header class=head>{head}</header>{''.join(parts)}</main>{foot}"
        f'<script type="application/json" id="charts">{data}</script>'
        f"<script>{assets.plotly_js}</script><script>{assets.script}</script></body></html>"
    )
    return Report(title, text.encode("utf-8", "replace"))


def _policy(*scripts: str) -> str:
    digests = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    rules = f"default-src 'none'; script-src {digests}; style-src 'unsafe-inline'; img-src data: blob:"
    return f'<meta http-equiv="Content-Security-Policy" content="{rules}">'


@lru_cache(maxsize=4)
def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
