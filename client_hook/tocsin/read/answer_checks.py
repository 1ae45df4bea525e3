"""Raise the errors that answers stand for, and decode the others. No I/O."""

from __future__ import annotations

import threading
from typing import Any, TypeVar

import msgspec

from .errors import ApiError, NotFoundError, RejectedError, TokenError, UnreachableError
from .exchange import REPEATED, Answer, Request

T = TypeVar("T")
NO_ANSWER = (
    "Is the server running? Set TOCSIN_URL, or pass url= or --url; `tocsin doctor` checks the connection."
)
WITHOUT_TLS = "This address speaks HTTP without TLS: begin it with http:// instead of https://."
_lock = threading.Lock()
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


class _Problem(msgspec.Struct):
    """An error of the server (RFC 9457)."""

    detail: str = ""
    subject: str = ""


class AnswerChecks:
    """The checks of one server's answers.

    Args:
        base: Address of the server, for messages.
        has_token: Whether a token is sent.
    """

    def __init__(self, base: str, *, has_token: bool) -> None:
        self._base = base
        self._has_token = has_token

    def _decoded(self, request: Request, answer: Answer, kind: type[T]) -> T:
        self.check(request, answer)
        try:
            return _decoder(kind).decode(answer.body)
        except msgspec.MsgspecError as error:
            place = f"{self._base}{request.target.partition('?')[0]}"
            why = f"The response from {place} cannot be read as that of a tocsin server ({error})."
            advice = "Check TOCSIN_URL, or update tocsin if the server is newer."
            raise UnreachableError(f"{why} {advice}") from error

    def check(self, request: Request, answer: Answer) -> None:
        """Raise the error that an answer stands for, if it does.

        Raises:
            UnreachableError: There was no answer, a redirect, or 429, 502, 503 or 504.
            TokenError: 401 or 403.
            NotFoundError: 404.
            RejectedError: Another status of 400 to 499.
            ApiError: Any other status but 200 to 299.
        """
        status = answer.status
        if 200 <= status < 300:
            return
        if not status:
            advice = WITHOUT_TLS if "WRONG_VERSION_NUMBER" in answer.failure else NO_ANSWER
            raise UnreachableError(f"No answer from {self._base}: {answer.failure}. {advice}")
        detail = _problem(answer).detail or f"{self._base}{request.target}"
        if status in (401, 403):
            raise TokenError(self._token_advice(request, status, detail))
        if 300 <= status < 400:
            raise UnreachableError(self._redirected(answer))
        sentence = f"The server answered {status}: {detail}"
        if status == 404:
            raise NotFoundError(detail if _problem(answer).detail else sentence)
        if status in REPEATED:
            raise UnreachableError(f"{self._base} is not available at the moment ({status}): {detail}")
        raise RejectedError(sentence) if 400 <= status < 500 else ApiError(sentence)

    def _redirected(self, answer: Answer) -> str:
        to = answer.headers.get("location", "").partition("?")[0] or "another address"
        return (
            f"{self._base} redirects to {to}. Redirects are not followed: the token is for one server. "
            "Set TOCSIN_URL, or pass url= or --url, to an address that the server answers itself."
        )

    def _token_advice(self, request: Request, status: int, detail: str) -> str:
        scope = "read" if request.method == "GET" or request.path == "/compare" else "write"
        if status == 403:
            what = f"{self._base} does not allow this with your token (403): {detail}"
        elif self._has_token:
            what = f"{self._base} rejected the token (401): it is unknown or revoked."
        else:
            what = f"{self._base} needs a token (401), and none is set."
        command = f"tocsin-server token create NAME --scope {scope}"
        return f"{what} Run `{command}` on the server, then set TOCSIN_TOKEN, or run `tocsin login`."


def _problem(answer: Answer) -> _Problem:
    try:
        return _decoder(_Problem).decode(answer.body)
    except msgspec.MsgspecError:
        return _Problem()


def _decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """Return the decoder of a type, made once: msgspec crashes if two threads are the first to prepare it."""
    with _lock:
        made = _decoders.get(kind)
        if made is None:
            made = _decoders[kind] = msgspec.json.Decoder(kind, strict=False)
    return made
