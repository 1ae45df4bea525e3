"""Define the outcome of one delivery attempt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Sent:
    """The receiver accepted the message.

    ``detail``: its response, short and without secrets. ``receipt``: what finds the message again at the
    service, to change it or to reply to it; it contains no secret either.
    """

    detail: str = ""
    receipt: Mapping[str, Any] | None = None


class DeliveryError(Exception):
    """The message was not sent. ``permanent``: a retry would fail too; ``retry_after_s``: how long to
    wait before a retry; ``receipt``: who got the message already, if it was sent to some.
    """

    def __init__(
        self,
        detail: str,
        *,
        permanent: bool = False,
        retry_after_s: float | None = None,
        receipt: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.permanent = permanent
        self.retry_after_s = retry_after_s
        self.receipt = receipt
