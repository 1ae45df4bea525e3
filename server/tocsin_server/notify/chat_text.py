"""Write the short text of a message for chat services, in their markup and within their limit. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tocsin_server.notify.message import (
    Message,
    first_remedy,
    last_checkpoint,
    likely_cause,
    line,
    preface,
    state_of,
    what,
)

WIDTHS = (400, 250, 150, 80)
"""Longest line of external text, from the widest to the narrowest."""
FEWEST = 3
"""Number of incidents whose first alert is described in full; the other alerts get one line each."""


@dataclass(frozen=True, slots=True)
class Markup:
    """The markup of a service. ``escape`` removes links, mentions and formatting from external text."""

    escape: Callable[[str], str]
    bold: Callable[[str], str]
    """Of escaped text."""
    link: Callable[[str, str], str]
    """Of a label and an address."""
    size: Callable[[str], int] = len
    """How the service counts the characters of a text."""


def title_text(message: Message, markup: Markup) -> str:
    """Return the title as a short message: the reply that notifies people of a change."""
    return markup.escape(message.title)


def chat_text(message: Message, markup: Markup, limit: int) -> str:
    """Return title, problem, cause, first action, checkpoint and links in at most ``limit`` characters.

    If it is too long, long lines are shortened first, then the alerts at the end are counted instead.
    """
    for width in WIDTHS:
        lines = list(_lines(message, markup, width))
        text = "\n".join(lines)
        if markup.size(text) <= limit:
            return text
    while len(lines) > 1 and markup.size("\n".join([*lines, "…"])) > limit:
        lines.pop()
    return "\n".join([*lines, "…"])


def _lines(message: Message, markup: Markup, width: int) -> Iterator[str]:
    def cut(text: str) -> str:
        return markup.escape(text if len(text) <= width else text[: width - 1] + "…")

    alerts = message.body["alerts"]
    yield markup.bold(cut(message.title))
    for text in preface(message.kind, message.body):
        yield cut(text)
    first: dict[str, Mapping[str, Any]] = {}
    for alert in alerts:
        first.setdefault(alert.get("incident") or alert["id"], alert)
    full = list(first.values())[:FEWEST]
    for alert in full:
        if len(full) > 1:
            yield ""
        yield cut(what(alert))
        facts = (
            ("Likely cause", likely_cause(alert)),
            ("First action", first_remedy(alert)),
            ("Last good checkpoint", last_checkpoint(alert)),
        )
        yield from (f"{markup.bold(label + ':')} {cut(text)}" for label, text in facts if text)
        yield _links(alert, markup)
    rest = [alert for alert in alerts if not any(alert is each for each in full)]
    for alert in rest:
        yield cut(f"- {alert['rule']} ({state_of(alert)}): {line(alert['summary'])}")
    if message.body["left_out"]:
        yield f"- and {message.body['left_out']} more"


def _links(alert: Mapping[str, Any], markup: Markup) -> str:
    """Return the links of an alert. One that is acknowledged needs no link to acknowledge it."""
    wanted = [("Open the incident", alert["link"])]
    if alert.get("ack_link") and not alert.get("acked"):
        wanted.append(("Acknowledge", alert["ack_link"]))
    if alert.get("silence_link"):
        wanted.append(("Silence", alert["silence_link"]))
    return " · ".join(markup.link(label, url) for label, url in wanted)
