"""Requests go only to the address that was checked, and end within their timeout."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tocsin_server.notify import http
from tocsin_server.notify.outcome import DeliveryError

Receive = Callable[..., Any]


def send(url: str, private: bool = True, timeout_s: float = 30.0) -> str:
    return http.check(http.send(url, b"{}", {}, timeout_s=timeout_s, private=private))


def test_a_request_arrives_with_its_name(receive: Receive) -> None:
    """Path, query and Host header are those of the address; the response body is returned."""
    receiver = receive(202)
    assert send(f"{receiver.url}/a/b?c=d") == "202 Accepted"
    (received,) = receiver.received
    assert (received.path, received.headers["Host"]) == ("/a/b?c=d", receiver.url.removeprefix("http://"))


@pytest.mark.parametrize(
    ("answer", "permanent", "after"),
    [
        (500, False, None),
        (404, True, None),
        ((429, {"Retry-After": "7"}), False, 7.0),
        ((302, {"Location": "http://127.0.0.1/"}), True, None),
    ],
)
def test_bad_answers_say_whether_trying_again_helps(
    receive: Receive, answer: Any, permanent: bool, after: Any
) -> None:
    """5xx and 429 are retried, at the receiver's time if given; 404 and redirects are not, and none is
    followed."""
    receiver = receive(answer)
    with pytest.raises(DeliveryError) as caught:
        send(receiver.url)
    assert (caught.value.permanent, caught.value.retry_after_s) == (permanent, after)
    assert len(receiver.received) == 1


@pytest.mark.parametrize("value", ["Bearer hidden\r\nX-Role: admin", "Bearer hidden é\u0142"])
def test_a_header_that_cannot_be_sent_is_reported(receive: Receive, value: str) -> None:
    """A channel of an earlier version may have one: nothing is sent, and the error does not repeat the
    secret."""
    receiver = receive()
    with pytest.raises(DeliveryError) as caught:
        http.send(receiver.url, b"{}", {"Authorization": value}, timeout_s=30.0, private=True)
    assert (caught.value.permanent, "hidden" in caught.value.detail, receiver.received) == (True, False, [])


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "2130706433", "[::1]", "[::ffff:127.0.0.1]", "localhost."]
)
def test_internal_addresses_are_rejected_without_a_connection(receive: Receive, host: str) -> None:
    """Internal addresses are rejected unless the setting allows them."""
    receiver = receive()
    with pytest.raises(DeliveryError) as caught:
        send(f"http://{host}:{receiver.url.rsplit(':', 1)[1]}/", private=False)
    assert receiver.received == []
    detail = caught.value.detail
    assert "inside the server's own network" in detail or "cannot be resolved" in detail


def test_a_name_that_changes_its_mind_changes_nothing(
    receive: Receive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is resolved once, and the socket connects to the address that was checked."""
    receiver, asked = receive(), []
    real = socket.getaddrinfo

    def rebinding(host: str, *more: Any, **named: Any) -> Any:
        asked.append(host)
        return real("127.0.0.1" if host == "rebinding.example" else host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    send(f"http://rebinding.example:{receiver.url.rsplit(':', 1)[1]}/")
    assert asked.count("rebinding.example") == 1
    assert receiver.received[0].headers["Host"].startswith("rebinding.example")


def test_a_receiver_that_drips_runs_into_the_deadline() -> None:
    """Single bytes keep every read alive, but the request still ends in time."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        done = threading.Event()

        def drip() -> None:
            connection, _ = listener.accept()
            with connection:
                try:
                    while not done.wait(0.05):
                        connection.sendall(b"H")
                except OSError:
                    return

        thread = threading.Thread(target=drip)
        thread.start()
        begun = time.monotonic()
        with pytest.raises(DeliveryError):
            send(f"http://127.0.0.1:{listener.getsockname()[1]}/", timeout_s=0.5)
        done.set()
        thread.join(10)
        assert time.monotonic() - begun < 30


@pytest.mark.parametrize(
    "url", ["ftp://x/", "http:///x", "http://u:p@x/", "http://x y/", "http://x/\n", "x", "http://x:99999/"]
)
def test_an_invalid_address_is_rejected(url: str) -> None:
    """An invalid address is rejected immediately and permanently."""
    with pytest.raises(DeliveryError) as caught:
        send(url)
    assert caught.value.permanent


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("5", 5.0),
        ("0.5", 0.5),
        ("Thu, 01 Jan 1970 00:02:00 GMT", 20.0),
        ("soon", None),
        ("", None),
        ("-1", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str, seconds: Any) -> None:
    """Anything else is ignored."""
    assert http.retry_after_s(header, 100.0) == seconds


def test_an_unresolved_name_is_tried_again() -> None:
    """The name server may be unreachable for a while."""
    with pytest.raises(DeliveryError) as caught:
        send("https://nobody.invalid/")
    assert not caught.value.permanent


def test_a_refused_connection_names_the_host() -> None:
    """Host and port, in the system's wording."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(DeliveryError, match=re.escape(f"127.0.0.1:{port}: Connection refused")):
        send(f"http://127.0.0.1:{port}/")
