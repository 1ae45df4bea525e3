"""Bytes into lines: encodings, progress bars, lines without end."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hook.importers.conftest import Written, records
from tests.hook.importers.test_formats import Read
from tocsin.importers import UnreadableLogError, open_log
from tocsin.importers.lines import LINE_LIMIT, Lines


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n\b\x1b\0\ufeff"), min_size=1)),
    st.integers(1, 7),
)
def test_lines_come_out_whole(texts: list[str], size: int) -> None:
    """For any division into pieces, also within a character."""
    data, lines = "\r\n".join(texts).encode(), Lines()
    found = [line for at in range(0, len(data), size) for line in lines.feed(data[at : at + size])]
    found += list(lines.end())
    assert found == list(enumerate(texts, 1))


def test_a_carriage_return_ends_a_line_but_does_not_count(steps_of: Read) -> None:
    """Progress bars overwrite their line."""
    lines = Lines()
    assert list(lines.feed(b"a\rb\r\nc\n")) == [(1, "a"), (1, "b"), (2, "c")]


def test_a_line_without_end_costs_no_memory() -> None:
    """It is cut, the rest is dropped, and the next line is read."""
    lines = Lines()
    found = [item for _ in range(40) for item in lines.feed(b"x" * (LINE_LIMIT // 10))]
    found += list(lines.feed(b"\nloss\n"))
    assert [line[:4] for _, line in found] == ["xxxx", "loss"]
    assert len(found[0][1]) == LINE_LIMIT


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_byte_order_marks_are_understood(encoding: str, steps_of: Read) -> None:
    """As PowerShell writes redirected output."""
    assert steps_of("a.log", "step 1 loss 0.5\n".encode(encoding)) == [(1, {"loss": 0.5})]


def test_gzipped_logs_are_read(steps_of: Read) -> None:
    """They are detected by their content, not by their name."""
    assert steps_of("a.log", gzip.compress(b"step 1 loss 0.5\n")) == [(1, {"loss": 0.5})]


def test_lines_that_cannot_be_read_are_counted_and_named(written: Written) -> None:
    """The first few are listed with line number and reason."""
    log = written("a.jsonl", '{"step": 1, "loss": 1.0}\n{"step": 2, "lo\n{"step": 3, "loss": 0.5}\n')
    assert len(records(list(log.items()))) == 2
    assert log.stream.unread == 1
    assert log.stream.first_unread[0].line == 2


def test_a_file_of_no_known_format_says_so(tmp_path: Path) -> None:
    """The error lists the expected formats."""
    (tmp_path / "poem.txt").write_text("The sea is calm to-night.\n")
    with pytest.raises(UnreadableLogError, match=r"not a known training log.*TensorBoard events"):
        open_log(tmp_path / "poem.txt")
    with pytest.raises(UnreadableLogError, match="No such file"):
        open_log(tmp_path / "missing.txt")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("settings.json", '{"lr": 0.001, "steps": 1000, "batch_size": 32}'),
        ("results.json", '{"loss": 0.25, "accuracy": 0.9}'),
        ("coco.json", '{"annotations": [{"id": 1, "area": 2.5}, {"id": 2, "area": 3.5}]}'),
        ("data.jsonl", '{"text": "a", "label": 0}\n{"text": "b", "label": 1}\n'),
        ("list.json", '[{"id": 1, "price": 3}, {"id": 2, "price": 4}]'),
        ("pretty.json", '{\n"id": 1\n}\n{\n"id": 2\n}\n'),
        ("models.csv", "model,accuracy\na,0.5\nb,0.6\n"),
    ],
)
def test_data_without_a_step_or_a_loss_is_no_log(tmp_path: Path, name: str, text: str) -> None:
    """Neither are single objects, such as settings and results."""
    (tmp_path / name).write_text(text)
    with pytest.raises(UnreadableLogError, match="not a known training log"):
        open_log(tmp_path / name)
