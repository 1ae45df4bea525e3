"""What the server knows of similar runs of the same project: facts that no record of a run can tell.

Made by ``runs/similar_runs.py`` off the record path and put into a run's order of arrival as an event of kind
``similar-runs``, so that rules that read them stay a function of what is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

KIND = "similar-runs"
"""Kind of the event; taken only from writer ``SERVER``, so that no script can say it."""
CLOSED = "closed"
"""Kind of the event by which the server says that no further attempt of a failed run came in time."""
SERVER = -1
"""Writer number of events that the server itself puts into a run."""
MOST = 8
"""Similar runs that are told of, the newest."""


class SimilarRun(msgspec.Struct, frozen=True):
    """One similar run. Unknown is None or empty."""

    run_id: str
    name: str
    state: str = ""
    """As :class:`~tocsin_server.core.models.RunState`."""
    steps: tuple[int, ...] = ()
    losses: tuple[float, ...] = ()
    """Median loss around each of ``steps``, finite ones only, at most 64."""
    peak_lr: float | None = None
    step_time_s: float | None = None
    """Median seconds a step."""
    failed_step: int | None = None
    """Where it failed or its loss stopped being finite for good."""
    failure: str = ""
    """Rule identifier or exception type of that failure."""


class SimilarRuns(msgspec.Struct, frozen=True):
    """Similar runs: same project, overlapping configuration."""

    runs: tuple[SimilarRun, ...] = ()

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> SimilarRuns:
        """Facts as an event holds them; what does not fit (another version's) counts as none."""
        try:
            return msgspec.convert(dict(data), cls)
        except msgspec.ValidationError:
            return cls()

    def plain(self) -> dict[str, Any]:
        """As the data of an event."""
        return dict(msgspec.to_builtins(self))
