"""Write the text of a notification: run, problem, cause, first action, evidence, links. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tocsin_server.core.models import RULE_CHANGED, RUN_FAILED, TRACEBACK, WITHDRAWN

LONGEST_LINE = 400
LONGEST_TITLE = 80
"""Characters of an error in a title."""
IN_FULL = 3
"""Number of incidents whose first alert has evidence and remedy; the other alerts get one line each."""
_ADDRESS = re.compile(r"https?:|www\.", re.IGNORECASE)
"""The start of an address that chat services and issue trackers turn into a link without any markup."""
WORDS = {"late": "Late", "digest": "Held back", "test": "Test"}


@dataclass(frozen=True, slots=True)
class Links:
    """How to build the links of an alert."""

    page: Callable[[Mapping[str, Any]], str]
    acknowledge: Callable[[Mapping[str, Any]], str]
    silence: Callable[[Mapping[str, Any]], str]


@dataclass(frozen=True, slots=True)
class Message:
    """What a channel sends. ``severity`` and ``status`` determine the color; ``picture`` is a PNG.

    ``status`` is firing, resolved, or ended if nothing fires and something was firing when its run ended.
    """

    id: str
    title: str
    text: str
    markdown: str
    severity: str
    status: str
    body: Mapping[str, Any]
    picture: bytes | None = None
    kind: str = "alerts"


def message_of(
    notification_id: str, kind: str, body: Mapping[str, Any], links: Links, picture: bytes | None = None
) -> Message:
    """Return the message of a notification from its stored body."""
    alerts = list(body["alerts"])
    full = {**body, "alerts": [_linked(alert, links) for alert in alerts]}
    return Message(
        notification_id,
        title_of(kind, full),
        _text(kind, full, plain_block),
        _text(kind, full, markdown_block),
        max((alert["severity"] for alert in alerts), key=_level, default="info"),
        _status(alerts),
        full,
        picture,
        kind,
    )


def _status(alerts: Sequence[Mapping[str, Any]]) -> str:
    if not alerts or not all(alert["over"] for alert in alerts):
        return "firing"
    return "ended" if any(is_ended(alert) for alert in alerts) else "resolved"


def is_ended(alert: Mapping[str, Any]) -> bool:
    """Return whether the run ended while the alert was firing."""
    return bool(alert["over"] and alert["state"] == "ended")


def resolved_word(alert: Mapping[str, Any]) -> str:
    """Return what a resolved alert is called: "resolved" only if its condition recovered."""
    summary = str(alert["summary"])
    if summary.startswith(WITHDRAWN):
        return "withdrawn"
    return "closed" if summary.startswith(RULE_CHANGED) else "resolved"


def _linked(alert: Mapping[str, Any], links: Links) -> dict[str, Any]:
    linked = {**alert, "link": links.page(alert)}
    done = alert["over"] and not is_ended(alert)
    if done:
        return linked
    linked["ack_link"] = links.acknowledge(alert)
    return linked if alert["over"] else {**linked, "silence_link": links.silence(alert)}


def _level(severity: str) -> int:
    return ("info", "warning", "critical").index(severity)


def title_of(kind: str, body: Mapping[str, Any]) -> str:
    """Return one line for subjects and lock screens, with the most severe alert first."""
    alerts: Sequence[Mapping[str, Any]] = body["alerts"]
    if not alerts:
        return "tocsin: test"
    first = alerts[0]
    happened = f"{WORDS[kind]}: {first['rule']}" if kind in WORDS else _happened(first)
    repeated = "Still " if body["reason"] == "repeat" else ""
    count = len(alerts) + body["left_out"]
    more = f" (+{count - 1} more)" if count > 1 else ""
    return line(f"{repeated}{happened}{more} · {runs_of(alerts)} · {first['project']}")


def runs_of(alerts: Sequence[Mapping[str, Any]]) -> str:
    """Return the name of the run of the first alert, and the number of the other runs."""
    others = len({alert["run_id"] for alert in alerts}) - 1
    more = f" and {others} more run{'' if others == 1 else 's'}" if others else ""
    return f"{alerts[0]['run_name']}{more}"


def short(alert: Mapping[str, Any], first: Mapping[str, Any]) -> str:
    """Return an alert after the first one in one line, with its run if that is another one."""
    where = "" if alert["run_id"] == first["run_id"] else f"{alert['run_name']}: "
    return f"- {where}{alert['rule']} ({state_of(alert)}): {line(alert['summary'])}"


def _happened(alert: Mapping[str, Any]) -> str:
    """Return what happened, for the start of a title."""
    severity = alert["severity"].capitalize()
    if alert["rule"] == RUN_FAILED:
        return _of_run(alert)
    if is_ended(alert):
        return f"Run ended with {alert['rule']}"
    if not alert["over"]:
        return f"{severity}{', acknowledged' if alert.get('acked') else ''}: {alert['rule']}"
    word = resolved_word(alert)
    if word == "resolved" and alert.get("new"):
        return f"{severity}, already over: {alert['rule']}"
    return f"{word.capitalize()}: {alert['rule']}"


def _of_run(alert: Mapping[str, Any]) -> str:
    if alert["over"] and not is_ended(alert):
        return "Run continues in a new attempt"
    word = "crashed" if alert["severity"] == "critical" else "stopped"
    return f"Run {word}: {_shortened(alert['summary'])}"


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_TITLE else text[: LONGEST_TITLE - 1] + "…"


Block = Callable[[Mapping[str, Any]], str]


def _text(kind: str, body: Mapping[str, Any], block: Block) -> str:
    alerts: Sequence[Mapping[str, Any]] = body["alerts"]
    first: dict[str, Mapping[str, Any]] = {}
    for alert in alerts:
        first.setdefault(alert.get("incident") or alert["id"], alert)
    full = list(first.values())[:IN_FULL]
    parts = [*preface(kind, body), *(block(alert) for alert in full)]
    others = [alert for alert in alerts if not any(alert is each for each in full)]
    rest = [short(alert, alerts[0]) for alert in others]
    if body["left_out"]:
        rest.append(f"- and {body['left_out']} more")
    return "\n\n".join([*parts, *(["\n".join(rest)] if rest else [])])


def preface(kind: str, body: Mapping[str, Any]) -> list[str]:
    """Return what a message says before its alerts."""
    if body.get("acked_by"):
        note = f": {body['note']}" if body.get("note") else ""
        return [line(f"Acknowledged by {body['acked_by']}{note}")]
    if kind == "late":
        return ["Buffered records arrived late. This happened earlier and was not notified then:"]
    if kind == "digest":
        return ["Above this channel's hourly limit:"]
    return ["This is a test. The channel works."] if kind == "test" else []


def plain_block(alert: Mapping[str, Any]) -> str:
    """Return an alert as plain text."""
    lines = [what(alert)]
    if cause := likely_cause(alert):
        lines.append(f"Likely cause: {cause}")
    if remedy := first_remedy(alert):
        lines.append(f"First action: {remedy}")
    if resume := last_checkpoint(alert):
        lines.append(f"Last good checkpoint: {resume}")
    lines += [f"  {fact}" for fact in [*_evidence(alert), *_traceback(alert)]]
    lines.append(f"Open: {alert['link']}")
    if alert.get("ack_link"):
        lines.append(f"Acknowledge: {alert['ack_link']}")
    if alert.get("silence_link"):
        lines.append(f"Silence: {alert['silence_link']}")
    return "\n".join(lines)


def markdown_block(alert: Mapping[str, Any]) -> str:
    """Return an alert as Markdown; external text is escaped."""
    lines = [f"**{escaped(what(alert))}**"]
    if cause := likely_cause(alert):
        lines.append(f"\n**Likely cause:** {escaped(cause)}")
    if remedy := first_remedy(alert):
        lines.append(f"\n**First action:** {escaped(remedy)}")
    if resume := last_checkpoint(alert):
        lines.append(f"\n**Last good checkpoint:** {escaped(resume)}")
    facts = [f"- {escaped(fact)}" for fact in _evidence(alert)]
    lines += ["", *facts] if facts else []
    traceback = [each.replace("`", "'").replace("@", "@\u200b") for each in _traceback(alert)]
    lines += ["```", *traceback, "```"] if traceback else []
    ack = f" · [Acknowledge]({alert['ack_link']})" if alert.get("ack_link") else ""
    silence = f" · [Silence]({alert['silence_link']})" if alert.get("silence_link") else ""
    lines.append(f"\n[Open the incident]({alert['link']}){ack}{silence}")
    return "\n".join(lines)


def _traceback(alert: Mapping[str, Any]) -> list[str]:
    """Return the last lines of the traceback of a failed run; none if it continues."""
    if alert["rule"] != RUN_FAILED or (alert["over"] and not is_ended(alert)):
        return []
    found = [item for item in _facts(alert) if item["name"] == TRACEBACK]
    return [line(each) for item in found for each in str(item["value"]).splitlines()]


def what(alert: Mapping[str, Any]) -> str:
    """Return what happened in which run since which step, in one line."""
    if alert["rule"] == RUN_FAILED:
        return line(f"{alert['run_name']} {_failed(alert)}")
    step = alert["onset_step"]
    since = "" if step is None or names_step(str(alert["summary"]), step) else f", since step {step}"
    return line(f"{alert['run_name']}: {alert['summary']} ({alert['rule']}, {state_of(alert)}{since})")


def names_step(text: str, step: int) -> bool:
    """Return whether a text says at or since which step something happened already."""
    words = text.replace(",", " ").replace(";", " ").replace(".", " ").split()
    return ("step", str(step)) in itertools.pairwise(words)


def _failed(alert: Mapping[str, Any]) -> str:
    if alert["over"] and not is_ended(alert):
        return f"continues in a new attempt, after {alert['summary']}"
    at = "before its first step" if alert["onset_step"] is None else f"at step {alert['onset_step']}"
    word = "crashed" if alert["severity"] == "critical" else "was stopped"
    return f"{word} {at}: {alert['summary']}"


def state_of(alert: Mapping[str, Any]) -> str:
    """Return the severity of an alert and whether it is over."""
    if is_ended(alert):
        at = "" if alert["resolved_step"] is None else f" at step {alert['resolved_step']}"
        return f"{alert['severity']}, still firing when the run ended{at}"
    if alert["over"]:
        step, how = alert["resolved_step"], resolved_word(alert)
        return how if step is None else f"{how} at step {step}"
    return f"{alert['severity']}{', acknowledged' if alert.get('acked') else ''}"


def _evidence(alert: Mapping[str, Any]) -> list[str]:
    found = []
    for item in [each for each in _facts(alert) if each["name"] != TRACEBACK][:4]:
        value = item["value"]
        shown = f"{value:.4g}" if isinstance(value, float) else str(value)
        at = "" if item.get("step") is None else f" at step {item['step']}"
        found.append(line(f"{item['name']}: {shown}{' ' + item['unit'] if item.get('unit') else ''}{at}"))
    return found


def _facts(alert: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list((alert.get("diagnosis") or {}).get("evidence", []))


def first_remedy(alert: Mapping[str, Any]) -> str:
    """Return the first remedy in one line, or "" if it is unknown or the resolution of a known alert."""
    remedies = (alert.get("diagnosis") or {}).get("remedies", [])
    return line(remedies[0]["text"]) if remedies and needs_action(alert) else ""


def likely_cause(alert: Mapping[str, Any]) -> str:
    """Return the likely cause in one line, or "" if it is unknown or the resolution of a known alert."""
    cause = (alert.get("diagnosis") or {}).get("cause", "").removeprefix("Likely ")
    return line(cause[:1].upper() + cause[1:]) if needs_action(alert) else ""


def last_checkpoint(alert: Mapping[str, Any]) -> str:
    """Return the last good checkpoint in one line, or "" if none is known."""
    return line(alert["resume"]["text"]) if "resume" in alert else ""


def needs_action(alert: Mapping[str, Any]) -> bool:
    """Return whether a message says what to do: not if it only reports that a known alert resolved."""
    return bool(alert.get("new") or not alert["over"] or is_ended(alert))


def line(text: str) -> str:
    """Return text as one bounded line without control characters, so that it cannot forge lines."""
    flat = "".join(each if each.isprintable() else " " for each in text)
    return flat if len(flat) <= LONGEST_LINE else flat[: LONGEST_LINE - 1] + "…"


def escaped(text: str) -> str:
    """Escape external text for Markdown, so that it contains no links and no mentions."""
    marked = "".join(f"\\{each}" if each in "\\`*_[]<>#|~" else each for each in unlinked(text))
    return marked.replace("@", "@\u200b")


def unlinked(text: str) -> str:
    """Return external text whose addresses are not turned into links."""
    return _ADDRESS.sub("\\g<0>\u200b", text)
