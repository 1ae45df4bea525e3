"""A step near 2**63, stored before steps were bounded, causes no failures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest

from tests.matrix import LONG
from tests.server.offline.test_snapshot_gather import alert_of
from tests.server.store.conftest import hello, sealed
from tocsin_server.core.models import Column, RecordBatch, Transition, WriteBatch
from tocsin_server.store.database import Database
from tocsin_server.store.registration import register
from tocsin_server.store.writer import StoreWriter

FARTHEST = 2**63 - 1
RECORDS = 9000


def put(store: StoreWriter, run_id: str, last: int) -> None:
    """Store a running run: two sealed chunks, a tail that ends at ``last``, and an alert at that step."""
    greeting = hello(run_id, config={"lr": 1.0})
    who = store.call(lambda connection: register(connection, greeting, 2_000)).result(60).writer
    step = np.arange(RECORDS, dtype=np.int64)
    step[4000:4100] = step[-3:] = last
    values = np.where(step == last, np.nan, 1.0)
    columns = {name: Column(values) for name in ("loss", "grad_norm", "lr", "step_time")}
    for no, at in enumerate(np.array_split(np.arange(RECORDS), 6)):
        part = {name: Column(column.v[at]) for name, column in columns.items()}
        batch = RecordBatch(who, no, int(at[0]), at.size, step[at], 10**18 + at, part)
        store.submit(WriteBatch(run_id, batch=batch))
    reported = alert_of(run_id, onset=last)
    store.submit(WriteBatch(run_id, transitions=(Transition(reported, None, 7),)))
    store.call(lambda _: None).result(60)


@LONG
@pytest.mark.both_databases
def test_every_route_and_round_bears_it(
    database: Database, store: StoreWriter, run_server: Callable[..., Any]
) -> None:
    """All GET routes of the run return 200, both runs have incident snapshots, and no periodic job fails."""
    for run_id, last in (("far", FARTHEST), ("near", RECORDS)):
        put(store, run_id, last)
        sealed(database, 2, run_id)
    store.stop(30.0)
    server = run_server()
    headers = {"authorization": f"Bearer {server.token}"}

    def ask(path: str, **params: Any) -> httpx.Response:
        return httpx.get(f"{server.base}/api/v1{path}", params=params, headers=headers, timeout=60)

    every = ask("/openapi.json").json()["paths"].items()
    paths = [path.removeprefix("/api/v1") for path, verbs in every if "get" in verbs]
    alert_id = alert_of("far", onset=FARTHEST).id
    for path in paths:
        if ("{run_id}" in path or "{alert_id}" in path) and "{digest}" not in path:
            named = path.replace("{run_id}", "far").replace("{alert_id}", alert_id)
            assert ask(named).status_code == 200, named
    for params in ({"from": 0}, {"from": 2**53}, {"format": "csv"}, {"format": "parquet"}):
        assert ask("/runs/far/records", **params).status_code == 200, params
    for buckets in (50, 8192):
        answer = ask("/runs/far/series", names="loss", buckets=buckets)
        assert answer.status_code == 200, answer.text
    assert ask(f"/alerts/{alert_of('near', onset=RECORDS).id}/snapshot").status_code == 200
    health = ask("/health").json()
    assert (health["jobs"], health["writer"]["rule_crashes"]) == ([], 0)
