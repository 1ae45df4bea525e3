"""What the processes of a run say of the same step, side by side: facts for rules that compare ranks.

A step is closed when every process that is alive has reported it, or 10 s later by the records' own
time. So the facts are a function of the records in their order of arrival, and come out the same
when a run is judged again. A process alone has nothing to be compared with, and costs nothing here.
"""

from __future__ import annotations

import msgspec

from tocsin_server.detect.interface.view import View

COMPARED = ("loss", "lr", "scale", "grad_norm", "step_time")
"""Signals that are put side by side."""
WAIT_NS = 10_000_000_000
"""So long a step waits for processes that have not reported it; so long a silent one counts as alive."""
MOST_OPEN = 512
"""Steps that wait at once; above it the oldest is closed as it is."""


class Report(msgspec.Struct, frozen=True):
    """What one process said of a step."""

    writer: int
    attempt: int
    rank: int
    values: dict[str, float]


class RankReports(msgspec.Struct, frozen=True):
    """A closed step: the reports of at least two processes."""

    step: int
    time_ns: int
    """When it was closed, by the records' time."""
    reports: tuple[Report, ...]


class _Open(msgspec.Struct):
    """A step that waits."""

    since_ns: int
    reports: dict[int, Report] = {}


class RankBarrier(msgspec.Struct):
    """Who is alive, and the steps that wait for reports."""

    seen_ns: dict[int, int] = {}
    """Time of the newest record by writer."""
    now_ns: int = 0
    waiting: dict[int, _Open] = {}
    closed: int = -1
    """The highest step that was closed; reports of it and of earlier ones come too late."""
    attempt: int = 0
    furthest: int = -1
    """The highest step that any process reported."""

    def alone(self, writer: int) -> bool:
        """Whether only this process is alive, so that there is nothing to compare."""
        if self.waiting:
            return False
        if len(self.seen_ns) == 1 and writer in self.seen_ns:
            return True
        since = self.now_ns - WAIT_NS
        return all(no == writer or seen < since for no, seen in self.seen_ns.items())

    def note(self, writer: int, view: View) -> None:
        """Records of a process that is alone: its steps are closed as they come."""
        self._met(writer, view.step[0], max(view.time_ns))
        last = max(view.step)
        self.furthest, self.closed = max(self.furthest, last), max(self.closed, last)

    def _met(self, writer: int, step: int, time_ns: int) -> None:
        """A process that was not alive until now may begin at an earlier step than the others are at."""
        self.now_ns = max(self.now_ns, time_ns)
        if self.seen_ns.get(writer, -WAIT_NS) < self.now_ns - WAIT_NS:
            self.closed = min(self.closed, step - 1)
        self.seen_ns[writer] = self.now_ns

    def take(self, writer: int, attempt: int, rank: int, view: View, row: int) -> list[RankReports]:
        """One record; the steps that it closes."""
        step = view.step[row]
        self._met(writer, step, view.time_ns[row])
        self.furthest = max(self.furthest, step)
        if step > self.closed:
            waiting = self.waiting.setdefault(step, _Open(self.now_ns))
            waiting.reports[writer] = Report(writer, attempt, rank, _values(view, row))
        return self._close(step)

    def _close(self, step: int) -> list[RankReports]:
        """The newest step where all alive have reported it, and those that have waited long enough."""
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
    said: dict[str, float] = {}
    for name in COMPARED:
        column = view.column(name)
        value = column[row] if column is not None else None
        if value is not None:
            said[name] = value
    return said
