"""Similar runs of the same project, as known to the server.

``runs/similar_runs.py`` computes them outside the record path and stores them in the run as an event of
kind ``similar-runs``, so that the results of rules that read them depend only on stored data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

KIND = "similar-runs"
"""Kind of the event; accepted only from the writer ``SERVER``, so that scripts cannot send it."""
CLOSED = "closed"
"""Kind of the event that reports that no further attempt of a failed run arrived in time."""
SERVER = -1
"""Writer number of events that the server adds to a run."""
MOST = 8
"""Maximum number of similar runs; the newest are kept."""


class SimilarRun(msgspec.Struct, frozen=True):
    """One similar run. Unknown values are None or empty."""

    run_id: str
    name: str
    state: str = ""
    """A value of :class:`~tocsin_server.core.models.RunState`."""
    steps: tuple[int, ...] = ()
    losses: tuple[float, ...] = ()
    """Finite median loss around each of ``steps``; at most 64 values."""
    peak_lr: float | None = None
    step_time_s: float | None = None
    """Median step time in seconds."""
    failed_step: int | None = None
    """Step at which the run failed or its loss stayed non-finite."""
    failure: str = ""
    """Rule identifier or exception type of that failure."""


class SimilarRuns(msgspec.Struct, frozen=True):
    """Similar runs: same project, overlapping configuration."""

    runs: tuple[SimilarRun, ...] = ()

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> SimilarRuns:
        """Return the similar runs from the data of an event; data of another version count as none."""
        try:
            return msgspec.convert(dict(data), cls)
        except msgspec.ValidationError:
            return cls()

    def plain(self) -> dict[str, Any]:
        """Return the data of an event."""
        return dict(msgspec.to_builtins(self))


msgspec.msgpack.Decoder(SimilarRuns)  # msgspec crashes if two threads are the first to convert to a type
