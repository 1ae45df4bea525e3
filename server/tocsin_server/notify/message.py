"""Write the text of a notification: run, problem, onset, evidence, first remedy, links. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LONGEST_LINE = 400
IN_FULL = 3
"""Number of alerts with evidence and remedy; the others get one line each."""
IN_LINES = 2
"""Number of failed runs with the last lines of their traceback."""
WORDS = {"late": "Late", "digest": "Held back", "test": "Test"}


@dataclass(frozen=True, slots=True)
class Links:
    """How to build the links of an alert."""

    moment: Callable[[Mapping[str, Any]], str]
    run: Callable[[Mapping[str, Any]], str]
    acknowledge: Callable[[Mapping[str, Any]], str]


@dataclass(frozen=True, slots=True)
class Message:
    """What a channel sends. ``severity`` and ``over`` determine the color; ``picture`` is a PNG."""

    id: str
    title: str
    text: str
    markdown: str
    severity: str
    over: bool
    body: Mapping[str, Any]
    picture: bytes | None = None


def message_of(
    notification_id: str, kind: str, body: Mapping[str, Any], links: Links, picture: bytes | None = None
) -> Message:
    """Return the message of a notification from its stored body."""
    alerts, runs = list(body["alerts"]), list(body.get("runs", ()))
    reported = [*alerts, *runs]
    linked = [_linked(alert, links) for alert in alerts]
    full = {**body, "alerts": linked, "runs": [{**run, "link": links.run(run)} for run in runs]}
    return Message(
        notification_id,
        title_of(kind, full),
        _text(kind, full, plain_run, plain_block),
        _text(kind, full, markdown_run, markdown_block),
        max((one["severity"] for one in reported), key=_level, default="info"),
        bool(reported) and all(one["over"] for one in reported),
        full,
        picture,
    )


def _linked(alert: Mapping[str, Any], links: Links) -> dict[str, Any]:
    more = {"link": links.moment(alert)}
    return {**alert, **more} if alert["over"] else {**alert, **more, "ack_link": links.acknowledge(alert)}


def _level(severity: str) -> int:
    return ("info", "warning", "critical").index(severity)


def title_of(kind: str, body: Mapping[str, Any]) -> str:
    """Return one line for subjects and lock screens, with the most severe alert first."""
    alerts: Sequence[Mapping[str, Any]] = body["alerts"]
    runs: Sequence[Mapping[str, Any]] = body.get("runs", ())
    if runs and not (runs[0]["over"] and any(alert.get("new") for alert in alerts)):
        return _title_of_run(kind, body)
    if not alerts:
        return "tocsin: test"
    first = alerts[0]
    state = WORDS.get(kind) or _state_of(first)
    repeated = "Still " if body["reason"] == "repeat" else ""
    count = len(alerts) + len(runs) + body["left_out"]
    more = f" (+{count - 1} more)" if count > 1 else ""
    return line(f"{repeated}{state}: {first['rule']}{more} · {first['run_name']} · {first['project']}")


def _state_of(alert: Mapping[str, Any]) -> str:
    """Return the state at the start of a title."""
    if not alert["over"]:
        return str(alert["severity"]).capitalize()
    return f"{alert['severity'].capitalize()}, already over" if alert.get("new") else "Resolved"


def _title_of_run(kind: str, body: Mapping[str, Any]) -> str:
    first = body["runs"][0]
    state = WORDS.get(kind) or ("Goes on" if first["over"] else "Failed")
    cause = "" if first["over"] else f"{first['error']['type'] or 'failed'} · "
    count = len(body["runs"]) + len(body["alerts"]) + body["left_out"]
    more = f" (+{count - 1} more)" if count > 1 else ""
    return line(f"{state}: {cause}{first['run_name']} · {first['project']}{more}")


Block = Callable[[Mapping[str, Any]], str]


def _text(kind: str, body: Mapping[str, Any], run_block: Block, block: Block) -> str:
    alerts: Sequence[Mapping[str, Any]] = body["alerts"]
    runs: Sequence[Mapping[str, Any]] = body["runs"]
    parts = [*_preface(kind, body), *(run_block(run) for run in runs[:IN_LINES])]
    if len(runs) > IN_LINES:
        parts.append("\n".join(f"- {_what_of_run(run)}" for run in runs[IN_LINES:]))
    parts += [block(alert) for alert in alerts[:IN_FULL]]
    rest = [f"- {alert['rule']} ({_state(alert)}): {line(alert['summary'])}" for alert in alerts[IN_FULL:]]
    if body["left_out"]:
        rest.append(f"- and {body['left_out']} more")
    return "\n\n".join([*parts, *(["\n".join(rest)] if rest else [])])


def _preface(kind: str, body: Mapping[str, Any]) -> list[str]:
    if kind == "late":
        return ["Buffered records arrived late. This happened earlier and was not notified then:"]
    if kind == "digest":
        return ["Above this channel's hourly limit:"]
    return ["This is a test. The channel works."] if kind == "test" else []


def plain_block(alert: Mapping[str, Any]) -> str:
    """Return an alert as plain text."""
    lines = [f"{_what(alert)}", *(f"  {fact}" for fact in _evidence(alert))]
    remedy = first_remedy(alert)
    if remedy:
        lines.append(f"First: {remedy}")
    lines.append(f"Look: {alert['link']}")
    if alert.get("ack_link"):
        lines.append(f"Acknowledge: {alert['ack_link']}")
    return "\n".join(lines)


def markdown_block(alert: Mapping[str, Any]) -> str:
    """Return an alert as Markdown; external text is escaped."""
    lines = [f"**{escaped(_what(alert))}**", *(f"- {escaped(fact)}" for fact in _evidence(alert))]
    remedy = first_remedy(alert)
    if remedy:
        lines.append(f"\n**First:** {escaped(remedy)}")
    ack = f" · [Acknowledge]({alert['ack_link']})" if alert.get("ack_link") else ""
    lines.append(f"\n[Open the alert]({alert['link']}){ack}")
    return "\n".join(lines)


def plain_run(run: Mapping[str, Any]) -> str:
    """Return a failed run as plain text with the last lines of its traceback."""
    lines = [_what_of_run(run), *(f"  {line(each)}" for each in _last_lines(run))]
    return "\n".join([*lines, f"Look: {run['link']}"])


def markdown_run(run: Mapping[str, Any]) -> str:
    """Return a failed run as Markdown; the traceback is shown verbatim and cannot mention users."""
    said = [f"**{escaped(_what_of_run(run))}**"]
    lines = [line(each).replace("`", "'").replace("@", "@\u200b") for each in _last_lines(run)]
    if lines:
        said.append("\n".join(["```", *lines, "```"]))
    return "\n\n".join([*said, f"[Open the run]({run['link']})"])


def _last_lines(run: Mapping[str, Any]) -> list[str]:
    return [] if run["over"] else [part for each in run["error"]["lines"] for part in str(each).splitlines()]


def _what_of_run(run: Mapping[str, Any]) -> str:
    if run["over"]:
        return line(f"{run['run_name']} continues in a new attempt, after {run['summary']}")
    at = "before its first step" if run["last_step"] is None else f"at step {run['last_step']}"
    attempt = f" of attempt {run['attempt']}" if run["attempt"] > 1 else ""
    return line(f"{run['run_name']} failed {at}{attempt}: {run['summary']}")


def _what(alert: Mapping[str, Any]) -> str:
    since = "" if alert["onset_step"] is None else f", since step {alert['onset_step']}"
    return line(f"{alert['run_name']}: {alert['summary']} ({alert['rule']}, {_state(alert)}{since})")


def _state(alert: Mapping[str, Any]) -> str:
    if alert["over"]:
        step = alert["resolved_step"]
        return "resolved" if step is None else f"resolved at step {step}"
    return f"{alert['severity']}{', acknowledged' if alert.get('acked') else ''}"


def _evidence(alert: Mapping[str, Any]) -> list[str]:
    found = []
    for item in (alert.get("diagnosis") or {}).get("evidence", [])[:4]:
        value = item["value"]
        shown = f"{value:.4g}" if isinstance(value, float) else str(value)
        at = "" if item.get("step") is None else f" at step {item['step']}"
        found.append(line(f"{item['name']}: {shown}{' ' + item['unit'] if item.get('unit') else ''}{at}"))
    return found


def first_remedy(alert: Mapping[str, Any]) -> str:
    """Return the first remedy in one line, or "" if it is unknown or the resolution of a known alert."""
    remedies = (alert.get("diagnosis") or {}).get("remedies", [])
    return line(remedies[0]["text"]) if remedies and (alert.get("new") or not alert["over"]) else ""


def line(text: str) -> str:
    """Return text as one bounded line without control characters, so that it cannot forge lines."""
    flat = "".join(each if each.isprintable() else " " for each in text)
    return flat if len(flat) <= LONGEST_LINE else flat[: LONGEST_LINE - 1] + "…"


def escaped(text: str) -> str:
    """Escape external text for Markdown, so that it contains no links and mentions nobody."""
    marked = "".join(f"\\{each}" if each in "\\`*_[]<>#|~" else each for each in text)
    return marked.replace("@", "@\u200b")
