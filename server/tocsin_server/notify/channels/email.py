"""E-mail over SMTP: the mails about one incident are one conversation.

A sent mail cannot be changed, so each change is another one. It names the first mail in ``In-Reply-To`` and
``References`` and has its subject, because some mail programs start a new conversation otherwise. A mail that
is sent twice has the same ``Message-ID``. The connection uses a checked address, as in ``notify.http``.
"""

from __future__ import annotations

import datetime as dt
import smtplib
import socket
import ssl
import threading
from collections.abc import Mapping
from email.errors import HeaderParseError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Any

from tocsin_server.core.errors import FieldError
from tocsin_server.notify.address import AddressError, UnresolvedError, checked
from tocsin_server.notify.channel import MASK, Field, Kind, Sending, Values, target_of
from tocsin_server.notify.http import cut
from tocsin_server.notify.message import Message
from tocsin_server.notify.outcome import DeliveryError, Sent

PORTS = {"starttls": 587, "tls": 465, "none": 25}
"""How the connection is encrypted, and the usual port."""
MOST_RECIPIENTS = 20


def check(values: Values, private: bool) -> None:
    """Check the settings. The host is checked again at every delivery. Raises FieldError."""
    if (values.get("security") or "starttls") not in PORTS:
        raise FieldError("config.security", f"one of {', '.join(PORTS)}", values["security"])
    port = values.get("port") or "587"
    if not (port.isascii() and port.isdecimal() and 0 < int(port) < 1 << 16):
        raise FieldError("config.port", "a port from 1 to 65535", port)
    if values.get("password") and values.get("security") == "none":
        raise FieldError("config.password", "a password only with starttls or tls", MASK)
    if bool(values.get("password")) != bool(values.get("user")):
        raise FieldError("config.user", "user and password, or neither", "only one of them")
    _address(values["from"], "config.from")
    recipients = _recipients(values)
    if len(recipients) > MOST_RECIPIENTS:
        raise FieldError("config.to", f"at most {MOST_RECIPIENTS} addresses", len(recipients))
    for each in recipients:
        _address(each, "config.to")
    try:
        checked(values["host"], int(port), private=private)
    except UnresolvedError:
        return
    except AddressError as error:
        raise FieldError("config.host", "a host outside the server's own network", str(error)) from None


def send(values: Values, message: Message, sending: Sending) -> Sent:
    """Send a mail that continues the conversation about its incident. Raises DeliveryError."""
    target = target_of(values["host"], values["from"], values["to"])
    domain = _address(values["from"], "config.from").domain
    name = f"<tocsin.{message.id}@{domain}>"
    known = sending.known(target)
    first: Mapping[str, Any] = {"message": name, "subject": message.title} if known is None else known
    mail = EmailMessage(policy=SMTP)
    mail["From"] = values["from"]
    mail["To"] = ", ".join(_recipients(values))
    subject = message.title if known is None else f"Re: {first['subject']}"
    mail["Subject"] = subject.replace("=?", "=\u200b?")  # a run's name would be decoded, to a line break too
    mail["Date"] = format_datetime(dt.datetime.fromtimestamp(sending.now_s, dt.UTC))
    mail["Message-ID"] = name
    mail["Auto-Submitted"] = "auto-generated"
    if known is not None:
        mail["In-Reply-To"] = mail["References"] = first["message"]
    text = f"{message.title}\n\n{message.text}\n"
    mail.set_content(text.encode("utf-8", "replace").decode())
    if message.picture is not None:
        mail.add_attachment(message.picture, maintype="image", subtype="png", filename="chart.png")
    detail = _deliver(values, mail, sending)
    return Sent(detail, {**first, "target": target} if sending.thread else None)


class _Pinned(smtplib.SMTP):
    """Connect to ``address`` regardless of the host; the certificate must match the host."""

    def __init__(self, host: str, address: str, timeout: float, tls: ssl.SSLContext | None) -> None:
        super().__init__(timeout=timeout)
        self._host = host
        self._address = address
        self._tls = tls

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        made = socket.create_connection((self._address, port), timeout)
        return made if self._tls is None else self._tls.wrap_socket(made, server_hostname=host)


def _deliver(values: Values, mail: EmailMessage, sending: Sending) -> str:
    """Send a mail within the time limit. Raises DeliveryError."""
    security = values.get("security") or "starttls"
    host, port = values["host"], int(values.get("port") or PORTS[security])
    try:
        addresses = checked(host, port, private=sending.private)
    except UnresolvedError as error:
        raise DeliveryError(str(error)) from error
    except AddressError as error:
        raise DeliveryError(str(error), permanent=True) from error
    tls = None if security == "none" else ssl.create_default_context()
    server = _Pinned(host, addresses[0], sending.timeout_s, tls if security == "tls" else None)
    watch = threading.Timer(sending.timeout_s, cut, (server,))
    watch.daemon = True
    watch.start()
    try:
        server.connect(host, port)
        if security == "starttls":
            server.starttls(context=tls)
        if values.get("user"):
            server.login(values["user"], values["password"])
        refused = server.send_message(mail)
        _retry_busy(refused)
        return f"sent, but rejected for {_named(refused)}" if refused else "sent"
    except smtplib.SMTPRecipientsRefused as error:
        _retry_busy(error.recipients)
        raise DeliveryError(f"rejected for {_named(error.recipients)}", permanent=True) from error
    except smtplib.SMTPResponseException as error:
        words = f"{error.smtp_code} {_text(error.smtp_error)}"
        raise DeliveryError(words, permanent=error.smtp_code >= 500) from error
    except smtplib.SMTPNotSupportedError as error:
        raise DeliveryError(f"{host}:{port}: {error}", permanent=True) from error
    except ssl.SSLError as error:
        raise DeliveryError(f"{host}:{port}: {error.reason or 'TLS failed'}") from error
    except TimeoutError as error:
        raise DeliveryError(f"{host}:{port} did not answer in time") from error
    except (OSError, smtplib.SMTPException) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise DeliveryError(f"{host}:{port}: {why}") from error
    finally:
        watch.cancel()
        server.close()


Refused = Mapping[str, tuple[int, bytes]]


def _retry_busy(refused: Refused) -> None:
    """Raise DeliveryError if a recipient may be accepted later; the others get the same mail again."""
    if any(code < 500 for code, _ in refused.values()):
        raise DeliveryError(f"not accepted yet for {_named(refused)}")


def _named(refused: Refused) -> str:
    return "; ".join(f"{name}: {code} {_text(why)}" for name, (code, why) in refused.items())


def _text(answer: bytes | str) -> str:
    return answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer


def _recipients(values: Values) -> list[str]:
    return [each.strip() for each in values["to"].split(",") if each.strip()]


def _address(text: str, field: str) -> Address:
    """Return an address. Raises FieldError if it is invalid."""
    try:
        found = Address(addr_spec=text) if text.isascii() else None
    except (HeaderParseError, ValueError, IndexError):
        found = None
    if found is None or not found.username or not found.domain:
        raise FieldError(field, "an address such as oncall@example.org", text)
    return found


KIND = Kind(
    "email",
    "E-mail (SMTP, one conversation per incident)",
    (
        Field("host", "the SMTP server, such as smtp.example.org"),
        Field("to", "recipients, such as ann@example.org, bob@example.org"),
        Field("from", "the sender, such as tocsin@example.org"),
        Field("user", "the name to log in with", required=False),
        Field("password", "the password to log in with", True, False),
        Field("security", "encryption: starttls (the default), tls or none", required=False),
        Field("port", "by default 587 with starttls, 465 with tls, 25 without encryption", required=False),
    ),
    check,
    send,
    pictures=True,
    per_incident=True,
)
