"""What came of one attempt to send."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sent:
    """The receiver has it. ``detail``: in its own words, short, without secrets."""

    detail: str = ""


class DeliveryError(Exception):
    """It was not sent. ``permanent``: trying again will not help; ``retry_after_s``: not before that."""

    def __init__(self, detail: str, *, permanent: bool = False, retry_after_s: float | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.permanent = permanent
        self.retry_after_s = retry_after_s
