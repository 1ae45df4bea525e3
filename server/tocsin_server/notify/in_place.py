"""Change the message of an incident instead of sending another one. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tocsin_server.notify.channel import Sending
from tocsin_server.notify.outcome import Sent

Receipt = Mapping[str, Any]


class MessageGoneError(Exception):
    """The message of a receipt was deleted, or can no longer be changed."""


def sent_in_place(
    sending: Sending,
    target: str,
    *,
    post: Callable[[], Receipt],
    change: Callable[[Receipt], None],
    reply: Callable[[Receipt], None],
) -> Sent:
    """Change the last message about the incident and reply to it; if there is none, send a new one.

    A change is repeatable, so an attempt that fails after it can be retried.

    Args:
        sending: What is known about the incident in this channel.
        target: Name of the channel's address; a message that was sent to another one is not changed.
        post: Send a new message; return its receipt without the target.
        change: Change a message. Raises MessageGoneError.
        reply: Send a short message that notifies people, because a change does not.
    """
    known = sending.known(target)
    if known is not None:
        try:
            change(known)
        except MessageGoneError:
            known = None
    if known is None:
        if sending.quiet:
            return Sent("there is no message to change")
        return Sent("sent", {**post(), "target": target})
    if not sending.quiet:
        reply(known)
    return Sent("changed in place", known)
