"""The commands that read a server: runs, alerts, incidents and report."""

from __future__ import annotations

import argparse
import sys
import webbrowser
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from ..core.severity import urgency
from . import logs
from .asking import asking
from .parsing import add_json, command, limit

if TYPE_CHECKING:
    from ..read import Alert, Api, Incident, Run, RunDetail
    from .parsing import Commands

T = TypeVar("T")
MOST_SHOWN = 100
"""Incidents in the JSON of one run, the most urgent first."""
EXPLAINED = 5
"""Incidents that are shown of one run."""
MOST_SETTINGS = 40
"""Settings that a terminal shows of one run."""
VITAL = ("loss", "grad_norm", "scale", "lr")


@asking
def runs_list(api: Api, options: argparse.Namespace) -> int:
    """List runs, newest first. FILTER is as on the fleet page: state:running lr>1e-4 -tag:debug."""
    from ..read.text import number
    from .output import print_json, print_table

    found = _first(api.runs(" ".join(options.filter), project=options.project), options.limit, "runs")
    if options.json:
        print_json(found)
        return 0
    rows = [
        (run.id, run.name, run.project, run.state, run.health, _step(run), number(run.last.get("loss")),
         _problem(run))
        for run in found
    ]  # fmt: skip
    head = ("ID", "NAME", "PROJECT", "STATE", "HEALTH", "STEP", "LOSS", "PROBLEM")
    print_table(head, rows, empty="No run matches.", less=("PROJECT", "STATE", "LOSS", "STEP"))
    return 0


def _first(pages: Iterable[T], most: int, unit: str) -> list[T]:
    """Return the first results, with progress."""
    from .progress import progress

    found = []
    with progress("Reading", unit=unit) as bar:
        for each in islice(pages, most):
            found.append(each)
            bar.advance(1)
    return found


def _step(run: Run) -> str:
    last = "" if run.last_step is None else str(run.last_step)
    return last if run.planned_steps is None else f"{last}/{run.planned_steps}"


def _problem(run: Run) -> str:
    if run.reason is not None:
        since = "" if run.reason.onset_step is None else f" since step {run.reason.onset_step}"
        return f"{run.reason.rule}{since}"
    return "" if run.outcome is None or run.outcome.kind == "finished" else run.outcome.text


@asking
def runs_show(api: Api, options: argparse.Namespace) -> int:
    """Show one run: state, newest values, settings and incidents."""
    from .output import print_json, print_styled

    run = api.run(options.run)
    incidents = sorted(
        _first(api.incidents(run), MOST_SHOWN, "incidents"),
        key=lambda one: urgency(one.state, one.severity, one.onset_ms),
    )
    if options.json:
        print_json({"run": run, "incidents": incidents})
        return 0
    for line in _described(run):
        print_styled(*line)
    for incident in incidents[:EXPLAINED]:
        print()
        for line in _incident_lines(incident):
            print_styled(*line)
    if len(incidents) > EXPLAINED:
        print(f"\nMore incidents: tocsin incidents --run {run.id}")
    return 0


Line = list[tuple[str, str]]
"""Parts of a line of text, each with its style."""


def _plain(line: str) -> Line:
    return [(line, "")]


def _described(run: RunDetail) -> list[Line]:
    from ..core.values import counted
    from ..read.text import ago, number, shown
    from .output import STYLES

    values = [f"{name} {number(run.last[name])}" for name in VITAL if run.last.get(name) is not None]
    rate = "" if run.steps_per_s is None else f", {number(run.steps_per_s)} steps/s"
    lines = [
        f"{shown(run.name)} ({run.id}), project {shown(run.project)}",
        f"Step       {_step(run)}{rate}, attempt {run.attempt} of {run.attempts}",
        f"Values     {', '.join(values) or 'none'}",
        f"Problems   {counted(run.alerts, 'open alert')}, {counted(run.skipped, 'skipped step')}, "
        f"{run.nonfinite} NaN or Inf",
    ]
    if run.lost_records:
        lines.append(f"Lost       {counted(run.lost_records, 'record')}, which could not be delivered")
    if run.outcome is not None:
        lines.append(f"Outcome    {shown(run.outcome.text)}")
    if run.tags:
        lines.append(f"Tags       {shown(', '.join(run.tags))}")
    if run.config:
        lines += ["Settings", *setting_lines(run.config, MOST_SETTINGS if sys.stdout.isatty() else None)]
    state = [
        ("State      ", ""), (run.state, STYLES.get(run.state, "")), (", health ", ""),
        (run.health, STYLES.get(run.health, "")), (f", last seen {ago(run.last_seen_ms)} ago", ""),
    ]  # fmt: skip
    described = [_plain(line) for line in lines]
    return [described[0], state, *described[1:]]


def setting_lines(config: Mapping[str, Any], most: int | None) -> list[str]:
    """Return a line for each setting. With ``most``, for at most so many, and for none without a value."""
    from ..read.text import shown

    known = [(name, value) for name, value in config.items() if most is None or value is not None]
    lines = [f"  {shown(name)} = {shown(value)}" for name, value in known[:most]]
    left = len(config) - len(lines)
    return [*lines, f"  and {left} more (--json has them)"] if left else lines


def _incident_lines(incident: Incident) -> list[Line]:
    from ..read.text import likely, shown
    from .output import STYLES

    since = "" if incident.onset_step is None else f" since step {incident.onset_step}"
    ack = "not acknowledged" if incident.ack is None else f"acknowledged by {shown(incident.ack.by)}"
    head = [
        (f"Incident {incident.id}: ", ""), (incident.severity, STYLES.get(incident.severity, "")),
        (f", {incident.state}{since}, {ack}", ""),
    ]  # fmt: skip
    lines = [f"  {shown(incident.summary)}"]
    diagnosis = incident.diagnosis
    if diagnosis is not None:
        lines.append(f"  Likely cause: {shown(likely(diagnosis.cause))}")
        lines += [f"  First action: {shown(remedy.text)}" for remedy in diagnosis.remedies[:1]]
    return [head, *map(_plain, lines)]


@asking
def runs_open(api: Api, options: argparse.Namespace) -> int:
    """Open the page of a run in a browser, and print its address."""
    from .output import print_json

    run = api.run(options.run)
    address = f"{api.url}/runs/{quote(run.id, safe='')}"
    if options.json:
        print_json({"url": address})
        return 0
    print(address, flush=True)
    if not options.print and not webbrowser.open(address):
        print("tocsin: no browser was found on this machine; open the address yourself", file=sys.stderr)
    return 0


def _since(one: Alert | Incident) -> int | str:
    return "" if one.onset_step is None else one.onset_step


@asking
def alerts_list(api: Api, options: argparse.Namespace) -> int:
    """List alerts, active ones first."""
    from .output import print_json, print_table

    pages = api.alerts(options.run, state=options.state, severity=options.severity)
    found = _first(pages, options.limit, "alerts")
    if options.json:
        print_json(found)
        return 0
    rows = [
        (one.id, one.severity, one.state, one.run_name, one.rule, _since(one), "yes" if one.ack else "no",
         one.summary)
        for one in found
    ]  # fmt: skip
    head = ("ID", "SEVERITY", "STATE", "RUN", "RULE", "SINCE", "ACKED", "SUMMARY")
    print_table(head, rows, empty="No alerts.", less=("SINCE", "ACKED", "STATE", "RULE", "RUN"))
    return 0


@asking
def alerts_ack(api: Api, options: argparse.Namespace) -> int:
    """Acknowledge alerts or incidents: reminders stop. Needs a token with scope write."""
    from ..read import NotFoundError
    from .output import print_json

    done = []
    for given in options.id:
        kind = "incident"
        try:
            api.acknowledge_incident(given, options.note)
        except NotFoundError:
            kind = "alert"
            _acknowledge_alert(api, given, options.note)
        done.append({"id": given, "kind": kind})
        if not options.json:
            print(f"Acknowledged {kind} {given}.")
    if options.json:
        print_json(done)
    return 0


def _acknowledge_alert(api: Api, given: str, note: str) -> None:
    from ..read import NotFoundError

    try:
        api.acknowledge_alert(given, note)
    except NotFoundError:
        ids = [each.id for each in islice(api.incidents(), MOST_SHOWN)]
        near = [each for each in ids if each.startswith(given)] or get_close_matches(given, ids, 3)
        hint = f"Did you mean {' or '.join(near[:3])}?" if near else "`tocsin incidents` lists the incidents."
        raise NotFoundError(f"There is no alert or incident {given!r}. {hint}") from None


@asking
def incidents(api: Api, options: argparse.Namespace) -> int:
    """List incidents, which are alerts that belong together; open and mitigated ones first."""
    from ..read.text import ago
    from .output import print_json, print_table

    found = _first(api.incidents(options.run, state=options.state), options.limit, "incidents")
    if options.json:
        print_json(found)
        return 0
    rows = [
        (one.id, one.severity, one.state, one.run_name, _since(one), ago(one.updated_ms),
         "yes" if one.ack else "no", one.summary)
        for one in found
    ]  # fmt: skip
    head = ("ID", "SEVERITY", "STATE", "RUN", "SINCE", "CHANGED", "ACKED", "SUMMARY")
    print_table(head, rows, empty="No incidents.", less=("SINCE", "CHANGED", "STATE", "RUN"))
    return 0


@asking
def report(api: Api, options: argparse.Namespace) -> int:
    """Write a report as one HTML file: of a run, of an incident, or a comparison of several runs."""
    from .output import print_json
    from .progress import BYTES, progress

    with progress("Writing the report", unit=BYTES) as bar:
        path, query, name = _report_of(api, options.id)
        place = options.output or Path(f"{_file_name(name)}-report.html")
        api.download(path, place, query, advance=bar.advance)
    if options.json:
        print_json({"path": str(place), "bytes": place.stat().st_size})
    else:
        print(place)
    return 0


def _report_of(api: Api, ids: list[str]) -> tuple[str, dict[str, Any], str]:
    """Return path, query and name of a report."""
    from ..read import NotFoundError

    if len(ids) > 1:
        return "/compare/report", {"runs": [api.run(each).id for each in ids]}, "comparison"
    try:
        found = api.incident(ids[0])
    except NotFoundError:
        run = api.run(ids[0])
        return f"/runs/{quote(run.id, safe='')}/report", {}, run.name
    return f"/incidents/{quote(found.id, safe='')}/report", {}, f"incident-{found.run_name}"


def _file_name(text: str) -> str:
    """Return text as a file name in the current folder."""
    return "".join(each if each.isalnum() or each in "._-" else "-" for each in text).strip(".-") or "run"


def add_commands(commands: Commands) -> None:
    """Add the commands to the parser."""
    runs = _group(commands, "runs", "List, show and open runs, and print their logs.")
    listed = _command(runs, "list", runs_list, "an array of runs")
    listed.add_argument("filter", nargs="*", metavar="FILTER", help="filter terms; all must match")
    listed.add_argument("--project", help="only runs of this project")
    listed.add_argument("--limit", type=limit, default=50, help="maximum number of runs")
    detailed = _command(runs, "show", runs_show, "{run, incidents}")
    detailed.add_argument("run", metavar="RUN", help="id or name of the run")
    logs.add_command(runs)
    opened = _command(runs, "open", runs_open, "{url}; no browser is opened")
    opened.add_argument("run", metavar="RUN", help="id or name of the run")
    opened.add_argument("--print", action="store_true", help="print the address only")
    alerts = _group(commands, "alerts", "List and acknowledge alerts.")
    listed = _command(alerts, "list", alerts_list, "an array of alerts")
    _states(listed, "pending, firing, recovering, resolved, ended")
    listed.add_argument("--severity", help="critical, warning or info; several separated by commas")
    acked = _command(alerts, "ack", alerts_ack, "an array of {id, kind}; kind is alert or incident")
    acked.add_argument("id", nargs="+", metavar="ID", help="id of an alert or an incident")
    acked.add_argument("--note", default="", help="a note for the team")
    grouped = _command(commands, "incidents", incidents, "an array of incidents")
    _states(grouped, "open, mitigated, ended, resolved")
    reported = _command(commands, "report", report, "{path, bytes}")
    reported.add_argument("id", nargs="+", metavar="ID", help="a run, an incident, or 2 to 8 runs to compare")
    reported.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="the file; default: NAME-report.html"
    )


def _group(commands: Commands, name: str, text: str) -> Commands:
    parser = commands.add_parser(name, help=text, description=text)
    return parser.add_subparsers(required=True, metavar="COMMAND")


def _command(commands: Commands, name: str, run: Any, fields: str) -> argparse.ArgumentParser:
    parser = command(commands, name, run, login=True)
    add_json(parser, fields)
    return parser


def _states(parser: argparse.ArgumentParser, states: str) -> None:
    parser.add_argument("--run", help="only of this run: id or name")
    parser.add_argument("--state", help=f"one or several of {states}")
    parser.add_argument("--limit", type=limit, default=100, help="maximum number")
