"""Every kind of channel: errors name the field, and secrets are never returned."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tocsin_server.core.errors import FieldError
from tocsin_server.notify import channels
from tocsin_server.notify.channel import MASK, masked, scrubbed
from tocsin_server.notify.channels import kinds

HOOK = {"url": "https://1.1.1.1/services/T000/hidden-part", "secret": "0123456789abcdef"}


def test_each_file_is_a_kind() -> None:
    """One file each, as for rules."""
    (folder,) = channels.__path__
    assert set(kinds()) == {path.stem for path in Path(folder).glob("*.py")} - {"__init__"}


def test_secrets_are_kept_apart_and_masked() -> None:
    """The displayed fields contain none of them."""
    config, secret = kinds()["webhook"].read(HOOK, {}, private=False)
    assert (config, secret) == ({}, HOOK)
    assert masked(kinds()["webhook"], config, secret) == {"url": MASK, "secret": MASK}


@pytest.mark.parametrize("given", [{}, {"url": MASK}, {"url": MASK, "secret": MASK}, {"secret": None}])
def test_a_secret_that_is_left_out_stays(given: dict[str, Any]) -> None:
    """Or if it is sent back as the displayed mask."""
    assert kinds()["webhook"].read(given, HOOK, private=False)[1] == HOOK


@pytest.mark.parametrize(
    ("kind", "given", "field"),
    [
        ("webhook", {}, "config.url"),
        ("webhook", HOOK | {"url": "http://127.0.0.1/"}, "config.url"),
        ("webhook", HOOK | {"url": "http://2130706433/"}, "config.url"),
        ("webhook", HOOK | {"url": "file:///etc/passwd"}, "config.url"),
        ("webhook", HOOK | {"secret": "short"}, "config.secret"),
        (
            "webhook",
            HOOK | {"authorization": "Bearer 0123456789abcdef\r\nX-Role: admin"},
            "config.authorization",
        ),
        ("webhook", HOOK | {"authorization": "Bearer 0123456789abcdef\n"}, "config.authorization"),
        ("webhook", HOOK | {"authorization": "Bearer 0123456789abcdef\u2028"}, "config.authorization"),
        ("webhook", HOOK | {"authorization": "Bearer 0123456789abcdef\x00"}, "config.authorization"),
        ("webhook", HOOK | {"authorization": "Bearer é0123456789abcdef"}, "config.authorization"),
        ("webhook", HOOK | {"secret": "\ud800" * 16}, "config.secret"),
        ("webhook", HOOK | {"url": "https://1.1.1.1/a\nb"}, "config.url"),
        ("webhook", HOOK | {"colour": "red"}, "config.colour"),
        ("webhook", HOOK | {"url": 7}, "config.url"),
        ("alertmanager", {"url": "http://10.0.0.1:9093"}, "config.url"),
        ("alertmanager", {"url": "http://1.1.1.1", "authorization": "a\rb"}, "config.authorization"),
        ("alertmanager", {"url": "http://1.1.1.1", "authorization": "é"}, "config.authorization"),
        ("apprise", {"url": "mailtos://user:password@example.org\n"}, "config.url"),
        ("apprise", {"url": "json://127.0.0.1"}, "config.url"),
        ("apprise", {"url": "dbus://"}, "config.url"),
        ("apprise", {"url": "syslog://"}, "config.url"),
        ("apprise", {"url": "file:///tmp/x"}, "config.url"),
        ("browser", {"url": "x"}, "config.url"),
    ],
)
def test_invalid_input_is_rejected_by_field(kind: str, given: dict[str, Any], field: str) -> None:
    """The error does not repeat secrets."""
    with pytest.raises(FieldError, match=re.escape(f"{field}: expected")) as caught:
        kinds()[kind].read(given, {}, private=False)
    assert "0123456789abcdef" not in str(caught.value)


def test_responses_of_a_receiver_are_redacted() -> None:
    """Complete secrets are removed, and also the longer parts of an address."""
    text = "cannot call https://1.1.1.1/services/T000/hidden-part, nor /hidden-part"
    assert "hidden-part" not in scrubbed(text, HOOK)
    assert len(scrubbed("x" * 9999, HOOK)) == 500
