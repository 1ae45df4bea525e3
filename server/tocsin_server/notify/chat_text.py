"""Write the short text of a message for chat services, in their markup and within their limit. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tocsin_server.notify.message import (
    Message,
    first_remedy,
    last_checkpoint,
    likely_cause,
    preface,
    short,
    what,
)

WIDTHS = (400, 250, 150, 80)
"""Longest line of external text, from the widest to the narrowest."""
FEWEST = 3
"""Number of incidents whose first alert is described in full; the other alerts get one line each."""


@dataclass(frozen=True, slots=True)
class Markup:
    """The markup of a service. ``escape`` makes external text safe: no links, no mentions, no code."""

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


def utf16_size(text: str) -> int:
    """Return the length in UTF-16 units: never less than a service counts, whichever unit it counts in."""
    return len(text.encode("utf-16-le", "replace")) // 2


def chat_text(message: Message, markup: Markup, limit: int) -> str:
    """Return title, problem, cause, first action, checkpoint and links in at most ``limit`` characters.

    If it is too long, long lines are shortened first, then the alerts at the end are counted instead.
    """
    full = _described(message.body["alerts"])
    rest = [alert for alert in message.body["alerts"] if not any(alert is each for each in full)]
    left_out = message.body["left_out"]
    for width in WIDTHS:
        head = list(_lines(message, full, markup, width))
        others = [markup.escape(_shortened(short(alert, full[0]), width)) for alert in rest]
        lines = [*head, *others, *_counted(left_out)]
        if _fits(lines, markup, limit):
            return "\n".join(lines)
    for listed in range(len(others), -1, -1):
        lines = [*head, *others[:listed], *_counted(left_out + len(others) - listed)]
        if _fits(lines, markup, limit):
            return "\n".join(lines)
    while len(head) > 1 and not _fits([*head, "…"], markup, limit):
        head.pop()
    return "\n".join([*head, "…"])


def _fits(lines: Sequence[str], markup: Markup, limit: int) -> bool:
    return markup.size("\n".join(lines)) <= limit


def _described(alerts: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the first alert of each of the first incidents."""
    first: dict[str, Mapping[str, Any]] = {}
    for alert in alerts:
        first.setdefault(alert.get("incident") or alert["id"], alert)
    return list(first.values())[:FEWEST]


def _lines(message: Message, full: Sequence[Mapping[str, Any]], markup: Markup, width: int) -> Iterator[str]:
    def cut(text: str) -> str:
        return markup.escape(_shortened(text, width))

    yield markup.bold(cut(message.title))
    for text in preface(message.kind, message.body):
        yield cut(text)
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


def _shortened(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _counted(left_out: int) -> list[str]:
    return [f"- and {left_out} more"] if left_out else []


def _links(alert: Mapping[str, Any], markup: Markup) -> str:
    """Return the links of an alert. One that is acknowledged needs no link to acknowledge it."""
    wanted = [("Open the incident", alert["link"])]
    if alert.get("ack_link") and not alert.get("acked"):
        wanted.append(("Acknowledge", alert["ack_link"]))
    if alert.get("silence_link"):
        wanted.append(("Silence", alert["silence_link"]))
    return " · ".join(markup.link(label, url) for label, url in wanted)
