"""Output of ``tocsin-server diagnose``: as JSON data, and as text to paste."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from textwrap import indent, wrap
from typing import Any

from tocsin_server.core.models import Alert, Diagnosis, Evidence, Remedy, Severity
from tocsin_server.detect.interface.formatting import count, number, of_unit, scale
from tocsin_server.offline.grouping import CauseGroup, cause_groups, launch_of
from tocsin_server.offline.replay import FULL_RECORDS, VITAL, WARM_UP_RECORDS, LogResult
from tocsin_server.offline.text_sparkline import extremes, frame_of, is_logarithmic, nonfinite, sparkline
from tocsin_server.runs.sparkline_buckets import Spark

WIDTH = 100
SIGNALS = 12
"""Maximum series with a line in the text; the JSON contains the alerts of all."""
ALERT_LINES = 40
ONSETS = 8


def exit_status(result: Sequence[LogResult], unreadable: int, fail_on: Severity | None) -> int:
    """Return 2 if a file could not be read, 1 if an alert is at least as severe as ``fail_on``, else 0."""
    if unreadable:
        return 2
    found = [file.highest_severity for file in result]
    return int(fail_on is not None and any(one is not None and one.level >= fail_on.level for one in found))


def as_data(result: LogResult) -> dict[str, Any]:
    """Return one entry of ``files`` in the JSON."""
    return {
        "path": result.path,
        "format": result.format,
        "records": result.records,
        "alerts": [alert_data(alert) for alert in result.alerts],
        "alerts_left_out": result.alerts_left_out,
        "first_step": result.first_step,
        "last_step": result.last_step,
        "attempts": result.attempts,
        "unread_lines": {
            "count": result.unread,
            "first": [{"line": item.line, "why": item.why} for item in result.first_unread],
        },
        "notes": notes(result),
    }


def unreadable_data(path: str, reason: str) -> dict[str, Any]:
    """Return the entry of a file that could not be read."""
    return {"path": path, "format": None, "records": 0, "alerts": [], "error": reason}


def alert_data(alert: Alert) -> dict[str, Any]:
    """Return one alert as JSON data; ``causes`` starts with the most likely one."""
    diagnosis = alert.diagnosis
    return {
        "rule": alert.rule,
        "severity": alert.severity.value,
        "state": alert.state.value,
        "attempt": launch_of(alert),
        "onset_step": alert.onset_step,
        "fired_step": alert.fired_step,
        "resolved_step": alert.resolved_step,
        "series": alert.subject,
        "summary": alert.summary,
        "evidence": [
            {"name": item.name, "value": item.value, "unit": item.unit, "step": item.step}
            for item in diagnosis.evidence
        ],
        "causes": [diagnosis.cause, *diagnosis.alternatives],
        "remedies": [{"text": remedy.text, "code": remedy.code} for remedy in diagnosis.remedies],
        "how_to_confirm": diagnosis.how_to_confirm,
        "timeline": [{"step": step, "text": text, "rule": rule} for step, text, rule in diagnosis.timeline],
    }


def notes(result: LogResult) -> list[str]:
    """Return limitations of the input that affect how far the result can be trusted."""
    found = list(result.remarks)
    if not result.training_records:
        found.append("No loss and no gradient norm was found: only rules about other signals were evaluated.")
    elif result.training_records < WARM_UP_RECORDS:
        found.append(
            f"Only {result.training_records} training records: rules that compare with the run's own level "
            f"need about {WARM_UP_RECORDS}, so only rules without a baseline were evaluated."
        )
    elif result.training_records < FULL_RECORDS:
        found.append(
            f"Only {result.training_records} training records, too few for all rules: the first "
            f"{WARM_UP_RECORDS} were the baseline, in which spikes cannot be detected, and detecting a loss "
            f"that does not fall takes {FULL_RECORDS}."
        )
    if result.unread:
        which = ", ".join(str(item.line) for item in result.first_unread)
        found.append(f"{count(result.unread, 'line')} could not be read ({_first(result.unread)}{which}).")
    if result.names_left_out:
        found.append(f"{result.names_left_out} or more columns beyond the limit were left out.")
    if result.went_back:
        found.append(
            f"Steps went back {count(result.went_back, 'time')} without a new run: rewinds, or several "
            "processes that "
            "write into one file. No statistic is carried across them."
        )
    return found


def _first(unread: int) -> str:
    return "number " if unread == 1 else "first: "


def report(result: LogResult) -> str:
    """Return the text report of one file."""
    parts = [
        _heading(result),
        *[f"  Note: {note}" for note in notes(result)],
        "",
        *_signals(result.sparks),
        "",
    ]
    if not result.alerts:
        parts.append("Nothing found.")
    several = result.attempts > 1
    parts += [line for alert in result.alerts[:ALERT_LINES] for line in _alert_line(alert, several)]
    hidden = len(result.alerts) - ALERT_LINES + result.alerts_left_out
    if hidden > 0:
        parts.append(f"and {hidden} more alerts (--json has them)")
    reported = cause_groups(result.alerts)
    for group in reported:
        parts += ["", *_diagnosis(group, named=len(result.alerts) > 1)]
    return "\n".join(parts) + "\n"


def _heading(result: LogResult) -> str:
    span = "no steps" if result.first_step is None else f"steps {result.first_step} to {result.last_step}"
    runs = f", {result.attempts} attempts" if result.attempts > 1 else ""
    return f"{result.path}\n  {result.format}, {result.records} records, {span}{runs}"


def _signals(sparks: dict[str, Spark]) -> Iterator[str]:
    names = sorted(sparks, key=_importance)
    width = max((len(name) for name in names[:SIGNALS]), default=0)
    frame = frame_of(sparks[name] for name in names[:SIGNALS])
    for name in names[:SIGNALS]:
        written = scale if name.partition("/")[0] == "scale" else number
        yield f"  {name:<{width}}  {sparkline(sparks[name], frame)}  {_range(sparks[name], written)}"
    if len(names) > SIGNALS:
        yield f"  and {len(names) - SIGNALS} more series"


def _importance(name: str) -> tuple[int, str]:
    base = name.partition("/")[0]
    return VITAL.index(base) if base in VITAL else len(VITAL), name


def _range(spark: Spark, written: Callable[[float], str]) -> str:
    low, high = extremes(spark)
    parts = []
    if low is not None and high is not None:
        parts.append(f"{written(low)} throughout" if low == high else f"{written(low)} … {written(high)}")
    parts += ["log"] if is_logarithmic(spark) else []
    nan, infinite = nonfinite(spark)
    parts += [f"{nan} NaN"] if nan else []
    parts += [f"{infinite} Inf"] if infinite else []
    return ", ".join(parts)


def _alert_line(alert: Alert, several: bool) -> Iterator[str]:
    """Yield the lines of an alert; with ``several`` launches in the file, they include the launch."""
    launch = f"attempt {launch_of(alert)}, " if several else ""
    since = "" if alert.onset_step is None else f"{launch}since step {alert.onset_step} "
    over = "" if alert.resolved_step is None else f", resolved at {alert.resolved_step}"
    state = f"{since}(fired at {alert.fired_step}{over})"
    yield "  ".join(part for part in (f"{alert.severity.value:<8}", alert.rule, alert.subject, state) if part)
    yield from wrap(alert.summary, WIDTH, initial_indent=" " * 10, subsequent_indent=" " * 10)


def _diagnosis(group: CauseGroup, named: bool) -> Iterator[str]:
    """Yield the diagnosis of one group; with ``named``, it lists the alerts of the group."""
    diagnosis = group.head.diagnosis
    yield from wrap(f"Most likely: {diagnosis.cause.removeprefix('Likely ')}", WIDTH)
    if named:
        about = f"Alerts: {_about(group.alerts)}"
        yield from wrap(about, WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
    if group.timeline:
        yield "  What happened"
        for step, text, _ in group.timeline:
            yield from wrap(f"step {step}: {text}", WIDTH, initial_indent="    ", subsequent_indent="      ")
    if diagnosis.evidence:
        yield "  Evidence"
        yield from (f"    {item}" for item in _evidence(diagnosis))
    if diagnosis.alternatives:
        yield "  Other possible causes"
        for text in diagnosis.alternatives:
            yield from wrap(text, WIDTH, initial_indent="    - ", subsequent_indent="      ")
    if diagnosis.remedies:
        yield "  What to do"
    for place, remedy in enumerate(diagnosis.remedies, 1):
        yield from _remedy(remedy, f"{place}. ")
    if diagnosis.how_to_confirm:
        text = f"How to confirm: {diagnosis.how_to_confirm}"
        yield from wrap(text, WIDTH, initial_indent="  ", subsequent_indent="    ")
    yield from _others(group)


def _about(alerts: Sequence[Alert]) -> str:
    """Return the alerts by rule, each with its onsets."""
    onsets: dict[str, list[str]] = {}
    for alert in sorted(alerts, key=lambda item: (item.onset_step is None, item.onset_step or 0)):
        known = onsets.setdefault(alert.rule, [])
        if alert.onset_step is not None and str(alert.onset_step) not in known:
            known.append(str(alert.onset_step))
    parts = [f"{rule} since {_listed(steps)}" if steps else rule for rule, steps in onsets.items()]
    return "; ".join(parts)


def _listed(steps: list[str]) -> str:
    if len(steps) > ONSETS:
        return f"{', '.join(steps[:ONSETS])} and {len(steps) - ONSETS} times more"
    return steps[0] if len(steps) == 1 else f"{', '.join(steps[:-1])} and {steps[-1]}"


def _name(alert: Alert) -> str:
    since = "" if alert.onset_step is None else f" since {alert.onset_step}"
    return f"{alert.rule}{since}"


def _others(group: CauseGroup) -> Iterator[str]:
    """Yield the causes and remedies of other alerts of the group that differ from those of the head."""
    reported = {remedy.text for remedy in group.head.diagnosis.remedies}
    if group.other_causes:
        yield "  Causes of the other alerts"
    for alert in group.other_causes:
        text = f"{_name(alert)}: {alert.diagnosis.cause}"
        yield from wrap(text, WIDTH, initial_indent="    - ", subsequent_indent="      ")
        for remedy in alert.diagnosis.remedies[:1]:
            if remedy.text not in reported:
                yield from _remedy(remedy, "", "      ")


def _evidence(diagnosis: Diagnosis) -> Iterator[str]:
    for item in diagnosis.evidence:
        value = number(item.value) if isinstance(item.value, float | int) else str(item.value)
        unit = f" {_unit(item)}" if item.unit else ""
        at = "" if item.step is None else f" (step {item.step})"
        yield f"{item.name}: {value}{unit}{at}"


def _unit(item: Evidence) -> str:
    return of_unit(item.value, item.unit) if isinstance(item.value, float | int) else item.unit


def _remedy(remedy: Remedy, place: str, margin: str = "    ") -> Iterator[str]:
    behind = margin + " " * len(place)
    yield from wrap(f"{place}{remedy.text}", WIDTH, initial_indent=margin, subsequent_indent=behind)
    if remedy.code:
        yield indent(remedy.code.rstrip("\n"), behind + "    ")
