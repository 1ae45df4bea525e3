"""Checkpoints that are renamed, deleted, replaced or out of reach."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.hook.captured import KeptOutbox, KeptSender, watched
from tocsin.api.reporter import RunReporter
from tocsin.system.checkpoints import EVERY_S, GONE, MOVED, SAVED, WATCHED, CheckpointWatch, path_of

LATER = 1e9
"""A time at which every check is due."""


@pytest.fixture
def outbox() -> KeptOutbox:
    return KeptOutbox()


@pytest.fixture
def watch(outbox: KeptOutbox) -> CheckpointWatch:
    """A watch without capture; the newest step is 7."""
    watch = RunReporter(outbox, KeptSender()).checkpoints
    watch.step = lambda: 7
    return watch


def save(watch: CheckpointWatch, path: Path, content: bytes = b"123") -> None:
    """Write a file and report it."""
    path.write_bytes(content)
    watch.saved(str(path), by="test", holds={"model"})


def test_a_file_is_reported_with_its_size(watch: CheckpointWatch, outbox: KeptOutbox, tmp_path: Path) -> None:
    """Path, step, size, what it holds, and that it is complete."""
    save(watch, tmp_path / "a.pt")
    (event,) = outbox.events(SAVED)
    assert event == {
        "step": 7, "path": str(tmp_path / "a.pt"), "size": 3, "complete": True, "by": "test",
        "holds": ["model"],
    }  # fmt: skip


def test_a_deleted_file_is_reported_once(watch: CheckpointWatch, outbox: KeptOutbox, tmp_path: Path) -> None:
    """Also if its whole directory was deleted; one that is still there is not."""
    (tmp_path / "step-1").mkdir()
    for name in ("a.pt", "b.pt", "step-1/c.pt"):
        save(watch, tmp_path / name)
    (tmp_path / "a.pt").unlink()
    shutil.rmtree(tmp_path / "step-1")
    for _ in range(2):
        watch.sample(LATER)
    gone = [event["path"] for event in outbox.events(GONE)]
    assert sorted(gone) == [str(tmp_path / "a.pt"), str(tmp_path / "step-1/c.pt")]


def test_a_renamed_file_is_followed(watch: CheckpointWatch, outbox: KeptOutbox, tmp_path: Path) -> None:
    """Scripts write to a temporary name first; later the file is deleted under its new name."""
    save(watch, tmp_path / "a.pt.tmp")
    os.replace(tmp_path / "a.pt.tmp", tmp_path / "a\n.pt")
    watch.sample(LATER)
    (moved,) = outbox.events(MOVED)
    assert (moved["from"], moved["step"]) == (str(tmp_path / "a.pt.tmp"), 7)
    assert moved["path"] == f"{tmp_path}/a\\u000a.pt"
    assert moved["escaped"] is True
    (tmp_path / "a\n.pt").unlink()
    watch.sample(LATER + EVERY_S)
    assert [event["path"] for event in outbox.events(GONE)] == [moved["path"]]


def test_a_temporary_name_that_is_used_again(
    watch: CheckpointWatch, outbox: KeptOutbox, tmp_path: Path
) -> None:
    """The earlier file is found under its new name before the next save, however fast they follow."""
    for number in range(3):
        watch.began(str(tmp_path / "writing.tmp"), is_folder=False)
        save(watch, tmp_path / "writing.tmp")
        (tmp_path / "writing.tmp").rename(tmp_path / f"{number}.pt")
    watch.sample(LATER)
    names = [Path(event["path"]).name for event in outbox.events(MOVED)]
    assert names == ["0.pt", "1.pt", "2.pt"]
    assert all(event["complete"] for event in outbox.events(SAVED))


def test_another_file_with_the_same_inode_is_not_taken_for_it(
    watch: CheckpointWatch, outbox: KeptOutbox, tmp_path: Path
) -> None:
    """File systems give the number of a deleted file to the next one."""
    save(watch, tmp_path / "a.pt")
    os.rename(tmp_path / "a.pt", tmp_path / "b.pt")
    (tmp_path / "b.pt").write_bytes(b"something else")
    watch.sample(LATER)
    assert [event["path"] for event in outbox.events(GONE)] == [str(tmp_path / "a.pt")]
    assert not outbox.events(MOVED)


@pytest.mark.parametrize("error", [PermissionError, TimeoutError, OSError])
def test_what_cannot_be_checked_is_not_deleted(
    watch: CheckpointWatch,
    outbox: KeptOutbox,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: type[OSError],
) -> None:
    """A file system that fails says nothing about its files."""
    save(watch, tmp_path / "a.pt")

    def fails(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(os, "stat", fails)
    watch.sample(LATER)
    assert not outbox.events(GONE)


def test_an_unmounted_file_system_is_not_a_deletion(
    watch: CheckpointWatch, outbox: KeptOutbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the nearest directory above belongs to another device."""
    (tmp_path / "mount").mkdir()
    save(watch, tmp_path / "mount" / "a.pt")
    shutil.rmtree(tmp_path / "mount")
    (known,) = watch._known.values()
    watch._known[known.path] = known._replace(device=-1)
    watch.sample(LATER)
    assert not outbox.events(GONE)


def test_overwriting_is_reported_before_and_after(
    watch: CheckpointWatch, outbox: KeptOutbox, tmp_path: Path
) -> None:
    """If the process dies in between, the file is known to be incomplete."""
    save(watch, tmp_path / "last.pt")
    watch.began(str(tmp_path / "last.pt"), is_folder=False)
    save(watch, tmp_path / "last.pt", b"12345")
    assert [(one["complete"], one["size"]) for one in outbox.events(SAVED)] == [
        (True, 3), (False, None), (True, 5),
    ]  # fmt: skip


def test_a_directory_gets_its_size_later(watch: CheckpointWatch, outbox: KeptOutbox, tmp_path: Path) -> None:
    """Its files are counted by the sampler's thread, and only once."""
    folder = tmp_path / "step-1"
    (folder / "shard").mkdir(parents=True)
    for name in ("a", "shard/b"):
        (folder / name).write_bytes(b"1234")
    watch.saved(str(folder), by="test", is_folder=True)
    watch.sample(LATER)
    watch.sample(LATER + EVERY_S)
    assert [event["size"] for event in outbox.events(SAVED)] == [None, 8]


def test_only_rank_0_reports_a_directory(watch: CheckpointWatch, outbox: KeptOutbox, tmp_path: Path) -> None:
    """All ranks write it together; a file of a rank is its own."""
    watch.rank = 3
    watch.saved(str(tmp_path), by="test", is_folder=True)
    save(watch, tmp_path / "rank3.pt")
    assert [event["path"] for event in outbox.events(SAVED)] == [str(tmp_path / "rank3.pt")]


def test_the_watched_files_are_bounded(watch: CheckpointWatch, tmp_path: Path) -> None:
    """The newest are watched."""
    for number in range(WATCHED + 5):
        save(watch, tmp_path / f"{number}.pt")
    assert len(watch._known) == WATCHED
    assert str(tmp_path / "4.pt") not in watch._known


def test_long_and_hostile_paths(outbox: KeptOutbox) -> None:
    """4 kB with control characters: one bounded line, marked as cut."""
    with watched() as (run, kept):
        run.checkpoint("/" + "\x1b[2J\n" * 800)
        run.checkpoint(b"/not\xffutf8")
        run.checkpoint("/nul\x00byte")
        run.checkpoint("s3://bucket/step-1")
        run.checkpoint("", step=1)
        run.checkpoint(object())
    long, *others = kept.events(SAVED)
    assert len(long["path"]) <= 1024
    assert long["path"].isprintable()
    assert long["cut"] is True
    assert [one["path"] for one in others] == ["/not\\udcffutf8", "/nul\\u0000byte", "s3://bucket/step-1"]


def test_events_of_another_thread_come_with_the_next_record(tmp_path: Path) -> None:
    """The queue has one producer; at the end nothing is left behind."""
    with watched() as (run, kept):
        run.log(loss=1.0)
        for name in ("a.pt", "b.pt"):
            thread = threading.Thread(target=run.checkpoint, args=(tmp_path / name,))
            thread.start()
            thread.join()
            assert len(kept.events(SAVED)) == (name == "b.pt")
            if name == "a.pt":
                run.log(loss=1.0)
    assert [event["path"] for event in kept.events(SAVED)] == [str(tmp_path / "a.pt"), str(tmp_path / "b.pt")]


def test_secrets_in_urls_are_redacted() -> None:
    """A path is redacted like every text."""
    with watched() as (run, kept):
        run.checkpoint("https://user:hunter2@host/ckpt.pt")
    assert "hunter2" not in kept.events(SAVED)[0]["path"]


def test_paths_of_open_files(tmp_path: Path) -> None:
    """An open file has a name; a buffer in memory has none."""
    import io

    with (tmp_path / "a.pt").open("wb") as file:
        assert path_of(file) == str(tmp_path / "a.pt")
    assert path_of(io.BytesIO()) is None
    assert path_of(3) is None
    assert path_of("a.pt") == str(Path.cwd() / "a.pt")


def test_renames_at_the_very_end_are_seen(tmp_path: Path) -> None:
    """The last check is part of ``finish``."""
    with watched() as (run, kept):
        (tmp_path / "a.tmp").write_bytes(b"1")
        run.checkpoint(tmp_path / "a.tmp")
        (tmp_path / "a.tmp").rename(tmp_path / "a.pt")
    assert [event["path"] for event in kept.events(MOVED)] == [str(tmp_path / "a.pt")]
