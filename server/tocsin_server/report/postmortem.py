"""Write the postmortem of an incident as Markdown, ready for an issue tracker. Pure.

Text from runs and users is escaped, so that it contains no links, images or mentions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tocsin_server import __version__
from tocsin_server.core.checkpoints import LastGood
from tocsin_server.core.incidents import Incident
from tocsin_server.core.models import Alert, Remedy
from tocsin_server.core.remedies import AppliedRemedy
from tocsin_server.notify.message import escaped, names_step
from tocsin_server.report.diagnoses import evidence_text, standing
from tocsin_server.report.impact import STATES, impact_lines
from tocsin_server.report.words import counted, moment, powers, span, title_of, whole
from tocsin_server.runs.run_comparison import Comparison, RunChanges
from tocsin_server.store.results import StoredIncident, StoredRun

MOST_ENTRIES = 60
"""Maximum number of entries of each timeline; the first ones are kept."""
MOST_CHANGES = 15
"""Maximum number of differences from one attempt or run."""
LONGEST = 1000
"""Maximum number of characters of one text of a run or a user."""
_REFERENCE = re.compile(r"[#!$%~&](?=[\w\"])|\bGH-(?=\d)", re.IGNORECASE)
"""The start of what GitHub or GitLab turn into a link: to an issue, a merge request, a label, a milestone."""
_LIST = re.compile(r"^(?:[-+=]|\d{1,9}(?=[.)]))")
"""What would begin a list or a heading at the start of a line."""
_KINDS = {
    "run": "Run",
    "ack": "Acknowledged",
    "unack": "Acknowledgement withdrawn",
}


@dataclass(frozen=True, slots=True)
class Postmortem:
    """What a postmortem is written from.

    Attributes:
        stored: The incident.
        runs: Its runs, that of its lead first; perhaps not all of them.
        timeline: Entries of ``store.alert_timeline.incident_timeline``, oldest first.
        resume: The last good checkpoint before the incident.
        charts: Series by the path of its chart, relative to the Markdown file.
        link: Address of the incident's page, or "".
        written_ns: When it is written.
        changes: What differs from what was healthy, or None.
        remedies: What was tried after the incident, oldest first.
    """

    stored: StoredIncident
    runs: Sequence[StoredRun]
    timeline: Sequence[Mapping[str, Any]]
    resume: LastGood
    charts: Mapping[str, str]
    link: str
    written_ns: int
    changes: RunChanges | None = None
    remedies: Sequence[AppliedRemedy] = ()

    @property
    def run(self) -> StoredRun:
        """The run of its lead."""
        return self.runs[0]


def markdown(data: Postmortem) -> str:
    """Return the postmortem as Markdown."""
    lead = data.stored.incident.lead
    parts = [
        f"# {title_of(lead.rule)} in {_text(data.run.name)}",
        _facts(data),
        _section("Summary", _summary(data)),
        _section("Impact", _impact(data)),
        _section("Charts", _charts(data)),
        _section("Cause", _cause(lead)),
        _section("What changed", *map(_comparison, data.changes.comparisons if data.changes else ())),
        _section("Timeline", _records(lead), _response(data.timeline)),
        _section("What was tried", _tried(data.remedies)),
        _section("Actions", _actions(data)),
        _section("Alerts", _alerts(data.stored)),
        f"---\n\nWritten by tocsin {__version__} on {moment(data.written_ns)}.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(title: str, *paragraphs: str) -> str:
    body = "\n\n".join(each for each in paragraphs if each)
    return f"## {title}\n\n{body}" if body else ""


def _facts(data: Postmortem) -> str:
    incident, state = data.stored.incident, data.stored.state
    names = [_text(name) for name in data.stored.runs.values()]
    rows = [
        (f"Run{'s' * (len(names) > 1)}", f"{', '.join(names)} (project {_text(data.run.project)})"),
        ("Severity", incident.severity.value),
        ("State", STATES[state]),
        ("Onset", _at(incident.onset_step, incident.onset_ns)),
        ("Detected", _detected(incident)),
        ("Acknowledged", _acknowledged(data.timeline)),
        *([("Last good checkpoint", _text(data.resume.text))] if data.resume.checkpoint else []),
        ("Incident", f"<{data.link}>" if data.link else _text(incident.id)),
    ]
    return _table(("", ""), rows)


def _acknowledged(timeline: Sequence[Mapping[str, Any]]) -> str:
    """Return who acknowledged the incident first, unless it was revoked."""
    found = [each for each in timeline if each["kind"] in ("ack", "unack")]
    if not found or found[-1]["kind"] == "unack":
        return "no (withdrawn)" if found else "no"
    first = next(each for each in found if each["kind"] == "ack")
    return f"by {_text(first['by'])}, {_moment_ms(first['at_ms'])}"


def _summary(data: Postmortem) -> str:
    lead = data.stored.incident.lead
    known = lead.onset_step is None or names_step(lead.summary, lead.onset_step)
    since = "" if known else f", since step {whole(lead.onset_step)}"
    what = f"{_paragraph(powers(lead.summary)).rstrip('.')}{since}."
    cause = lead.diagnosis.cause
    return f"{what} {_text(powers(cause))}" if cause else what


def _impact(data: Postmortem) -> str:
    found = impact_lines(data.stored, data.runs, data.resume.checkpoint)
    return _bullets(f"{_paragraph(name)}: {line}" if name else line for name, line in found)


def _charts(data: Postmortem) -> str:
    onset = data.stored.incident.onset_step
    at = "" if onset is None else f" around step {whole(onset)}"
    return "\n\n".join(f"![{_text(name)}{at}]({path})" for path, name in data.charts.items())


def _cause(lead: Alert) -> str:
    why = lead.diagnosis
    rows = [
        (_text(powers(each.name)), _text(evidence_text(each)), "" if each.step is None else whole(each.step))
        for each in why.evidence
    ]
    parts = [
        _paragraph(powers(why.cause)) if why.cause else "",
        _table(("Evidence", "Value", "Step"), rows) if rows else "",
        f"**How to confirm:** {_text(powers(why.how_to_confirm))}" if why.how_to_confirm else "",
        "**Other explanations:**\n\n" + _bullets(_paragraph(powers(each)) for each in why.alternatives)
        if why.alternatives
        else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _comparison(found: Comparison) -> str:
    """Return what differs from an earlier attempt or from another run, the most likely explanation first."""
    reference = found.reference
    name = _text(reference.run_name) if reference.attempt is None else f"attempt {reference.attempt}"
    rows = [
        (_text(each.name), *map(_value, each.shown), each.counts.text if each.counts else "")
        for each in found.changes[:MOST_CHANGES]
    ]
    left = len(found.changes) - len(rows)
    parts = [
        f"Compared with {name}, {reference.text}:",
        _table(("Setting", "Before", "In this incident", ""), rows) if rows else "No differences.",
        f"{counted(left, 'more difference')} not listed." if left else "",
        f"Not recorded, so not compared: {', '.join(found.not_recorded)}." if found.not_recorded else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _value(text: str | None) -> str:
    return "not set" if text is None else _text(text)


def _records(lead: Alert) -> str:
    """Return what the records show, by step."""
    found = lead.diagnosis.timeline
    rows = [(whole(step), _text(powers(text)), _text(rule)) for step, text, rule in found[:MOST_ENTRIES]]
    return _table(("Step", "What the records show", "Rule"), rows) if rows else ""


def _response(timeline: Sequence[Mapping[str, Any]]) -> str:
    """Return what tocsin and users did, by time; the same transition of several alerts is one entry."""
    found: dict[tuple[Any, ...], tuple[Mapping[str, Any], list[str]]] = {}
    states: dict[str, str] = {}
    for entry in timeline:
        if entry["kind"] == "transition":
            worse = states.get(entry["alert"]) == entry["state"]
            states[entry["alert"]] = entry["state"]
            entry = {**entry, "text": "", "state": "more severe" if worse else entry["state"]}
        key = tuple(entry[name] for name in ("at_ms", "kind", "state", "text", "by"))
        found.setdefault(key, (entry, []))[1].append(entry["rule"])
    entries = list(found.values())
    rows = [(_moment_ms(entry["at_ms"]), _event(entry, rules)) for entry, rules in entries[:MOST_ENTRIES]]
    left = len(entries) - len(rows)
    more = f"\n\n{counted(left, 'later entry', 'later entries')} not listed." if left else ""
    return _table(("Time", "Event"), rows) + more if rows else ""


def _event(entry: Mapping[str, Any], rules: Sequence[str]) -> str:
    if entry["kind"] == "transition":
        names = ", ".join(dict.fromkeys(_text(rule) for rule in rules))
        return f"{names}: {entry['state']}"
    if entry["kind"] == "notification":
        state, _, channel = entry["text"].partition(": ")
        return f"Notification to {_text(channel)}, {_text(state)}: {entry['state']}"
    by = f" by {_text(entry['by'])}" if entry["by"] else ""
    return ": ".join(each for each in (f"{_KINDS[entry['kind']]}{by}", _text(entry["text"])) if each)


def _tried(remedies: Sequence[AppliedRemedy]) -> str:
    """Return what was changed in later attempts and runs, and the outcome of each."""
    rows = [
        (_text(f"{each.run_name}, attempt {each.attempt}"), _text(each.changed), _text(each.text))
        for each in remedies
    ]
    return _table(("Attempt", "Change", "Outcome"), rows) if rows else ""


def _actions(data: Postmortem) -> str:
    remedies = data.stored.incident.lead.diagnosis.remedies
    where = data.resume.checkpoint
    items = [_action(each) for each in remedies]
    if where is not None and not any(where.name in each.text for each in remedies):
        items.append(f"- [ ] Resume from {_code(where.path)} (step {whole(where.step)}).")
    return "\n".join(items)


def _action(remedy: Remedy) -> str:
    text = f"- [ ] {_paragraph(powers(remedy.text))}"
    return f"{text}\n\n{_indented(_fenced(remedy.code))}\n" if remedy.code else text


def _alerts(stored: StoredIncident) -> str:
    rows = [
        (_text(each.rule), each.severity.value, standing(each), _step(each.onset_step), _text(each.summary))
        for each in stored.incident.alerts
    ]
    left = stored.count - len(rows)
    more = f"\n\n{counted(left, 'more alert')} not listed." if left > 0 else ""
    return _table(("Rule", "Severity", "State", "Since step", "Summary"), rows) + more


def _detected(incident: Incident) -> str:
    """Return when the first alert since the onset fired."""
    onset_ns = incident.onset_ns
    fired = [alert for alert in incident.alerts if alert.fired_ns and alert.onset_ns >= onset_ns]
    first = min(fired, key=lambda alert: alert.fired_ns or 0, default=None)
    if first is None or first.fired_ns is None:
        return "no"
    when = moment(first.fired_ns)
    took = span(max(0, first.fired_ns - onset_ns) / 1e9)
    if first.fired_step is None or incident.onset_step is None:
        return f"{took} after the onset, {when}"
    steps = first.fired_step - incident.onset_step
    return (
        f"{counted(steps, 'step')} ({took}) after the onset, {when}" if steps > 0 else f"at the onset, {when}"
    )


def _at(step: int | None, time_ns: int) -> str:
    return moment(time_ns) if step is None else f"step {whole(step)}, {moment(time_ns)}"


def _step(step: int | None) -> str:
    return "" if step is None else whole(step)


def _moment_ms(at_ms: float) -> str:
    return moment(int(at_ms * 1e6))


def _text(text: object) -> str:
    """Return text on one line that Markdown shows as it is, without links to issues and labels."""
    flat = "".join(each if each.isprintable() else " " for each in str(text)).strip()
    cut = flat if len(flat) <= LONGEST else flat[: LONGEST - 1] + "…"
    return escaped(_REFERENCE.sub("\\g<0>\u200b", cut)).replace("&", "&amp;")


def _paragraph(text: str) -> str:
    """Return text for the start of a line, where it begins no list."""
    found = _text(text)
    start = _LIST.match(found)
    if start is None:
        return found
    return f"\\{found}" if not start[0].isdigit() else f"{start[0]}\\{found[start.end() :]}"


def _code(text: str) -> str:
    """Return text as inline code; it may contain backticks."""
    flat = "".join(each if each.isprintable() else " " for each in text)
    marks = "`" * (_longest_run(flat) + 1)
    room = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{marks}{room}{flat}{room}{marks}"


def _fenced(code: str) -> str:
    marks = "`" * max(3, _longest_run(code) + 1)
    return f"{marks}\n{code.rstrip()}\n{marks}"


def _longest_run(text: str) -> int:
    """Return the length of the longest run of backticks."""
    longest = now = 0
    for each in text:
        now = now + 1 if each == "`" else 0
        longest = max(longest, now)
    return longest


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def _bullets(items: Iterable[str]) -> str:
    return "\n".join(f"- {each}" for each in items)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
