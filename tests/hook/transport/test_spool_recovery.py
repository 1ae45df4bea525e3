"""Spools of dead processes are delivered as their own writers, one at a time, by whoever comes next."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hook.ingest_server import IngestServer, closed_port, wait_until
from tests.hook.trainers import leave_behind
from tocsin import protocol
from tocsin.transport.connection import resolve
from tocsin.transport.server_url import parse_target
from tocsin.transport.spool_recovery import RECOVERY_S, SpoolRecovery


@pytest.fixture
def recovery(server: IngestServer, spool: Path) -> Iterator[SpoolRecovery]:
    """It looks for what is meant for this server."""
    target = parse_target(server.url)
    recovery = SpoolRecovery(spool, target, lambda: "tk", random=lambda: 0.5, resolve=resolve)
    yield recovery
    recovery.end()


def _recover_spools(recovery: SpoolRecovery, spool: Path, left: int) -> None:
    def stepped() -> bool:
        recovery.step(time.monotonic())
        return len(list(spool.iterdir())) == left and recovery.delivery is None

    wait_until(stepped)


def test_each_spool_arrives_once_as_its_own_writer(
    server: IngestServer, spool: Path, recovery: SpoolRecovery
) -> None:
    """Two ranks of a dead run, one after the other; their spools are gone afterwards."""
    writers = [leave_behind(spool, server.url, rank) for rank in (0, 1)]
    _recover_spools(recovery, spool, 0)
    assert [server.writers[writer].seqs for writer in writers] == [list(range(100))] * 2


def test_what_is_meant_for_another_server_stays(
    server: IngestServer, spool: Path, recovery: SpoolRecovery
) -> None:
    """Only ``tocsin sync --url`` sends it elsewhere."""
    leave_behind(spool, f"http://127.0.0.1:{closed_port()}", 0)
    mine = leave_behind(spool, server.url, 1)
    _recover_spools(recovery, spool, 1)
    assert list(server.writers) == [mine]


def test_a_spool_that_is_declined_is_not_offered_again(
    server: IngestServer, spool: Path, recovery: SpoolRecovery
) -> None:
    """Refused for good: it stays on disk, and the next scan skips it."""
    server.refuse = protocol.Refused("connection", "bad-token", "a known token", "tk", None, False)
    leave_behind(spool, server.url, 0)
    _recover_spools(recovery, spool, 1)
    assert server.connections == 1
    server.refuse = None
    recovery.step(time.monotonic() + 2 * RECOVERY_S)
    assert recovery.delivery is None
    assert server.connections == 1


def test_a_fork_leaves_the_delivery_to_its_parent(
    server: IngestServer, spool: Path, recovery: SpoolRecovery
) -> None:
    """The child closes what it inherited without a message, and the spool can be adopted again."""
    server.withhold_acks = True
    leave_behind(spool, server.url, 0)
    recovery.step(time.monotonic())
    assert recovery.delivery is not None
    recovery.forget()
    assert len(list(spool.iterdir())) == 1
    server.withhold_acks = False
    recovery.step(time.monotonic() + 2 * RECOVERY_S)
    _recover_spools(recovery, spool, 0)
