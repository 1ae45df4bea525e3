"""Describe requests and their answers, without I/O.

An operation of the API is a generator. It yields requests, pauses and, if it is a stream, results; the
transport sends the answers into it. So each operation is written once, for :class:`Api` and for
:class:`AsyncApi`.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

T = TypeVar("T")

API = "/api/v1"
REPEATED = frozenset({429, 502, 503, 504})
"""Statuses after which a request is sent again: too many requests, or the server is not ready."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 30.0


@dataclass(frozen=True)
class Request:
    """One HTTP request below ``/api/v1``. ``body`` is JSON; None values of ``query`` are left out."""

    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    method: str = "GET"
    body: bytes | None = None

    @property
    def target(self) -> str:
        """Path and query of the address."""
        pairs = [(name, _written(value)) for name, value in self.query.items() if value is not None]
        return f"{API}/{self.path.removeprefix('/')}" + (f"?{urlencode(pairs, doseq=True)}" if pairs else "")


def _written(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


@dataclass(frozen=True)
class Answer:
    """The response to a request. ``status`` is 0 if there was none; ``failure`` says why."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    failure: str = ""

    @property
    def has_lines(self) -> bool:
        """Whether the body is JSON Lines."""
        return self.headers.get("content-type", "").startswith("application/x-ndjson")


@dataclass(frozen=True)
class Wait:
    """A pause before the operation continues."""

    seconds: float


@dataclass(frozen=True)
class Found(Generic[T]):
    """One result of a stream."""

    value: T


Asking = Generator["Request | Wait", "Answer", T]
"""An operation with one result."""
Streaming = Generator["Request | Wait | Found[T]", "Answer", None]
"""An operation with any number of results."""


def answered(request: Request, retries: int) -> Asking[Answer]:
    """Return the answer to a request, repeated up to ``retries`` times while the server is not available.

    Only a GET is repeated after a lost connection: the server may have done what another request asked.
    """
    pause_s = FIRST_PAUSE_S
    for _ in range(retries):
        answer = yield request
        if not _is_temporary(answer, request):
            return answer
        yield Wait(_pause_of(answer, pause_s))
        pause_s *= 2
    return (yield request)


def _is_temporary(answer: Answer, request: Request) -> bool:
    return answer.status in REPEATED or (not answer.status and request.method == "GET")


def _pause_of(answer: Answer, usual_s: float) -> float:
    """Return the seconds that the server asks to wait, else about ``usual_s``, so that clients spread."""
    try:
        wished_s = float(answer.headers.get("retry-after", ""))
    except ValueError:
        wished_s = usual_s * random.uniform(0.8, 1.2)  # noqa: S311 - no secret
    return min(max(wished_s, 0.0), LONGEST_PAUSE_S)
