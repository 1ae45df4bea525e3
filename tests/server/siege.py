"""Kill a real server while clients report, and compare what is stored with what was sent."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
from sqlalchemy import func, select, text
from sqlalchemy.engine import URL

from tests.server.besieged_trainer import STATUS, evaluated, steps_of, values_of
from tests.server.conftest import ServerProcess, server_process, wait_until
from tocsin_server.store.database import Database, open_database
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.results import RecordPage
from tocsin_server.store.tables import alert_transition, nonfinite_onset

PROGRAM = Path(__file__).with_name("besieged_trainer.py")
BY_THE_CLOCK = {"stalled", "trainer-lost"}
"""Rules about silence, which the test itself causes."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a client: records sent and acknowledged, connections so far, connected now."""

    sent: int
    acked: int
    connections: int
    connected: bool


class WriterProcess:
    """A client in a separate process."""

    def __init__(self, server: ServerProcess, run: str, seed: int, folder: Path) -> None:
        self.run, self.seed = run, seed
        self._status = folder / f"{run}.status"
        self._status.write_bytes(bytes(STATUS.size))
        place = [server.base, server.client_token, run, str(seed), str(self._status)]
        self.process = subprocess.Popen([sys.executable, str(PROGRAM), *place], stdin=subprocess.PIPE)

    @property
    def progress(self) -> Progress:
        sent, acked, connections, connected = STATUS.unpack(self._status.read_bytes())
        return Progress(sent, acked, connections, bool(connected))

    def end_at(self, records: int) -> None:
        """Set the number of records of the run: the process ends once all are acknowledged."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{records}\n".encode())
        self.process.stdin.close()

    def kill(self) -> None:
        """Kill the process. Does nothing if it has ended."""
        self.process.kill()
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()


class Siege:
    """A server on one database, its clients, and the number of kills so far."""

    def __init__(
        self,
        url: URL,
        folder: Path,
        *,
        clients: int,
        seed: int,
        on_kill: Callable[[int], None] = lambda _: None,
        on_look: Callable[[], None] = lambda: None,
    ) -> None:
        """Set up. ``on_kill`` is called with the number of kills; an error in ``on_look`` ends the siege
        gracefully."""
        self.url, self.folder = url, folder
        self.kills = 0
        self._on_kill, self._on_look = on_kill, on_look
        self._chance = random.Random(seed)
        self._count = clients
        self._port = 0

    @contextlib.contextmanager
    def server(self, **environ: str) -> Iterator[ServerProcess]:
        """Run the server on its previous port and the same data."""
        options = ["--database-url", self.url.render_as_string(hide_password=False)]
        more = {"TOCSIN_LIMIT_RECORDS_PER_S": "10000000", **environ}
        with server_process(self.folder, "--port", str(self._port), *options, **more) as running:
            self._port = int(running.base.rsplit(":", 1)[1])
            yield running

    def run(self, kills: int) -> tuple[int, list[WriterProcess]]:
        """Kill the server ``kills`` times, each time with unacknowledged records at every client.

        Then report the same records without kills. Returns the number of records of each run, and the clients
        of the first part.
        """
        with contextlib.ExitStack() as stack:
            with self.server() as server:
                besieged = self._trainers(stack, server, "besieged")
                self._on_kill(0)
                self._kill(server, besieged)
            while self.kills < kills:
                with self.server() as server:
                    self._kill(server, besieged)
            with self.server() as server:
                records = self._finish(besieged)
                self._calm(stack, server, records)
        return records, besieged

    def outages(self, count: int, outage: Callable[[], contextlib.AbstractContextManager[Any]]) -> int:
        """Make the database fail ``count`` times while the server is up: ``outage()`` lasts as long as its
        block.

        Returns the number of records of each run, including those of the undisturbed part that follows.
        """
        with contextlib.ExitStack() as stack, self.server() as server:
            besieged = self._trainers(stack, server, "besieged")
            self._on_kill(0)
            while self.kills < count:
                self._strike(server, besieged, outage)
            records = self._finish(besieged)
            self._calm(stack, server, records)
        return records

    def rule_process_kills(self, count: int) -> int:
        """Kill the process that evaluates the rules ``count`` times; see :meth:`outages`."""
        with contextlib.ExitStack() as stack, self.server(TOCSIN_RULE_PROCESSES="1") as server:
            besieged = self._trainers(stack, server, "besieged")
            while self.kills < count:
                (child,) = wait_until(lambda: rule_processes(server), "a rule process")
                self._until_all_moved(server, besieged)
                time.sleep(self._chance.uniform(0.0, 0.6))  # the random moment is intended, not a wait
                child.kill()
                child.wait()
                self.kills += 1
            records = self._finish(besieged)
            self._calm(stack, server, records)
        return records

    def _strike(
        self,
        server: ServerProcess,
        clients: Sequence[WriterProcess],
        outage: Callable[[], contextlib.AbstractContextManager[Any]],
    ) -> None:
        """Make one outage at a random moment; end it once health has reported it and every client waits."""
        self._until_all_moved(server, clients)
        time.sleep(self._chance.uniform(0.0, 0.6))  # the random moment is intended, this is not a wait
        with outage():
            self._until(lambda: _status(server) == "failing", "health to say so")
            self._until(lambda: all(one.progress.sent > one.progress.acked for one in clients), "a wait")
        self.kills += 1
        self._on_kill(self.kills)

    def _calm(self, stack: contextlib.ExitStack, server: ServerProcess, records: int) -> None:
        """Report runs with the same records undisturbed, and stop the server gracefully."""
        calm = self._trainers(stack, server, "calm")
        for client in calm:
            client.end_at(records)
        self._ended(calm)
        assert server.stop() == 0

    def _trainers(self, stack: contextlib.ExitStack, server: ServerProcess, kind: str) -> list[WriterProcess]:
        made = [WriterProcess(server, f"{kind}-{no}", no, self.folder) for no in range(self._count)]
        for client in made:
            stack.callback(client.kill)
        return made

    def _kill(self, server: ServerProcess, clients: Sequence[WriterProcess]) -> None:
        """Kill the server at a random moment; count it if every client had unacknowledged records."""
        self._until_all_moved(server, clients)
        # the random moment of the kill is intended, this is not a wait
        time.sleep(self._chance.uniform(0.0, 0.6))
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        self._until(lambda: not any(one.progress.connected for one in clients), "the trainers to notice")
        if all(client.progress.sent > client.progress.acked for client in clients):
            self.kills += 1
            self._on_kill(self.kills)

    def _until_all_moved(self, server: ServerProcess, clients: Sequence[WriterProcess]) -> None:
        before = [client.progress for client in clients]
        try:
            self._until(
                lambda: all(_moved(one.progress, was) for one, was in zip(clients, before, strict=True)),
                "every trainer to be acknowledged something",
            )
        except AssertionError as error:
            now = [client.progress for client in clients]
            why = (
                f"{error}, after {self.kills} kills: {before}, then {now}; the server: {server.text[-2000:]}"
            )
            raise AssertionError(why) from None

    def _finish(self, besieged: Sequence[WriterProcess]) -> int:
        """End the runs at the same number of records."""
        records = max(client.progress.sent for client in besieged) + 500
        for client in besieged:
            client.end_at(records)
        self._ended(besieged)
        return records

    def _until(self, true: Callable[[], bool], what: str) -> None:
        def looked() -> bool:
            self._on_look()
            return true()

        wait_until(looked, what)

    def _ended(self, clients: Sequence[WriterProcess]) -> None:
        """Wait as long as acknowledgements arrive: a hundred thousand records take a while."""
        acked = -1
        while any(one.process.poll() is None for one in clients):
            now = sum(one.progress.acked for one in clients)
            assert now != acked, f"{now} records acknowledged, and no more within the deadline"
            acked = now
            with contextlib.suppress(AssertionError):
                self._until(lambda: all(one.process.poll() is not None for one in clients), "all to end")
        assert [one.process.returncode for one in clients] == [0] * len(clients)


def rule_processes(server: ServerProcess) -> list[psutil.Process]:
    """Return the processes that evaluate the rules of a server."""
    children = psutil.Process(server.process.pid).children()
    return [child for child in children if child.status() != psutil.STATUS_ZOMBIE]


def _moved(now: Progress, was: Progress) -> bool:
    return now.connected and now.connections > 0 and now.acked > was.acked


def _status(server: ServerProcess) -> str:
    """Return what health reports without a login."""
    reported: str = httpx.get(f"{server.base}/api/v1/health", timeout=30).json()["status"]
    return reported


def check(url: URL, records: int, clients: int) -> None:
    """Check that every record is stored exactly once, with the alerts and onsets of a run without kills."""
    database = open_database(url)
    try:
        for no in range(clients):
            check_records(whole(StoreReader(database), f"besieged-{no}"), records, seed=no)
            assert alerts(database, f"besieged-{no}") == alerts(database, f"calm-{no}") != []
            assert onsets(database, f"besieged-{no}") == onsets(database, f"calm-{no}") != []
        if database.dialect == "sqlite":
            with database.reader.connect() as connection:
                assert connection.execute(text("PRAGMA integrity_check")).scalar() == "ok"
    finally:
        database.close()


def whole(reader: StoreReader, run: str) -> RecordPage:
    """Return all records of a run."""
    return reader.records(run, limit=1 << 30)


def check_records(page: RecordPage, records: int, *, seed: int) -> None:
    """Check that numbers, steps and the bits of every value are those that the client made."""
    seq = np.arange(records)
    np.testing.assert_array_equal(page.seq, seq)
    np.testing.assert_array_equal(page.step, steps_of(seq))
    for name, sent in values_of(seed, seq).items():
        np.testing.assert_array_equal(page.columns[name].v.view(np.uint64), sent.view(np.uint64))
    val = page.columns["val"]
    np.testing.assert_array_equal(val.at, np.flatnonzero(evaluated(seq)))
    np.testing.assert_array_equal(val.v, seq[evaluated(seq)] * 0.5)


def alerts(database: Database, run: str) -> list[Any]:
    """Return all alerts and their history, without what depends on the clock."""
    reader = StoreReader(database)
    found = [stored.alert for stored in reader.alerts(run, limit=10**6)]
    reported = [
        (a.rule, a.subject, a.episode, a.severity.value, a.state.value, a.onset_step, a.fired_step)
        for a in found
        if a.rule not in BY_THE_CLOCK
    ]
    assert len(reported) == len(set(reported))
    with database.reader.connect() as connection:
        own = alert_transition.c
        lines = select(own.fingerprint, own.episode, own.state, func.count()).where(own.run_id == run)
        silent = {a.fingerprint for a in found if a.rule in BY_THE_CLOCK}
        rows = connection.execute(lines.group_by(own.fingerprint, own.episode, own.state)).all()
    return sorted(map(repr, [*reported, *(tuple(row) for row in rows if row.fingerprint not in silent)]))


def onsets(database: Database, run: str) -> list[Any]:
    """Return the recorded onsets of NaN and infinities, with their ends."""
    columns = [column for column in nonfinite_onset.c if column.name not in ("run_id", "time_ns", "col_id")]
    with database.reader.connect() as connection:
        query = select(nonfinite_onset.c.seq, *columns).where(nonfinite_onset.c.run_id == run)
        return sorted(map(repr, connection.execute(query)))
