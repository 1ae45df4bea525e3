"""Errors of ``tocsin.Api``. Each is also the built-in error of its kind, so both can be caught."""

from __future__ import annotations


class ApiError(Exception):
    """The server did not do what was asked; the message says what failed, why, and what to do."""


class UnreachableError(ApiError, ConnectionError):
    """The server did not respond, or something else responds at its address."""


class TokenError(ApiError, PermissionError):
    """The token is missing, unknown or revoked, or its scope does not allow this."""


class NotFoundError(ApiError, LookupError):
    """There is no such run, alert or incident."""


class RejectedError(ApiError, ValueError):
    """The server rejected the values of a request."""
