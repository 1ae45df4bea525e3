"""The login link, the login page, logging out, and the limit on wrong tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.http.auth.login import ADDRESSES, WINDOW_S, Attempts, login_address, login_page, safe_next


@pytest.fixture
def visitor(server: Any) -> Iterator[httpx.Client]:
    """A browser with a cookie jar and no token."""
    with httpx.Client(base_url=server.base) as client:
        yield client


def test_the_link_opens_a_session(server: Any, visitor: httpx.Client) -> None:
    """303 to the fleet, an HttpOnly SameSite cookie, no referrer; then the cookie is sufficient."""
    answer = visitor.get("/login", params={"token": server.token})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert answer.headers["referrer-policy"] == "no-referrer"
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("tocsin_session=")
    assert all(part in cookie for part in ("HttpOnly", "SameSite=lax", "Path=/", "Max-Age=2592000"))
    assert server.token not in cookie
    assert visitor.get("/api/v1/session").json()["scope"] == "admin"
    assert "<title>" in visitor.get("/").text


def test_logging_out_ends_it(server: Any, visitor: httpx.Client) -> None:
    """The browser forgets the cookie."""
    visitor.get("/login", params={"token": server.token})
    visitor.post("/logout", headers={"origin": server.base})
    assert visitor.get("/api/v1/session").status_code == 401


def test_the_form_logs_in_and_redirects(server: Any, visitor: httpx.Client) -> None:
    """A pasted token, and then the requested page."""
    wanted = {"token": f" {server.token}\n", "next": "/runs/r_1?names=loss"}
    answer = visitor.post("/login", data=wanted, headers={"origin": server.base})
    assert (answer.status_code, answer.headers["location"]) == (303, "/runs/r_1?names=loss")


def test_the_login_form_sends_its_origin(visitor: httpx.Client) -> None:
    """With ``no-referrer`` it would be ``Origin: null``, and the form could not log in."""
    assert visitor.get("/login").headers["referrer-policy"] == "same-origin"


def test_another_sites_form_does_not(server: Any, visitor: httpx.Client) -> None:
    """A form of another site does not log in."""
    answer = visitor.post("/login", data={"token": server.token}, headers={"origin": "http://evil.example"})
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


def test_unknown_and_unsuitable_tokens_are_distinguished(server: Any, visitor: httpx.Client) -> None:
    """An unknown token is 401, a client's token opens no page, and neither sets a cookie."""
    wrong = visitor.get("/login", params={"token": "tcn_<b>"})
    assert (wrong.status_code, "unknown or was revoked" in wrong.text, "<b>" in wrong.text) == (
        401,
        True,
        False,
    )
    unfit = visitor.get("/login", params={"token": server.client_token})
    assert (unfit.status_code, "ingest token" in unfit.text) == (403, True)
    assert not visitor.cookies


def test_without_a_token_the_page_explains(visitor: httpx.Client) -> None:
    """How to get the link, in plain words and without scripts."""
    answer = visitor.get("/login")
    assert answer.status_code == 200
    assert "tocsin-server serve" in answer.text
    assert "<script" not in answer.text


def test_guessing_is_limited(start_server: Callable[..., Any]) -> None:
    """Above the limit the page says when to retry; users with a valid token are not locked out."""
    server = start_server(TOCSIN_LOGIN_ATTEMPTS="3")
    for _ in range(3):
        assert httpx.get(f"{server.base}/login?token=x").status_code == 401
    answer = httpx.get(f"{server.base}/login?token=x")
    assert answer.status_code == 429
    assert 0 < int(answer.headers["retry-after"]) <= WINDOW_S
    assert server.get("/session")["scope"] == "admin"
    assert httpx.get(f"{server.base}/login", params={"token": server.token}).status_code == 303
    origin = {"origin": server.base}
    form = httpx.post(f"{server.base}/login", data={"token": server.token}, headers=origin)
    assert form.status_code == 303
    assert httpx.get(f"{server.base}/login?token=x").status_code == 429


def test_the_limit_forgets_after_a_minute() -> None:
    """Only failures within the window count, for each address separately."""
    attempts = Attempts(2)
    attempts.failed("a", 0.0)
    attempts.failed("a", 30.0)
    assert attempts.wait_s("a", 31.0) == pytest.approx(WINDOW_S - 31.0)
    assert attempts.wait_s("b", 31.0) == 0.0
    assert attempts.wait_s("a", WINDOW_S) == 0.0


def test_the_limit_remembers_a_bounded_number_of_addresses() -> None:
    """A flood from many addresses does not exhaust the memory."""
    attempts = Attempts(1)
    for number in range(ADDRESSES + 10):
        attempts.failed(str(number), 0.0)
    assert attempts.wait_s("0", 0.0) == 0.0
    assert attempts.wait_s(str(ADDRESSES + 9), 0.0) > 0.0


@pytest.mark.parametrize(
    "wanted",
    ["//evil.example", "/\\evil.example", "\\\\evil.example", "http://evil.example", "javascript:alert(1)",
     "/\t/evil.example", "/a\r\nSet-Cookie: x", "", "runs", " /runs", "/\x00"],
)  # fmt: skip
def test_a_link_leads_nowhere_else(wanted: str) -> None:
    """`next` is a path of this site or nothing."""
    assert safe_next(wanted) == "/"


@given(st.text(max_size=60))
def test_whatever_next_is_the_answer_is_a_safe_header(wanted: str) -> None:
    """It starts with exactly one slash, is ASCII, and has no control characters."""
    found = safe_next(wanted)
    assert found.startswith("/")
    assert found[1:2] not in ("/", "\\")
    assert found.isascii()
    assert found.isprintable()


def test_the_login_page_escapes() -> None:
    """Message and next are escaped."""
    page = bytes(login_page("<b>", then='/"><script>').body).decode()
    assert "<b>" not in page
    assert "<script>" not in page


def test_the_link_quotes_its_token() -> None:
    """Any token arrives unchanged."""
    assert login_address("http://h:1", "a+b&c") == "http://h:1/login?token=a%2Bb%26c"
