"""SwanLab: the ``run-<id>.swanlab`` file of a run, read without SwanLab.

Field numbers: swanlab/record/v1/record.proto and swanlab/metric/data/v1/data.proto.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..format import Format
from ..items import About, Parsed, Row
from ..leveldb_log import RecordFileReader, beginning_with, first_messages
from ..protobuf import double, parts, texts, time_ns, whole

MAGIC = b":SWL"
START, SCALAR = 10, 13
ABOUT_BYTES = 64 << 10
"""Number of bytes at the beginning of a file that are searched for the run's name."""


class _Scalars:
    """Joins the scalars of one call of ``swanlab.log``, which are separate records, to a row."""

    def __init__(self) -> None:
        self._row: Row | None = None

    def parse(self, record: bytes, number: int) -> Iterator[Parsed]:
        for scalar in parts(record, SCALAR):
            (name,), step = texts(scalar, 1), float(whole(scalar, 2))
            value = double(b"".join(parts(scalar, 5)), 1)
            time = time_ns(b"".join(parts(scalar, 4)))
            row = self._row
            if row is not None and (row.step != step or name in row.values):
                yield row
                row = None
            if row is None:
                row = self._row = Row(number, {}, step=step, time_ns=time, binary=True)
            row.values[name] = value

    def end(self) -> Iterator[Parsed]:
        if self._row is not None:
            yield self._row
            self._row = None


def _reader() -> RecordFileReader:
    scalars = _Scalars()
    return RecordFileReader(scalars.parse, scalars.end)


def _about(path: Path) -> About | None:
    """Return names from the first record."""
    found = first_messages(path, START, ABOUT_BYTES)
    if not found:
        return None
    project, name, run_id = (("".join(texts(found[0], field))) for field in (1, 4, 10))
    return About(name or run_id, project, tags=tuple(texts(found[0], 6)))


FORMAT = Format("SwanLab run file", 0, beginning_with(MAGIC), _reader, about=_about)
