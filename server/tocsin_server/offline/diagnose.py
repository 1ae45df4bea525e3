"""Output of ``tocsin-server diagnose``: as JSON data, and as text to paste."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import indent, wrap
from typing import Any

from tocsin_server.core.models import Alert, Diagnosis, Evidence, Remedy, Severity
from tocsin_server.detect.interface.formatting import count, number, of_unit, scale
from tocsin_server.detect.rules.catalog import infos
from tocsin_server.offline.grouping import CauseGroup, cause_groups, launch_of
from tocsin_server.offline.replay import FULL_RECORDS, VITAL, WARM_UP_RECORDS, LogResult
from tocsin_server.offline.text_sparkline import extremes, frame_of, is_logarithmic, nonfinite, sparkline
from tocsin_server.runs.sparkline_buckets import Spark

WIDTH = 100
ONSETS = 8
RISEN, FEWEST_LEVELS = 3.0, 10
"""Times its lowest level above which the end of a loss is mentioned, and the number of levels needed."""
LINES = 40
"""Maximum lines of the text of one story, unless it is asked for in full."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Maximum number of items in each list of the text."""

    signals: int
    alerts: int
    rows: int
    """Rows of evidence, timeline, and other explanations."""
    remedies: int
    """Remedies after the first action."""
    groups: int = 3
    """Groups after the first one that are shown, with cause and first action only."""


SHORT = (Lengths(5, 4, 3, 2), Lengths(4, 3, 2, 2), Lengths(3, 2, 2, 1), Lengths(3, 2, 1, 1))
"""The longest of these that fits into ``LINES`` is used, else the last."""
FULL = Lengths(*[1 << 30] * 5)


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


def _risen(loss: Spark | None) -> str:
    """Return a sentence about a loss that ends far above its lowest level, or "" for any other."""
    buckets = [] if loss is None else [loss.buckets[key] for key in sorted(loss.buckets)]
    known = [bucket.total / bucket.count for bucket in buckets if bucket.count]
    if len(known) < FEWEST_LEVELS or min(known) <= 0 or known[-1] < RISEN * min(known):
        return ""
    times, lowest, last = number(round(known[-1] / min(known), 1)), number(min(known)), number(known[-1])
    return (
        f"No rule fired, but the loss ends at about {last}, {times} times its lowest level ({lowest}). Check "
        "the loss curve and an evaluation."
    )


def _first(unread: int) -> str:
    return "number " if unread == 1 else "first: "


def by_severity(results: Sequence[LogResult]) -> list[LogResult]:
    """Return the results with problems (warning or critical alerts), the most severe first."""
    sick = [one for one in results if _level(one) >= Severity.WARNING.level]
    return sorted(sick, key=_level, reverse=True)


def _level(result: LogResult) -> int:
    return -1 if result.highest_severity is None else result.highest_severity.level


def summary(results: Sequence[LogResult]) -> str:
    """Return how many runs of a folder have problems, and the worst problem of each."""
    sick = by_severity(results)
    if not sick:
        return f"{count(len(results), 'run')}, no problems found\n"
    lines = [f"{count(len(results), 'run')}, {len(sick)} with problems:"]
    for one in sick:
        worst = max(one.alerts, key=lambda alert: alert.severity.level)
        others = len(one.alerts) + one.alerts_left_out - 1
        more = f", and {count(others, 'other alert')}" if others else ""
        lines.append(f"  {one.path}: {worst.summary}{more}")
    return "\n".join(lines) + "\n"


def report(result: LogResult, *, full: bool = False) -> str:
    """Return the text report of one file; unless ``full``, long lists are folded."""
    whole = _text(result, FULL)
    if full:
        return whole
    texts = (_text(result, lengths) for lengths in SHORT)
    text = next((each for each in texts if each.count("\n") <= LINES - 3), _text(result, SHORT[-1]))
    shortened = text.count("\n") < whole.count("\n")
    return text + ("\nShortened. Pass --full to show everything, or --json for data.\n" if shortened else "")


def _text(result: LogResult, lengths: Lengths) -> str:
    noted = [wrap(f"Note: {note}", WIDTH, **_margins("  ", "    ")) for note in notes(result)]
    parts = [
        _heading(result),
        *[line for lines in noted for line in lines],
        "",
        *_signals(result.sparks, lengths.signals),
        "",
    ]
    if not result.alerts:
        parts += wrap(_risen(result.sparks.get("loss")) or "Nothing found.", WIDTH)
    groups = cause_groups(result.alerts)
    several = result.attempts > 1
    for place, group in enumerate(groups[: 1 + lengths.groups]):
        brief = place and lengths is not FULL
        shown = _brief(group, several) if brief else _diagnosis(group, several, lengths)
        parts += [*([""] if place else []), *shown]
    left = [alert for group in groups[1 + lengths.groups :] for alert in group.alerts]
    if left:
        parts += ["", *wrap(f"Other alerts: {_about(left)}", WIDTH, **_margins("", "  "))]
    if result.alerts_left_out:
        parts.append(f"and {count(result.alerts_left_out, 'more alert')}")
    return "\n".join(parts) + "\n"


def _brief(group: CauseGroup, several: bool) -> Iterator[str]:
    """Yield the first alert of a group, its likely cause and first action, and the number of the others."""
    diagnosis = group.head.diagnosis
    yield from _alert_line(group.head, several)
    yield from wrap(f"Likely cause: {_capital(diagnosis.cause.removeprefix('Likely '))}", WIDTH)
    for remedy in diagnosis.remedies[:1]:
        yield from wrap(f"First action: {remedy.text}", WIDTH, **_margins("", "   "))
    if group.others:
        yield from wrap(f"Related alerts: {_about(group.others)}", WIDTH, **_margins("  ", "    "))


def _margins(first: str, then: str) -> dict[str, Any]:
    return {"initial_indent": first, "subsequent_indent": then}


def _heading(result: LogResult) -> str:
    span = "no steps" if result.first_step is None else f"steps {result.first_step} to {result.last_step}"
    runs = f", {result.attempts} attempts" if result.attempts > 1 else ""
    return f"{result.path}\n  {result.format}, {count(result.records, 'record')}, {span}{runs}"


def _signals(sparks: dict[str, Spark], most: int) -> Iterator[str]:
    names = sorted(sparks, key=_importance)
    width = max((len(name) for name in names[:most]), default=0)
    frame = frame_of(sparks[name] for name in names[:most])
    for name in names[:most]:
        written = scale if name.partition("/")[0] == "scale" else number
        yield f"  {name:<{width}}  {sparkline(sparks[name], frame)}  {_range(sparks[name], written)}"
    if len(names) > most:
        yield f"  and {len(names) - most} more series"


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
    yield from wrap(f"{_title(alert)}. {alert.summary}", WIDTH, **_margins(" " * 10, " " * 10))


def _title(alert: Alert) -> str:
    described = infos().get(alert.rule)
    return alert.rule if described is None else described.title


def _diagnosis(group: CauseGroup, several: bool, lengths: Lengths) -> Iterator[str]:
    """Yield the alerts of one group and their diagnosis, the first action before the details."""
    diagnosis = group.head.diagnosis
    yield from _alert_line(group.head, several)
    yield from wrap(f"Likely cause: {_capital(diagnosis.cause.removeprefix('Likely '))}", WIDTH)
    for remedy in diagnosis.remedies[:1]:
        yield from _remedy(remedy, "First action: ", "")
    if group.others:
        yield "  Related alerts"
        yield from _others_listed(group, several, lengths)
    yield from _folded("Evidence", list(_evidence(diagnosis)), lengths.rows)
    happened = [f"step {step}: {text}" for step, text, _ in group.timeline]
    yield from _folded("Timeline", happened if len(happened) > 1 else [], lengths.rows)
    yield from _folded("Other explanations", [f"- {text}" for text in _explanations(group)], lengths.rows)
    if diagnosis.how_to_confirm:
        yield from wrap(f"How to confirm: {diagnosis.how_to_confirm}", WIDTH, **_margins("  ", "    "))
    yield from _further(group, lengths)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _folded(head: str, items: Sequence[str], most: int) -> Iterator[str]:
    """Yield a headed list, with a count of the items above ``most``."""
    if items:
        yield f"  {head}"
    for item in items[:most]:
        yield from wrap(item, WIDTH, **_margins("    ", "      "))
    if len(items) > most:
        yield f"    and {len(items) - most} more"


def _others_listed(group: CauseGroup, several: bool, lengths: Lengths) -> Iterator[str]:
    """Yield the other alerts of a group: one line for each rule, or in full each."""
    if lengths is FULL:
        for alert in group.others:
            yield from _indented(_alert_line(alert, several))
        return
    rules = list(dict.fromkeys(alert.rule for alert in group.others))
    for rule in rules[: lengths.alerts]:
        alerts = [alert for alert in group.others if alert.rule == rule]
        yield from wrap(_repeated(alerts, several), WIDTH, **_margins("    ", "      "))
    if len(rules) > lengths.alerts:
        yield f"    and {count(len(rules) - lengths.alerts, 'more rule')}"


def _indented(lines: Iterator[str]) -> Iterator[str]:
    """Yield lines four characters further to the right."""
    return (f"    {line}" for line in lines)


def _repeated(alerts: Sequence[Alert], several: bool) -> str:
    """Return the earliest alert of a rule, and the number of those since."""
    ordered = sorted(alerts, key=lambda item: (item.onset_step is None, item.onset_step or 0))
    first, *rest = ordered
    launch = f"attempt {launch_of(first)}, " if several else ""
    more = ""
    if rest:
        since = rest[0].onset_step
        more = f" and {len(rest)} more" + ("" if since is None else f" since step {since:,}")
    return f"{first.severity.value}  {first.rule}  {launch}{_capital(first.summary)}{more}"


def _explanations(group: CauseGroup) -> list[str]:
    """Return the alternatives of the head and the causes of the other alerts."""
    named = [f"{_name(alert)}: {alert.diagnosis.cause}" for alert in group.other_causes]
    return [*group.head.diagnosis.alternatives, *named]


def _further(group: CauseGroup, lengths: Lengths) -> Iterator[str]:
    """Yield the remedies after the first one, and the first of other alerts with another cause."""
    first = group.head.diagnosis.remedies
    found = {remedy.text: remedy for remedy in first[1:]}
    for alert in group.other_causes:
        found |= {remedy.text: remedy for remedy in alert.diagnosis.remedies[:1]}
    rest = [remedy for text, remedy in found.items() if text not in {each.text for each in first[:1]}]
    if not rest:
        return
    yield "  If it persists"
    for place, remedy in enumerate(rest[: lengths.remedies], 1):
        if lengths is FULL:
            yield from _remedy(remedy, f"{place}. ")
        else:
            yield from wrap(f"- {remedy.text}", WIDTH, **_margins("    ", "      "))
    if len(rest) > lengths.remedies:
        yield f"    and {len(rest) - lengths.remedies} more"


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


def _evidence(diagnosis: Diagnosis) -> Iterator[str]:
    for item in diagnosis.evidence:
        value = number(item.value) if isinstance(item.value, float | int) else str(item.value)
        unit = f" {_unit(item)}" if item.unit else ""
        at = "" if item.step is None else f" (step {item.step})"
        yield f"{item.name}: {value}{unit}{at}"


def _unit(item: Evidence) -> str:
    return of_unit(item.value, item.unit) if isinstance(item.value, float | int) else item.unit


def _remedy(remedy: Remedy, place: str, margin: str = "    ") -> Iterator[str]:
    behind = margin + " " * min(len(place), 3)
    yield from wrap(f"{place}{remedy.text}", WIDTH, initial_indent=margin, subsequent_indent=behind)
    if remedy.code:
        yield indent(remedy.code.rstrip("\n"), behind + "    ")
