"""The tools ``explain`` and ``acknowledge``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from msgspec import Meta

from ..core.severity import urgency
from ..read.text import likely
from .api import Api, ApiError, named
from .run_line import Row, acknowledged, find_run, line_of
from .text import counted, flattened, listed, number, plain, quoted
from .tool import Arguments, Tool

MOST_EVIDENCE, MOST_TIMELINE, MOST_REMEDIES, MOST_CHANGES, MOST_SETTINGS = 8, 12, 3, 8, 30
IN_DETAIL = 2
"""Incidents of a run that are explained; others have one line."""
TRACEBACK_CHARACTERS = 1500


class Explain(Arguments):
    """Explain a run, an incident or an alert: what is wrong, since which step, the likely cause with
    evidence, the first action, how to confirm it, what changed since the last healthy run, and the
    checkpoint to resume from.
    """

    id: Annotated[str, Meta(description="Id of a run, an incident or an alert, or the name of a run.")]


class Acknowledge(Arguments):
    """Acknowledge an incident or an alert for the team: reminders stop, its end is still notified. Do this
    only if the user asked for it. Needs a token with scope write.
    """

    id: Annotated[str, Meta(description="Id of an incident or an alert.")]
    note: Annotated[str, Meta(max_length=1000, description="A note for the team.")] = ""


async def explain(api: Api, wanted: Explain) -> list[str]:
    """Explain the incident, alert or run of an id, whichever exists."""
    try:
        return await _incident(api, wanted.id)
    except ApiError as error:
        if error.status != 404:
            raise
    try:
        alert = await api.get(f"/alerts/{named(wanted.id)}", {})
    except ApiError as error:
        if error.status != 404:
            raise
        return await _named_run(api, wanted.id)
    if alert["incident"]:
        return await _incident(api, alert["incident"])
    return list(_alert(alert))


async def _named_run(api: Api, given: str) -> list[str]:
    try:
        return await _run(api, given)
    except ApiError as error:
        no_run = "There is no run"
        raise ApiError(error.status, str(error).replace(no_run, f"{no_run}, incident or alert", 1)) from error


async def _run(api: Api, given: str) -> list[str]:
    run = await find_run(api, given)
    found = (await api.get("/incidents", {"run": run["id"], "limit": 20}))["items"]
    found.sort(key=lambda one: urgency(one["state"], one["severity"], one["onset_ms"]))
    lines = [line_of(run) + "."]
    if run["notes"]:
        lines.append(f"Notes: {quoted(run['notes'])}")
    if run["error"]:
        lines += [
            f"Error {name}: {quoted(value, TRACEBACK_CHARACTERS)}" for name, value in run["error"].items()
        ]
    lines.append("Settings: " + (", ".join(_settings(run["config"])) or "none"))
    lines.append(f"{counted(len(found), 'incident')}, the most urgent first.")
    for one in found[:IN_DETAIL]:
        lines += _explained(one)
    lines += listed([_heading(one) for one in found[IN_DETAIL:]], 10, "incidents")
    if found:
        lines += _changes(await api.get(f"/runs/{named(run['id'])}/changes", {}))
        checkpoints = await api.get(f"/runs/{named(run['id'])}/checkpoints", {})
        lines.append(f"Checkpoints: {quoted(checkpoints['text'])}")
    return lines


def _settings(config: Any) -> list[str]:
    return listed(
        [f"{quoted(name, 60)} {plain(value)}" for name, value in flattened(config)], MOST_SETTINGS, "settings"
    )


async def _incident(api: Api, given: str) -> list[str]:
    found = await api.get(f"/incidents/{named(given)}", {})
    lines = [*_explained(found), f"Resume: {quoted(found['resume']['text'])}"]
    lines += _changes(await api.get(f"/incidents/{named(given)}/changes", {}))
    similar = await api.get(f"/incidents/{named(given)}/similar", {})
    return [*lines, *_similar(similar["items"])]


def _heading(one: Row) -> str:
    since = "" if one["onset_step"] is None else f" since step {one['onset_step']}"
    runs = ", ".join(f"{quoted(run['id'])} (name {quoted(run['name'], 100)})" for run in one["runs"][:5])
    return (
        f"Incident {quoted(one['id'])}: {one['severity']}, {one['state']}{since}, {acknowledged(one)}, "
        f"run {runs}, {counted(one['count'], 'alert')}: {quoted(one['summary'])}"
    )


def _explained(one: Row) -> Iterable[str]:
    """Yield an incident: the diagnosis of its most severe alert, and its other alerts in one line each."""
    yield _heading(one)
    if one["alerts"]:
        yield from _alert(one["alerts"][0])
        others = [_alert_line(alert) for alert in one["alerts"][1:]]
        yield from listed([f"Related: {line}" for line in others], 5, "alerts")


def _alert_line(alert: Row) -> str:
    since = "" if alert["onset_step"] is None else f" since step {alert['onset_step']}"
    fired = "" if alert["fired_step"] is None else f", fired at step {alert['fired_step']}"
    over = "" if alert["resolved_step"] is None else f", resolved at step {alert['resolved_step']}"
    series = f" of {quoted(alert['subject'], 100)}" if alert["subject"] else ""
    head = f"{alert['severity']} {quoted(alert['rule'])}{series}, {alert['state']}{since}{fired}{over}"
    return f"{head}: {quoted(alert['summary'])}"


def _alert(alert: Row) -> Iterable[str]:
    diagnosis = alert["diagnosis"]
    yield f"Alert {quoted(alert['id'])}: {_alert_line(alert)}"
    yield f"Likely cause: {quoted(likely(diagnosis['cause']), 600)}"
    evidence = [_evidence(each) for each in diagnosis["evidence"]]
    yield from (f"Evidence: {line}" for line in listed(evidence, MOST_EVIDENCE, "numbers"))
    for place, remedy in enumerate(diagnosis["remedies"][:MOST_REMEDIES]):
        code = f", code {quoted(remedy['code'], 500)}" if remedy["code"] else ""
        yield f"{'First action' if place == 0 else 'Otherwise'}: {quoted(remedy['text'], 500)}{code}"
    if diagnosis["how_to_confirm"]:
        yield f"How to confirm: {quoted(diagnosis['how_to_confirm'], 400)}"
    yield from (f"Other explanation: {quoted(text)}" for text in diagnosis["alternatives"][:3])
    timeline = [f"step {step}: {quoted(text, 160)}" for step, text, *_ in diagnosis["timeline"]]
    if len(timeline) > 1:
        yield from (f"Timeline: {line}" for line in listed(timeline, MOST_TIMELINE, "entries"))


def _evidence(item: Row) -> str:
    unit = f" {quoted(item['unit'], 40)}" if item["unit"] else ""
    at = "" if item["step"] is None else f" (step {item['step']})"
    return f"{quoted(item['name'], 100)} {number(item['value'])}{unit}{at}"


def _changes(found: Row) -> Iterable[str]:
    for each in found["comparisons"]:
        yield f"Compared with {each['kind']} {quoted(each['run_id'])} ({quoted(each['text'])}):"
        lines = [_change(change) for change in each["changes"]]
        yield from listed(lines, MOST_CHANGES, "changes") or ["  no recorded difference"]
    if not found["comparisons"]:
        yield "No healthy attempt or run to compare with."


def _change(change: Row) -> str:
    before, after = (
        "not set" if change[side] is None else quoted(change[side], 120) for side in ("before", "after")
    )
    only = ", only in failing runs" if change["only_failing"] else ""
    return f"  {change['category']} {quoted(change['name'], 100)}: {before} -> {after}{only}"


def _similar(items: Sequence[Row]) -> Iterable[str]:
    for one in items[:3]:
        solved = "" if one["solved"] is None else f", solved by {quoted(one['solved']['changed'])}"
        reasons = ", ".join(quoted(reason, 100) for reason in one["reasons"][:4])
        yield f"Similar incident {quoted(one['id'])} ({one['state']}; in common: {reasons}){solved}"


async def acknowledge(api: Api, wanted: Acknowledge) -> list[str]:
    """Acknowledge an incident, else an alert of that id."""
    body = {"note": wanted.note}
    try:
        found = await api.post(f"/incidents/{named(wanted.id)}/ack", body)
    except ApiError as error:
        if error.status != 404:
            raise
    else:
        return [f"{_heading(found)}", f"Acknowledged the incident, with {counted(found['count'], 'alert')}."]
    try:
        marks = await api.post(f"/alerts/{named(wanted.id)}/ack", body)
    except ApiError as error:
        if error.status != 404:
            raise
        why = f"There is no incident or alert '{wanted.id[:200]}'. Call explain with the run to see both."
        raise ApiError(404, why) from error
    return [f"Alert {quoted(marks['id'])}: acknowledged by {quoted(marks['ack']['by'])}."]


EXPLAIN = Tool("explain", Explain, explain)
ACKNOWLEDGE = Tool("acknowledge", Acknowledge, acknowledge, writes=True)
