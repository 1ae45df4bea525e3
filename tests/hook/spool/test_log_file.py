"""The file of the log's memory: where it is, what happens without one, and that none is left behind."""

from __future__ import annotations

import logging
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hook.ingest_server import IngestServer, wait_until
from tests.hook.transport.test_sender import COUNT, Trainer, assert_exactly_once
from tocsin.spool import log_file
from tocsin.spool.log import SIZE

MOUNTS = """\
21 1 254:0 / / rw,relatime - ext4 /dev/root rw
22 21 0:20 / /dev/shm rw - tmpfs tmpfs rw
23 21 0:30 / /home rw - nfs4 server:/home rw
24 23 0:31 / /home/ann/scratch\\040disk rw shared:1 - btrfs /dev/sdb rw
25 21 0:32 / /data rw - xfs /dev/sdc rw
"""


@pytest.fixture
def shm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A separate folder for this test instead of /dev/shm."""
    place = tmp_path / "shm"
    place.mkdir()
    monkeypatch.setattr(log_file, "SHM", place)
    return place


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """The directory of one spool."""
    place = tmp_path / "spools" / "writer"
    place.mkdir(parents=True)
    return place


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs with less room than a log needs; only root may mount one."""
    place = tmp_path / "tiny"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small tmpfs cannot be mounted here: needs root")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/tmp/spool", "ext4"),
        ("/dev/shm/tocsin-0", "tmpfs"),
        ("/dev/shmall", "ext4"),
        ("/home/ann", "nfs4"),
        ("/home/ann/scratch disk/spool", "btrfs"),
        ("/data", "xfs"),
    ],
)
def test_the_file_system_is_that_of_the_longest_mount_above(tmp_path: Path, path: str, kind: str) -> None:
    """Also where a mount point has a blank, and where only the beginning of a name fits."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    assert log_file.filesystem_of(Path(path), str(mounts)) == kind


def test_memory_is_allocated_before_it_is_mapped(shm: Path, spool: Path) -> None:
    """Every block is there, so that no store can fail; nobody else may read it."""
    made = log_file.create(spool)
    status = made.path.stat()
    assert (status.st_size, status.st_blocks * 512 >= SIZE) == (SIZE, True)
    assert status.st_mode & 0o077 == 0
    assert made.path.is_relative_to(shm)
    assert os.readlink(spool / log_file.NAME) == str(made.path)
    made.close()


def test_where_there_is_no_shared_memory_it_lies_with_the_spool(
    spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No /dev/shm: the spool's own directory, if its file system is fit for it."""
    monkeypatch.setattr(log_file, "SHM", Path("/nowhere"))
    if log_file.filesystem_of(spool) not in log_file.LOCAL:
        pytest.skip(f"temporary files lie on {log_file.filesystem_of(spool)} here")
    made = log_file.create(spool)
    assert made.path == spool / log_file.NAME
    made.close()


def test_never_on_a_file_system_that_may_hang_or_copies_on_write(
    shm: Path, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS everywhere: no shared memory, and the reason names both places."""
    monkeypatch.setattr(log_file, "filesystem_of", lambda path: "nfs4")
    with pytest.raises(OSError, match=f"shm.*got nfs4.*{spool}.*got nfs4"):
        log_file.create(spool)
    assert list(shm.rglob("*.log")) == []


def test_a_full_file_system_is_refused_before_anything_is_mapped(
    tiny: Path, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1 MiB of room: the file does not stay, and the spool's directory takes over."""
    monkeypatch.setattr(log_file, "SHM", tiny)
    made = log_file.create(spool)
    assert made.path == spool / log_file.NAME
    assert list(tiny.rglob("*.log")) == []
    made.close()


def test_a_log_of_another_boot_is_not_trusted(
    shm: Path, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash of the machine its pages may be of any age."""
    log_file.create(spool).close()
    memory = log_file.memory_of(spool)
    assert memory is not None
    memory.close()
    monkeypatch.setattr(log_file, "boot_id", lambda: "another boot")
    assert log_file.memory_of(spool) is None


def test_a_log_goes_with_its_spool(shm: Path, spool: Path) -> None:
    """Deleting removes the file and the link to it; a second call does nothing."""
    made = log_file.create(spool)
    made.close()
    log_file.delete(spool)
    log_file.delete(spool)
    assert (made.path.exists(), list(spool.iterdir())) == (False, [])


def test_logs_without_a_spool_are_swept_once_they_are_old(shm: Path, spool: Path) -> None:
    """When spools were deleted, their memory is freed; files in use or still needed are kept."""
    wanted = log_file.create(spool)
    wanted.close()
    for name in ("gone", "alive"):
        (spool.parent / name).mkdir()
    gone, alive = log_file.create(spool.parent / "gone"), log_file.create(spool.parent / "alive")
    gone.close()
    for name in ("gone", "alive"):
        (spool.parent / name / log_file.NAME).unlink()
    log_file.sweep(time.time())
    assert gone.path.exists()
    log_file.sweep(time.time() + 2 * log_file.SWEEP_S)
    assert [one.path.exists() for one in (wanted, gone, alive)] == [True, False, True]
    alive.close()


def test_without_shared_memory_everything_arrives_and_the_run_says_so(
    spool: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Everything arrives; an event, the stats and one line in the log say what would be lost."""
    monkeypatch.setattr(log_file, "filesystem_of", lambda path: "nfs4")
    server = IngestServer()
    server.start()
    trainer = Trainer(server.url, spool)
    with caplog.at_level(logging.WARNING, "tocsin"):
        trainer.train(COUNT)
        wait_until(lambda: trainer.sender.stats.memory_error)
        trainer.sender.close()
    server.stop()
    assert_exactly_once(server.only, COUNT)
    (event,) = server.only.events
    assert (event.kind, event.data["survives_sigkill"]) == ("delivery", False)
    assert sum("SIGKILL" in record.message for record in caplog.records) == 1


def test_a_run_that_was_delivered_leaves_no_log(shm: Path, spool: Path) -> None:
    """Neither the file nor the link is left, and until then the stats report no problem."""
    server = IngestServer()
    server.start()
    trainer = Trainer(server.url, spool)
    trainer.train(COUNT)
    assert len(list(shm.rglob("*.log"))) == 1
    assert trainer.sender.stats.memory_error is None
    trainer.sender.close()
    server.stop()
    assert list(shm.rglob("*.log")) == list(spool.iterdir()) == []
