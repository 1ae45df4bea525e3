"""Read the names of series over many runs. Functions of a Connection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sqlalchemy import Connection, func, select

from tocsin_server.store.acks import AT_ONCE
from tocsin_server.store.tables import metric


def runs_by_series(connection: Connection, run_ids: Sequence[str]) -> dict[str, int]:
    """Return the names of the series of these runs, each with the number of runs that have it."""
    found: Counter[str] = Counter()
    for at in range(0, len(run_ids), AT_ONCE):
        mine = metric.c.run_id.in_(run_ids[at : at + AT_ONCE])
        query = select(metric.c.name, func.count().label("runs")).where(mine).group_by(metric.c.name)
        found.update({row.name: row.runs for row in connection.execute(query)})
    return dict(found)
