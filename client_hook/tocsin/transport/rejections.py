"""What the terminal shows for a rejection or a notice of the server: what, why and what to do."""

from __future__ import annotations

from ..protocol import Refused

REJECTED = {"connection": "the connection", "series": "a series", "event": "an event"}
"""What was rejected, by the scope of the message."""
LOGIN = "Set TOCSIN_TOKEN; `tocsin-server token create NAME --scope ingest` creates a token."
UPDATE = "Update `tocsin` and `tocsin-server` to the same version."
ADVICE = {
    "bad-token": LOGIN,
    "token-scope": LOGIN,
    "protocol-version": UPDATE,
    "malformed-frame": UPDATE,
    "bad-batch": UPDATE,
    "bad-hello": "Pass another value to tocsin.watch().",
    "frame-size": "Log fewer series, or raise limit_frame_bytes on the server.",
    "too-many-series": "Log fewer different names, or raise limit_series on the server.",
    "bad-column": "Rename the series if it is the name; otherwise, update `tocsin` and `tocsin-server`.",
    "negative-step": "Count steps from 0.",
    "step-too-large": "Pass a count of steps, not a time.",
    "bad-event": "Pass another kind or step to run.event().",
    "event-size": "Pass less data to run.event(), or raise limit_event_bytes on the server.",
    "config-size": "Pass a smaller config to tocsin.watch(), or raise limit_config_bytes on the server.",
    "step-order": "Start another run where the steps begin again, and log each name once per step.",
}
"""What to do, by the code of the message. What needs nothing, such as a reconnect, has no entry."""


def sentence_of(message: Refused) -> str:
    """Return the reason, and what to do."""
    return " ".join((f"{reason_of(message)}.", ADVICE.get(message.code, ""))).rstrip()


def reason_of(message: Refused) -> str:
    """Return what the server rejected, and why, without a full stop."""
    if message.code == "event-rate":
        return (
            f"the server rejects some events of this run because there are too many (it accepts "
            f"{message.expected}). Records are not affected. Call run.event() less often"
        )
    reason = f"({message.code}): expected {message.expected}, got {message.got}"
    if message.code in ("bad-token", "token-scope"):
        return f"the server rejected the token {reason}"
    if message.scope == "notice":
        return f"notice from the server {reason}"
    return f"the server rejected {REJECTED.get(message.scope, message.scope)} {reason}"
