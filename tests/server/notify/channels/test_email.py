"""E-mail through a real SMTP server, with and without encryption."""

from __future__ import annotations

import email
import email.policy
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from tests.server.notify.channels.incident_messages import SENDING, about, follow
from tocsin_server.core.errors import FieldError
from tocsin_server.notify.channels.email import KIND
from tocsin_server.notify.outcome import DeliveryError

CERTIFICATE = Path(__file__).parent / "localhost.pem"
"""Of 127.0.0.1, signed by itself, with its key."""
CHART = b"\x89PNG\r\n\x1a\n\x00"
PASSWORD = "correct-horse-battery"
MAILS = {"to": "ann@example.org, bob@example.org", "from": "tocsin@example.org"}
RESOLVED = about("resolved", reason="resolved")


class MailServer:
    """Accept every mail; ``answers`` are returned first. ``logins``: passwords that were sent."""

    def __init__(self, stack: ExitStack, **options: Any) -> None:
        self.mails: list[Any] = []
        self.answers: list[str] = []
        self.rejected: dict[str, str] = {}
        self.logins: list[bytes] = []
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        options["authenticator"] = self._login
        controller = Controller(self, hostname="127.0.0.1", port=port, **options)
        controller.start()
        stack.callback(controller.stop)
        self.values = MAILS | {"host": "127.0.0.1", "port": str(port)}

    def _login(self, *given: Any) -> AuthResult:
        self.logins.append(given[-1].password)
        return AuthResult(success=given[-1].password == PASSWORD.encode())

    async def handle_RCPT(self, _server: Any, _session: Any, envelope: Any, to: str, _options: Any) -> str:
        if to in self.rejected:
            return self.rejected[to]
        envelope.rcpt_tos.append(to)
        return "250 OK"

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:
        if self.answers:
            return self.answers.pop(0)
        self.mails.append(email.message_from_bytes(envelope.content, policy=email.policy.default))
        return "250 OK"


@pytest.fixture
def serve() -> Iterator[Callable[..., MailServer]]:
    """``serve(require_starttls=True)``: a real SMTP server on loopback."""
    with ExitStack() as stack:
        yield lambda **options: MailServer(stack, **options)


@pytest.fixture
def smtp(serve: Callable[..., MailServer]) -> MailServer:
    """A server without encryption."""
    server = serve()
    server.values["security"] = "none"
    return server


def encrypted() -> dict[str, Any]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    return {"tls_context": context, "require_starttls": True}


def test_the_mails_of_an_incident_are_one_conversation(smtp: MailServer) -> None:
    """Each later mail names the first one and has its subject; what is new is in its first line."""
    first = follow(KIND, smtp.values, about())
    follow(KIND, smtp.values, replace(RESOLVED, id="n2"), receipt=first.receipt)
    begun, ended = smtp.mails
    assert begun["Subject"] == "Critical: nonfinite-loss · mdt-fp16 · deblur"
    assert ended["Subject"] == f"Re: {begun['Subject']}"
    assert ended["In-Reply-To"] == ended["References"] == begun["Message-ID"] != ended["Message-ID"]
    assert ended.get_content().startswith("Resolved: nonfinite-loss")


def test_a_mail_says_what_to_do_and_has_a_chart(smtp: MailServer) -> None:
    """Text and picture, to all recipients."""
    follow(KIND, smtp.values, replace(about(), picture=CHART))
    (mail,) = smtp.mails
    text = mail.get_body(("plain",)).get_content()
    for part in ("Loss is NaN", "First action: Skip the batch.", "Acknowledge: https://t/ack/"):
        assert part in text
    assert [part.get_content() for part in mail.iter_attachments()] == [CHART]
    assert mail["To"] == MAILS["to"]


def test_a_name_from_a_run_is_not_decoded_in_the_subject(smtp: MailServer) -> None:
    """An encoded word would become a line break or another control character."""
    follow(KIND, smtp.values, about(alert={"run_name": "=?utf-8?q?a=00=0D=0Ab?="}))
    assert "=\u200b?utf-8?q?a=00=0D=0Ab?=" in smtp.mails[0]["Subject"]


def test_a_mail_that_is_sent_twice_has_one_name(smtp: MailServer) -> None:
    """After a crash, mail programs recognize the second one."""
    follow(KIND, smtp.values, about())
    follow(KIND, smtp.values, about())
    assert len({mail["Message-ID"] for mail in smtp.mails}) == 1


def test_a_changed_recipient_begins_a_new_conversation(smtp: MailServer) -> None:
    """It never got the first mail."""
    first = follow(KIND, smtp.values, about())
    follow(KIND, smtp.values | {"to": "eve@example.org"}, about(), receipt=first.receipt)
    assert smtp.mails[1]["In-Reply-To"] is None


def test_login_and_mail_are_encrypted(
    serve: Callable[..., MailServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """STARTTLS with a certificate that the system trusts."""
    server = serve(**encrypted())
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    follow(KIND, server.values | {"user": "ann", "password": PASSWORD}, about())
    assert (len(server.mails), server.logins) == (1, [PASSWORD.encode()])


@pytest.mark.parametrize("options", [{}, encrypted()], ids=["no TLS", "unknown certificate"])
def test_a_password_is_not_sent_without_a_trusted_connection(
    serve: Callable[..., MailServer], options: dict[str, Any]
) -> None:
    """Neither to a server without encryption nor to one whose certificate is unknown."""
    server = serve(**options)
    with pytest.raises(DeliveryError):
        follow(KIND, server.values | {"user": "ann", "password": PASSWORD}, about())
    assert (server.logins, server.mails) == ([], [])


@pytest.mark.parametrize(("answer", "permanent"), [("451 try later", False), ("554 spam", True)])
def test_a_rejected_mail_is_retried_unless_it_would_repeat(
    smtp: MailServer, answer: str, permanent: bool
) -> None:
    """The code says which."""
    smtp.answers.append(answer)
    with pytest.raises(DeliveryError, match=answer) as caught:
        follow(KIND, smtp.values, about())
    assert caught.value.permanent is permanent


def test_a_recipient_that_is_busy_gets_the_mail_later(smtp: MailServer) -> None:
    """One that is unknown does not stop the others."""
    smtp.rejected["bob@example.org"] = "550 unknown"
    assert "550 unknown" in follow(KIND, smtp.values, about()).detail
    smtp.rejected["bob@example.org"] = "450 busy"
    with pytest.raises(DeliveryError, match="450 busy") as caught:
        follow(KIND, smtp.values, about())
    assert not caught.value.permanent


def test_the_server_is_not_inside_the_network(smtp: MailServer) -> None:
    """The address is checked at each delivery, and nothing connects to it."""
    with pytest.raises(DeliveryError, match="inside the server's own network") as caught:
        KIND.send(smtp.values, about(), replace(SENDING, private=False))
    assert caught.value.permanent
    assert smtp.mails == []


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"host": "127.0.0.1"}, "config.host"),
        ({"to": "ann@example.org, nobody"}, "config.to"),
        ({"from": "Bcc: x@example.org"}, "config.from"),
        ({"port": "0"}, "config.port"),
        ({"security": "maybe"}, "config.security"),
        ({"security": "none", "user": "a", "password": "b"}, "config.password"),
        ({"user": "ann"}, "config.user"),
    ],
)
def test_invalid_settings_are_rejected_by_field(changes: dict[str, str], field: str) -> None:
    """An injected header is not an address."""
    with pytest.raises(FieldError, match=field):
        KIND.read(MAILS | {"host": "1.1.1.1"} | changes, {}, private=False)
