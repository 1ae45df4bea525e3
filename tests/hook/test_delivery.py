"""The delivery matrix: whatever happens to client, server, disk or clock, all steps arrive exactly once."""

from __future__ import annotations

import random
import signal
import socket
import struct
import time
from pathlib import Path

import pytest

import tocsin
from tests.conftest import Tower
from tests.hook.ingest_server import IngestServer, Kept, closed_port, wait_until
from tests.hook.reading import Reader
from tests.hook.trainers import Script, assert_whole, bring_in, logs_of, run_script, small_disk
from tests.matrix import STALL_S
from tocsin.api.reporter import RunReporter
from tocsin.cli.sync import sync
from tocsin.transport.outbox import Outbox

FOREVER = "run = watch()\nwhile True:\n    train(run, 1)\n"
SLOWLY = "run = watch()\nwhile True:\n    train(run, 5)\n    time.sleep(0.002)\n"


# --- SIGKILL: no step is lost once log has returned


@pytest.mark.parametrize("there", [True, False], ids=["server there", "server away"])
@pytest.mark.parametrize("seed", range(4))
def test_sigkill_at_any_instant_loses_no_step(
    server: IngestServer, spool: Path, there: bool, seed: int
) -> None:
    """Killed at a random time at full speed, within the queue's limit: no logged step is missing."""
    address = server.url if there else f"http://127.0.0.1:{closed_port()}"
    script = Script(FOREVER, address, spool)
    script.until(0)
    script.for_seconds(random.Random(seed).uniform(0.0, 0.15))  # below the queue's limit at any speed
    script.process.kill()
    assert script.end() == -signal.SIGKILL
    bring_in(spool, server.url)
    assert_whole(server.only, script.last + 1, script.last + 2)
    assert server.only.finish is None
    assert (list(spool.iterdir()), logs_of(spool)) == ([], [])


def test_sigkill_right_after_the_first_log_loses_nothing(server: IngestServer, spool: Path) -> None:
    """One step, then SIGKILL: the step arrives, under the handshake of the killed process."""
    body = "run = watch(config={'lr': 1})\ntrain(run, 1)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    status, _ = run_script(body, f"http://127.0.0.1:{closed_port()}", spool)
    assert status == -signal.SIGKILL
    bring_in(spool, server.url)
    assert_whole(server.only, 1)
    assert server.only.hellos[0].config == {"lr": 1}
    assert server.only.hellos[0].token == "tk"


def test_events_before_a_sigkill_arrive_too(server: IngestServer, spool: Path) -> None:
    """A checkpoint that was reported is known after the process was killed."""
    body = (
        "run = watch()\ntrain(run, 3)\nrun.event('checkpoint', path='a.pt')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    run_script(body, f"http://127.0.0.1:{closed_port()}", spool)
    bring_in(spool, server.url)
    kinds = [event.kind for event in server.only.events]
    assert [kind for kind in kinds if kind != "environment"] == ["attached", "checkpoint"]


def test_the_next_process_brings_in_what_was_packed(server: IngestServer, spool: Path) -> None:
    """Killed without a server; the next run on this machine delivers the data under the old writer's
    identity."""
    script = Script(SLOWLY, f"http://127.0.0.1:{closed_port()}", spool)
    server.stop()
    script.process.kill()
    script.end()
    dead = Script(SLOWLY, server.url, spool)
    dead.until(50)
    dead.process.kill()
    dead.end()
    server.start()
    heir = Script(SLOWLY, server.url, spool)
    heir.until(5)
    wait_until(lambda: len([path for path in spool.iterdir() if f"pid{dead.process.pid}-" in path.name]) == 0)
    heir.process.kill()
    heir.end()
    kept = next(kept for writer, kept in server.writers.items() if writer.pid == dead.process.pid)
    assert_whole(kept, dead.last + 1, dead.last + 2)


def test_a_sync_that_dies_half_way_doubles_nothing(server: IngestServer, spool: Path) -> None:
    """The server stores the data and dies before any ack: the second sync duplicates nothing."""
    script = Script(FOREVER, f"http://127.0.0.1:{closed_port()}", spool)
    script.until(3000)
    script.process.kill()
    script.end()
    server.withhold_acks = True
    (outcome,) = sync(spool, url=server.url, token="tk", timeout_s=0.3)
    assert not outcome.delivered
    server.withhold_acks = False
    bring_in(spool, server.url)
    assert_whole(server.only, script.last + 1, script.last + 2)


def test_sigkill_with_a_full_spool_disk_loses_nothing_that_memory_holds(
    server: IngestServer, tmp_path: Path
) -> None:
    """Spool disk full, server down, client killed: shared memory has everything."""
    with small_disk(tmp_path / "disk") as mounted:
        if not mounted:
            pytest.skip("a small tmpfs cannot be mounted here: needs root")
        spool = tmp_path / "disk"
        body = (
            "run = watch()\ntrain(run, 1)\nblock = open(spool + '/full', 'wb', 0)\n"
            "try:\n    while block.write(bytes(4096)): pass\nexcept OSError: pass\n"
            "train(run, 3000)\ntime.sleep(0.5)\ntrain(run, 3000)\nos.kill(os.getpid(), signal.SIGKILL)\n"
        )
        status, script = run_script(body, f"http://127.0.0.1:{closed_port()}", spool)
        assert (status, script.last) == (-signal.SIGKILL, 6000)
        (spool / "full").unlink()
        bring_in(spool, server.url)
        assert_whole(server.only, 6001)


def test_kill_9_of_trainer_and_server_together(tower: Tower, spool: Path) -> None:
    """The real server is killed first, then the client. After a restart, it gets every step exactly once."""
    script = Script(SLOWLY, tower.base, spool, environ={"TOCSIN_TOKEN": tower.token})
    script.until(500)
    tower.kill()
    script.until(script.last + 500)
    script.process.kill()
    script.end()
    tower.start()
    bring_in(spool, tower.base, tower.token)
    run = tower.run_named("n")
    assert run is not None
    steps = [record["step"] for record in tower.records(run["id"])]
    assert steps == list(range(len(steps)))
    assert len(steps) in (script.last + 1, script.last + 2)


# --- the server goes down and comes back


def test_server_away_at_the_start(spool: Path) -> None:
    """It starts late and gets everything."""
    server = IngestServer()
    server.port = closed_port()
    script = Script("run = watch()\ntrain(run, 500)\nsys.stdin.read(0)\nrun.finish()\n", server.url, spool)
    script.until(100)
    server.start()
    assert script.end() == 0
    server.stop()
    assert_whole(server.only, 500)
    assert server.only.finish is not None


def test_server_away_in_the_middle(server: IngestServer, spool: Path) -> None:
    """It goes down and comes back twice while the script continues."""
    body = "run = watch()\nfor _ in range(120):\n    train(run, 10)\n    time.sleep(0.01)\n"
    script = Script(body, server.url, spool)
    for step in (200, 600):
        script.until(step)
        server.stop()
        script.until(step + 200)
        server.start()
    assert script.end() == 0
    assert_whole(server.only, 1200)
    assert server.only.finish is not None


def test_server_away_for_the_whole_run(server: IngestServer, spool: Path) -> None:
    """The run ends in time and says where its end is stored; sync delivers everything, including the
    finish."""
    url = f"http://127.0.0.1:{closed_port()}"
    status, script = run_script("run = watch(exit_timeout=0.3)\ntrain(run, 800)\n", url, spool)
    assert status == 0
    assert "tocsin sync" in script.complaints
    bring_in(spool, server.url)
    assert_whole(server.only, 800)
    assert server.only.finish is not None
    assert (list(spool.iterdir()), logs_of(spool)) == ([], [])


def test_duplicate_acks_and_a_server_restored_from_an_older_copy(server: IngestServer, spool: Path) -> None:
    """Each ack twice, then a rollback: what the spool still has is sent again, and nothing twice."""
    server.ack_twice = True
    body = (
        "run = watch()\ntrain(run, 300)\ntime.sleep(0.3)\n"
        "while step < 900:\n    train(run, 10)\n    time.sleep(0.005)\n"
    )
    script = Script(body, server.url, spool)
    script.until(299)
    wait_until(lambda: server.writers and server.only.seq >= 299)
    server.writers[next(iter(server.writers))] = Kept()
    server.drop_connections()
    assert script.end() == 0
    assert_whole(server.only, 900)


# --- exit in time


@pytest.mark.parametrize("kind", ["refusing", "black-holed", "mute"])
def test_the_process_exits_within_its_limit(kind: str, spool: Path) -> None:
    """From the last step to the end of the process at most exit_timeout + 1 s, whatever the server does."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        filler = [socket.socket() for _ in range(4)] if kind == "black-holed" else []
        for sock in filler:
            sock.setblocking(False)
            sock.connect_ex(("127.0.0.1", port))
        url = f"http://127.0.0.1:{closed_port() if kind == 'refusing' else port}"
        body = (
            "import atexit, time\nrun = watch(exit_timeout=0.5)\n"
            "train(run, 50)\nbegan = time.monotonic()\n"
            "run.finish()\nprint('took', time.monotonic() - began)\n"
        )
        status, script = run_script(body, url, spool)
        for sock in filler:
            sock.close()
    took = float(script._out.split(b"took ")[1])
    assert (status, took < 1.5 + STALL_S) == (0, True)


# --- disk and clock


def test_a_disk_that_fills_up_harms_neither_training_nor_delivery(
    server: IngestServer, tmp_path: Path
) -> None:
    """With a spool of 1 MiB, the run continues and warns, and everything arrives."""
    with small_disk(tmp_path / "disk", "64k") as mounted:
        if not mounted:
            pytest.skip("a small tmpfs cannot be mounted here: needs root")
        body = "run = watch()\nfor _ in range(40):\n    train(run, 500)\n    time.sleep(0.01)\n"
        status, _ = run_script(body, server.url, tmp_path / "disk")
        assert status == 0
        assert_whole(server.only, 20_000)


def test_a_limit_on_file_sizes_harms_nothing(server: IngestServer, spool: Path) -> None:
    """With RLIMIT_FSIZE below a buffer, no SIGXFSZ, everything arrives, and the run says what is missing."""
    body = (
        "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))\n"
        "run = watch()\ntrain(run, 5000)\n"
    )
    status, script = run_script(body, server.url, spool)
    assert status == 0, script.complaints
    assert_whole(server.only, 5000)
    assert "SIGKILL" in script.complaints


def test_a_spool_place_that_is_not_writable_harms_nothing(server: IngestServer, tmp_path: Path) -> None:
    """A file instead of the directory: everything arrives, with one line in the log."""
    place = tmp_path / "file"
    place.write_text("")
    status, script = run_script("run = watch()\ntrain(run, 500)\n", server.url, place)
    assert status == 0
    assert_whole(server.only, 500)
    assert script.complaints.count("SIGKILL") == 1


def test_wall_clock_steps_leave_the_times_of_records_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is set back an hour and then forward a day: record times only increase."""

    class Nowhere:
        def start(self) -> None: ...

        def close(self, **options: object) -> None: ...

        def forget(self) -> None: ...

    outbox, real = Outbox(), time.time_ns
    watch = RunReporter(outbox, Nowhere())
    begun = real()
    for step, jump_s in enumerate((0, -3600, 86_400)):
        monkeypatch.setattr(time, "time_ns", lambda jump_s=jump_s: real() + jump_s * 10**9)
        watch.put((step, watch.now_ns(), ("loss",), 1.0))
    (records,) = Reader(outbox).records()
    times = struct.unpack("<3q", records.t)
    assert begun - 10**9 < times[0] < times[1] < times[2] < begun + 60 * 10**9


def test_a_heartbeat_contains_the_phase(server: IngestServer, spool: Path) -> None:
    """``alive`` names the innermost phase, so that an evaluation does not count as a stall."""
    run = tocsin.watch("p", url=server.url, spool_dir=spool, patch=False)
    with run.phase("eval"), run.phase("sampling"):
        run.log(loss=1.0)
        wait_until(lambda: server.writers and "sampling" in [one.phase for one in server.only.alive])
    run.finish()
