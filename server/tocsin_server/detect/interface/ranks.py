"""Reports of several processes for the same step, as input of rules that compare ranks.

A step is closed when every live process has reported it, or 10 s later by the records' own time. The
result therefore depends only on the records in their order of arrival, and is the same after a replay.
For a single process there is nothing to compare, and this module costs almost nothing.
"""

from __future__ import annotations

import msgspec

from tocsin_server.detect.interface.view import View

COMPARED = ("loss", "lr", "scale", "grad_norm", "step_time")
"""Signals that are compared."""
WAIT_NS = 10_000_000_000
"""How long a step waits for missing reports, and how long a silent process counts as live; in ns."""
MOST_OPEN = 512
"""Maximum number of open steps; above it the oldest is closed without the missing reports."""


class Report(msgspec.Struct, frozen=True):
    """The report of one process for one step."""

    writer: int
    attempt: int
    rank: int
    values: dict[str, float]


class RankReports(msgspec.Struct, frozen=True):
    """A closed step with the reports of at least two processes."""

    step: int
    time_ns: int
    """When the step was closed, by the records' time."""
    reports: tuple[Report, ...]


class _Open(msgspec.Struct):
    """A step that waits for reports."""

    since_ns: int
    reports: dict[int, Report] = {}


class RankBarrier(msgspec.Struct):
    """Live processes and the steps that wait for their reports."""

    seen_ns: dict[int, int] = {}
    """Time of the newest record by writer."""
    now_ns: int = 0
    waiting: dict[int, _Open] = {}
    closed: int = -1
    """The highest closed step; reports for it and for earlier steps are too late."""
    attempt: int = 0
    furthest: int = -1
    """The highest step that any process reported."""

    def resumed(self, attempt: int) -> None:
        """Forget reports from before a new attempt: its steps may repeat them, but not at the same time."""
        self.attempt = attempt
        self.waiting.clear()

    def alone(self, writer: int) -> bool:
        """Return whether only this process is live, so that there is nothing to compare."""
        if self.waiting:
            return False
        if len(self.seen_ns) == 1 and writer in self.seen_ns:
            return True
        since = self.now_ns - WAIT_NS
        return all(no == writer or seen < since for no, seen in self.seen_ns.items())

    def note(self, writer: int, view: View) -> None:
        """Process records of a process that is the only live one: its steps are closed immediately."""
        self._met(writer, view.step[0], max(view.time_ns))
        last = max(view.step)
        self.furthest, self.closed = max(self.furthest, last), max(self.closed, last)

    def _met(self, writer: int, step: int, time_ns: int) -> None:
        """Update the time at which the process was last seen.

        A process that was not live before may start at an earlier step than the others have reached.
        """
        self.now_ns = max(self.now_ns, time_ns)
        if self.seen_ns.get(writer, -WAIT_NS) < self.now_ns - WAIT_NS:
            self.closed = min(self.closed, step - 1)
        self.seen_ns[writer] = self.now_ns

    def take(self, writer: int, attempt: int, rank: int, view: View, row: int) -> list[RankReports]:
        """Process one record and return the steps that it closes.

        Args:
            writer: Number of the process.
            attempt: Its attempt.
            rank: Its rank.
            view: Records of its primary optimizer.
            row: Index of the record in ``view``.
        """
        step = view.step[row]
        self._met(writer, step, view.time_ns[row])
        self.furthest = max(self.furthest, step)
        if step > self.closed:
            waiting = self.waiting.setdefault(step, _Open(self.now_ns))
            waiting.reports[writer] = Report(writer, attempt, rank, _values(view, row))
        return self._close(step)

    def _close(self, step: int) -> list[RankReports]:
        """Close ``step`` and earlier ones if all live processes reported it, and steps that timed out."""
        self.seen_ns = {no: seen for no, seen in self.seen_ns.items() if seen >= self.now_ns - WAIT_NS}
        done: list[RankReports] = []
        complete = step in self.waiting and self.waiting[step].reports.keys() >= self.seen_ns.keys()
        for number in sorted(self.waiting):
            late = self.now_ns - self.waiting[number].since_ns > WAIT_NS or len(self.waiting) > MOST_OPEN
            if not late and not (complete and number <= step):
                break
            reports = self.waiting.pop(number).reports
            self.closed = max(self.closed, number)
            if len(reports) > 1:
                ordered = tuple(reports[no] for no in sorted(reports))
                done.append(RankReports(number, self.now_ns, ordered))
        return done


def _values(view: View, row: int) -> dict[str, float]:
    values: dict[str, float] = {}
    for name in COMPARED:
        column = view.column(name)
        value = column[row] if column is not None else None
        if value is not None:
            values[name] = value
    return values
