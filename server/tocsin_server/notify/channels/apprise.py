"""Everything that the library apprise reaches: e-mail, Slack, Telegram, Discord, ntfy, Teams, PagerDuty...

The library runs in a process of its own (``apprise_child``) with an audit hook that refuses every
connection to an address inside: whatever name is resolved how often, whatever redirect is
followed, the address that is connected to is the one that is checked. A process that hangs is
killed, and delays nobody.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from typing import Any
from urllib.parse import urlsplit

from tocsin_server.errors import FieldError
from tocsin_server.notify.channel import MASK, Field, Kind, Sending, Values
from tocsin_server.notify.message import Message
from tocsin_server.notify.outcome import DeliveryError

SCHEMES = frozenset({
    "bark", "barks", "dingtalk", "discord", "feishu", "flock", "gchat", "gotify", "gotifys", "guilded",
    "hassio", "hassios", "httpsms", "jira", "join", "lark", "line", "mailgun", "mailto", "mailtos",
    "mastodon", "mastodons", "matrix", "matrixs", "misskey", "mmost", "mmosts", "msteams", "ncloud",
    "nclouds", "nctalk", "nctalks", "ntfy", "ntfys", "opsgenie", "pagerduty", "pagertree", "pbul",
    "pover", "prowl", "pushover", "rchat", "resend", "revolt", "rocket", "rockets", "ryver", "sendgrid",
    "ses", "signal", "signals", "signl4", "simplepush", "slack", "smtp2go", "sparkpost", "spike",
    "splunk", "synology", "synologys", "tgram", "twilio", "twist", "victorops", "webex", "wecombot",
    "workflows", "wxteams", "zulip",
})  # fmt: skip
"""What passes: services that tell people. Not ``json`` and its like (use the webhook), nothing that runs
programs or touches this machine (``dbus``, ``syslog``, ``macosx``), no files (``file``, ``include``)."""
LONGEST_STDOUT = 4000


def check(values: Values, private: bool) -> None:
    """Raises FieldError: an unknown scheme, or what the library cannot read."""
    url = values["url"]
    try:
        scheme = urlsplit(url).scheme.lower()
    except ValueError:
        scheme = ""
    if scheme not in SCHEMES:
        raise FieldError(
            "config.url", f"an apprise address of one of {', '.join(sorted(SCHEMES))}", scheme or MASK
        )
    answer = _child({"url": url, "private": private, "check": True}, 30.0)
    if not answer.get("ok"):
        raise FieldError("config.url", "an address that apprise can read", str(answer.get("detail", MASK)))


def send(values: Values, message: Message, sending: Sending) -> str:
    """Raises DeliveryError."""
    picture = None if message.picture is None else base64.b64encode(message.picture).decode("ascii")
    kind = (
        "success"
        if message.over and message.body.get("reason") != "new"
        else {"critical": "failure", "warning": "warning"}.get(message.severity, "info")
    )
    job = {
        "url": values["url"],
        "private": sending.private,
        "title": message.title,
        "body": message.markdown,
        "kind": kind,
        "picture": picture,
        "timeout_s": sending.timeout_s,
    }
    answer = _child(job, sending.timeout_s)
    if not answer.get("ok"):
        refused = bool(answer.get("refused"))
        raise DeliveryError(str(answer.get("detail", "apprise says no more")), permanent=refused)
    return str(answer.get("detail", "")) or "sent"


def _child(job: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "tocsin_server.notify.apprise_child"]
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter and module
            command, input=json.dumps(job).encode(), capture_output=True, timeout=timeout_s + 3.0, check=False
        )
        found = json.loads(done.stdout[-LONGEST_STDOUT:])
    except subprocess.TimeoutExpired:
        raise DeliveryError(f"no end within {timeout_s:g} s") from None
    except (OSError, ValueError) as error:
        raise DeliveryError(f"the process that sends failed ({type(error).__name__})") from error
    return found if isinstance(found, dict) else {}


KIND = Kind(
    "apprise",
    "E-mail, Slack, Telegram, Discord, ntfy, Teams, PagerDuty ... (apprise)",
    (Field("url", "an apprise address such as mailtos://user:password@example.org", secret=True),),
    check,
    send,
    pictures=True,
)
