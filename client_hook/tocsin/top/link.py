"""Whether the server responds, and since when it does not. Pure."""

from __future__ import annotations

from datetime import datetime


class Link:
    """The state of the connection to a server, as one sentence."""

    def __init__(self) -> None:
        self.problem = ""
        self._since_s: float | None = None
        self._answered_s: float | None = None

    @property
    def is_lost(self) -> bool:
        """Whether the last request got no answer."""
        return self._since_s is not None

    def restored(self, now_s: float) -> None:
        """Note an answer at a Unix time."""
        self.problem, self._since_s, self._answered_s = "", None, now_s

    def lost(self, now_s: float) -> None:
        """Note a request without an answer."""
        self.problem = ""
        if self._since_s is None:
            self._since_s = now_s

    def rejected(self, problem: str, now_s: float) -> None:
        """Note a request that the server rejected, and why."""
        self.restored(now_s)
        self.problem = problem

    def text(self) -> str:
        """Return what is wrong, or "" if nothing is."""
        if self._since_s is None:
            return self.problem
        kept = "" if self._answered_s is None else f" Values are from {_clock(self._answered_s)}."
        return f"The server has not responded since {_clock(self._since_s)}. Retrying.{kept}"


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().strftime("%H:%M:%S")
