"""JSON responses and RFC 9457 problems as Starlette responses, used by the whole API.

Bodies are encoded by :mod:`exact_json`: NaN, +Inf and -Inf are strings, and a numpy array is
``{"dtype": "f8", "bdata": ...}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.responses import JSONResponse

from tocsin_server.core import exact_json

GOT_CHARACTERS = 200
"""Maximum characters of an invalid input that an error repeats."""


class ExactJSON(JSONResponse):
    """A strict JSON response that keeps non-finite numbers and is never cached."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        # msgpack allows lone surrogates in names: they are written as "?" instead of failing with 500.
        return exact_json.dumps(content).encode("utf-8", "replace")

    def init_headers(self, headers: Mapping[str, str] | None = None) -> None:
        super().init_headers({"cache-control": "no-store", **(headers or {})})


class ProblemJSON(ExactJSON):
    """An RFC 9457 problem response."""

    media_type = "application/problem+json"


class Problem(Exception):  # noqa: N818 - the RFC's word
    """A failure that a route reports: the subject, what was expected, and what was sent.

    ``detail`` is the sentence that users see; if empty, it is composed from the other parts.
    """

    def __init__(
        self,
        status: int,
        *,
        subject: str,
        expected: str,
        got: object = "",
        detail: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.status = status
        self.subject = subject
        self.expected = expected
        self.got = shortened(got)
        self.detail = detail or _sentence(status, subject, expected, self.got)
        self.headers = dict(headers or {})
        super().__init__(self.detail)


def _sentence(status: int, subject: str, expected: str, got: str) -> str:
    if status == HTTPStatus.NOT_FOUND:
        return f"{subject.capitalize()} not found: {got}"
    return f"{subject}: expected {expected}, got {got or 'nothing'}"


def shortened(value: object) -> str:
    """Return ``value`` as text of at most 200 characters, plus its length if it was shortened.

    Control characters are escaped, so that they neither forge lines nor steer a terminal.
    """
    text = value if isinstance(value, str) else repr(value)
    text = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
    if len(text) <= GOT_CHARACTERS:
        return text
    return f"{text[:GOT_CHARACTERS]}… ({len(text)} characters)"


def problem_response(problem: Problem) -> ProblemJSON:
    """Return the HTTP response for a problem."""
    body = {
        "type": "about:blank",
        "title": HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "detail": problem.detail,
        "subject": problem.subject,
        "expected": problem.expected,
        "got": problem.got,
    }
    return ProblemJSON(body, status_code=problem.status, headers=problem.headers)
