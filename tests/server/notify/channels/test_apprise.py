"""Apprise with a real SMTP server; its process may not connect to internal addresses."""

from __future__ import annotations

import email
import email.policy
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from aiosmtpd.controller import Controller

from tocsin_server.notify.channel import Sending
from tocsin_server.notify.channels import apprise
from tocsin_server.notify.message import Message
from tocsin_server.notify.outcome import DeliveryError

PNG = b"\x89PNG\r\n\x1a\n" + b"x" * 40
MESSAGE = Message("n_1", "Critical: loss-spike · mdt", "text", "**Loss** rose", "critical", "firing", {}, PNG)


class Mailbox:
    def __init__(self) -> None:
        self.mails: list[Any] = []

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:
        self.mails.append(email.message_from_bytes(envelope.content, policy=email.policy.default))
        return "250 OK"


@pytest.fixture
def smtp() -> Iterator[tuple[Mailbox, str]]:
    """Run a real SMTP server on loopback; yield it with the apprise address of a mailbox."""
    mailbox = Mailbox()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    controller = Controller(mailbox, hostname="127.0.0.1", port=port)
    controller.start()
    try:
        yield mailbox, f"mailto://127.0.0.1:{port}?from=tocsin@example.org&to=ann@example.org&mode=insecure"
    finally:
        controller.stop()


def test_a_mail_arrives_with_its_picture(smtp: tuple[Mailbox, str]) -> None:
    """Subject, text and chart arrive through a real SMTP server."""
    mailbox, url = smtp
    assert apprise.send({"url": url}, MESSAGE, Sending(private=True)) == "sent"
    (mail,) = mailbox.mails
    assert mail["subject"] == "Critical: loss-spike · mdt"
    assert "Loss" in mail.get_body(("plain", "html")).get_content()
    assert [part.get_content() for part in mail.iter_attachments()] == [PNG]


def test_the_process_refuses_the_connection_itself(smtp: tuple[Mailbox, str]) -> None:
    """No connection to an internal address is made, whatever the configuration."""
    mailbox, url = smtp
    with pytest.raises(DeliveryError, match="inside the server's own network") as caught:
        apprise.send({"url": url}, MESSAGE, Sending(private=False))
    assert caught.value.permanent
    assert mailbox.mails == []


def test_a_receiver_that_hangs_ends_with_its_time(receive: Any) -> None:
    """The process is ended and leaves nothing behind."""
    receiver = receive("hang")
    begun = time.monotonic()
    with pytest.raises(DeliveryError):
        apprise.send(
            {"url": f"gotify://127.0.0.1:{receiver.url.rsplit(':', 1)[1]}/abcdefghijklmno?rto=60"},
            MESSAGE,
            Sending(1.0, True),
        )
    assert time.monotonic() - begun < 50


@pytest.mark.parametrize(
    ("summary", "kind"),
    [("Loss is back", "success"), ("Closed: the rule loss-spike was switched off", "failure"),
     ("Withdrawn: the log prints loss in steps of 0.1", "failure")],
)  # fmt: skip
def test_only_a_recovery_is_labeled_as_a_success(
    monkeypatch: pytest.MonkeyPatch, summary: str, kind: str
) -> None:
    jobs: list[Any] = []

    def child(job: dict[str, Any], _timeout_s: float) -> dict[str, Any]:
        jobs.append(job)
        return {"ok": True}

    monkeypatch.setattr(apprise, "_child", child)
    body = {"reason": "resolved", "alerts": [{"summary": summary}]}
    message = Message("n_1", "title", "text", "text", "critical", "resolved", body, None)
    apprise.send({"url": "json://x"}, message, Sending())
    assert jobs[0]["kind"] == kind
