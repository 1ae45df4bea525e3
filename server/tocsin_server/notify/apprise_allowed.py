"""Define the allowed apprise addresses: schemes, and the parameters of each. Pure.

Besides harmless parameters, apprise's plugins have some that name local files (``template``, ``pgpkey``), and
a new version may add more. Therefore only reviewed parameters are allowed. The test of this module compares
the plugins of the installed version with the reviewed list, and fails on every new parameter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

COMMON = frozenset({
    "cto", "emojis", "format", "overflow", "pass", "password", "port", "rto", "tz", "user", "verify",
})  # fmt: skip
"""Parameters of every plugin. ``store`` is left out because it writes files."""

_BY_SCHEMES = {
    "bark barks": "badge category click group icon image level sound to volume",
    "dingtalk": "secret to token",
    "discord": "avatar avatar_url botname fields flags footer footer_logo href image thread tts url",
    "feishu": "token",
    "flock": "image to",
    "gchat": "key thread threadkey token workspace",
    "gotify gotifys": "priority",
    "guilded": "avatar avatar_url botname fields flags footer footer_logo href image thread tts url",
    "hassio hassios": "accesstoken nid",
    "httpsms": "from key to",
    "join": "image priority to",
    "lark": "token",
    "line": "image to token",
    "mailgun": "batch bcc cc from name region to + :",
    "mailto mailtos": "bcc cc from mode name reply smtp to +",
    "mastodon mastodons": "batch cache key language sensitive spoiler to token visibility",
    "matrix matrixs": "discovery image mode msgtype to token v version",
    "misskey": "token visibility",
    "mmost mmosts": "channel channels image to",
    "msteams": "image team version",
    "ncloud nclouds": "to url_prefix version +",
    "nctalk nctalks": "url_prefix +",
    "ntfy ntfys": "auth avatar_url click delay email image mode priority tags to token",
    "opsgenie": "action alias apikey batch entity priority region tags to + :",
    "pagerduty": "apikey class click component group image integrationkey region severity source +",
    "pagertree": "action id integration tags thirdparty tid urgency + : -",
    "pbul": "to",
    "pover": "expire priority retry sound to url url_title",
    "prowl": "priority",
    "resend": "bcc cc to",
    "revolt": "bot_token channel icon_url to url",
    "rocket rockets": "avatar mode to webhook",
    "ryver": "image mode",
    "sendgrid": "bcc cc template to +",  # the id of a template at SendGrid, not a file
    "ses": "access bcc cc from name region reply secret to",
    "signal signals": "batch from status to",
    "signl4": "alerting_scenario external_id filtering location secret service status",
    "slack": "blocks footer image timestamp to token",
    "smtp2go": "batch bcc cc name to +",
    "sparkpost": "batch bcc cc name region to + :",
    "spike": "token",
    "splunk victorops": "action apikey entity_id route routing_key :",
    "synology synologys": "token +",
    "tgram": "content detect image mdv preview silent thread to topic",
    "twilio": "apikey from method sid source to token",
    "twist": "to",
    "webex wxteams": "token",
    "wecombot": "key",
    "workflows": "api-version id image pa powerautomate sig signature ver workflow wrap",
    "zulip": "to token",
}
"""Services that notify users. Excluded: ``json`` and similar (use the webhook), services that run programs or
change this machine (``dbus``, ``syslog``, ``macosx``), and files (``file``, ``include``)."""

PREFIXES = frozenset("+-:")
"""Signs before arbitrary names: ``+X-Header=value``, ``:mapping=value``."""

PARAMETERS = {
    scheme: frozenset(names.split()) for schemes, names in _BY_SCHEMES.items() for scheme in schemes.split()
}
"""The reviewed parameters by scheme, besides :data:`COMMON`. A sign allows all names that begin with it."""
SCHEME = f"an apprise address with one of the schemes {', '.join(sorted(PARAMETERS))}"


def objection(parsed: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return (expected, got) if an address is not allowed, or None if it is.

    Args:
        parsed: The address as parsed by apprise (``url_to_dict``), so that both read it alike.
    """
    scheme = str(parsed.get("schema", "")).lower()
    if scheme not in PARAMETERS:
        return SCHEME, "another scheme"
    allowed = PARAMETERS[scheme] | COMMON
    for name in parsed["qsd"]:
        if name and (name[0] if name[0] in PREFIXES else name) not in allowed:
            # The name itself may be part of a secret that contains an ampersand, so it is not repeated.
            names = ", ".join(sorted(allowed))
            return f"a {scheme}:// address with these parameters only: {names}", "another parameter"
    return None
